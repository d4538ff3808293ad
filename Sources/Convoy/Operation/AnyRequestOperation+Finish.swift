// Finishing an operation: stores its outcome, changes its state, notifies observers and calls the handlers.
import Foundation

extension AnyRequestOperation {
    /// Finishes the operation with a failure that names the request.
    ///
    /// With `attempt`, the call has an effect only while that attempt is the current one.
    func conclude(
        _ error: RequestError, response: ResponseHead? = nil, attempt: Int? = nil, taskHasEnded: Bool = false
    ) {
        let error = error.with(request?.summary, response: response)
        conclude(AnyOutcome(error: error), attempt: attempt, taskHasEnded: taskHasEnded)
    }

    /// Finishes the operation with a failure that belongs to no attempt.
    ///
    /// The call has no effect if there is an outcome, while a complete download is moved to its file, or with
    /// `onlyBeforeStart` after the start. A running group finishes with its first failure, when its function has
    /// returned and its members have finished. A running barrier ignores the failure.
    func conclude(_ code: RequestError.Code, _ message: String, onlyBeforeStart: Bool = false) {
        // A fast exit for a common case: cancelling an operation that has an outcome.
        guard let caption = state.withLock({ $0.outcome == nil ? $0.caption : nil }) else { return }
        let summary = caption.summary ?? RequestSummary(text: name ?? caption.link?.description ?? "")
        let outcome = AnyOutcome(error: RequestError(code, message, summary: summary))
        if onlyBeforeStart || !postpones(outcome) { conclude(outcome, onlyBeforeStart: onlyBeforeStart) }
    }

    /// Stores the first outcome and performs its effects.
    ///
    /// - Parameters:
    ///   - attempt: the attempt that produced the outcome; nil for an outcome from elsewhere, such as a cancellation.
    ///   - isDelivered: whether the attempt has passed on its body and owns no more resources.
    ///   - moment: the current time, if the caller has read the clock.
    func conclude(
        _ outcome: AnyOutcome, attempt: Int? = nil, taskHasEnded: Bool = false, isDelivered: Bool = false,
        onlyBeforeStart: Bool = false, at moment: CompactInstant? = nil
    ) {
        let now = moment ?? CompactInstant(context.clock.now)
        let failed = outcome.error == nil || onlyBeforeStart ? nil : state.withLock { $0.transfer?.attempt }
        let metrics = failed?.receiving.withLock { $0.metrics }
        var transfer: Transfer?
        var download: (any DownloadTarget)?
        var dispatch: OperationState.Dispatch?
        var scheduler: (any OperationScheduler)?
        var queueEntry: QueueEntryReference?
        var (isSeen, hasEdges, notifiesReadiness) = (false, false, false)
        let (effects, callers) = state.withLock { state -> (OperationStateMachine.Effects, [@Sendable () -> Void]) in
            let effects = state.machine.handle(onlyBeforeStart ? .endBeforeStart : .end(attempt: attempt))
            guard effects.isTaken else { return (effects, []) }
            state.outcome =
                outcome.error == nil
                ? outcome : outcome.listing(state.attemptRecords(outcome.error, now.instant, metrics))
            state.timings.finishedMoment = now
            swap(&transfer, &state.transfer)
            // The target of a delivered download owns no partial file, so nothing has to close the target.
            if isDelivered, let followUp = state.followUp { swap(&download, &followUp.download) }
            (isSeen, hasEdges, notifiesReadiness) = (state.isSeen, state.hasEdges, state.notifiesReadiness)
            #if canImport(FoundationNetworking)
                // No attempt is left to close, and no observer of the state is left to notify. So the delivery begins
                // here.
                let isLast = isDelivered && effects.finishes && !state.isObserved
            #else
                let isLast = false
            #endif
            if effects.abandons { (scheduler, queueEntry) = (state.scheduler, state.queueEntry) }
            let callers = state.followUp?.takeCallers() ?? []
            if isLast || effects.abandons { dispatch = state.beginDelivery(isEnd: isLast) }
            return (effects, callers)
        }
        for stop in callers { stop() }
        guard var delivery = dispatch.take() else {
            guard effects.finishes else { return }
            // The task is cancelled before its slot is given to another operation.
            if let transfer, !taskHasEnded { context.cancel(transfer.task) }
            return close(transfer?.attempt) { self.finish(wasExecuting: true) }
        }
        guard effects.abandons else {
            // `beginDelivery(isEnd:)` has already set the phase to `finished`.
            if isSeen { notifying([.isFinished]) { ((), .foundation) } }
            return deliver(delivery, isEnd: true)
        }
        if notifiesReadiness { notifyReadiness() }
        let isInNoQueue = queueEntry.flatMap { scheduler?.abandoned(self, $0) } ?? false
        // An operation in no queue finishes below, which notifies the manager. Here only the settled hooks are called.
        if isInNoQueue, let ending = delivery.ending.take() {
            ending.notifySettled()
        } else {
            deliver(delivery, isEnd: false)
        }
        // `finish` also notifies the dependents. If a queue finishes the operation later, dependents fail now, and others
        // wait for the queue. If no queue has the operation, nothing may ever finish it, so none waits.
        if isInNoQueue {
            finish(wasExecuting: false, isAbandoned: true)
        } else if hasEdges, queueEntry == nil, !isInQueue {
            DependencyGraph.release(self, error: outcome.error)
        } else if hasEdges {
            DependencyGraph.fail(dependentsOf: self, error: outcome.error)
        }
    }

    /// Closes the attempt, then releases the partial file of a download.
    ///
    /// When `afterwards` is called, another operation may use the partial file.
    private func close(_ attempt: Attempt?, _ afterwards: @escaping @Sendable () -> Void) {
        let download = state.withLock { state -> (any DownloadTarget)? in
            defer { state.followUp?.download = nil }
            return state.followUp?.download
        }
        download?.stop()
        let rest: @Sendable () -> Void = {
            if let download { download.close(afterwards) } else { afterwards() }
        }
        if let attempt { attempt.close(rest) } else { rest() }
    }

    /// Makes the operation finished, notifies observers and delivers the outcome.
    ///
    /// - Parameter isAbandoned: whether the operation has not been started. If `start()` was called meanwhile, that
    ///   call finishes the operation, and this call has no effect.
    func finish(wasExecuting: Bool, isAbandoned: Bool = false) {
        var delivery: OperationState.Dispatch?
        notifying(wasExecuting ? [.isExecuting, .isFinished] : [.isFinished]) {
            let notificationTargets = state.withLock { state -> OperationState.NotificationTargets in
                if isAbandoned, !state.machine.handle(.start(mayBeBlocked: false)).finishes { return .none }
                if wasExecuting, state.registry?.value.startNotification == .isRunning {
                    // Another thread is notifying observers of the start. That thread calls this method afterwards.
                    state.registry?.value.startNotification = .endFollows
                    return .none
                }
                delivery = state.beginDelivery(isEnd: true)
                return state.notificationTargets
            }
            return ((), notificationTargets)
        }
        if let delivery = delivery.take() { deliver(delivery, isEnd: true) }
    }

    func whenFinished(_ handler: FinishHandler) {
        let (outcome, handlers) = state.withLock { state -> (AnyOutcome?, [FinishHandler]) in
            state.handlers.append(handler)
            // Until the phase is `sent`, the new handler waits: for the outcome, or for the handlers that are being
            // dispatched now.
            return state.machine.delivery.phase == .sent ? (state.outcome, state.takeHandlers()) : (nil, [])
        }
        if let outcome { for handler in handlers { run(handler, with: outcome, counts: false) } }
    }

    /// Calls back once the operation has an outcome and every handler added before has returned.
    func whenSettled(_ hook: @escaping @Sendable (AnyOutcome) -> Void) {
        let outcome = state.withLock { state -> AnyOutcome? in
            if state.machine.delivery.isSettled { return state.outcome }
            state.settledHooks.append(hook)
            return nil
        }
        if let outcome { hook(outcome) }
    }

    /// Adds a batch's callbacks in one critical section, while no other code knows the operation.
    func join(
        moved: (@Sendable (TransferProgress) -> Void)?, finished: (@Sendable (AnyOutcome) -> Void)?,
        settled: @escaping @Sendable (AnyOutcome) -> Void
    ) {
        let handler = finished.map { FinishHandler(place: place(nil), run: $0) }
        state.withLock { state in
            if let moved { state.observing { $0.progress.direct.append(moved) } }
            if let handler { state.handlers.append(handler) }
            state.settledHooks.append(settled)
        }
    }

    /// Dispatches the handlers in order.
    ///
    /// If the last handler has returned, this method calls the settled hooks. If the operation has finished, it also
    /// notifies the scheduler, which releases the slot, and the dependency graph.
    private func deliver(_ given: consuming OperationState.Dispatch, isEnd: Bool) {
        var delivery = given
        if delivery.notifiesEvents { notifyEvents() }
        for notifier in delivery.notifiers { notifier.stop() }
        var remainder = delivery.ending.take()
        let outcome = delivery.outcome
        var handlers = delivery.handlers
        while remainder == nil {
            if let outcome {
                for handler in handlers {
                    switch handler.place {
                    case .here, .inTurn: handler.run(outcome)
                    case .inPlace: CallbackInPlace.run { handler.run(outcome) }
                    case .executor, .elsewhere: run(handler, with: outcome)
                    }
                }
            }
            handlers = state.withLock { state in
                // Handlers that were added during the dispatch run after the earlier ones.
                if outcome != nil, !state.handlers.isEmpty { return state.takeHandlers() }
                remainder = state.endDelivery(outcome == nil ? nil : .sentOff, isEnd: isEnd)
                return []
            }
            if handlers.isEmpty { break }
        }
        guard let ending = remainder.take() else { return }
        if !ending.settledHooks.isEmpty { ending.notifySettled() }
        if ending.wasBarred { BarrierCycles.left() }
        // `ending` may hold the last reference to an object. It is released outside the lock, because a deinit may call
        // back.
        withExtendedLifetime(ending) {
            guard let scheduler = ending.scheduler, let queueEntry = ending.queueEntry else { return }
            if ending.isEnd {
                scheduler.finished(queueEntry, isSettled: ending.isSettled)
            } else {
                scheduler.settled(queueEntry)
            }
        }
        if ending.hasEdges { DependencyGraph.release(self, error: ending.outcome?.error) }
    }

    /// - Parameter counts: whether ``whenSettled(_:)`` waits until this handler has returned.
    private func run(_ handler: FinishHandler, with outcome: AnyOutcome, counts: Bool = true) {
        run(at: handler.place) {
            handler.run(outcome)
            let ending = self.state.withLock { state -> OperationState.Ending? in
                if handler.place.isExecutor { state.executorHandlers -= 1 }
                guard counts else { return nil }
                return state.endDelivery(.handlerReturned)
            }
            if let ending { self.deliver(OperationState.Dispatch(ending: ending), isEnd: false) }
        }
    }

    /// Runs user code at the given place, with no lock held.
    func run(at place: CallbackPlace, _ work: @escaping @Sendable () -> Void) {
        switch place {
        case .here, .inTurn: work()
        case .inPlace where CallbackInPlace.isRunning, .executor: onExecutor(work)
        case .inPlace: CallbackInPlace.run(work)
        case .elsewhere(let run): run(work, qualityOfService)
        }
    }
}
