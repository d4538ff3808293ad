/// The state of a job between its addition and its end.
public enum JobState: String, Sendable, Hashable, CaseIterable, Codable {
    /// The job may be sent, now or after its date or delay.
    ///
    /// Next: blocked, claimed, answered, dead, cancelled.
    case waiting
    /// The job waits for other jobs: dependencies, earlier jobs of its group, a job with the same key.
    ///
    /// Next: waiting, answered, dead, cancelled.
    case blocked
    /// An owner has claimed the job and renews the lease.
    ///
    /// Next: waiting, blocked, answered, done, dead, cancelled.
    case claimed
    /// The result of the job, or the news that the job has expired, waits for a handler.
    ///
    /// Next: claimed, done, cancelled.
    case answered
    /// A handler, or a call of ``DurableQueue/acknowledge(_:)``, has accepted the outcome of the job.
    ///
    /// The job does not leave this state.
    case done
    /// A dead letter: the job failed permanently or expired.
    ///
    /// Next: waiting or blocked, if a caller retries the job; cancelled.
    case dead
    /// A caller cancelled or replaced the job, or cancelled or deleted a job that it depends on.
    ///
    /// The job does not leave this state.
    case cancelled

    /// Whether the queue no longer works on a job in this state: done, dead or cancelled.
    public var isFinished: Bool { self == .done || self == .dead || self == .cancelled }
}

/// The reasons why a job is blocked.
public struct JobHolds: Sendable, Hashable {
    /// The number of dependencies that are not done.
    public var dependencies = 0
    /// Whether an earlier job of the same group is unfinished.
    public var isBehindGroup = false
    /// Whether an earlier job with the same key is unfinished.
    public var isBehindKey = false

    /// Makes holds; by default, nothing blocks the job.
    public init(dependencies: Int = 0, isBehindGroup: Bool = false, isBehindKey: Bool = false) {
        self.dependencies = dependencies
        self.isBehindGroup = isBehindGroup
        self.isBehindKey = isBehindKey
    }

    /// Whether the job is not blocked.
    public var isEmpty: Bool { dependencies == 0 && !isBehindGroup && !isBehindKey }
}

/// An owner's lease on a job.
public struct JobLease: Sendable, Hashable {
    /// The name of the store instance that has claimed the job.
    public var owner: String
    /// The number of the claim, which increases with each claim of the job: a fencing token.
    public var token: Int64

    /// Makes a lease.
    public init(owner: String, token: Int64) {
        self.owner = owner
        self.token = token
    }
}
