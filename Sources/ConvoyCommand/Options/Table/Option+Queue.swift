// The options of `convoy queue` alone.
import Convoy
import ConvoyQueue
import Foundation

extension Option {
    static let queueOptions: [Option] = placeOptions + jobOptions + choiceOptions

    private static let adding: Set<Verb> = [.queue(.add)]
    private static let priorities: KeyValuePairs<String, Operation.QueuePriority> = [
        "very-low": .veryLow, "low": .low, "normal": .normal, "high": .high, "very-high": .veryHigh,
    ]

    private static let placeOptions: [Option] = [
        Option(
            "db", value: .file("FILE|postgres://…"), .files, for: Set(Subcommand.queue.verbs),
            summary: "the database of the queue",
            detail:
                "where the jobs are: a file, which add makes, with SQLite's own beside it, or "
                + "postgres://user@host/database; put a password into ~/.pgpass or PGPASSWORD"
        ) { $0.queue.database = $1 },
        Option(
            "watch", .limits, for: [.queue(.run)], summary: "keep running, and send jobs that are added later",
            detail: "keep running when no job waits, and send jobs that are added later, until a signal arrives"
        ) { $0.queue.watches = true },
    ]

    private static let jobOptions: [Option] = [
        Option(
            "id", value: .text("ID"), .requests, for: adding, summary: "what the job is known by",
            detail:
                "what the job is known by (default: a UUID); adding the same again adds nothing. Of several URLs it is "
                + "the beginning: ID-1, ID-2 and so on"
        ) { $0.queue.wishes.id = $1 },
        Option(
            "after", value: .text("ID"), .requests, for: adding, summary: "send it when another job is done",
            isRepeatable: true
        ) { $0.queue.wishes.dependencies.append($1) },
        Option(
            "priority", value: .choice("WHICH", among: priorities.map(\.key)), .requests, for: adding,
            summary: "which jobs go first"
        ) { options, word in
            options.queue.wishes.priority = priorities.first { $0.key == word }?.value ?? .normal
        },
        Option(
            "not-before", value: .text("DATE|SEC"), .requests, for: adding, summary: "when it may be sent",
            detail: "send it not before this date, such as 2027-01-31T08:00:00Z, or so many seconds from now"
        ) { $0.queue.wishes.notBefore = try OptionValues.date($1) },
        Option(
            "expires", value: .text("DATE|SEC"), .requests, for: adding, summary: "when it is no longer worth sending",
            detail: "what has not been sent by this date becomes a dead letter"
        ) { $0.queue.wishes.expires = try OptionValues.date($1) },
        Option(
            "unique", value: .text("KEY"), .requests, for: adding, summary: "what there is to be one of",
            detail: "when an unfinished job with this key exists, --policy decides which of the two is kept"
        ) { $0.queue.wishes.key = $1 },
        Option(
            "policy", value: .choice("WHICH", among: Job.Uniqueness.Policy.allCases.map(\.rawValue)), .requests,
            for: adding, summary: "which of two jobs with a key stays",
            detail: "keep the existing job (default), replace it, or append: send one after the other"
        ) { $0.queue.wishes.policy = Job.Uniqueness.Policy(rawValue: $1) ?? .keep },
        Option(
            "redirect-as-get", .requests, for: adding, summary: "a redirect may drop the body",
            detail:
                "follow a redirect (301, 302, 303) that turns the request into a GET without its body, and take that "
                + "answer; else such a redirect is a failure"
        ) { $0.queue.wishes.followsRedirectsAsGet = true },
    ]

    private static let choiceOptions: [Option] = [
        Option(
            "kind", value: .text("KIND"), .requests, for: adding.union(Set.selecting), summary: "the kind of the jobs",
            detail: "what kind of job it is (default: request); else: jobs of this kind"
        ) { ($0.queue.wishes.kind, $0.queue.selection.kind) = ($1, $1) },
        Option(
            "group", value: .text("NAME"), .requests, for: adding.union(Set.selecting),
            summary: "jobs that go one after the other",
            detail: "jobs of a group are sent one after the other, in the order in which they were added"
        ) { ($0.queue.wishes.group, $0.queue.selection.group) = ($1, $1) },
        Option(
            "tag", value: .text("TAG"), .requests, for: adding.union(Set.selecting),
            summary: "what jobs can be found by",
            isRepeatable: true
        ) {
            if $0.verb != .queue(.add), $0.queue.selection.tag != nil {
                throw UsageError("is given twice: jobs are chosen by one tag")
            }
            $0.queue.wishes.tags.insert($1)
            $0.queue.selection.tag = $1
        },
        Option(
            "state", value: .choice("STATE", among: JobState.allCases.map(\.rawValue)), .requests, for: .selecting,
            summary: "jobs in this state", isRepeatable: true
        ) { options, word in
            options.queue.selection.states = (options.queue.selection.states ?? []).union(
                JobState(rawValue: word).map { [$0] } ?? [])
        },
        Option("all", .requests, for: [.queue(.retry), .queue(.cancel)], summary: "every job") {
            $0.queue.meansAll = true
        },
        Option(
            "limit", value: .text("N"), .output, for: [.queue(.list), .queue(.export)],
            summary: "print no more jobs than this"
        ) { $0.queue.limit = try OptionValues.number($1, in: 1...1_000_000_000) },
    ]
}
