// The definition of an option, for the parser, the help, the man page and the completions.

/// An option of a command.
struct Option: Sendable {
    /// The kind of an option's value, with its word in the help.
    enum Value: Hashable, Sendable {
        case none
        case text(String)
        case file(String)
        case directory(String)
        /// A directory after an equals sign, which may be omitted.
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

    /// Applies the option.
    ///
    /// An error's message follows the option's name.
    typealias Application = @Sendable (_ options: inout FetchOptions, _ value: String) throws(UsageError) -> Void

    let name: String
    let short: Character?
    let value: Value
    let group: Group
    /// A short text for a list of completions, without quotes and brackets.
    let summary: String
    /// The help's text, if it differs from the summary.
    let detail: String?
    /// Further accepted names from curl and wget.
    ///
    /// They are neither in the help nor completed.
    let aliases: [String]
    /// Whether it may be given several times, with cumulative effect.
    let isRepeatable: Bool
    /// Whether its value may be empty.
    let mayBeEmpty: Bool
    let apply: Application

    init(
        _ name: String, short: Character? = nil, value: Value = .none, _ group: Group = .general, summary: String,
        detail: String? = nil, aliases: [String] = [], isRepeatable: Bool = false,
        mayBeEmpty: Bool = false,
        apply: @escaping Application = { _, _ in }
    ) {
        (self.name, self.short, self.value, self.group, self.summary) = (name, short, value, group, summary)
        (self.detail, self.aliases, self.apply) = (detail, aliases, apply)
        (self.isRepeatable, self.mayBeEmpty) = (isRepeatable, mayBeEmpty)
    }

    var takesValue: Bool { value != .none }

    /// Its spellings, the long name first.
    var spellings: [String] { ["--\(name)"] + (short.map { ["-\($0)"] } ?? []) }

    static let help = Option("help", short: "h", summary: "print the help of the command")
}

extension Option: Hashable {
    /// Compares names, which are unique in a table.
    static func == (left: Option, right: Option) -> Bool { left.name == right.name }
    func hash(into hasher: inout Hasher) { hasher.combine(name) }
}
