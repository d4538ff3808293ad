// The states of a job.

/// Where a job is between its `add` and its end.
public enum JobState: String, Sendable, Hashable, CaseIterable, Codable {
    /// May be sent, at once or when its time has come. Next: blocked, claimed, answered, dead, cancelled.
    case waiting
    /// Waits for other jobs: dependencies, those before it in its group, one with the same key. Next: waiting, answered, dead,
    /// cancelled.
    case blocked
    /// An owner has it, for as long as its lease is renewed. Next: waiting, answered, done, dead, cancelled.
    case claimed
    /// Its result, or the news that it has expired, waits for a handler. Next: claimed, done, cancelled.
    case answered
    /// Its outcome was acknowledged. The end.
    case done
    /// A dead letter: it failed for good, or expired. Next: waiting, blocked, by a retry; cancelled.
    case dead
    /// It was cancelled. The end.
    case cancelled

    /// Whether nothing more happens to the job by itself.
    public var isFinished: Bool { self == .done || self == .dead || self == .cancelled }
}

/// What keeps a blocked job back.
public struct JobHolds: Sendable, Hashable {
    /// How many of its dependencies are not done.
    public var dependencies = 0
    /// Whether an unfinished job of its group is before it.
    public var isBehindGroup = false
    /// Whether an unfinished job with its key is before it.
    public var isBehindKey = false

    /// Makes holds; none by default.
    public init(dependencies: Int = 0, isBehindGroup: Bool = false, isBehindKey: Bool = false) {
        self.dependencies = dependencies
        self.isBehindGroup = isBehindGroup
        self.isBehindKey = isBehindKey
    }

    /// Whether nothing keeps the job back.
    public var isEmpty: Bool { dependencies == 0 && !isBehindGroup && !isBehindKey }
}

/// The right of an owner to work on a job: a lease.
public struct JobLease: Sendable, Hashable {
    /// The store instance that has it.
    public var owner: String
    /// The number of the claim, which grows with each claim of the job: a fencing token.
    public var token: Int64

    /// Makes a lease.
    public init(owner: String, token: Int64) {
        self.owner = owner
        self.token = token
    }
}
