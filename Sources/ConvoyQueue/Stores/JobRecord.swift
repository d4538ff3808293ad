import Foundation

/// A job with its stored details, for lists and ``DurableQueue/why(_:)``.
public struct JobRecord: Sendable, Hashable {
    /// The maximum number of stored attempts of a job; older ones are only counted.
    public static let maxAttempts = 20
    /// The value of ``failure`` for an expired job, and of ``JobResult/failure`` for its handler.
    public static let expired = JobResult.expired

    /// The job.
    public var job: Job
    /// The job's position in the order of adding; a retried dead letter gets a new position at the end.
    public var position: Int64
    /// The state of the job, what blocks it, and its lease.
    public var life: JobLife
    /// When the job was added, as a calendar date.
    public var added: Date
    /// The last attempts, oldest first.
    public var attempts: [JobAttempt]
    /// The number of attempts since the job was added, or last retried as a dead letter.
    public var attemptCount: Int
    /// How long a waiting job must still wait for its date or next attempt; nil if it is ready or not waiting.
    public var delay: Duration?
    /// Why the job is a dead letter; nil for other states.
    public var failure: String?
    /// The result that waits for a handler; nil if none does.
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

    /// The state of the job.
    public var state: JobState { life.state }
}

/// A job that blocks another one.
public struct JobBlocker: Sendable, Hashable {
    /// Why a job blocks another.
    public enum Reason: String, Sendable, Hashable {
        /// The blocked job depends on the blocker.
        case dependency
        /// The blocker is an earlier job of the same group.
        case group
        /// The blocker is an earlier job with the same key.
        case key
    }

    /// The id of the blocker.
    public var id: String
    /// The state of the blocker.
    public var state: JobState
    /// Why the blocker blocks the other job.
    public var reason: Reason

    /// Makes a blocker.
    public init(id: String, state: JobState, reason: Reason) {
        self.id = id
        self.state = state
        self.reason = reason
    }
}

/// The number of jobs of each kind in each state.
public struct QueueStatus: Sendable, Hashable {
    /// The numbers of jobs by kind and state; zeros are left out.
    public var counts: [String: [JobState: Int]]

    /// Makes a status.
    public init(counts: [String: [JobState: Int]] = [:]) { self.counts = counts }

    /// The number of jobs in a state.
    public subscript(state: JobState) -> Int { counts.values.reduce(0) { $0 + ($1[state] ?? 0) } }

    /// The number of unfinished jobs.
    public var unfinishedCount: Int {
        JobState.allCases.filter { !$0.isFinished }.reduce(0) { $0 + self[$1] }
    }
}
