// What a store tells of its jobs.
import Foundation

/// A job as a store has it: for lists, and for ``DurableQueue/why(_:)``.
public struct JobRecord: Sendable, Hashable {
    /// The most attempts that are kept of one job; older ones are counted only.
    public static let maxAttempts = 20
    /// What ``failure`` says of a job whose expiry has passed, and ``JobResult/failure`` to its handler.
    public static let expired = "it expired before it could be sent"

    /// The job.
    public var job: Job
    /// Its place in the order of adding.
    public var position: Int64
    /// State, holds and lease.
    public var life: JobLife
    /// When it was added, by the calendar.
    public var added: Date
    /// The last attempts, oldest first.
    public var attempts: [JobAttempt]
    /// How many attempts it has had, since it was added or retried.
    public var attemptCount: Int
    /// How long it is not sent yet, of a job that waits; nil when its time has come.
    public var delay: Duration?
    /// Why it is a dead letter; nil for others.
    public var failure: String?
    /// The result that waits for a handler.
    public var result: JobResult?

    /// Makes a record.
    public init(
        job: Job, position: Int64, life: JobLife, added: Date, attempts: [JobAttempt] = [], attemptCount: Int = 0,
        delay: Duration? = nil, failure: String? = nil, result: JobResult? = nil
    ) {
        self.job = job
        self.position = position
        self.life = life
        self.added = added
        self.attempts = attempts
        self.attemptCount = attemptCount
        self.delay = delay
        self.failure = failure
        self.result = result
    }

    /// Where the job is.
    public var state: JobState { life.state }
}

/// What a blocked job waits for.
public struct JobBlocker: Sendable, Hashable {
    /// Why it waits for the other job.
    public enum Reason: String, Sendable, Hashable {
        /// It depends on it.
        case dependency
        /// It comes after it in their group.
        case group
        /// It has the same key.
        case key
    }

    /// The id of the other job.
    public var id: String
    /// Where that one is.
    public var state: JobState
    /// Why it waits for it.
    public var reason: Reason

    /// Makes a blocker.
    public init(id: String, state: JobState, reason: Reason) {
        self.id = id
        self.state = state
        self.reason = reason
    }
}

/// How many jobs there are.
public struct QueueStatus: Sendable, Hashable {
    /// By kind and state; states that no job of a kind is in are left out.
    public var counts: [String: [JobState: Int]]

    /// Makes a status.
    public init(counts: [String: [JobState: Int]] = [:]) { self.counts = counts }

    /// How many jobs are in a state.
    public subscript(state: JobState) -> Int { counts.values.reduce(0) { $0 + ($1[state] ?? 0) } }

    /// How many jobs are not finished.
    public var unfinishedCount: Int {
        JobState.allCases.filter { !$0.isFinished }.reduce(0) { $0 + self[$1] }
    }
}
