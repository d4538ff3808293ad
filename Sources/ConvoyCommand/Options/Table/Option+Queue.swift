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
            "--db FILE|postgres://…", takes: .file(.update), .files, for: Set(Subcommand.queue.verbs),
            "the database of the queue",
            detail: "the database of the jobs: an SQLite file, which add creates, or postgres://user@host/database; "
                + "put a password into ~/.pgpass or PGPASSWORD",
            path: ValuePath { $0.contains("://") || DatabaseAddress.mayHoldPassword($0) ? nil : $0 }
        ) { $0.queue.database = $1 },
        .flag(
            "--watch", .limits, for: [.queue(.run)], "keep running, and send jobs that are added later",
            detail: "do not end when no job waits: send jobs that are added later, until a signal arrives"
        ) { $0.queue.watches = true },
    ]

    private static let jobOptions: [Option] = [
        Option(
            "--id ID", .requests, for: adding, "the id of the job",
            more: " (default: a UUID); adding an existing id has no effect. Several URLs get ID-1, ID-2 and so on"
        ) { $0.queue.wishes.id = $1 },
        Option("--after ID", .requests, for: adding, "send it when another job is done", isRepeatable: true) {
            $0.queue.wishes.dependencies.append($1)
        },
        Option(
            "--priority WHICH", takes: .choice(priorities.map(\.key)), .requests, for: adding,
            "the priority, higher ones are sent first"
        ) { options, word in
            options.queue.wishes.priority = priorities.first { $0.key == word }?.value ?? .normal
        },
        Option(
            "--not-before DATE|SEC", .requests, for: adding, "the earliest time to send it",
            more: ": a date, such as 2027-01-31T08:00:00Z, or seconds from now"
        ) { $0.queue.wishes.notBefore = try OptionValues.date($1) },
        Option(
            "--expires DATE|SEC", .requests, for: adding, "the latest time to send it",
            detail: "a job that has not been sent by this date, or after so many seconds, becomes a dead letter"
        ) { $0.queue.wishes.expires = try OptionValues.date($1) },
        Option(
            "--unique KEY", .requests, for: adding, "a key that identifies duplicate jobs",
            detail: "when an unfinished job with this key exists, --policy decides which of the two is kept"
        ) { $0.queue.wishes.key = $1 },
        Option(
            "--policy WHICH", takes: .choice(Job.Uniqueness.Policy.allCases.map(\.rawValue)), .requests, for: adding,
            "which of two jobs with one key is kept",
            detail: "keep the existing job (default), replace it, or append: send one after the other"
        ) { $0.queue.wishes.policy = Job.Uniqueness.Policy(rawValue: $1) ?? .keep },
        .flag(
            "--redirect-as-get", .requests, for: adding, "a redirect may drop the body",
            detail: "follow a redirect (301, 302, 303) that turns the request into a GET without its body; by default "
                + "such a redirect is a failure"
        ) { $0.queue.wishes.followsRedirectsAsGet = true },
    ]

    private static let choiceOptions: [Option] = [
        Option(
            "--kind KIND", .requests, for: adding.union(Set.selecting), "the kind of the jobs",
            detail: "with add the kind of the job (default: request), otherwise jobs of this kind"
        ) { ($0.queue.wishes.kind, $0.queue.selection.kind) = ($1, $1) },
        Option(
            "--group NAME", .requests, for: adding.union(Set.selecting), "the group, whose jobs are sent one by one",
            detail: "the group: its jobs are sent one by one, in the order in which they were added"
        ) { ($0.queue.wishes.group, $0.queue.selection.group) = ($1, $1) },
        Option(
            "--tag TAG", .requests, for: adding.union(Set.selecting), "a tag to select jobs by", isRepeatable: true
        ) {
            if $0.verb != .queue(.add), $0.queue.selection.tag != nil {
                throw UsageError("is given twice; use one tag to select jobs")
            }
            $0.queue.wishes.tags.insert($1)
            $0.queue.selection.tag = $1
        },
        Option(
            "--state STATE", takes: .choice(JobState.allCases.map(\.rawValue)), .requests, for: .selecting,
            "jobs in this state", isRepeatable: true
        ) { options, word in
            options.queue.selection.states = (options.queue.selection.states ?? []).union(
                JobState(rawValue: word).map { [$0] } ?? [])
        },
        .flag("--all", .requests, for: [.queue(.retry), .queue(.cancel), .queue(.delete)], "every job") {
            $0.queue.meansAll = true
        },
        Option(
            "--limit N", .output, for: [.queue(.list), .queue(.why), .queue(.export)],
            "the maximum number of jobs to print"
        ) {
            $0.queue.limit = try OptionValues.number($1, in: 1...1_000_000_000)
        },
    ]
}
