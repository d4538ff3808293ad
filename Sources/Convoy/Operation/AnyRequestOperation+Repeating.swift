// After an attempt: the answer, a redirect, a retry, or the end.
import Foundation

extension AnyRequestOperation {
    /// Whether an acceptable answer may be followed by another attempt: its body is not for the destination then.
    ///
    /// - Thread: the transport's.
    func mayRepeat(after head: ResponseHead, of request: PreparedRequest) -> Bool {
        (300..<400).contains(head.statusCode) && redirectPolicy.leads(head, of: request)
            || head.statusCode == 401 && asksInterceptors
    }

    private var redirectPolicy: RedirectPolicy {
        state.withLock { $0.requestPlan?.core?.policyBox }?.policies.redirects ?? context.redirects
    }

    private var retryPolicy: RetryPolicy {
        state.withLock { $0.requestPlan?.core?.policyBox }?.policies.retries ?? context.retries
    }

    /// An attempt has ended in a way that leaves something to be decided.
    ///
    /// - Thread: the operation's lane.
    func attempt(_ attempt: Attempt, didEnd ending: AttemptEnding) {
        guard state.withLock({ $0.machine.handle(.attemptEnded(attempt: attempt.number)) }).isTaken else { return }
        guard asksInterceptors else { return followUp(attempt, ending) }
        askInterceptors(attempt.core, after: ending, of: attempt.number) { decision in
            switch decision {
            case .proceed: self.followUp(attempt, ending)
            case .stop: self.letStand(attempt, ending)
            case .retry(let delay): self.repeatIntercepted(attempt, ending, after: delay)
            }
        }
    }

    /// What the policies say.
    private func followUp(_ attempt: Attempt, _ ending: AttemptEnding) {
        if ending.hasHead, let head = ending.head, redirectPolicy.leads(head, of: ending.request) {
            return redirect(attempt, ending, head)
        }
        if let error = ending.error, error.lacksDescriptors, awaitsDescriptor(attempt, ending) { return }
        if ending.canStartOver, let base = state.withLock({ $0.nextRequest }),
            state.withLock({ $0.makeFollowUp().startOver() })
        {
            return again(attempt, ending, .startOver, base, after: .zero) { _ in }
        }
        guard let error = ending.error else { return letStand(attempt, ending) }
        if retries(attempt, ending, error) { return }
        let defect = ending.isAnswer ? ending.head.flatMap { redirectPolicy.defect(of: $0, of: ending.request) } : nil
        letStand(attempt, ending, telling: defect.map { error.noting($0) })
    }

    private func redirect(_ attempt: Attempt, _ ending: AttemptEnding, _ head: ResponseHead) {
        let (base, records) = state.withLock { ($0.nextRequest, $0.followUp?.records ?? []) }
        guard var base else { return }
        // Interceptors may have sent it elsewhere; what else they added is not carried on.
        (base.url, base.method) = (ending.request.url, ending.request.method)
        switch redirectPolicy.next(after: head, of: base, earlier: records) {
        case .stands: letStand(attempt, ending)
        case .fail(let error):
            conclude(
                AnyOutcome(error: error.with(request?.summary, response: head)), attempt: attempt.number,
                taskHasEnded: ending.taskHasEnded)
        case .follow(let next, let leavesOrigin):
            again(attempt, ending, .redirect(to: next.url), next, after: .zero) { followUp in
                if leavesOrigin { followUp.hasLeftOrigin = true }
            }
        }
    }

    /// Sends it again when the policy wants that, or ends it when that would come too late; false when neither.
    private func retries(_ attempt: Attempt, _ ending: AttemptEnding, _ error: RequestError) -> Bool {
        let policy = retryPolicy
        let (base, retryCount, deadline) = state.withLock {
            ($0.nextRequest, $0.followUp?.retryCount ?? 0, $0.followUp?.deadline)
        }
        guard let base, base.body?.canRepeat != false, attempt.core.destination.canBeginAgain,
            policy.permits(error, of: base, retries: retryCount)
        else { return false }
        let scheduler = state.withLock { $0.scheduler }
        var delay = policy.delay(beforeRetry: retryCount + 1, unit: context.unit())
        var reason: RetryAfterReason?
        if ending.isAnswer, let head = ending.head, let told = policy.retryAfter(in: head, now: context.clock.date) {
            let asked = RetryAfterReason(request: ending.request.summary, statusCode: head.statusCode)
            if policy.retryAfterScope == .host {
                // This request comes a little after the others may.
                scheduler?.hold(ending.request.hostKey, until: ending.ended + told, asked)
            }
            delay += told
            reason = asked
        }
        // One that can only come too late is not waited for.
        if let deadline, ending.ended + delay >= deadline {
            let asked = reason.map { " \($0.wordsForItself)," } ?? ""
            let told = error.noting("another attempt, in \(delay.words),\(asked) would come after its deadline")
            letStand(attempt, ending, telling: told)
            return true
        }
        if scheduler?.takeFromRetryBudget() == false { return false }
        again(attempt, ending, .retry(after: delay), base, after: delay, asked: reason) { $0.retryCount += 1 }
        return true
    }

    private func repeatIntercepted(_ attempt: Attempt, _ ending: AttemptEnding, after delay: Duration) {
        let (base, count) = state.withLock { ($0.nextRequest, $0.followUp?.interceptionCount ?? 0) }
        guard let base, count < 10, base.body?.canRepeat != false, attempt.core.destination.canBeginAgain else {
            return letStand(attempt, ending)
        }
        let delay = min(max(.zero, delay), .seconds(1_000_000_000))
        again(attempt, ending, .intercepted(after: delay), base, after: delay) { $0.interceptionCount += 1 }
    }

    /// It was decided that the attempt's end is the outcome.
    ///
    /// - Parameter told: the failure with more said about it; the attempt's own if nil.
    private func letStand(_ attempt: Attempt, _ ending: AttemptEnding, telling told: RequestError? = nil) {
        state.withLock { $0.scheduler }?.leaveInterceptors(self)
        guard let error = told ?? ending.error else { return attempt.giveAnswer() }
        let outcome = attempt.core.decodesRefusals ? outcome(ofRefused: ending, error) : AnyOutcome(error: error)
        conclude(outcome, attempt: attempt.number, taskHasEnded: ending.taskHasEnded)
    }

    /// Ends an attempt in favour of another, which comes after a delay and when it has a slot again.
    private func again(
        _ attempt: Attempt, _ ending: AttemptEnding, _ next: AttemptRecord.Next, _ request: PreparedRequest,
        after delay: Duration, asked reason: RetryAfterReason? = nil, note: (FollowUpState) -> Void
    ) {
        // What was received has gone before the next attempt may write.
        let due = delay > .zero ? ending.ended + delay : nil
        again(attempt, ending, next, request, note) { attempt.close { self.queueAgain(at: due, reason) } }
    }

    /// - Parameter queue: has the next attempt wait for what it needs.
    private func again(
        _ attempt: Attempt, _ ending: AttemptEnding, _ next: AttemptRecord.Next, _ request: PreparedRequest,
        _ note: (FollowUpState) -> Void, then queue: () -> Void
    ) {
        let progress = progress
        let record = AttemptRecord(
            number: attempt.number, request: ending.request, started: ending.started, ended: ending.ended,
            response: ending.head, failure: ending.isAnswer ? nil : ending.error?.code, next: next,
            transfer: progress, metrics: ending.metrics)
        let transfer: Transfer? = state.withLock { state in
            guard state.machine.handle(.repeats(attempt: attempt.number)).isTaken else { return nil }
            let followUp = state.makeFollowUp()
            followUp.records.append(record)
            (followUp.request, followUp.adapted) = (request, nil)
            note(followUp)
            (state.progress.sentBytes, state.progress.expectedSentBytes) = (0, request.body?.byteCount)
            defer { state.transfer = nil }
            return state.transfer
        }
        guard let transfer else { return }
        if !ending.taskHasEnded { context.taskControl.async { transfer.task.cancel() } }
        emit(.attemptEnded(record))
        queue()
    }

    /// Sends it again when another request has given a descriptor back; false when none will, or it may have arrived.
    private func awaitsDescriptor(_ attempt: Attempt, _ ending: AttemptEnding) -> Bool {
        let (base, scheduler) = state.withLock { ($0.nextRequest, $0.scheduler) }
        guard let base, let scheduler, base.body?.canRepeat != false, attempt.core.destination.canBeginAgain,
            ending.head == nil || base.isIdempotent, scheduler.mayGetDescriptor(self)
        else { return false }
        again(attempt, ending, .awaitedDescriptor, base) { _ in
        } then: {
            attempt.close { self.awaitDescriptor() }
        }
        return true
    }

    /// Has an attempt that could not be begun wait until another request has given a descriptor back; false when none will.
    func putOff(_ attempt: Int) -> Bool {
        guard state.withLock({ $0.scheduler })?.mayGetDescriptor(self) == true,
            state.withLock({ $0.machine.handle(.putOff(attempt: attempt)) }).isTaken
        else { return false }
        awaitDescriptor()
        return true
    }

    /// Holds nothing meanwhile that another may wait for.
    private func awaitDescriptor() {
        let (download, scheduler, host) = state.withLock { state in
            state.followUp?.wait = .descriptor
            return (
                state.followUp?.download, state.scheduler,
                state.followUp?.adapted?.hostKey ?? state.nextRequest?.hostKey ?? ""
            )
        }
        let wait: @Sendable () -> Void = {
            self.onLane {
                guard let scheduler else { return self.goOn() }
                scheduler.awaitDescriptor(self, host: host)
            }
        }
        if let download { download.release(wait) } else { wait() }
    }

    /// Waits for a time, then for a slot.
    private func queueAgain(at due: ContinuousClock.Instant?, _ reason: RetryAfterReason?) {
        guard let due else { return queueAgain() }
        state.withLock { $0.scheduler }?.yieldSlot(self)
        state.withLock { $0.followUp?.wait = nil }
        // Strongly: there may be no other reference to an operation that waits; it lets go of its alarm when it ends.
        let alarm = context.clock.wake(at: due) { self.queueAgain() }
        let isOver = state.withLock { state in
            state.followUp?.waitAlarm = state.outcome == nil ? alarm : nil
            // It may have rung already, and said so.
            if case nil = state.followUp?.wait { state.followUp?.wait = .time(due, asked: reason) }
            return state.outcome != nil
        }
        if isOver { alarm.cancel() }
    }

    /// Waits for a slot; an operation without a manager goes on.
    func queueAgain() {
        let (scheduler, host) = state.withLock { state in
            state.followUp?.wait = .slot
            return (state.scheduler, state.followUp?.adapted?.hostKey ?? state.nextRequest?.hostKey ?? "")
        }
        // On the lane: what starts here may be many, and this may be the clock's queue.
        onLane {
            guard let scheduler else { return self.goOn() }
            scheduler.requeue(self, host: host)
        }
    }

    /// It has a slot, or needs none: the attempt that waited, or was suspended, goes on; without effect when none was.
    ///
    /// - Parameter event: which slot it has; by default it needs none.
    func goOn(after event: OperationStateMachine.Event = .slotGiven(nil)) {
        let (effects, usesDisk) = state.withLock { ($0.machine.handle(event), $0.usesDisk) }
        if effects.adjusts { adjustTask() }
        guard let attempt = effects.launches else { return }
        // This may be a transport's thread, on which not every transport can make a task.
        if usesDisk || asksInterceptors || !context.transport.isReentrant {
            onLane { self.launch(attempt) }
        } else {
            launch(attempt)
        }
    }
}

extension BodyDestination {
    /// Whether a body can begin again: not when a part of it has been read.
    var canBeginAgain: Bool {
        if case .chunks(let buffer) = self { !buffer.hasDelivered } else { true }
    }
}
