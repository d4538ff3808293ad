// What is told of the end, in which order, and what the end lets go of.
import Foundation

extension OperationState {
    /// What follows from an outcome that was stored.
    struct Conclusion: ~Copyable, Sendable {
        let effects: OperationStateMachine.Effects
        var transfer: Transfer?
        var scheduler: (any OperationScheduler)?
        var queueEntry: QueueEntryReference?
        /// What stops everything that would still call the operation.
        var callers: [@Sendable () -> Void] = []
        var hasEdges = false
        var notifiesReadiness = false
        /// Of an operation that was abandoned, or has finished with its outcome: nothing was left to be closed, and it has no
        /// observers.
        var delivery: Dispatch?
        var isSeen = false
    }

    /// What is told of an outcome.
    struct Dispatch: ~Copyable, Sendable {
        /// Nil when the handlers have been sent off before.
        var outcome: AnyOutcome?
        var handlers: [FinishHandler] = []
        /// Whether the end is to be told to those that observe events.
        var notifiesEvents = false
        /// What tells how far it is, and is told that nothing follows.
        var notifiers: [ProgressNotifier] = []
        /// What is left to be done, where nothing is told.
        var ending: Ending?
    }

    /// What is to be done when the operation has finished, and when the last handler has returned.
    struct Ending: ~Copyable, Sendable {
        let isEnd: Bool
        let isSettled: Bool
        let scheduler: (any OperationScheduler)?
        let queueEntry: QueueEntryReference?
        let outcome: AnyOutcome?
        var settledHooks: [@Sendable (AnyOutcome) -> Void] = []
        var requestPlan: RequestPlan?
        var observers: ObserverRegistry?
        var requests: FollowUpState.Requests?
        var hasEdges = false
        var wasBarred = false
        var waitingOperations: [Operation] = []

        /// Tells those that wait for the last handler.
        func notifySettled() {
            guard let outcome else { return }
            for hook in settledHooks { hook(outcome) }
        }
    }

    mutating func conclude(_ effects: OperationStateMachine.Effects, isDelivered: Bool) -> Conclusion {
        var conclusion = Conclusion(effects: effects)
        (conclusion.transfer, transfer) = (transfer, nil)
        (conclusion.scheduler, conclusion.queueEntry, conclusion.hasEdges) = (scheduler, queueEntry, hasEdges)
        conclusion.isSeen = isSeen
        conclusion.notifiesReadiness = notifiesReadiness
        if let followUp { conclusion.callers = followUp.takeCallers() }
        if effects.abandons { conclusion.delivery = beginDelivery(isEnd: false) }
        #if canImport(FoundationNetworking)
            if isDelivered, effects.finishes, !isObserved, followUp?.download == nil { conclusion.delivery = finish() }
        #endif
        return conclusion
    }

    /// The operation has finished.
    mutating func finish() -> Dispatch {
        _ = machine.handle(.finished)
        return beginDelivery(isEnd: true)
    }

    /// Begins to send the handlers off, unless that was done before.
    ///
    /// Called with the claim of an abandoned operation, else when it has finished. Where nothing is to be told, the end of
    /// the delivery is noted at once.
    private mutating func beginDelivery(isEnd: Bool) -> Dispatch {
        var dispatch = Dispatch()
        if let outcome, machine.handle(.delivery(.begin)).isTaken {
            let notifiesEvents = isWatched && note(.finished(outcome.error))
            let notifiers = observers?.progress.notifiers ?? []
            // The last progress of a success is told before the handlers, and the operation settles behind it.
            if outcome.error == nil, !notifiers.isEmpty {
                handlers.insert(contentsOf: notifiers.map { [progress] in $0.lastCall(progress) }, at: 0)
            }
            dispatch = Dispatch(
                outcome: outcome, handlers: takeHandlers(), notifiesEvents: notifiesEvents,
                notifiers: notifiers)
        }
        // What Foundation is told of keeps those that wait for it until that has been told.
        let isTold = isEnd && wasAskedReadiness
        if dispatch.handlers.isEmpty, dispatch.notifiers.isEmpty, !dispatch.notifiesEvents, !isObserved, !isTold {
            dispatch.ending = endDelivery(isSentOff: dispatch.outcome != nil, isEnd: isEnd)
        }
        return dispatch
    }

    mutating func takeHandlers() -> [FinishHandler] {
        // In its place: no other array is made for it.
        var sent: [FinishHandler] = []
        swap(&sent, &handlers)
        for index in sent.indices { sent[index] = takeTurn(sent[index]) }
        // What runs here has returned when the rest has been sent off.
        _ = machine.handle(.delivery(.handlersSent(sent.count { !$0.place.isHere })))
        return sent
    }

    /// The handlers have been sent off, or had been before.
    ///
    /// - Parameter isEnd: whether the operation has finished.
    mutating func endDelivery(isSentOff: Bool, isEnd: Bool) -> Ending? {
        if isEnd { _ = machine.handle(.delivery(.endNotified)) }
        let settles = isSentOff && machine.handle(.delivery(.sentOff)).settles
        return isEnd || settles ? takeEnding(settles: settles, isEnd: isEnd) : nil
    }

    /// What is to be done at the end, and when the last handler has returned: twice, or at once for both.
    mutating func takeEnding(settles: Bool, isEnd: Bool) -> Ending {
        var ending = Ending(
            isEnd: isEnd, isSettled: machine.delivery.isSettled, scheduler: scheduler, queueEntry: queueEntry,
            outcome: outcome)
        if settles { swap(&ending.settledHooks, &settledHooks) }
        // The manager forgets the operation then.
        if machine.delivery.isOver { queueEntry = nil }
        guard isEnd else { return ending }
        (ending.wasBarred, isBarred) = (isBarred, false)
        swap(&ending.waitingOperations, &waitingOperations)
        finalTags = requestPlan?.request.tags ?? []
        if let box = requestPlan?.request.policyBox, !box.policies.userInfo.isEmpty, followUp?.userInfo == nil {
            makeFollowUp().userInfo = box.policies.userInfo
        }
        finalLink = requestPlan?.link
        if requestPlan?.isValue != true { (ending.requestPlan, requestPlan) = (requestPlan, nil) }
        (ending.observers, ending.requests) = (observers == nil ? nil : takeObserversIfOver(), followUp?.takeRequests())
        ending.hasEdges = hasEdges
        return ending
    }

    /// A handler that is sent off now: one that only takes its turn needs the serial executor for others before it alone, and a caller's
    /// inside another one's callback.
    mutating func takeTurn(_ handler: FinishHandler) -> FinishHandler {
        var handler = handler
        switch handler.place {
        case .inTurn where executorHandlers > 0, .inPlace where executorHandlers > 0 || CallbackInPlace.isRunning:
            handler.place = .executor
        case .here, .executor, .inTurn, .inPlace, .elsewhere: break
        }
        if handler.place.isExecutor { executorHandlers += 1 }
        return handler
    }
}
