// Finishing, in four beats: claim, notify, commit, deliver.
import Foundation

extension AnyRequestOperation {
    /// Ends the operation with a failure, whatever it does.
    func conclude(_ code: RequestError.Code, _ message: String, onlyBeforeStart: Bool = false) {
        // Cheap way out for the common case of cancelling what has ended.
        guard state.withLock({ $0.outcome == nil }) else { return }
        let (summary, link) = state.withLock {
            ($0.prepared?.summary ?? $0.recipe?.core?.summary, $0.recipe?.link)
        }
        let error = RequestError(
            code, message, summary: summary ?? RequestSummary(text: name ?? link?.description ?? ""))
        conclude(AnyOutcome(error: error), onlyBeforeStart: onlyBeforeStart)
    }

    /// Stores an outcome if there is none yet, and does what follows from it.
    ///
    /// - Parameters:
    ///   - attempt: the attempt whose end this is; nil for what ends the operation whatever it does.
    ///   - taskHasEnded: whether the task has ended by itself.
    ///   - onlyBeforeStart: whether it is dropped once the operation has started.
    func conclude(
        _ outcome: AnyOutcome, attempt: Int? = nil, taskHasEnded: Bool = false, onlyBeforeStart: Bool = false
    ) {
        let now = context.clock.now
        let failed = outcome.error == nil ? nil : state.withLock { $0.transfer?.attempt }
        let metrics = failed?.receiving.withLock { $0.metrics }
        let (effect, transfer, scheduler, callers) = state.withLock { state in
            let effect = onlyBeforeStart ? state.machine.abandon() : state.machine.claim(attempt: attempt)
            guard effect != .ignore else { return (effect, Transfer?.none, Scheduler?.none, Course.Callers?.none) }
            state.outcome = outcome.listing(state.attemptRecords(outcome.error, now, metrics))
            state.timings.finished = now
            defer { state.transfer = nil }
            return (effect, state.transfer, state.scheduler, state.course?.takeCallers())
        }
        callers?.stop()
        switch effect {
        case .ignore: break
        case .finish:
            if let transfer, !taskHasEnded { context.taskControl.async { transfer.task.cancel() } }
            close(transfer?.attempt) { self.finish(wasExecuting: true) }
        case .abandon:
            tellReadiness()
            DependencyGraph.fail(dependentsOf: self, error: error)
            deliver()
            // A manager that has not handed it to the queue yet enters start() itself.
            scheduler?.abandoned(self)
        }
    }

    /// Ends what is under way, then lets go of a download's part: another one may have it when the outcome is told.
    private func close(_ attempt: Attempt?, _ afterwards: @escaping @Sendable () -> Void) {
        let download = state.withLock { state -> (any DownloadTarget)? in
            defer { state.course?.download = nil }
            return state.course?.download
        }
        download?.stop()
        let rest: @Sendable () -> Void = {
            if let download { download.close(afterwards) } else { afterwards() }
        }
        if let attempt { attempt.close(rest) } else { rest() }
    }

    /// `start()` of an operation whose outcome is known.
    func finishAbandoned() {
        if state.withLock({ $0.start() }) == .finish { finish(wasExecuting: false) }
    }

    /// Notify, commit, deliver; then let go.
    ///
    /// Runs once: only the claim that won leads here.
    func finish(wasExecuting: Bool) {
        notifying(wasExecuting ? [.isExecuting, .isFinished] : [.isFinished]) {
            state.withLock { $0.machine.commit() }
        }
        deliver()
        let (scheduler, recipe, watch, requests) = state.withLock { state in
            state.hasNotifiedEnd = true
            state.finalTags = state.recipe?.core?.tags ?? []
            state.finalLink = state.recipe?.link
            defer { state.recipe = nil }
            return (state.scheduler, state.recipe, state.takeWatchIfOver(), state.course?.takeRequests())
        }
        // What they captured goes outside the lock: it may call back from its deinit.
        withExtendedLifetime((recipe, watch, requests)) { scheduler?.finished(self) }
        DependencyGraph.release(self, error: error)
    }

    /// Adds somebody who wants the outcome; at once when there is one.
    func whenFinished(_ handler: FinishHandler) {
        let given: (outcome: AnyOutcome, place: CallbackPlace)? = state.withLock { state in
            // Runs after the handlers that are being dispatched now.
            guard let outcome = state.outcome, state.isDelivering, !state.isSendingOff else {
                state.handlers.append(handler)
                return nil
            }
            return (outcome, state.takeTurn(handler))
        }
        if let given { run(handler, at: given.place, with: given.outcome, counts: false) }
    }

    /// Calls back when the operation has an outcome and every handler added before has returned; at once if so already.
    func whenSettled(_ hook: @escaping @Sendable () -> Void) {
        let isSettled = state.withLock { state in
            if !state.isSettled { state.settledHooks.append(hook) }
            return state.isSettled
        }
        if isSettled { hook() }
    }

    /// Sends the handlers off, in order; once.
    ///
    /// Called with the claim of an abandoned operation, else when it has finished.
    private func deliver() {
        let given: (outcome: AnyOutcome, handlers: [SentHandler])? = state.withLock { state in
            guard !state.isDelivering, let outcome = state.outcome else { return nil }
            (state.isDelivering, state.isSendingOff) = (true, true)
            // It counts for one itself, so that nothing settles before all have been sent off.
            state.runningHandlers += 1
            return (outcome, state.takeHandlers())
        }
        guard let given else { return }
        emit(.finished(given.outcome.error))
        var handlers = given.handlers
        while true {
            for (handler, place) in handlers { run(handler, at: place, with: given.outcome, counts: true) }
            let (more, settled) = state.withLock { state -> ([SentHandler]?, OperationState.Settled?) in
                // Added meanwhile: they come behind the others.
                if !state.handlers.isEmpty { return (state.takeHandlers(), nil) }
                state.isSendingOff = false
                return (nil, state.handlerReturned())
            }
            guard let more else { return settle(settled) }
            handlers = more
        }
    }

    private func run(_ handler: FinishHandler, at place: CallbackPlace, with outcome: AnyOutcome, counts: Bool) {
        run(at: place) {
            handler.run(outcome)
            self.handlerReturned(from: place, counts: counts)
        }
    }

    /// Runs something of the user's where he wants it, with no lock held.
    func run(at place: CallbackPlace, _ work: @escaping @Sendable () -> Void) {
        switch place {
        case .here, .inTurn: work()
        case .lane: onLane(work)
        case .elsewhere(let delivery): delivery.run(work)
        }
    }

    private func handlerReturned(from place: CallbackPlace, counts: Bool) {
        settle(
            state.withLock { state in
                if place.isLane { state.turnCount -= 1 }
                return counts ? state.handlerReturned() : nil
            })
    }

    private func settle(_ settled: OperationState.Settled?) {
        guard let settled else { return }
        for hook in settled.hooks { hook() }
        settled.scheduler?.settled(self)
    }
}

/// A handler, and where it runs.
private typealias SentHandler = (FinishHandler, place: CallbackPlace)

extension OperationState {
    /// What is to be done when the last handler has returned.
    fileprivate typealias Settled = (hooks: [@Sendable () -> Void], scheduler: Scheduler?)

    fileprivate mutating func takeHandlers() -> [SentHandler] {
        runningHandlers += handlers.count
        defer { handlers = [] }
        return handlers.map { ($0, takeTurn($0)) }
    }

    fileprivate mutating func handlerReturned() -> Settled? {
        runningHandlers -= 1
        guard runningHandlers == 0, !isSettled else { return nil }
        isSettled = true
        defer { settledHooks = [] }
        return (settledHooks, scheduler)
    }

    /// Where a handler that is sent off now runs: one that only takes its turn needs the lane for others before it alone.
    fileprivate mutating func takeTurn(_ handler: FinishHandler) -> CallbackPlace {
        var place = handler.place
        if case .inTurn = place { place = turnCount > 0 ? .lane : .here }
        if place.isLane { turnCount += 1 }
        return place
    }
}
