// Finishing, in four beats: claim, notify, commit, deliver.
import Foundation

extension AnyRequestOperation {
    /// Ends the operation with a failure, whatever it does.
    func conclude(_ code: RequestError.Code, _ message: String, onlyBeforeStart: Bool = false) {
        // Cheap way out for the common case of cancelling what has ended.
        guard state.withLock({ $0.outcome == nil }) else { return }
        let (summary, link) = state.withLock {
            ($0.prepared?.summary ?? $0.requestPlan?.core?.summary, $0.requestPlan?.link)
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
    ///   - isDelivered: whether the attempt has handed its body over, and holds nothing any more.
    ///   - onlyBeforeStart: whether it is dropped once the operation has started.
    func conclude(
        _ outcome: AnyOutcome, attempt: Int? = nil, taskHasEnded: Bool = false, isDelivered: Bool = false,
        onlyBeforeStart: Bool = false
    ) {
        let now = context.clock.now
        let failed = outcome.error == nil ? nil : state.withLock { $0.transfer?.attempt }
        let metrics = failed?.receiving.withLock { $0.metrics }
        let conclusion = state.withLock { state -> OperationState.Conclusion in
            let effects = state.machine.handle(onlyBeforeStart ? .endBeforeStart : .end(attempt: attempt))
            guard effects.isTaken else { return .none }
            state.outcome = outcome.listing(state.attemptRecords(outcome.error, now, metrics))
            state.timings.finished = now
            return state.conclude(effects, isDelivered: isDelivered)
        }
        conclusion.callers?.stop()
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
            state.withLock { state -> (OperationState.Delivery?, isObserved: Bool) in
                _ = state.machine.handle(.finished)
                return (state.beginDelivery(), state.isObserved)
            }
        }
        deliver(delivery, isEnd: true)
    }

    /// Adds a handler for the outcome; called at once when there is one.
    func whenFinished(_ handler: FinishHandler) {
        let given: (outcome: AnyOutcome, place: CallbackPlace)? = state.withLock { state in
            // Runs after the handlers that are being dispatched now.
            guard let outcome = state.outcome, state.machine.delivery.phase == .sent else {
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
    private func deliver(_ delivery: OperationState.Delivery?, isEnd: Bool) {
        var (handlers, ranHere) = (delivery?.handlers ?? [], 0)
        if let delivery, delivery.isWatched { emit(.finished(delivery.outcome.error)) }
        while true {
            if let delivery {
                for (handler, place) in handlers {
                    if case .here = place {
                        handler.run(delivery.outcome)
                        ranHere += 1
                    } else {
                        run(handler, at: place, with: delivery.outcome, counts: true)
                    }
                }
            }
            let (more, ending) = state.withLock { state -> ([SentHandler]?, OperationState.Ending?) in
                // Added meanwhile: they come behind the others.
                if delivery != nil, !state.handlers.isEmpty { return (state.takeHandlers(), nil) }
                return (nil, state.endDelivery(ranHere: delivery == nil ? nil : ranHere, isEnd: isEnd))
            }
            guard let more else { return ending.map { end($0) } ?? () }
            handlers = more
        }
    }

    /// Calls the hooks of the end, and gives back what the operation had of its manager.
    private func end(_ ending: OperationState.Ending) {
        for hook in ending.settledHooks { hook() }
        // What it captured goes outside the lock: it may call back from its deinit.
        withExtendedLifetime((ending.requestPlan, ending.watch, ending.requests)) {
            guard let scheduler = ending.scheduler, let ticket = ending.ticket else { return }
            if ending.isEnd {
                scheduler.finished(ticket, isSettled: ending.isSettled)
            } else if ending.isSettled {
                scheduler.settled(ticket)
            }
        }
        if ending.leavesGraph { DependencyGraph.release(self, error: error) }
    }

    private func run(_ handler: FinishHandler, at place: CallbackPlace, with outcome: AnyOutcome, counts: Bool) {
        run(at: place) {
            handler.run(outcome)
            self.handlerReturned(from: place, counts: counts)
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

    private func handlerReturned(from place: CallbackPlace, counts: Bool) {
        let ending = state.withLock { state -> OperationState.Ending? in
            if place.isLane { _ = state.machine.handle(.delivery(.laneLeft)) }
            return counts ? state.settled(by: .handlerReturned) : nil
        }
        if let ending { end(ending) }
    }
}

/// A handler, and where it runs.
typealias SentHandler = (FinishHandler, place: CallbackPlace)

// What is told of the end, in which order, and what the end lets go of.
extension OperationState {
    /// What follows from an outcome that was stored.
    struct Conclusion: Sendable {
        let effects: OperationStateMachine.Effects
        var transfer: Transfer?
        var scheduler: (any OperationScheduler)?
        var callers: FollowUpState.Callers?
        var hasEdges = false
        /// The operation has finished with its outcome: nothing was left to be closed, and it has no observers.
        var commit: Delivery?

        static let none = Conclusion(effects: .dropped)
    }

    /// The handlers of an outcome.
    struct Delivery: Sendable {
        let outcome: AnyOutcome
        let handlers: [SentHandler]
        let isWatched: Bool
    }

    /// What is to be done when the handlers have been sent off, and when the last of them has returned.
    struct Ending: Sendable {
        var isSettled = false
        var isEnd = false
        var settledHooks: [@Sendable () -> Void] = []
        var scheduler: (any OperationScheduler)?
        var ticket: TicketReference?
        var requestPlan: RequestPlan?
        var watch: ObserverRegistry?
        var requests: FollowUpState.Requests?
        var leavesGraph = false
    }

    fileprivate mutating func conclude(_ effects: OperationStateMachine.Effects, isDelivered: Bool) -> Conclusion {
        var conclusion = Conclusion(effects: effects)
        (conclusion.transfer, transfer) = (transfer, nil)
        (conclusion.scheduler, conclusion.callers, conclusion.hasEdges) = (scheduler, followUp?.takeCallers(), hasEdges)
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
    fileprivate mutating func beginDelivery() -> Delivery? {
        guard let outcome, machine.handle(.delivery(.begin)).isTaken else { return nil }
        if !isWatched {
            hasEmittedEnd = true
            watch?.hasEnded = true
        }
        return Delivery(outcome: outcome, handlers: takeHandlers(), isWatched: isWatched)
    }

    fileprivate mutating func takeHandlers() -> [SentHandler] {
        _ = machine.handle(.delivery(.handlersSent(handlers.count)))
        defer { handlers = [] }
        return handlers.map { ($0, takeTurn($0)) }
    }

    /// The handlers have been sent off.
    ///
    /// - Parameters:
    ///   - ranHere: how many have run already; nil when they were sent off before.
    ///   - isEnd: whether the operation has finished.
    fileprivate mutating func endDelivery(ranHere: Int?, isEnd: Bool) -> Ending {
        var ending = Ending()
        if isEnd { _ = machine.handle(.delivery(.endNotified)) }
        if let ranHere, let settled = settled(by: .sentOff(returned: ranHere)) { ending = settled }
        guard isEnd else { return ending }
        (ending.isEnd, ending.isSettled) = (true, machine.delivery.isSettled)
        (ending.scheduler, ending.ticket) = ending.ticket == nil ? takeManager() : (ending.scheduler, ending.ticket)
        finalTags = requestPlan?.core?.tags ?? []
        finalLink = requestPlan?.link
        (ending.requestPlan, requestPlan) = (requestPlan, nil)
        (ending.watch, ending.requests) = (takeWatchIfOver(), followUp?.takeRequests())
        ending.leavesGraph = leavesGraph()
        return ending
    }

    /// What is to be done when the last handler has returned.
    fileprivate mutating func settled(by event: HandlerDelivery.Event) -> Ending? {
        guard machine.handle(.delivery(event)).settles else { return nil }
        defer { settledHooks = [] }
        let (scheduler, ticket) = takeManager()
        return Ending(isSettled: true, settledHooks: settledHooks, scheduler: scheduler, ticket: ticket)
    }

    /// The manager's half; let go of when the operation has finished and settled, as the manager forgets the operation then.
    private mutating func takeManager() -> ((any OperationScheduler)?, TicketReference?) {
        defer { if machine.delivery.isOver { (scheduler, ticket) = (nil, nil) } }
        return (scheduler, ticket)
    }

    /// Where a handler that is sent off now runs: one that only takes its turn needs the lane for others before it alone.
    fileprivate mutating func takeTurn(_ handler: FinishHandler) -> CallbackPlace {
        var place = handler.place
        if case .inTurn = place { place = machine.delivery.laneHandlers > 0 ? .lane : .here }
        if place.isLane { _ = machine.handle(.delivery(.laneEntered)) }
        return place
    }
}
