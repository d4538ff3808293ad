// The step after an attempt: an outcome, a redirect or a retry.
import Foundation

extension AnyRequestOperation {
    /// The requests of all attempts so far, as sent, including the running one.
    package var sentRequests: [PreparedRequest] {
        // The running attempt is read before the records. If it ends in between, it is among the records.
        let running = state.withLock { $0.transfer?.attempt.request }
        return attempts.map(\.request) + [running].compactMap(\.self)
    }

    /// Whether another attempt may follow an acceptable response.
    ///
    /// If so, the body of the response is not yet written to the destination.
    ///
    /// - Thread: the transport's.
    func mayRepeat(after head: ResponseHead, of request: PreparedRequest) -> Bool {
        (300..<400).contains(head.statusCode) && redirectPolicy.leads(head, of: request)
            || head.statusCode == 401 && asksInterceptors
            || head.statusCode == 417 && request.headerFields.contains("Expect")
    }

    private var redirectPolicy: RedirectPolicy { policyBox?.policies.redirects ?? context.redirects }

    /// Decides what follows an attempt that has ended without an outcome.
    func attemptEnded(_ ending: AttemptEnding) {
        let attempt = ending.attempt
        guard state.withLock({ $0.machine.handle(.attemptEnded(attempt: attempt.number)) }).isTaken else { return }
        if ending.error?.underlying is StoredAnswerIsGone {
            return again(ending, .startOver) { $0.lostStoredAnswer = true }
        }
        guard asksInterceptors else { return followUp(ending) }
        askInterceptors(after: ending) { decision in
            switch decision {
            case .proceed: self.followUp(ending)
            case .stop: self.letStand(ending)
            case .retry(let delay): self.repeatIntercepted(ending, after: delay)
            }
        }
    }

    private func followUp(_ ending: AttemptEnding) {
        if let head = redirection(ending) { return redirect(ending, head) }
        if dropsExpectation(ending) { return }
        if let error = ending.error, error.lacksDescriptors, awaitsDescriptor(ending) { return }
        if ending.lacksNetwork, ending.attempt.canBeRepeated { return again(ending, .awaitedConnectivity) }
        guard let error = ending.error else { return letStand(ending) }
        // A cached error response says nothing about the host now, and a retry would return it again.
        let isStored = ending.isAnswer && ending.attempt.isAnswered
        if !isStored, retries(ending, error) { return }
        if ending.canStartOver, state.withLock({ $0.makeFollowUp().startOver() }) {
            return again(ending, .startOver)
        }
        let defect = ending.isAnswer ? ending.head.flatMap { redirectPolicy.defect(of: $0, of: ending.request) } : nil
        letStand(ending, telling: defect.map { error.noting(SentSecrets(of: sentRequests).hidden(in: $0)) })
    }

    /// The head of a redirect that the policy follows; nil for any other ending.
    func redirection(_ ending: AttemptEnding) -> ResponseHead? {
        guard ending.hasHead, let head = ending.head, redirectPolicy.leads(head, of: ending.request) else { return nil }
        return head
    }

    private func redirect(_ ending: AttemptEnding, _ head: ResponseHead) {
        let (base, records) = state.withLock { ($0.nextRequest, $0.followUp?.records ?? []) }
        guard var base else { return }
        // Interceptors may have changed URL and method. Their other changes do not apply to the next request.
        (base.url, base.method) = (ending.request.url, ending.request.method)
        switch redirectPolicy.next(after: head, of: base, earlier: records) {
        case .stands: letStand(ending)
        case .fail(let error):
            conclude(
                error.hiding(SentSecrets(of: sentRequests)), response: head, attempt: ending.attempt.number,
                taskHasEnded: ending.taskHasEnded)
        case .follow(let next, let leavesOrigin):
            again(ending, .redirect(to: next.url), request: next) { if leavesOrigin { $0.hasLeftOrigin = true } }
        }
    }

    /// Sends the request again without its `Expect` field, which the server has rejected (RFC 9110, section 10.1.1).
    ///
    /// False for any other ending, and if the request cannot be sent again.
    private func dropsExpectation(_ ending: AttemptEnding) -> Bool {
        guard ending.isAnswer, ending.head?.statusCode == 417, ending.attempt.canBeRepeated,
            var next = state.withLock({ $0.nextRequest }), next.headerFields.contains("Expect")
        else { return false }
        next.headerFields["Expect"] = nil
        again(ending, .retry(after: .zero), request: next)
        return true
    }

    /// Retries if the policy permits it, or finishes if the retry would miss the deadline; false if it did neither.
    private func retries(_ ending: AttemptEnding, _ error: RequestError) -> Bool {
        let policy = policyBox?.policies.retries ?? context.retries
        let (base, retryCount, deadline) = state.withLock { state in
            if let followUp = state.followUp, ending.resumableBytes > followUp.resumableBytes,
                state.nextRequest?.canBeContinued == true
            {
                (followUp.resumableBytes, followUp.retryCount) = (ending.resumableBytes, 0)
            }
            return (state.nextRequest, state.followUp?.retryCount ?? 0, state.followUp?.deadline)
        }
        let asked = retryAfter(ending, policy)
        // The policy must permit both the request before its interceptors and the adapted one. An interceptor may have
        // turned a GET into a POST. It may also set another Idempotency-Key for each attempt.
        guard let base, ending.attempt.canBeRepeated,
            policy.permits(error, of: base, retries: retryCount),
            policy.permits(error, of: ending.request, retries: retryCount)
        else { return false }
        if let asked, asked.time > policy.maxRetryAfter {
            let value = ending.head?.headerFields["Retry-After"] ?? ""
            letStand(
                ending,
                telling: error.noting(
                    "it is not retried, because Retry-After: \(value) is beyond the longest wait, "
                        + policy.maxRetryAfter.words))
            return true
        }
        // The policy's delay is added to `Retry-After`, so the retry waits longer than new requests to the host.
        let delay = policy.delay(beforeRetry: retryCount + 1, unit: context.unit()) + (asked?.time ?? .zero)
        if let deadline, ending.ended + delay >= deadline {
            let asked = asked.map { " \($0.reason.wordsForItself)," } ?? ""
            let told = error.noting("another attempt, in \(delay.words),\(asked) would be after its deadline")
            letStand(ending, telling: told)
            return true
        }
        if state.withLock({ $0.scheduler })?.takeFromRetryBudget() == false { return false }
        again(ending, .retry(after: delay), asked: asked?.reason) { $0.retryCount += 1 }
        return true
    }

    /// The delay that `Retry-After` requests.
    ///
    /// If the policy's scope is the host, no request to that host starts during the delay, at most for the policy's
    /// maximum, even if this request is not retried.
    private func retryAfter(
        _ ending: AttemptEnding, _ policy: RetryPolicy
    ) -> (time: Duration, reason: RetryAfterReason)? {
        guard ending.isAnswer, let head = ending.head,
            let time = head.retryAfter(now: context.clock.date)
        else { return nil }
        let reason = RetryAfterReason(request: ending.request.summary, statusCode: head.statusCode)
        if policy.retryAfterScope == .host {
            let scheduler = state.withLock { $0.scheduler }
            let held = max(.zero, min(time, policy.maxRetryAfter))
            scheduler?.hold(ending.request.hostKey, until: ending.ended + held, reason)
        }
        return (time, reason)
    }

    private func repeatIntercepted(_ ending: AttemptEnding, after delay: Duration) {
        let count = state.withLock { $0.followUp?.interceptionCount ?? 0 }
        guard count < policyBox?.policies.interceptorRetryLimit ?? 10, ending.attempt.canBeRepeated else {
            return letStand(ending)
        }
        let delay = min(max(.zero, delay), .seconds(1_000_000_000))
        again(ending, .intercepted(after: delay)) { $0.interceptionCount += 1 }
    }

    private func letStand(_ ending: AttemptEnding, telling told: RequestError? = nil) {
        guard let error = told ?? unauthorized(ending) ?? ending.error else { return ending.attempt.giveAnswer() }
        conclude(
            AnyOutcome(error: telling(error, of: ending)), attempt: ending.attempt.number,
            taskHasEnded: ending.taskHasEnded)
    }

    /// The error of a 401 with the reason why no credentials answered it; nil for any other ending.
    private func unauthorized(_ ending: AttemptEnding) -> RequestError? {
        guard ending.isAnswer, let error = ending.error, error.code == .unacceptableStatus, let head = ending.head,
            head.statusCode == 401
        else { return nil }
        // Transports send the user name of a URL with the Basic scheme.
        let sent = ending.request.headerFields["Authorization"] ?? ending.request.url.user().map { _ in "Basic" }
        let challenges = head.headerFields.values(of: "WWW-Authenticate")
        let reason = AuthenticationChallenge.refusal(challenges, of: sent)
        return error.noting(SentSecrets(of: sentRequests).hidden(in: reason))
    }

    /// Ends an attempt and schedules the next.
    private func again(
        _ ending: AttemptEnding, _ next: AttemptRecord.Next, request: PreparedRequest? = nil,
        asked reason: RetryAfterReason? = nil, note: (FollowUpState) -> Void = { _ in }
    ) {
        let (attempt, progress) = (ending.attempt, progress)
        let record = AttemptRecord(
            number: attempt.number, request: attempt.request, started: attempt.started.instant, ended: ending.ended,
            response: ending.head, failure: ending.isAnswer ? nil : ending.error?.code,
            message: ending.isAnswer ? nil : ending.error?.message, next: next, transfer: progress,
            metrics: ending.metrics?.value)
        let transfer: Transfer? = state.withLock { state in
            guard state.machine.handle(.repeats(attempt: attempt.number)).isTaken else { return nil }
            let followUp = state.makeFollowUp()
            followUp.records.append(record)
            (followUp.request, followUp.adapted) = (request ?? followUp.request, nil)
            note(followUp)
            let byteCount = state.nextRequest?.body?.byteCount
            (state.progress.upload.completedBytes, state.progress.upload.totalBytes) = (0, byteCount)
            defer { state.transfer = nil }
            return state.transfer
        }
        guard let transfer else { return }
        if !ending.taskHasEnded { context.cancel(transfer.task) }
        emit(.attemptEnded(record))
        // The attempt's sink stops writing before the next attempt may write.
        attempt.close {
            switch next {
            case .awaitedDescriptor: self.awaitDescriptor()
            case .retry(let delay) where delay > .zero, .intercepted(let delay) where delay > .zero:
                self.queueAgain(at: ending.ended + delay, reason)
            case .redirect, .retry, .intercepted, .startOver, .suspended, .awaitedConnectivity, .outcome:
                self.queueAgain()
            }
        }
    }

    /// Retries once another request has released a descriptor.
    ///
    /// False if ``OperationScheduler/mayGetDescriptor(_:)`` is false, or if this request cannot be sent again. A
    /// request that is not idempotent cannot be sent again after a response.
    private func awaitsDescriptor(_ ending: AttemptEnding) -> Bool {
        let (base, scheduler) = state.withLock { ($0.nextRequest, $0.scheduler) }
        guard let base, let scheduler, ending.attempt.canBeRepeated,
            ending.head == nil || base.isIdempotent && ending.request.isIdempotent,
            scheduler.mayGetDescriptor(self)
        else { return false }
        again(ending, .awaitedDescriptor)
        return true
    }

    /// Makes an attempt wait that found no descriptor; false if no other request is expected to release one.
    func putOff(_ attempt: Int) -> Bool {
        guard state.withLock({ $0.scheduler })?.mayGetDescriptor(self) == true,
            state.withLock({ $0.machine.handle(.putOff(attempt: attempt)) }).isTaken
        else { return false }
        awaitDescriptor()
        return true
    }

    /// Waits for a descriptor, without a slot and without the partial file of a download.
    private func awaitDescriptor() {
        let (download, scheduler, host) = state.withLock { state in
            state.followUp?.wait = .descriptor
            return (state.followUp?.download, state.scheduler, state.nextHost)
        }
        let wait: @Sendable () -> Void = {
            self.onExecutor {
                guard let scheduler else { return self.resumeAttempt() }
                scheduler.awaitDescriptor(self, host: host)
            }
        }
        if let download { download.release(wait) } else { wait() }
    }

    /// Makes the operation wait until the given moment, then for a slot.
    private func queueAgain(at due: ContinuousClock.Instant, _ reason: RetryAfterReason?) {
        let scheduler = state.withLock { state in
            state.followUp?.wait = nil
            return state.scheduler
        }
        scheduler?.yieldSlot(self, isUnsent: false)
        // The timer retains the operation, because a waiting operation may have no other reference. Finishing cancels
        // it.
        let timer = context.clock.wake(at: due) { self.queueAgain() }
        keep(.wait) { timer.cancel() }
        // If the timer has fired already, `queueAgain()` has set `wait`, which must be kept.
        state.withLock { state in
            if case nil = state.followUp?.wait { state.followUp?.wait = .time(due, asked: reason) }
        }
    }

    /// Makes the operation wait for a slot for its next attempt.
    func queueAgain() {
        let scheduler = state.withLock { state in
            state.followUp?.wait = .slot
            return state.scheduler
        }
        // `requeue` may start many operations, and the current queue may be the clock's. So the serial executor calls
        // it.
        onExecutor {
            guard let scheduler else { return self.resumeAttempt() }
            scheduler.requeue(self)
        }
    }

    /// Continues a waiting or suspended attempt that has a slot or needs none.
    func resumeAttempt(after event: OperationStateMachine.Event = .slotGiven(nil)) {
        let effects = state.withLock { $0.machine.handle(event) }
        if effects.adjusts { adjustTask() }
        if let attempt = effects.launches { launchWithoutBlocking(attempt) }
    }

    /// Begins an attempt on the current thread if that is safe, otherwise on the serial executor.
    ///
    /// The current thread may belong to a ``Transport`` or to a caller of ``resume()``. It must not wait for a disk or
    /// run a ``RequestInterceptor``. A transport that is not reentrant cannot make a task on its own thread.
    func launchWithoutBlocking(_ attempt: Int) {
        if state.withLock({ $0.usesDisk }) || asksInterceptors || !context.transport.isReentrant {
            onExecutor { self.launch(attempt) }
        } else {
            launch(attempt)
        }
    }
}
