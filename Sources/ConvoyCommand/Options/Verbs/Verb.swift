enum Verb: Hashable, Sendable {
    case plain(Subcommand)
    case queue(QueueVerb)
    case cache(CacheVerb)

    static let (fetch, run, report) = (Verb.plain(.fetch), Verb.plain(.run), Verb.plain(.report))
    static let (`import`, help) = (Verb.plain(.import), Verb.plain(.help))

    var subcommand: Subcommand {
        switch self {
        case .plain(let subcommand): subcommand
        case .queue: .queue
        case .cache: .cache
        }
    }

    var words: String {
        switch self {
        case .plain(let subcommand): subcommand.rawValue
        case .queue(let verb): "queue \(verb.rawValue)"
        case .cache(let verb): "cache \(verb.rawValue)"
        }
    }

    var options: [Option] { Option.table.filter { $0.verbs.contains(self) } }
}

extension Set<Verb> {
    static let all = Set(Subcommand.allCases.flatMap(\.verbs))
    static let sending: Self = [.fetch, .run, .queue(.run)]
    static let selecting = Set(QueueVerb.allCases.filter(\.selects).map(Verb.queue))
}

extension CaseIterable where Self: RawRepresentable<String> {
    init?(beginning arguments: [String], usage: String) throws(UsageError) {
        guard let word = arguments.first else { throw UsageError("a command is missing; write \(usage)") }
        if ["--help", "-h"].contains(word) { return nil }
        guard let verb = Self(rawValue: word) else {
            let near = Self.allCases.map(\.rawValue).nearest(to: word).map { "did you mean \($0)?" } ?? "write \(usage)"
            throw UsageError("unknown command \(word.debugDescription); \(near)")
        }
        self = verb
    }
}

enum Subcommand: String, CaseIterable, Sendable {
    case fetch, run, report, `import`, queue, cache, demo, completions, help

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

    var verbs: [Verb] {
        switch self {
        case .queue: QueueVerb.allCases.map(Verb.queue)
        case .cache: CacheVerb.allCases.map(Verb.cache)
        default: [.plain(self)]
        }
    }

    var options: [Option] {
        Option.table.filter { option in !option.isHidden && verbs.contains { option.verbs.contains($0) } }
    }

    static let toolOptions = [Option.help, .flag("--version", .general, "print the version")]
}

enum QueueVerb: String, CaseIterable, Sendable {
    case add, run, status, list, why, retry, cancel, delete, export

    var summary: String {
        switch self {
        case .add: "store requests until they are done"
        case .run: "send the stored jobs; with --watch, also jobs added later"
        case .status: "the number of jobs in each state"
        case .list: "the jobs, one a line"
        case .why: "what jobs wait for, or how they ended"
        case .retry: "send dead letters again"
        case .cancel: "cancel jobs that are not done"
        case .delete: "delete done, dead and cancelled jobs"
        case .export: "all data of the jobs, as JSON lines"
        }
    }

    var usage: String {
        let operands: [QueueVerb: String] = [
            .add: " [options] URL...", .run: " [options]", .status: " [--json]", .list: " [selection] [--json]",
            .why: " ID...|selection [--json]", .export: " [selection]",
        ]
        return "convoy queue \(rawValue) --db DB\(operands[self] ?? " ID...|selection|--all")"
    }

    var selects: Bool { [.list, .why, .retry, .cancel, .delete, .export].contains(self) }
}

enum CacheVerb: String, CaseIterable, Sendable {
    case status, list, show, why, remove, clear

    var summary: String {
        switch self {
        case .status: "the directory, and the number and size of its responses"
        case .list: "the stored responses, one a line"
        case .show: "the header fields of a stored response"
        case .why: "how a request would be served now, with the rule of each step"
        case .remove: "remove the responses of matching URLs; also: delete"
        case .clear: "remove everything"
        }
    }

    var usage: String {
        let operands: [CacheVerb: String] = [
            .list: " [PATTERN]", .show: " URL", .why: " [options] URL", .remove: " PATTERN",
        ]
        return "convoy cache \(rawValue)\(operands[self] ?? "")"
    }

    var operandCount: ClosedRange<Int> {
        switch self {
        case .status, .clear: 0...0
        case .list: 0...1
        case .remove, .show, .why: 1...1
        }
    }
}
