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
            notifying([.isReady]) {}
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
        let outcome: AnyOutcome? = state.withLock { state in
            guard let outcome = state.outcome, state.isDelivering else {
                state.handlers.append(handler)
                return nil
            }
            return outcome
        }
        if let outcome { run(handler, with: outcome, counts: false) }
    }

    /// Calls back when the operation has an outcome and every handler added before has returned; at once if so already.
    func whenSettled(_ hook: @escaping @Sendable () -> Void) {
        let isSettled = state.withLock { state in
            if !state.isSettled { state.settledHooks.append(hook) }
            return state.isSettled
        }
        if isSettled { hook() }
    }

    /// Sends the handlers off.
    ///
    /// Called with the claim of an abandoned operation, else when it has finished.
    private func deliver() {
        let (handlers, outcome, isFirst): ([FinishHandler], AnyOutcome?, Bool) = state.withLock { state in
            let isFirst = !state.isDelivering
            state.isDelivering = true
            state.runningHandlers += state.handlers.count + (isFirst ? 1 : 0)
            defer { state.handlers = [] }
            return (state.handlers, state.outcome, isFirst)
        }
        guard let outcome else { return }
        if isFirst { emit(.finished(outcome.error)) }
        for handler in handlers { run(handler, with: outcome, counts: true) }
        // The first delivery counts for one itself, so that nothing settles before all have been sent off.
        if isFirst { handlerReturned() }
    }

    private func run(_ handler: FinishHandler, with outcome: AnyOutcome, counts: Bool) {
        run(at: handler.place) {
            handler.run(outcome)
            if counts { self.handlerReturned() }
        }
    }

    /// Runs something of the user's where he wants it, with no lock held.
    func run(at place: CallbackPlace, _ work: @escaping @Sendable () -> Void) {
        switch place {
        case .here: work()
        case .lane: onLane(work)
        case .elsewhere(let delivery): delivery.run(work)
        }
    }

    private func handlerReturned() {
        let settled: (hooks: [@Sendable () -> Void], scheduler: Scheduler?)? = state.withLock { state in
            state.runningHandlers -= 1
            guard state.runningHandlers == 0, !state.isSettled else { return nil }
            state.isSettled = true
            defer { state.settledHooks = [] }
            return (state.settledHooks, state.scheduler)
        }
        guard let settled else { return }
        for hook in settled.hooks { hook() }
        settled.scheduler?.settled(self)
    }
}
