// An option of the command line, for the parser, the help, the man page and the completions.

/// An entry of the table of options.
struct Option: Sendable {
    /// The kind of an option's value, with its word in the help.
    enum Value: Hashable, Sendable {
        case none
        case text(String)
        case file(String)
        case directory(String)
        /// An optional directory, which follows an equals sign.
        case optionalDirectory(String)
        case choice(String, among: [String])

        /// The word in the help; nil without a value.
        var word: String? {
            switch self {
            case .none: nil
            case .text(let word), .file(let word), .directory(let word), .optionalDirectory(let word),
                .choice(let word, _):
                word
            }
        }

        var isOptional: Bool { if case .optionalDirectory = self { true } else { false } }

        /// The value in the syntax of the help, after the option's name.
        var usage: String { word.map { isOptional ? "[=\($0)]" : " \($0)" } ?? "" }
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
    let group: Group
    let verbs: Set<Verb>
    /// A short text for a list of completions, without quotes and brackets.
    let summary: String
    /// The help's text, if it differs from the summary.
    let detail: String?
    /// Further accepted names from curl and wget.
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

    init(
        _ name: String, short: Character? = nil, value: Value, _ group: Group = .general,
        for verbs: Set<Verb> = [.fetch],
        summary: String, detail: String? = nil, aliases: [String] = [], isRepeatable: Bool = false,
        mayBeEmpty: Bool = false, printsAnswers: Bool = false, isHidden: Bool = false,
        store: @escaping Store = { _, _ in }
    ) {
        (self.name, self.short, self.value, self.group, self.verbs) = (name, short, value, group, verbs)
        (self.summary, self.detail, self.aliases, self.store) = (summary, detail, aliases, store)
        (self.isRepeatable, self.mayBeEmpty) = (isRepeatable, mayBeEmpty)
        (self.printsAnswers, self.isHidden) = (printsAnswers, isHidden)
    }

    /// Makes an option without a value.
    init(
        _ name: String, short: Character? = nil, _ group: Group = .general, for verbs: Set<Verb> = [.fetch],
        summary: String, detail: String? = nil, aliases: [String] = [], isRepeatable: Bool = false,
        printsAnswers: Bool = false,
        set: @escaping @Sendable (inout ParsedOptions) throws -> Void = { _ in }
    ) {
        self.init(
            name, short: short, value: .none, group, for: verbs, summary: summary, detail: detail, aliases: aliases,
            isRepeatable: isRepeatable, printsAnswers: printsAnswers
        ) { options, _ in try set(&options) }
    }

    var takesValue: Bool { value != .none }

    /// The spellings of the option, the long name first.
    var spellings: [String] { ["--\(name)"] + (short.map { ["-\($0)"] } ?? []) }
}

extension Option: Hashable {
    /// Compares names, which are unique for a verb.
    static func == (left: Option, right: Option) -> Bool { left.name == right.name }
    func hash(into hasher: inout Hasher) { hasher.combine(name) }
}
