// The action of a command line.

/// A subcommand, with its verb if it has several.
///
/// The table of options names the verbs of each option.
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

    /// The words after `convoy`.
    var words: String {
        switch self {
        case .plain(let subcommand): subcommand.rawValue
        case .queue(let verb): "queue \(verb.rawValue)"
        case .cache(let verb): "cache \(verb.rawValue)"
        }
    }

    /// The options of the verb, in the order of the help.
    var options: [Option] { Option.table.filter { $0.verbs.contains(self) } }
}

extension Set<Verb> {
    static let all = Set(Subcommand.allCases.flatMap(\.verbs))
    /// The verbs that send requests.
    static let sending: Self = [.fetch, .run, .queue(.run)]
    /// The verbs of a queue that select jobs.
    static let selecting = Set(QueueVerb.allCases.filter(\.selects).map(Verb.queue))
}

extension CaseIterable where Self: RawRepresentable<String> {
    /// The verb that begins the arguments of a subcommand; nil for `--help`.
    ///
    /// - Parameter usage: the correct usage, for the message about missing words.
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
