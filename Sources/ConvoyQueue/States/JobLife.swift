// The life of a job as a state machine: pure values, no clock, no database.

/// State, holds and lease of one job.
///
/// Every store keeps these values in its own way and changes them by these rules; the conformance suite compares.
public struct JobLife: Sendable, Hashable {
    /// What happens to a job.
    public enum Event: Sendable, Hashable {
        /// An owner takes it.
        case claimed(by: String)
        /// The owner says what came of it; the token tells an owner that has lost the job.
        case settled(token: Int64, JobVerdict)
        /// The lease has ended, or its owner has gone, and another owner finds that.
        ///
        /// An owner that finds it of itself gives the job back, ``JobVerdict/release``.
        case leaseEnded
        /// What it waits for has changed.
        case held(JobHolds)
        /// Its expiry has passed.
        case expired
        /// Its expiry has passed, and a handler of its kind is there to be told.
        case expiredWithHandler
        /// It was cancelled, or a job it depends on was.
        case cancelled
        /// The result that waits was acknowledged without being claimed.
        case acknowledged
        /// A dead letter is to be sent again.
        case retried(JobHolds)
    }

    /// Where the job is.
    public private(set) var state: JobState
    /// What keeps it back; none unless it is blocked.
    public private(set) var holds: JobHolds
    /// The lease; nil unless it is claimed.
    public private(set) var lease: JobLease?
    /// How often it was claimed.
    public private(set) var claimCount: Int64
    /// Whether a result waits to be handled.
    public private(set) var hasResult: Bool
    /// How many claims in a row have lapsed: their owner ended, or stood still until another had the job.
    ///
    /// A job that crashes its process is told by it. Giving a job back (``JobVerdict/release``) leaves the number as it is, every
    /// other verdict sets it to 0.
    public private(set) var lapseCount: Int

    /// A job that has just been added.
    public init(holds: JobHolds = JobHolds()) {
        self.init(state: holds.isEmpty ? .waiting : .blocked, holds: holds, lease: nil, claimCount: 0, hasResult: false)
    }

    /// A job as a store has kept it.
    public init(
        state: JobState, holds: JobHolds, lease: JobLease?, claimCount: Int64, hasResult: Bool, lapseCount: Int = 0
    ) {
        self.lapseCount = lapseCount
        self.state = state
        self.holds = holds
        self.lease = lease
        self.claimCount = claimCount
        self.hasResult = hasResult
    }

    /// From how many lapses on a job is a suspect: an owner claims one of those at a time, so that the one that crashes its
    /// process does not bring the others into disrepute.
    public static let suspectLapseCount = 2

    /// How long a job waits after its claim has lapsed: not at all the first time, then a second, two, four and so on.
    public var lapseDelay: Duration {
        lapseCount < Self.suspectLapseCount ? .zero : .seconds(1 << min(6, lapseCount - Self.suspectLapseCount))
    }

    /// Takes an event in.
    ///
    /// - Returns: false when it has no effect in this state; then nothing has changed.
    public mutating func handle(_ event: Event) -> Bool {
        switch (state, event) {
        case (.waiting, .claimed(let owner)), (.answered, .claimed(let owner)):
            claimCount += 1
            lease = JobLease(owner: owner, token: claimCount)
            state = .claimed
        case (.claimed, .settled(token: claimCount, let verdict)):
            lease = nil
            settle(verdict)
        case (.claimed, .leaseEnded):
            lease = nil
            lapseCount += 1
            giveBack()
        case (.waiting, .held(let new)), (.blocked, .held(let new)):
            guard new != holds else { return false }
            wait(for: new)
        case (.waiting, .expired), (.blocked, .expired):
            holds = JobHolds()
            state = .dead
        case (.waiting, .expiredWithHandler), (.blocked, .expiredWithHandler):
            holds = JobHolds()
            hasResult = true
            state = .answered
        case (.waiting, .cancelled), (.blocked, .cancelled), (.claimed, .cancelled), (.answered, .cancelled),
            (.dead, .cancelled):
            lease = nil
            hasResult = false
            lapseCount = 0
            holds = JobHolds()
            state = .cancelled
        case (.answered, .acknowledged):
            hasResult = false
            state = .done
        case (.dead, .retried(let new)):
            lapseCount = 0
            wait(for: new)
        default: return false
        }
        return true
    }

    private mutating func settle(_ verdict: JobVerdict) {
        if verdict != .release { lapseCount = 0 }
        switch verdict {
        case .done:
            hasResult = false
            state = .done
        case .answered:
            hasResult = true
            state = .answered
        case .retry:
            hasResult = false
            state = .waiting
        case .dead:
            hasResult = false
            state = .dead
        case .release: giveBack()
        }
    }

    /// What was answered is not sent again.
    private mutating func giveBack() { state = hasResult ? .answered : .waiting }

    private mutating func wait(for new: JobHolds) {
        holds = new
        state = new.isEmpty ? .waiting : .blocked
    }
}

/// What the owner of a claimed job says of it.
public enum JobVerdict: Sendable, Hashable {
    /// Its outcome was acknowledged.
    case done
    /// Its result waits for a handler.
    case answered(JobResult)
    /// It is to be sent again when this time has passed.
    case retry(after: Duration)
    /// It failed for good, for this reason.
    case dead(String)
    /// It is given back as it was: nothing was found out.
    case release
}
