// What follows an attempt, the interceptors that are asked before and after it, and the wait between two attempts.
import Foundation

struct AttemptEnding: Sendable {
    let attempt: Attempt
    let head: ResponseHead?
    let error: RequestError?
    let metrics: CopyOnWrite<TransferMetrics>?
    let ended: ContinuousClock.Instant
    /// Whether a complete response arrived, acceptable or not; false if the transfer or the verification failed.
    let isAnswer: Bool
    let taskHasEnded: Bool
    let canStartOver: Bool
    let resumableBytes: Int64

    var request: PreparedRequest { attempt.request }

    /// The head that leads to another URL.
    func redirection(_ policy: RedirectPolicy) -> ResponseHead? {
        guard isAnswer || error?.code.facts.contains(.headCounts) == true, let head, policy.leads(head, of: request)
        else { return nil }
        return head
    }

    /// The error, which for 401 says what the server wanted.
    fileprivate var finalError: RequestError? {
        guard isAnswer, let error, error.code == .unacceptableStatus, let head, head.statusCode == 401 else {
            return error
        }
        // Transports send the user name of a URL with the Basic scheme.
        let sent = request.headerFields["Authorization"] ?? request.url.user().map { _ in "Basic" }
        return error.noting(AuthenticationChallenge.refusal(head.headerFields.values(of: "WWW-Authenticate"), of: sent))
    }
}

/// What follows an attempt.
enum FollowUp {
    /// The operation finishes: with this error, else with that of the attempt, else with its response.
    case stand(RequestError? = nil)
    /// Another attempt of the same request, or of another one, and what the operation then remembers.
    case again(AttemptRecord.Next, PreparedRequest?, asked: RetryAfterReason?, History)

    static let mostShortages = 10

    /// What an operation remembers of its attempts.
    struct History: Sendable {
        var records: [AttemptRecord] = []
        /// The number of retries that the policy has decided since a download last made progress.
        var retryCount = 0
        var resumableBytes: Int64 = 0
        /// The number of retries that interceptors have decided.
        var interceptionCount = 0
        var shortages = 0
        var hasStartedOver = false
        /// Whether the next attempt asks for the whole file.
        var startsOver = false
        var hasLeftOrigin = false
        /// Whether the cache has lost a response after its lookup, so that later lookups need a slot.
        var lostStoredAnswer = false
        var deadline: ContinuousClock.Instant?
    }

    // The decision depends on nothing else. It is made outside the lock, because a redirect policy may be user code.
    struct Situation: Sendable {
        let ending: AttemptEnding
        /// The request before its interceptors.
        let base: PreparedRequest
        let canBeRepeated: Bool
        let history: History
        let policies: RequestPolicies?
        let scheduler: Scheduler

        private var redirects: RedirectPolicy { policies?.redirects ?? scheduler.redirects }
        private var retries: RetryPolicy { policies?.retries ?? scheduler.retries }

        func decide(after decision: InterceptorDecision = .proceed) -> FollowUp {
            switch decision {
            case .proceed: return followUp()
            case .stop: return .stand()
            case .retry(let delay):
                guard history.interceptionCount < policies?.interceptorRetryLimit ?? 10, canBeRepeated else {
                    return .stand()
                }
                return again(.intercepted(after: min(max(.zero, delay), .seconds(1_000_000_000)))) {
                    $0.interceptionCount += 1
                }
            }
        }

        private func again(
            _ next: AttemptRecord.Next, _ request: PreparedRequest? = nil, asked: RetryAfterReason? = nil,
            _ change: (inout History) -> Void = { _ in }
        ) -> FollowUp {
            var history = history
            change(&history)
            return .again(next, request, asked: asked, history)
        }

        private func followUp() -> FollowUp {
            if let redirect = redirect() { return redirect }
            if ending.isAnswer, ending.head?.statusCode == 417, canBeRepeated, base.headerFields.contains("Expect") {
                // Without the field that the server has rejected (RFC 9110, section 10.1.1).
                var request = base
                request.headerFields["Expect"] = nil
                return again(.retry(after: .zero), request)
            }
            guard let error = ending.error else { return .stand() }
            if error.underlying is StoredAnswerIsGone { return again(.startOver) { $0.lostStoredAnswer = true } }
            // A request that is not idempotent is not sent again after a response.
            if error.lacksDescriptors, canBeRepeated, history.shortages < mostShortages,
                ending.head == nil || base.isIdempotent && ending.request.isIdempotent
            {
                return again(.awaitedDescriptor) { $0.shortages += 1 }
            }
            // A cached error response says nothing about the host now, and a retry would return it again.
            let isStored = ending.isAnswer && ending.attempt.isAnswered
            if !isStored, let retry = retry(error) { return retry }
            if ending.canStartOver, !history.hasStartedOver {
                return again(.startOver) { ($0.hasStartedOver, $0.startsOver) = (true, true) }
            }
            let defect = ending.isAnswer ? ending.head.flatMap { redirects.defect(of: $0, of: ending.request) } : nil
            return .stand(defect.map(error.noting))
        }

        private func redirect() -> FollowUp? {
            guard let head = ending.redirection(redirects) else { return nil }
            var request = base
            // Interceptors may have changed URL and method. Their other changes do not apply to the next request.
            (request.url, request.method) = (ending.request.url, ending.request.method)
            switch redirects.next(after: head, of: request, earlier: history.records) {
            case .stands: return .stand()
            case .fail(let error): return .stand(error.with(response: head))
            case .follow(let next, let leavesOrigin):
                return again(.redirect(to: next.url), next) { if leavesOrigin { $0.hasLeftOrigin = true } }
            }
        }

        private func retry(_ error: RequestError) -> FollowUp? {
            let isFurther = ending.resumableBytes > history.resumableBytes && base.canBeContinued
            let retryCount = isFurther ? 0 : history.retryCount
            let asked = retryAfter()
            // The policy must permit both the request before its interceptors and the adapted one. An interceptor may
            // have turned a GET into a POST. It may also set another Idempotency-Key for each attempt.
            guard canBeRepeated, retries.permits(error, of: base, retries: retryCount),
                retries.permits(error, of: ending.request, retries: retryCount)
            else { return nil }
            if let asked, asked.time > retries.maxRetryAfter {
                let value = ending.head?.headerFields["Retry-After"] ?? ""
                return .stand(
                    error.noting(
                        "it is not retried, because Retry-After: \(value) is beyond the longest wait, "
                            + retries.maxRetryAfter.words))
            }
            // The policy's delay is added to `Retry-After`, so the retry waits longer than new requests to the host.
            let delay = retries.delay(beforeRetry: retryCount + 1, unit: scheduler.unit()) + (asked?.time ?? .zero)
            if let deadline = history.deadline, ending.ended + delay >= deadline {
                let asked = asked.map { " \($0.reason.wordsForItself)," } ?? ""
                return .stand(error.noting("another attempt, in \(delay.words),\(asked) would be after its deadline"))
            }
            guard scheduler.takeFromRetryBudget() else { return nil }
            return again(.retry(after: delay), asked: asked?.reason) {
                ($0.retryCount, $0.resumableBytes) = (retryCount + 1, max($0.resumableBytes, ending.resumableBytes))
            }
        }

        /// If the policy's scope is the host, no request to that host starts during the delay, at most for the policy's
        /// maximum, even if this request is not retried.
        private func retryAfter() -> (time: Duration, reason: RetryAfterReason)? {
            guard ending.isAnswer, let head = ending.head, let time = head.retryAfter(now: scheduler.clock.date) else {
                return nil
            }
            let reason = RetryAfterReason(request: ending.request.summary, statusCode: head.statusCode)
            if retries.retryAfterScope == .host {
                let end = ending.ended + max(.zero, min(time, retries.maxRetryAfter))
                scheduler.hold(ending.request.hostKey, until: end, reason)
            }
            return (time, reason)
        }
    }
}

// Used only under the lock. Not `Sendable`, so the compiler prevents its use outside the lock.
final class FollowUpState {
    var history = FollowUp.History()
    var request: PreparedRequest?
    var adapted: PreparedRequest?
    var outdatedCount = 0
    var sharedAnswer: Response<Data>?
    private(set) var isShared = false
    var cacheExchange: (any CacheExchange)?
    /// When the next attempt begins, with the reason of a server that asked for it.
    var due: (moment: ContinuousClock.Instant, asked: RetryAfterReason?)?
    private var callers: [Caller: @Sendable () -> Void] = [:]

    /// One attempt's stream is closed here before the next is made, because the next may truncate the same file.
    private(set) lazy var streamQueue = DispatchQueue(label: "convoy.stream")

    /// The values that the caller has set; nil while the request's values apply.
    var userInfo: [String: any Sendable]?

    var finalTags: Set<String> = []
    var finalLink: LinkLabel?

    var rateLimit: RateLimit?

    var download: Download?

    func share(_ answer: Response<Data>) { (sharedAnswer, isShared) = (answer, true) }

    /// The attempts before the successful one; for a shared response, all attempts of the operation that fetched it.
    var earlierAttempts: [AttemptRecord] { sharedAnswer?.attempts ?? history.records }

    enum Caller { case deadline, wait, interceptors }

    func keep(_ caller: Caller, _ stop: @escaping @Sendable () -> Void) { callers[caller] = stop }

    func takeCallers() -> [@Sendable () -> Void] {
        defer { callers = [:] }
        return Array(callers.values)
    }

    func takeRequests() -> Requests {
        defer { (request, adapted, sharedAnswer, cacheExchange) = (nil, nil, nil, nil) }
        return (request, adapted, sharedAnswer, cacheExchange)
    }

    typealias Requests = (
        PreparedRequest?, adapted: PreparedRequest?, sharedAnswer: Response<Data>?, (any CacheExchange)?
    )
}

extension AnyRequestOperation {
    // While another attempt may follow, the body is not yet written to the destination. Called on the transport's
    // thread.
    func mayRepeat(after head: ResponseHead, of request: PreparedRequest) -> Bool {
        (300..<400).contains(head.statusCode) && redirectPolicy.leads(head, of: request)
            || head.statusCode == 401 && asksInterceptors
            || head.statusCode == 417 && request.headerFields.contains("Expect")
    }

    private var redirectPolicy: RedirectPolicy { policyBox?.policies.redirects ?? scheduler.redirects }

    func attemptEnded(_ ending: AttemptEnding) {
        guard schedule({ $0.attemptEnded(self, ending.attempt.number) }) else { return }
        guard asksInterceptors, !(ending.error?.underlying is StoredAnswerIsGone) else { return follow(ending) }
        askInterceptors(after: ending) { self.follow(ending, $0) }
    }

    private func follow(_ ending: AttemptEnding, _ decision: InterceptorDecision = .proceed) {
        let (base, history) = withLock { ($0.nextRequest, $0.followUp?.history ?? FollowUp.History()) }
        guard let base else { return }
        let situation = FollowUp.Situation(
            ending: ending, base: base, canBeRepeated: ending.attempt.canBeRepeated, history: history,
            policies: policyBox?.policies, scheduler: scheduler)
        switch situation.decide(after: decision) {
        case .stand(let error): stand(ending, error)
        case .again(let next, let request, let reason, let history): again(ending, next, request, reason, history)
        }
    }

    private func stand(_ ending: AttemptEnding, _ error: RequestError?) {
        guard let error = error ?? ending.finalError else { return ending.attempt.acceptResponse() }
        conclude(
            AnyOutcome(error: telling(error.with(request?.summary), of: ending)), attempt: ending.attempt.number,
            taskHasEnded: ending.taskHasEnded)
    }

    private func telling(_ error: RequestError, of ending: AttemptEnding) -> RequestError {
        guard ending.isAnswer, error.code == .unacceptableStatus, error.underlying == nil, let head = ending.head,
            let body = error.body, let decode = ending.attempt.rules.policyBox?.policies.decodesRefusal,
            withLock({ $0.outcome == nil })
        else { return error }
        do {
            let failure = try decode(ReceivedBody(storedData: body, decoder: scheduler.defaults.decoder), head)
            // The server may have chosen this text, so its length is limited.
            let words = (failure as? any LocalizedError)?.errorDescription.map { ": \(String($0.prefix(300)).oneLine)" }
            return error.refused(words ?? "", failure)
        } catch let reason {
            return error.refused(", and its body could not be decoded: \(reason.decodingWords)", reason)
        }
    }

    private func again(
        _ ending: AttemptEnding, _ next: AttemptRecord.Next, _ request: PreparedRequest?, _ reason: RetryAfterReason?,
        _ history: FollowUp.History
    ) {
        let attempt = ending.attempt
        let received = attempt.receiving.withLock { $0 }
        let record = AttemptRecord(
            number: attempt.number, request: attempt.request, started: attempt.started.instant, ended: ending.ended,
            response: ending.head, failure: ending.isAnswer ? nil : ending.error?.code,
            message: ending.isAnswer ? nil : ending.error?.message, next: next, transfer: received.progress,
            metrics: ending.metrics?.value)
        let transfer: Transfer? = withLock { state in
            guard state.repeats(attempt.number) else { return nil }
            let followUp = state.makeFollowUp()
            var history = history
            // It may have begun meanwhile.
            history.deadline = followUp.history.deadline
            history.records.append(record)
            followUp.history = history
            state.keep(received)
            (followUp.request, followUp.adapted, followUp.due) = (request ?? followUp.request, nil, nil)
            let byteCount = state.nextRequest?.body?.byteCount
            (state.progress.upload.completedBytes, state.progress.upload.totalBytes) = (0, byteCount)
            defer { state.transfer = nil }
            return state.transfer
        }
        guard let transfer else { return }
        if !ending.taskHasEnded { scheduler.cancel(transfer.task) }
        emit(.attemptEnded(record))
        // The attempt's sink stops writing before the next attempt may write.
        attempt.close {
            switch next {
            case .awaitedDescriptor: self.awaitDescriptor()
            case .retry(let delay) where delay > .zero, .intercepted(let delay) where delay > .zero:
                self.queueAgain(at: ending.ended + delay, reason)
            case .redirect, .retry, .intercepted, .startOver, .suspended, .outcome:
                self.queueAgain()
            }
        }
    }

    /// A lack of descriptors keeps the attempt from beginning; false if it fails.
    func waitForDescriptor(_ attempt: Int) -> Bool {
        let waits = schedule { schedule in
            let followUp = record.makeFollowUp()
            guard followUp.history.shortages < FollowUp.mostShortages, schedule.postpone(self, attempt, until: .time)
            else {
                return false
            }
            followUp.history.shortages += 1
            return true
        }
        if waits { awaitDescriptor() }
        return waits
    }

    /// Waits without a slot and without the partial file of a download, which has a descriptor too.
    private func awaitDescriptor() {
        let (download, shortages) = withLock { ($0.followUp?.download, $0.followUp?.history.shortages ?? 1) }
        let delay = RetryPolicy.standard.delay(beforeRetry: shortages, unit: scheduler.unit())
        let wait: @Sendable () -> Void = { self.queueAgain(at: self.scheduler.clock.now + delay, nil) }
        if let download { download.release(wait) } else { wait() }
    }

    private func queueAgain(at due: ContinuousClock.Instant, _ reason: RetryAfterReason?) {
        let waits = schedule { schedule in
            guard record.phase == .waiting(.time) else { return false }
            schedule.queues.release(self)
            return true
        }
        guard waits else { return }
        // The timer retains the operation, because a waiting operation may have no other reference. Finishing cancels
        // it.
        let timer = scheduler.clock.wake(at: due) { self.queueAgain() }
        keep(.wait) { timer.cancel() }
        // The moment is stored after the clock has the timer. The timer may have fired already.
        withLock { if $0.phase == .waiting(.time) { $0.makeFollowUp().due = (due, reason) } }
    }

    func queueAgain() {
        let step = scheduler.schedule.withLock { $0.returned(self) }
        // This may start many operations, and the current queue may be the clock's. So the serial executor does it.
        onExecutor { self.perform(step) }
    }

    /// Stores a closure that stops a timer or an interceptor, or calls it now if there is an outcome.
    func keep(_ caller: FollowUpState.Caller, stop: @escaping @Sendable () -> Void) {
        let isOver = withLock { record in
            if record.outcome == nil { record.makeFollowUp().keep(caller, stop) }
            return record.outcome != nil
        }
        if isOver { stop() }
    }

    var lastRecord: AttemptRecord? { withLock { $0.followUp?.history.records.last } }
}

// MARK: Interceptors

extension AnyRequestOperation {
    // False if an interceptor declares the request outdated. After ten outdated requests of the operation, the result
    // is always true, so that the operation sends one.
    func isCurrent(_ request: PreparedRequest, _ interceptors: [any RequestInterceptor]) -> Bool {
        if interceptors.allSatisfy({ $0.isCurrent(request) }) { return true }
        return withLock { state in
            let followUp = state.makeFollowUp()
            followUp.outdatedCount += 1
            return followUp.outdatedCount > 10
        }
    }

    func adapt(_ number: Int, _ box: RequestCore.PolicyBox?) {
        intercept(box, number, isUnsent: true) {
            interceptors, attempt, base in
            var request = base
            for interceptor in interceptors {
                request = try await interceptor.adapt(request, for: attempt)
                try Task.checkCancellation()
            }
            if attempt.hasLeftOrigin {
                // The request goes to another origin. So secret fields that an interceptor added are removed.
                request.headerFields.removeAll { field in field.isBoundToOrigin && !base.headerFields.contains(field) }
            }
            try request.check()
            return { [request] in
                self.withLock { $0.followUp?.adapted = request }
                self.queueAgain()
            }
        }
    }

    private func askInterceptors(after ending: AttemptEnding, then: @escaping @Sendable (InterceptorDecision) -> Void) {
        let (number, box) = (ending.attempt.number, ending.attempt.rules.policyBox)
        let end = AttemptEnd(
            request: ending.request, response: ending.head, error: ending.error,
            isRedirect: ending.redirection(redirectPolicy) != nil)
        intercept(box, number, isUnsent: false) {
            interceptors, attempt, _ in
            var decision = InterceptorDecision.proceed
            for interceptor in interceptors where decision == .proceed {
                decision = try await interceptor.decide(after: end, of: attempt)
            }
            return { [decision] in then(decision) }
        }
    }

    /// `work` returns a closure for the serial executor; if `work` throws, the operation fails.
    private func intercept(
        _ box: RequestCore.PolicyBox?, _ number: Int, isUnsent: Bool,
        _ work:
            @escaping @Sendable ([any RequestInterceptor], AttemptContext, PreparedRequest) async throws
            -> @Sendable () -> Void
    ) {
        let given = schedule { schedule -> (AttemptContext, PreparedRequest, old: PreparedRequest?)? in
            guard let original = record.prepared, let request = record.nextRequest else { return nil }
            if isUnsent {
                guard schedule.postpone(self, number, until: .interceptor) else { return nil }
            } else {
                guard record.phase == .deciding, record.attempt == number else { return nil }
                schedule.queues.release(self)
            }
            let followUp = record.makeFollowUp()
            let old = followUp.adapted
            followUp.adapted = nil
            let attempt = AttemptContext(
                number: number + (box?.policies.earlierAttemptCount ?? 0), originalRequest: original,
                hasLeftOrigin: followUp.history.hasLeftOrigin || box?.policies.hasLeftOrigin == true,
                isMirror: box?.policies.isMirror == true, earlierAttempts: followUp.history.records)
            return (attempt, request, old)
        }
        guard let (attempt, request, _) = given else { return }
        let interceptors = interceptors(box)
        // The request waits for this task. At the default priority, tasks of higher priority could starve this one.
        let task = Task(priority: .userInitiated) {
            do {
                onExecutor(try await work(interceptors, attempt, request))
            } catch {
                let error =
                    error as? RequestError
                    ?? RequestError(.interceptorFailed, "an interceptor failed: \(error)", underlying: error)
                onExecutor { self.conclude(error) }
            }
        }
        keep(.interceptors) { task.cancel() }
    }
}
