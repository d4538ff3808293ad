/// The state of one job, what blocks the job, and its lease.
///
/// Every store saves these values in its own form and must follow these rules. The tests in `StoreConformanceTests`
/// check that it does.
public struct JobLife: Sendable, Hashable {
    /// An event of a job.
    public enum Event: Sendable, Hashable {
        /// An owner claims the job.
        case claimed(by: String)
        /// The owner reports the outcome of the job.
        ///
        /// The token is the number of the claim. An older token means that the owner has lost the job.
        case settled(token: Int64, JobVerdict)
        /// Another owner finds that the lease has ended, or that the owner of the lease no longer exists.
        ///
        /// An owner whose own lease has ended keeps the job until then.
        case leaseEnded
        /// The store has found other reasons that block the job.
        case held(JobHolds)
        /// The job has expired, and its kind has no handler.
        case expired
        /// The job has expired, and its kind has a handler.
        case expiredWithHandler
        /// A caller cancelled or replaced the job, or cancelled or deleted a job that it depends on.
        case cancelled
        /// A caller accepted the result that waits for a handler, without claiming the job.
        case acknowledged
        /// A caller wants the job, a dead letter, to be sent again.
        case retried(JobHolds)
    }

    /// The current state.
    public private(set) var state: JobState
    /// What blocks the job; empty unless the state is `blocked`.
    public private(set) var holds: JobHolds
    /// The lease; nil unless the job is claimed.
    public private(set) var lease: JobLease?
    /// The number of claims so far, which is also the token of the last claim.
    public private(set) var claimCount: Int64
    /// Whether a result waits for a handler.
    public private(set) var hasResult: Bool
    /// The number of consecutive lapsed claims.
    ///
    /// A claim lapses when its owner's process ends, or when another owner finds that its lease has ended. A high
    /// number indicates a job that crashes its process. Releasing a job (``JobVerdict/release``) keeps the number.
    /// Every other verdict, a cancellation and a retry of a dead letter reset the number.
    public private(set) var lapseCount: Int

    /// Makes the state of a new job.
    public init(holds: JobHolds = JobHolds()) {
        self.init(state: holds.isEmpty ? .waiting : .blocked, holds: holds, lease: nil, claimCount: 0, hasResult: false)
    }

    /// Makes a state from stored values.
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

    /// The number of consecutive lapsed claims at which a job becomes a suspect: it may crash its process.
    ///
    /// An owner claims one suspect at a time. A crash therefore does not count against other suspects.
    public static let suspectLapseCount = 2

    /// How long a job waits after a lapsed claim: zero after the first lapse, then 1, 2, 4 and so on up to 64 seconds.
    public var lapseDelay: Duration {
        lapseCount < Self.suspectLapseCount ? .zero : .seconds(1 << min(6, lapseCount - Self.suspectLapseCount))
    }

    package static func lapses(_ count: Int) -> String {
        let times = count == 1 ? "once" : "\(count) times"
        return "its process ended or stopped \(times) during the job"
    }

    /// Handles an event.
    ///
    /// - Returns: false when the event has no effect in this state.
    public mutating func handle(_ event: Event) -> Bool {
        switch (state, event) {
        case (.waiting, .claimed(let owner)), (.answered, .claimed(let owner)):
            claimCount += 1
            lease = JobLease(owner: owner, token: claimCount)
            state = .claimed
        case (.claimed, .settled(token: claimCount, let verdict)):
            if verdict != .release { lapseCount = 0 }
            switch verdict {
            case .done: become(.done)
            case .answered: become(.answered, hasResult: true)
            case .retry: become(.waiting)
            case .dead: become(.dead)
            case .release: giveBack()
            }
        case (.claimed, .leaseEnded):
            lapseCount += 1
            giveBack()
        case (.waiting, .held(let new)), (.blocked, .held(let new)):
            guard new != holds else { return false }
            wait(for: new)
        case (.waiting, .expired), (.blocked, .expired): become(.dead)
        case (.waiting, .expiredWithHandler), (.blocked, .expiredWithHandler): become(.answered, hasResult: true)
        case (.waiting, .cancelled), (.blocked, .cancelled), (.claimed, .cancelled), (.answered, .cancelled),
            (.dead, .cancelled):
            lapseCount = 0
            become(.cancelled)
        case (.answered, .acknowledged): become(.done)
        case (.dead, .retried(let new)):
            lapseCount = 0
            wait(for: new)
        default: return false
        }
        return true
    }

    private mutating func become(_ new: JobState, hasResult: Bool = false) {
        (state, self.hasResult, holds, lease) = (new, hasResult, JobHolds(), nil)
    }

    /// A job that already has a result is not sent again.
    private mutating func giveBack() { become(hasResult ? .answered : .waiting, hasResult: hasResult) }

    private mutating func wait(for new: JobHolds) {
        holds = new
        state = new.isEmpty ? .waiting : .blocked
    }
}

/// What the owner of a claimed job decides about the job.
public enum JobVerdict: Sendable, Hashable {
    /// The job is done: its handler has accepted the outcome.
    case done
    /// The job has a result, which waits for a handler.
    case answered(JobResult)
    /// The job is sent again after this time.
    case retry(after: Duration)
    /// The job failed permanently for this reason.
    case dead(String)
    /// The owner gives the job back unchanged, for example because its queue stops.
    case release
}
