// One option: what the parser, the help, the man page and the completions are made from.

/// One option that a command knows.
struct Option: Sendable {
    /// What stands behind an option; each with the word that the help has for it.
    enum Value: Hashable, Sendable {
        case none
        case text(String)
        case file(String)
        case directory(String)
        case choice(String, among: [String])

        /// The word; nil where there is no value.
        var word: String? {
            switch self {
            case .none: nil
            case .text(let word), .file(let word), .directory(let word), .choice(let word, _): word
            }
        }
    }

    /// Under which heading the help has it; in this order.
    enum Group: String, CaseIterable, Sendable {
        case files = "Files"
        case lists = "Lists of URLs"
        case requests = "Requests"
        case credentials = "Credentials and cookies"
        case connections = "Connections"
        case limits = "How many, how fast, how long"
        case output = "What is told"
        case general = "General"
    }

    /// Does what the option says; an error's message follows the option's name.
    typealias Application = @Sendable (_ options: inout FetchOptions, _ value: String) throws(UsageError) -> Void

    let name: String
    let short: Character?
    let value: Value
    let group: Group
    /// A few words for a list of candidates, without quotes and brackets.
    let summary: String
    /// What the help says in place of the summary.
    let detail: String?
    /// Other names that are understood, those of curl and wget; neither in the help nor completed.
    let aliases: [String]
    /// Whether it may be given several times, each time for more.
    let isRepeatable: Bool
    /// Whether a value may be nothing.
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

    /// How it may be written: the long name first.
    var spellings: [String] { ["--\(name)"] + (short.map { ["-\($0)"] } ?? []) }

    static let help = Option("help", short: "h", summary: "print the help of the command")
}

extension Option: Hashable {
    /// By name: there is one of each in a table.
    static func == (left: Option, right: Option) -> Bool { left.name == right.name }
    func hash(into hasher: inout Hasher) { hasher.combine(name) }
}
