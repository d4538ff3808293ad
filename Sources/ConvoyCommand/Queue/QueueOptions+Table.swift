// The options of `convoy queue`. The parser, the help and the completions use this table.
import Convoy
import ConvoyQueue
import Foundation

extension QueueOptions {
    /// An option of this command only, its effect, and its verbs.
    struct OwnOption: Sendable {
        let option: Option
        let verbs: Set<QueueVerb>
        let apply: @Sendable (inout QueueOptions, String) throws(UsageError) -> Void
    }

    /// All options, in the order of the help.
    static let table: [Option] =
        own.map(\.option)
        + FetchOptions.table.filter { option in QueueVerb.allCases.contains { $0.shared.contains(option.name) } }

    /// The options of a verb.
    static func table(of verb: QueueVerb) -> [Option] {
        own.filter { $0.verbs.contains(verb) }.map(\.option)
            + FetchOptions.table.filter { verb.shared.contains($0.name) }
    }

    private static let all = Set(QueueVerb.allCases)
    private static let adding: Set<QueueVerb> = [.add]
    private static let selecting = Set(QueueVerb.allCases.filter(\.selects))
    private static let priorities: [(word: String, priority: Operation.QueuePriority)] = [
        ("very-low", .veryLow), ("low", .low), ("normal", .normal), ("high", .high), ("very-high", .veryHigh),
    ]

    static let own: [OwnOption] = places + jobs + choices

    private static let places: [OwnOption] = [
        OwnOption(
            option: Option(
                "db", value: .file("FILE|postgres://…"), .files, summary: "the database of the queue",
                detail:
                    "where the jobs are: a file, which add makes, with SQLite's own beside it, or "
                    + "postgres://user@host/database; put a password into ~/.pgpass or PGPASSWORD"),
            verbs: all
        ) { options, value in options.database = value },
        OwnOption(
            option: Option(
                "watch", .limits, summary: "keep running, and send jobs that are added later",
                detail: "keep running when no job waits, and send jobs that are added later, until a signal arrives"),
            verbs: [.run]
        ) { options, _ in options.watches = true },
    ]

    private static let jobs: [OwnOption] = [
        OwnOption(
            option: Option(
                "id", value: .text("ID"), .requests, summary: "what the job is known by",
                detail:
                    "what the job is known by (default: a UUID); adding the same again adds nothing. Of several URLs it "
                    + "is the beginning: ID-1, ID-2 and so on"),
            verbs: adding
        ) { options, value in options.wishes.id = value },
        OwnOption(
            option: Option(
                "after", value: .text("ID"), .requests, summary: "send it when another job is done",
                isRepeatable: true), verbs: adding
        ) { options, value in options.wishes.dependencies.append(value) },
        OwnOption(
            option: Option(
                "priority", value: .choice("WHICH", among: priorities.map(\.word)), .requests,
                summary: "which jobs go first"), verbs: adding
        ) { options, value throws(UsageError) in
            let word = try OptionValues.choice(value, among: priorities.map(\.word))
            options.wishes.priority = priorities.first { $0.word == word }?.priority ?? .normal
        },
        OwnOption(
            option: Option(
                "not-before", value: .text("DATE|SEC"), .requests, summary: "when it may be sent",
                detail: "send it not before this date, such as 2027-01-31T08:00:00Z, or so many seconds from now"),
            verbs: adding
        ) { options, value throws(UsageError) in options.wishes.notBefore = try date(value) },
        OwnOption(
            option: Option(
                "expires", value: .text("DATE|SEC"), .requests, summary: "when it is no longer worth sending",
                detail: "what has not been sent by this date becomes a dead letter"), verbs: adding
        ) { options, value throws(UsageError) in options.wishes.expires = try date(value) },
        OwnOption(
            option: Option(
                "unique", value: .text("KEY"), .requests, summary: "what there is to be one of",
                detail: "when an unfinished job with this key exists, --policy decides which of the two is kept"),
            verbs: adding
        ) { options, value in options.wishes.key = value },
        OwnOption(
            option: Option(
                "policy", value: .choice("WHICH", among: Job.Uniqueness.Policy.allCases.map(\.rawValue)), .requests,
                summary: "which of two jobs with a key stays",
                detail: "keep the existing job (default), replace it, or append: send one after the other"),
            verbs: adding
        ) { options, value throws(UsageError) in
            let word = try OptionValues.choice(value, among: Job.Uniqueness.Policy.allCases.map(\.rawValue))
            options.wishes.policy = Job.Uniqueness.Policy(rawValue: word) ?? .keep
        },
        OwnOption(
            option: Option(
                "redirect-as-get", .requests, summary: "a redirect may drop the body",
                detail:
                    "follow a redirect (301, 302, 303) that turns the request into a GET without its body, and take that "
                    + "answer; else such a redirect is a failure"), verbs: adding
        ) { options, _ in options.wishes.followsRedirectsAsGet = true },
    ]

    private static let choices: [OwnOption] = [
        OwnOption(
            option: Option(
                "kind", value: .text("KIND"), .requests, summary: "the kind of the jobs",
                detail: "what kind of job it is (default: request); else: jobs of this kind"),
            verbs: adding.union(selecting)
        ) { options, value in
            options.wishes.kind = value
            options.selection.kind = value
        },
        OwnOption(
            option: Option(
                "group", value: .text("NAME"), .requests, summary: "jobs that go one after the other",
                detail: "jobs of a group are sent one after the other, in the order in which they were added"),
            verbs: adding.union(selecting)
        ) { options, value in
            options.wishes.group = value
            options.selection.group = value
        },
        OwnOption(
            option: Option(
                "tag", value: .text("TAG"), .requests, summary: "what jobs can be found by", isRepeatable: true),
            verbs: adding.union(selecting)
        ) { options, value throws(UsageError) in
            if options.verb != .add, options.selection.tag != nil {
                throw UsageError("is given twice: jobs are chosen by one tag")
            }
            options.wishes.tags.insert(value)
            options.selection.tag = value
        },
        OwnOption(
            option: Option(
                "state", value: .choice("STATE", among: JobState.allCases.map(\.rawValue)), .requests,
                summary: "jobs in this state", isRepeatable: true), verbs: selecting
        ) { options, value throws(UsageError) in
            let word = try OptionValues.choice(value, among: JobState.allCases.map(\.rawValue))
            options.selection.states = (options.selection.states ?? []).union(
                JobState(rawValue: word).map { [$0] } ?? [])
        },
        OwnOption(
            option: Option("all", .requests, summary: "every job"), verbs: [.retry, .cancel]
        ) { options, _ in options.meansAll = true },
        OwnOption(
            option: Option("limit", value: .text("N"), .output, summary: "print no more jobs than this"),
            verbs: [.list, .export]
        ) { options, value throws(UsageError) in
            options.limit = try OptionValues.number(value, in: 1...1_000_000_000)
        },
    ]

    /// A date, or seconds from now.
    private static func date(_ text: String) throws(UsageError) -> Date {
        if let date = try? Date(text, strategy: .iso8601) { return date }
        guard let seconds = Figures.plainNumber(text), seconds > 0 else {
            throw OptionValues.refusal(text, "a date, such as 2027-01-31T08:00:00Z, or a number of seconds from now")
        }
        return Date(timeIntervalSinceNow: min(seconds, 1e9))
    }
}
