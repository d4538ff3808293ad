// An option of the command line, for the parser, the help, the man page and the completions.

/// An entry of the table of options.
struct Option: Sendable {
    /// The kind of an option's value.
    enum Value: Hashable, Sendable {
        case none, text, directory
        /// A text that may name a file to read, for example `@FILE`.
        case textOrFile
        case file(FileUse)
        case choice([String])

        static let (input, output) = (Value.file(.input), Value.file(.output))
    }

    /// The headings of the help, in order.
    enum Group: String, CaseIterable, Sendable {
        case files = "Files"
        case lists = "Lists of URLs"
        case requests = "Requests"
        case credentials = "Credentials and cookies"
        case connections = "Connections"
        case cache = "Cache"
        case limits = "How many, how fast, how long"
        case output = "Output"
        case general = "General"
    }

    /// Stores the value of the option.
    ///
    /// If the value is invalid, the function throws an error, whose message follows the option's name. The value of a
    /// choice was checked before.
    typealias Store = @Sendable (_ options: inout ParsedOptions, _ value: String) throws -> Void

    let name: String
    let short: Character?
    let value: Value
    /// The value in the syntax of the help, as it follows the option's name: ` FILE`, or `[=DIR]` if it is optional.
    let valueUsage: String
    /// Finds the file that a value names.
    let path: ValuePath
    let group: Group
    let verbs: Set<Verb>
    /// A short text for a list of completions, without quotes and brackets.
    let summary: String
    /// The description in the help.
    let detail: String
    /// Further accepted names, for example those of curl, wget and aria2.
    ///
    /// Aliases are neither in the help nor completed.
    let aliases: [String]
    /// Whether the option may be given several times, with cumulative effect.
    let isRepeatable: Bool
    /// Whether the value may be empty.
    let mayBeEmpty: Bool
    /// Whether a command line with the option prints the response if no file is named, as in curl.
    let printsAnswers: Bool
    /// Whether the option is accepted, but is not in the help.
    let isHidden: Bool
    let store: Store

    /// - Parameters:
    ///   - usage: the spellings and the word for the value, as in the help: `-m, --max-time SEC`, `--cache[=DIR]`.
    ///   - detail: the help's text, if it does not begin with the summary.
    ///   - more: the rest of the help's text, after the summary.
    init(
        _ usage: String, takes value: Value = .text, _ group: Group, for verbs: Set<Verb> = [.fetch],
        _ summary: String, detail: String? = nil, more: String = "", aliases: [String] = [],
        isRepeatable: Bool = false, mayBeEmpty: Bool = false, printsAnswers: Bool = false, isHidden: Bool = false,
        path: ValuePath = .value, store: @escaping Store = { _, _ in }
    ) {
        short = usage.hasPrefix("--") ? nil : usage.dropFirst().first
        let long = usage.dropFirst(short == nil ? 2 : "-x, --".count)
        name = String(long.prefix { !" [".contains($0) })
        valueUsage = String(long.dropFirst(name.count))
        (self.value, self.path, self.group, self.verbs) = (value, path, group, verbs)
        (self.summary, self.detail, self.aliases, self.store) = (summary, detail ?? summary + more, aliases, store)
        (self.isRepeatable, self.mayBeEmpty) = (isRepeatable, mayBeEmpty)
        (self.printsAnswers, self.isHidden) = (printsAnswers, isHidden)
    }

    /// Makes an option without a value.
    static func flag(
        _ usage: String, _ group: Group, for verbs: Set<Verb> = [.fetch], _ summary: String,
        detail: String? = nil, more: String = "", aliases: [String] = [], isRepeatable: Bool = false,
        printsAnswers: Bool = false, set: @escaping @Sendable (inout ParsedOptions) throws -> Void = { _ in }
    ) -> Option {
        Option(
            usage, takes: .none, group, for: verbs, summary, detail: detail, more: more, aliases: aliases,
            isRepeatable: isRepeatable, printsAnswers: printsAnswers
        ) { options, _ in try set(&options) }
    }

    var takesValue: Bool { value != .none }
    /// How the command uses the file that a value names; nil if no value names a file.
    var use: FileUse? {
        switch value {
        case .file(let use): use
        case .textOrFile: .input
        case .none, .text, .directory, .choice: nil
        }
    }

    /// Whether the value may be omitted; if given, it follows an equals sign.
    var isValueOptional: Bool { valueUsage.hasPrefix("[=") }
    /// The word for the value in the help.
    var valueWord: Substring { isValueOptional ? valueUsage.dropFirst(2).dropLast() : valueUsage.dropFirst() }

    /// The spellings of the option, the long name first.
    var spellings: [String] { ["--\(name)"] + (short.map { ["-\($0)"] } ?? []) }
}

extension Option: Hashable {
    /// Compares names, which are unique for a verb.
    static func == (left: Option, right: Option) -> Bool { left.name == right.name }
    func hash(into hasher: inout Hasher) { hasher.combine(name) }
}
