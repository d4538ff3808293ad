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
                "the database of the jobs: an SQLite file, which add creates, or "
                + "postgres://user@host/database; put a password into ~/.pgpass or PGPASSWORD"
        ) { $0.queue.database = $1 },
        Option(
            "watch", .limits, for: [.queue(.run)], summary: "keep running, and send jobs that are added later",
            detail: "do not end when no job waits: send jobs that are added later, until a signal arrives"
        ) { $0.queue.watches = true },
    ]

    private static let jobOptions: [Option] = [
        Option(
            "id", value: .text("ID"), .requests, for: adding, summary: "the id of the job",
            detail:
                "the id of the job (default: a UUID); adding an existing id has no effect. Several URLs get ID-1, ID-2 and "
                + "so on"
        ) { $0.queue.wishes.id = $1 },
        Option(
            "after", value: .text("ID"), .requests, for: adding, summary: "send it when another job is done",
            isRepeatable: true
        ) { $0.queue.wishes.dependencies.append($1) },
        Option(
            "priority", value: .choice("WHICH", among: priorities.map(\.key)), .requests, for: adding,
            summary: "the priority, higher ones are sent first"
        ) { options, word in
            options.queue.wishes.priority = priorities.first { $0.key == word }?.value ?? .normal
        },
        Option(
            "not-before", value: .text("DATE|SEC"), .requests, for: adding, summary: "the earliest time to send it",
            detail: "the earliest time to send it: a date, such as 2027-01-31T08:00:00Z, or seconds from now"
        ) { $0.queue.wishes.notBefore = try OptionValues.date($1) },
        Option(
            "expires", value: .text("DATE|SEC"), .requests, for: adding, summary: "the latest time to send it",
            detail: "a job that has not been sent by this date, or after so many seconds, becomes a dead letter"
        ) { $0.queue.wishes.expires = try OptionValues.date($1) },
        Option(
            "unique", value: .text("KEY"), .requests, for: adding, summary: "a key that identifies duplicate jobs",
            detail: "when an unfinished job with this key exists, --policy decides which of the two is kept"
        ) { $0.queue.wishes.key = $1 },
        Option(
            "policy", value: .choice("WHICH", among: Job.Uniqueness.Policy.allCases.map(\.rawValue)), .requests,
            for: adding, summary: "which of two jobs with one key is kept",
            detail: "keep the existing job (default), replace it, or append: send one after the other"
        ) { $0.queue.wishes.policy = Job.Uniqueness.Policy(rawValue: $1) ?? .keep },
        Option(
            "redirect-as-get", .requests, for: adding, summary: "a redirect may drop the body",
            detail:
                "follow a redirect (301, 302, 303) that turns the request into a GET without its body; by default such a "
                + "redirect is a failure"
        ) { $0.queue.wishes.followsRedirectsAsGet = true },
    ]

    private static let choiceOptions: [Option] = [
        Option(
            "kind", value: .text("KIND"), .requests, for: adding.union(Set.selecting), summary: "the kind of the jobs",
            detail: "with add the kind of the job (default: request), otherwise jobs of this kind"
        ) { ($0.queue.wishes.kind, $0.queue.selection.kind) = ($1, $1) },
        Option(
            "group", value: .text("NAME"), .requests, for: adding.union(Set.selecting),
            summary: "the group, whose jobs are sent one by one",
            detail: "the group: its jobs are sent one by one, in the order in which they were added"
        ) { ($0.queue.wishes.group, $0.queue.selection.group) = ($1, $1) },
        Option(
            "tag", value: .text("TAG"), .requests, for: adding.union(Set.selecting),
            summary: "a tag to select jobs by",
            isRepeatable: true
        ) {
            if $0.verb != .queue(.add), $0.queue.selection.tag != nil {
                throw UsageError("is given twice; use one tag to select jobs")
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
            summary: "the maximum number of jobs to print"
        ) { $0.queue.limit = try OptionValues.number($1, in: 1...1_000_000_000) },
    ]
}
