// The subcommands, how they run, and how shells complete them.

/// The subcommands.
enum Subcommand: String, CaseIterable, Sendable {
    case fetch
    case run
    case report
    case `import`
    case queue
    case cache
    case demo
    case completions
    case help

    /// The operands after the options.
    enum Operands: Equatable, Sendable {
        case none
        case urls
        /// A file, then the names of requests in it.
        case files
        /// One file of any kind.
        case document
        case manyFiles
        case choice([String])
    }

    /// A short text for a list of completions.
    var summary: String {
        switch self {
        case .fetch: "download, many at a time"
        case .run: "send the requests of a file as a graph"
        case .report: "join the events of runs on one page"
        case .import: "turn a HAR, a Postman collection or curl lines into a file of requests"
        case .queue: "keep requests until they are answered"
        case .cache: "look at stored responses, and remove them"
        case .demo: "show a batch, a chain and a continued download"
        case .completions: "print a completion script for a shell"
        case .help: "explain a command or a topic"
        }
    }

    var options: [Option] {
        switch self {
        case .fetch: FetchOptions.table
        case .run: RunOptions.table
        case .report: ReportOptions.table
        case .import: ImportOptions.table
        case .queue: QueueOptions.table
        case .cache: CacheLookup.table
        case .demo, .completions, .help: [.help]
        }
    }

    var operands: Operands {
        switch self {
        case .fetch: .urls
        case .run: .files
        case .report: .manyFiles
        case .import: .document
        case .queue: .choice(QueueVerb.allCases.map(\.rawValue))
        case .cache: .choice(CacheVerb.allCases.map(\.rawValue))
        case .demo: .none
        case .completions: .choice(Shell.allCases.map(\.rawValue))
        case .help: .choice(HelpTopic.allCases.map(\.rawValue))
        }
    }

    var help: String {
        switch self {
        case .fetch: HelpText.fetch
        case .run: HelpText.run
        case .report: HelpText.report
        case .import: HelpText.importing
        case .queue: HelpText.queue
        case .cache: HelpText.cache
        case .demo: HelpText.demo
        case .completions: HelpText.completions
        case .help: HelpText.help
        }
    }

    /// The operands of a command whose only option is help; nil when help is requested.
    func operands(parsing arguments: [String]) throws(UsageError) -> [String]? {
        let scanned = try OptionScanner(options: options, command: rawValue).scan(arguments)
        return scanned.has(.help) ? nil : scanned.operands
    }
}
