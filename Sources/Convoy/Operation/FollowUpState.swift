// The state of an operation beyond one plain attempt.
import Foundation

/// The state of redirects, retries, the deadline and running interceptors.
///
/// It is part of the operation's state and used only under the operation's lock. The class is not `Sendable`, so the
/// compiler prevents its use outside the lock.
final class FollowUpState {
    var records: [AttemptRecord] = []
    /// The next request to send, before interceptors; nil for the original request.
    var request: PreparedRequest?
    /// The next request to send, as the interceptors have adapted it; nil before.
    var adapted: PreparedRequest?
    var outdatedCount = 0
    var sharedAnswer: SharedAnswer?
    private(set) var isShared = false
    /// The cache's exchange for the next attempt; nil if the attempt uses the network.
    var cacheExchange: (any CacheExchange)?
    /// Whether the cache has lost a response after its lookup, so that later lookups need a slot.
    var lostStoredAnswer = false
    var hasLeftOrigin = false
    /// The number of retries that the policy has decided since a download last made progress; `interceptionCount`
    /// counts those of the interceptors.
    var retryCount = 0
    /// The most bytes of a download that an attempt has left.
    var resumableBytes: Int64 = 0
    var interceptionCount = 0

    var deadline: ContinuousClock.Instant?
    var wait: Wait?
    /// Closures that stop timers and interceptors which would still call the operation.
    fileprivate var callers: [Caller: @Sendable () -> Void] = [:]

    /// The queue on which the streams of all attempts are made and used.
    ///
    /// One attempt's stream is closed there before the next is made, because the next may truncate the same file.
    private(set) lazy var streamQueue = DispatchQueue(label: "convoy.stream")

    /// The values that the caller has set; nil while the request's values apply.
    var userInfo: [String: any Sendable]?

    /// The tags of the request, stored when the operation releases its plan.
    var finalTags: Set<String> = []
    /// The label of a link whose request was never built, stored when the plan is released.
    var finalLink: LinkLabel?

    var rateLimit: RateLimit?

    var download: (any DownloadTarget)?
    /// Whether the next attempt requests the complete file, even if a partial file exists.
    var startsOver = false
    private(set) var hasStartedOver = false

    func share(_ answer: SharedAnswer) { (sharedAnswer, isShared) = (answer, true) }

    /// Makes the next attempt request the complete file; false if an earlier call has done so.
    func startOver() -> Bool {
        guard !hasStartedOver else { return false }
        (hasStartedOver, startsOver) = (true, true)
        return true
    }

    /// The attempts before the successful one; for a shared response, all attempts of the operation that fetched it.
    var earlierAttempts: [AttemptRecord] { sharedAnswer?.response.attempts ?? records }

    enum Caller { case deadline, wait, interceptors }

    enum Wait {
        case time(ContinuousClock.Instant, asked: RetryAfterReason?)
        case interceptor
        case descriptor
        case slot
    }

    /// Removes and returns the closures that stop timers and interceptors; call them outside the lock.
    func takeCallers() -> [@Sendable () -> Void] {
        defer { callers = [:] }
        return Array(callers.values)
    }

    /// Removes and returns the values that a finished operation no longer needs; release them outside the lock.
    func takeRequests() -> Requests {
        defer { (request, adapted, sharedAnswer, cacheExchange) = (nil, nil, nil, nil) }
        return (request, adapted, sharedAnswer, cacheExchange)
    }

    typealias Requests = (
        PreparedRequest?, adapted: PreparedRequest?, sharedAnswer: SharedAnswer?, (any CacheExchange)?
    )
}

extension AnyRequestOperation {
    var lastRecord: AttemptRecord? { state.withLock { $0.followUp?.records.last } }

    /// Stores a closure that stops a timer or an interceptor, or calls it now if there is an outcome.
    func keep(_ caller: FollowUpState.Caller, stop: @escaping @Sendable () -> Void) {
        let isOver = state.withLock { state in
            if state.outcome == nil { state.makeFollowUp().callers[caller] = stop }
            return state.outcome != nil
        }
        if isOver { stop() }
    }
}

extension OperationState {
    mutating func makeFollowUp() -> FollowUpState {
        let followUp = followUp ?? FollowUpState()
        self.followUp = followUp
        return followUp
    }

    var nextRequest: PreparedRequest? { followUp?.request ?? prepared }

    var nextHost: String { (followUp?.adapted ?? nextRequest)?.hostKey ?? "" }

    /// The records of a failed operation's attempts, including the running one; empty for a success.
    func attemptRecords(
        _ error: RequestError?, _ now: ContinuousClock.Instant, _ metrics: CopyOnWrite<TransferMetrics>?
    ) -> [AttemptRecord] {
        guard let error else { return [] }
        let records = followUp?.records ?? []
        guard let attempt = transfer?.attempt else { return records }
        let isAnswer = error.code == .unacceptableStatus
        return records + [
            AttemptRecord(
                number: attempt.number, request: attempt.request, started: attempt.started.instant, ended: now,
                response: error.response, failure: isAnswer ? nil : error.code,
                message: isAnswer ? nil : error.message, transfer: progress, metrics: metrics?.value)
        ]
    }
}
