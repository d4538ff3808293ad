// Finishing, in four beats: claim, notify, commit, deliver.
import Foundation

extension AnyRequestOperation {
    /// Ends the operation, or an attempt, with a failure that names the request.
    func conclude(
        _ error: RequestError, response: ResponseHead? = nil, attempt: Int? = nil, taskHasEnded: Bool = false
    ) {
        let error = error.with(request?.summary, response: response)
        conclude(AnyOutcome(error: error), attempt: attempt, taskHasEnded: taskHasEnded)
    }

    /// Ends the operation with a failure, whatever it does.
    func conclude(_ code: RequestError.Code, _ message: String, onlyBeforeStart: Bool = false) {
        let known: (summary: RequestSummary?, link: LinkLabel?)? = state.withLock { state in
            // Cheap way out for the common case of cancelling what has ended.
            guard state.outcome == nil else { return nil }
            return (state.prepared?.summary ?? state.requestPlan?.core?.summary, state.requestPlan?.link)
        }
        guard let known else { return }
        let error = RequestError(
            code, message, summary: known.summary ?? RequestSummary(text: name ?? known.link?.description ?? ""))
        conclude(AnyOutcome(error: error), onlyBeforeStart: onlyBeforeStart)
    }

    /// Stores an outcome if there is none yet, and does what follows from it.
    ///
    /// - Parameters:
    ///   - attempt: the attempt whose end this is; nil for what ends the operation whatever it does.
    ///   - taskHasEnded: whether the task has ended by itself.
    ///   - isDelivered: whether the attempt has handed its body over, and holds nothing any more.
    ///   - onlyBeforeStart: whether it is dropped once the operation has started.
    func conclude(
        _ outcome: AnyOutcome, attempt: Int? = nil, taskHasEnded: Bool = false, isDelivered: Bool = false,
        onlyBeforeStart: Bool = false
    ) {
        let now = context.clock.now
        let failed = outcome.error == nil ? nil : state.withLock { $0.transfer?.attempt }
        let metrics = failed?.receiving.withLock { $0.metrics }
        let conclusion = state.withLock { state -> OperationState.Conclusion? in
            let effects = state.machine.handle(onlyBeforeStart ? .endBeforeStart : .end(attempt: attempt))
            guard effects.isTaken else { return nil }
            state.outcome = outcome.listing(state.attemptRecords(outcome.error, now, metrics))
            state.timings.finished = now
            return state.conclude(effects, isDelivered: isDelivered)
        }
        guard let conclusion else { return }
        for stop in conclusion.callers { stop() }
        if conclusion.effects.finishes {
            if let commit = conclusion.commit {
                // Nothing is left to be closed, and the state says so already.
                notifying([.isFinished]) { ((), isObserved: false) }
                return deliver(commit, isEnd: true)
            }
            if let transfer = conclusion.transfer, !taskHasEnded {
                context.taskControl.async { transfer.task.cancel() }
            }
            close(conclusion.transfer?.attempt) { self.finish(wasExecuting: true) }
        }
        if conclusion.effects.abandons {
            tellReadiness()
            if conclusion.hasEdges { DependencyGraph.fail(dependentsOf: self, error: error) }
            if let delivery = state.withLock({ $0.beginDelivery() }) { deliver(delivery, isEnd: false) }
            // A manager that has not handed it to the queue yet enters start() itself.
            conclusion.scheduler?.abandoned(self)
        }
    }

    /// Ends what is under way, then lets go of a download's part: another one may have it when the outcome is told.
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

    /// Notify, commit, deliver; then let go.
    ///
    /// Runs once: only the claim that won leads here.
    func finish(wasExecuting: Bool) {
        let delivery = notifying(wasExecuting ? [.isExecuting, .isFinished] : [.isFinished]) {
            state.withLock { state -> (OperationState.Dispatch?, isObserved: Bool) in
                _ = state.machine.handle(.finished)
                return (state.beginDelivery(), state.isObserved)
            }
        }
        deliver(delivery, isEnd: true)
    }

    /// Adds a handler for the outcome; called at once when there is one.
    func whenFinished(_ handler: FinishHandler) {
        let given: (outcome: AnyOutcome, handler: FinishHandler)? = state.withLock { state in
            // Runs after the handlers that are being dispatched now.
            guard let outcome = state.outcome, state.machine.delivery.phase == .sent else {
                state.handlers.append(handler)
                return nil
            }
            return (outcome, state.takeTurn(handler))
        }
        if let given { run(given.handler, with: given.outcome, counts: false) }
    }

    /// Calls back when the operation has an outcome and every handler added before has returned; at once if so already.
    func whenSettled(_ hook: @escaping @Sendable () -> Void) {
        let isSettled = state.withLock { state in
            let isSettled = state.machine.delivery.isSettled
            if !isSettled { state.settledHooks.append(hook) }
            return isSettled
        }
        if isSettled { hook() }
    }

    /// Sends the handlers off, in order, and lets go.
    ///
    /// - Parameters:
    ///   - delivery: the handlers; nil when they have been sent off before.
    ///   - isEnd: whether the operation has finished. One that was abandoned has its handlers called before.
    private func deliver(_ delivery: OperationState.Dispatch?, isEnd: Bool) {
        if delivery?.tellsEvents == true { tellEvents() }
        var (handlers, ending) = (delivery?.handlers ?? [], OperationState.Ending?.none)
        repeat {
            if let outcome = delivery?.outcome {
                for handler in handlers {
                    if handler.place.isHere { handler.run(outcome) } else { run(handler, with: outcome) }
                }
            }
            (handlers, ending) = state.withLock { state in
                // Added meanwhile: they come behind the others.
                if delivery != nil, !state.handlers.isEmpty { return (state.takeHandlers(), nil) }
                return ([], state.endDelivery(isSentOff: delivery != nil, isEnd: isEnd))
            }
        } while !handlers.isEmpty
        if let ending { end(ending) }
    }

    /// Calls the hooks of the end, and gives back what the operation had of its manager.
    private func end(_ ending: OperationState.Ending) {
        for hook in ending.settledHooks { hook() }
        // What it captured goes outside the lock: it may call back from its deinit.
        withExtendedLifetime((ending.requestPlan, ending.observers, ending.requests)) {
            guard let scheduler = ending.scheduler, let ticket = ending.ticket else { return }
            if ending.isEnd {
                scheduler.finished(ticket, isSettled: ending.isSettled)
            } else {
                scheduler.settled(ticket)
            }
        }
        if ending.hasEdges { DependencyGraph.release(self, error: error) }
    }

    /// - Parameter counts: whether the operation settles behind it.
    private func run(_ handler: FinishHandler, with outcome: AnyOutcome, counts: Bool = true) {
        run(at: handler.place) {
            handler.run(outcome)
            let ending = self.state.withLock { state -> OperationState.Ending? in
                if handler.place.isLane { state.laneHandlers -= 1 }
                guard counts, state.machine.handle(.delivery(.handlerReturned)).settles else { return nil }
                return state.takeEnding(settles: true, isEnd: false)
            }
            if let ending { self.end(ending) }
        }
    }

    /// Runs code of the user's at its place, with no lock held.
    func run(at place: CallbackPlace, _ work: @escaping @Sendable () -> Void) {
        switch place {
        case .here, .inTurn: work()
        case .lane: onLane(work)
        case .elsewhere(let delivery): delivery.run(work)
        }
    }
}

// What is told of the end, in which order, and what the end lets go of.
extension OperationState {
    /// What follows from an outcome that was stored.
    struct Conclusion: Sendable {
        let effects: OperationStateMachine.Effects
        var transfer: Transfer?
        var scheduler: (any OperationScheduler)?
        /// What stops everything that would still call the operation.
        var callers: [@Sendable () -> Void] = []
        var hasEdges = false
        /// The operation has finished with its outcome: nothing was left to be closed, and it has no observers.
        var commit: Dispatch?
    }

    /// An outcome, and the handlers that are sent off with it.
    struct Dispatch: Sendable {
        let outcome: AnyOutcome
        let handlers: [FinishHandler]
        /// Whether the end is to be told to those that observe events.
        let tellsEvents: Bool
    }

    /// What is to be done when the operation has finished, and when the last handler has returned.
    struct Ending: Sendable {
        let isEnd: Bool
        let isSettled: Bool
        let scheduler: (any OperationScheduler)?
        let ticket: TicketReference?
        var settledHooks: [@Sendable () -> Void] = []
        var requestPlan: RequestPlan?
        var observers: ObserverRegistry?
        var requests: FollowUpState.Requests?
        var hasEdges = false
    }

    fileprivate mutating func conclude(_ effects: OperationStateMachine.Effects, isDelivered: Bool) -> Conclusion {
        var conclusion = Conclusion(effects: effects)
        (conclusion.transfer, transfer) = (transfer, nil)
        (conclusion.scheduler, conclusion.hasEdges) = (scheduler, hasEdges)
        if let followUp { conclusion.callers = followUp.takeCallers() }
        #if canImport(FoundationNetworking)
            if isDelivered, effects.finishes, !isObserved, followUp?.download == nil {
                _ = machine.handle(.finished)
                conclusion.commit = beginDelivery()
            }
        #endif
        return conclusion
    }

    /// Begins to send the handlers off; nil when that was done before.
    ///
    /// Called with the claim of an abandoned operation, else when it has finished.
    fileprivate mutating func beginDelivery() -> Dispatch? {
        guard let outcome, machine.handle(.delivery(.begin)).isTaken else { return nil }
        let tellsEvents = note(.finished(outcome.error))
        return Dispatch(outcome: outcome, handlers: takeHandlers(), tellsEvents: tellsEvents)
    }

    fileprivate mutating func takeHandlers() -> [FinishHandler] {
        let sent = handlers.map { takeTurn($0) }
        handlers = []
        // What runs here has returned when the rest has been sent off.
        _ = machine.handle(.delivery(.handlersSent(sent.count { !$0.place.isHere })))
        return sent
    }

    /// The handlers have been sent off, or had been before.
    ///
    /// - Parameter isEnd: whether the operation has finished.
    fileprivate mutating func endDelivery(isSentOff: Bool, isEnd: Bool) -> Ending? {
        if isEnd { _ = machine.handle(.delivery(.endNotified)) }
        let settles = isSentOff && machine.handle(.delivery(.sentOff)).settles
        return isEnd || settles ? takeEnding(settles: settles, isEnd: isEnd) : nil
    }

    /// What is to be done at the end, and when the last handler has returned: twice, or at once for both.
    fileprivate mutating func takeEnding(settles: Bool, isEnd: Bool) -> Ending {
        var ending = Ending(isEnd: isEnd, isSettled: machine.delivery.isSettled, scheduler: scheduler, ticket: ticket)
        if settles { swap(&ending.settledHooks, &settledHooks) }
        // The manager forgets the operation then.
        if machine.delivery.isOver { (scheduler, ticket) = (nil, nil) }
        guard isEnd else { return ending }
        finalTags = requestPlan?.core?.tags ?? []
        finalLink = requestPlan?.link
        (ending.requestPlan, requestPlan) = (requestPlan, nil)
        (ending.observers, ending.requests) = (takeObserversIfOver(), followUp?.takeRequests())
        ending.hasEdges = hasEdges
        return ending
    }

    /// A handler that is sent off now: one that only takes its turn needs the lane for others before it alone.
    fileprivate mutating func takeTurn(_ handler: FinishHandler) -> FinishHandler {
        var handler = handler
        if case .inTurn = handler.place { handler.place = laneHandlers > 0 ? .lane : .here }
        if handler.place.isLane { laneHandlers += 1 }
        return handler
    }
}
