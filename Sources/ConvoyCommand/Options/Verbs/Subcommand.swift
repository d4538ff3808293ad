// The subcommands.

/// The word after `convoy`.
enum Subcommand: String, CaseIterable, Sendable {
    case fetch, run, report, `import`, queue, cache, demo, completions, help

    /// A short text for a list of completions.
    var summary: String {
        switch self {
        case .fetch: "download, many at a time"
        case .run: "send the requests of a file, in the order of their dependencies"
        case .report: "show the events of runs on one page"
        case .import: "turn a HAR, a Postman collection or curl commands into an .http file"
        case .queue: "store requests until they are done"
        case .cache: "show stored responses, and remove them"
        case .demo: "show a batch, a chain and a continued download"
        case .completions: "print a completion script for a shell"
        case .help: "explain a command or a topic"
        }
    }

    /// The verbs of the subcommand; the subcommand itself if it has none.
    var verbs: [Verb] {
        switch self {
        case .queue: QueueVerb.allCases.map(Verb.queue)
        case .cache: CacheVerb.allCases.map(Verb.cache)
        default: [.plain(self)]
        }
    }

    /// The options of the subcommand in the order of the help, without hidden ones.
    var options: [Option] {
        Option.table.filter { option in !option.isHidden && verbs.contains { option.verbs.contains($0) } }
    }

    /// The options that may stand in place of a subcommand.
    static let toolOptions = [Option.help, .flag("--version", .general, "print the version")]
}
