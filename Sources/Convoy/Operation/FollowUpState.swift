// What an operation goes through beyond one plain attempt.
import Foundation

/// Redirects, retries, the deadline, interceptors at work: what most operations never have.
///
/// Part of the operation's state, and touched only under its lock; not `Sendable`, so that it cannot leave it.
final class FollowUpState {
    /// The attempts that have ended.
    var records: [AttemptRecord] = []
    /// What the next attempt sends, before interceptors; nil for the request as it was given.
    var request: PreparedRequest?
    /// What interceptors have made of it for the attempt to come.
    var adapted: PreparedRequest?
    /// How often that was outdated when it was to be sent.
    var outdatedCount = 0
    /// An answer that a shared transfer has brought.
    var sharedAnswer: SharedAnswer? { didSet { if sharedAnswer != nil { isShared = true } } }
    /// Whether a shared transfer has brought the answer; known for good.
    private(set) var isShared = false
    /// The cache's answer to the next attempt; nil for one that the network is to answer.
    var cacheExchange: (any CacheExchange)?
    /// Whether an answer of the cache's has gone: from now on the cache is asked when there is a slot.
    var lostStoredAnswer = false
    /// Whether a redirect has led to another origin, now or earlier.
    var hasLeftOrigin = false
    /// How many retries the policy and the interceptors have had.
    var retryCount = 0
    var interceptionCount = 0

    /// When everything has to be over.
    var deadline: ContinuousClock.Instant?
    /// What the operation waits for between two attempts, for people.
    var wait: Wait?
    /// What stops timers and interceptors at work, which would still call the operation.
    fileprivate var callers: [Caller: @Sendable () -> Void] = [:]

    /// Where the streams of all attempts are made and used: one attempt's has been closed before the next is made, which
    /// may truncate the same file.
    private(set) lazy var streamQueue = DispatchQueue(label: "convoy.stream")

    /// What the caller keeps with the operation; nil for what its request has.
    var userInfo: [String: any Sendable]?

    /// The request's own limit of bytes a second, from its first attempt on.
    var rateLimit: RateLimit?

    /// The part of a download, from its first attempt on.
    var download: (any DownloadTarget)?
    /// Whether the next attempt asks for the whole, whatever is there; once.
    var startsOver = false
    private(set) var hasStartedOver = false

    /// Decides, once, that what is there is not continued.
    func startOver() -> Bool {
        guard !hasStartedOver else { return false }
        (hasStartedOver, startsOver) = (true, true)
        return true
    }

    /// For the response: those of the operation that brought the answer.
    var earlierAttempts: [AttemptRecord] { sharedAnswer?.response.attempts ?? records }

    enum Caller { case deadline, wait, interceptors }

    enum Wait {
        case time(ContinuousClock.Instant, asked: RetryAfterReason?)
        case interceptor
        /// The process has none left.
        case descriptor
        case slot
    }

    /// What stops everything that would still call the operation; to be called outside the lock.
    func takeCallers() -> [@Sendable () -> Void] {
        defer { callers = [:] }
        return Array(callers.values)
    }

    /// What an operation that has finished needs no more; to be let go of outside the lock.
    func takeRequests() -> Requests {
        defer { (request, adapted, sharedAnswer, cacheExchange) = (nil, nil, nil, nil) }
        return (request, adapted, sharedAnswer, cacheExchange)
    }

    typealias Requests = (
        PreparedRequest?, adapted: PreparedRequest?, sharedAnswer: SharedAnswer?, (any CacheExchange)?
    )
}

extension AnyRequestOperation {
    /// The attempt that ended last.
    var lastRecord: AttemptRecord? { state.withLock { $0.followUp?.records.last } }

    /// Keeps what stops something that will call the operation until it has an outcome; one that comes later is called now.
    func keep(_ caller: FollowUpState.Caller, stop: @escaping @Sendable () -> Void) {
        let isOver = state.withLock { state in
            if state.outcome == nil { state.makeFollowUp().callers[caller] = stop }
            return state.outcome != nil
        }
        if isOver { stop() }
    }
}

extension OperationState {
    /// The follow-up state, made when there is something to note.
    mutating func makeFollowUp() -> FollowUpState {
        let followUp = followUp ?? FollowUpState()
        self.followUp = followUp
        return followUp
    }

    /// What the attempt sends, before interceptors.
    var nextRequest: PreparedRequest? { followUp?.request ?? prepared }

    /// Where it is sent to.
    var nextHost: String { (followUp?.adapted ?? nextRequest)?.hostKey ?? "" }

    /// What became of each attempt, the one under way included; empty after a success, whose response tells.
    func attemptRecords(
        _ error: RequestError?, _ now: ContinuousClock.Instant, _ metrics: CopyOnWrite<TransferMetrics>?
    ) -> [AttemptRecord] {
        guard let error else { return [] }
        let records = followUp?.records ?? []
        guard let attempt = transfer?.attempt else { return records }
        let isAnswer = error.code == .unacceptableStatus
        return records + [
            AttemptRecord(
                number: attempt.number, request: attempt.request, started: attempt.started, ended: now,
                response: error.response, failure: isAnswer ? nil : error.code,
                message: isAnswer ? nil : error.message, transfer: progress, metrics: metrics?.value)
        ]
    }
}
