// The order of notifications when an operation finishes, and the references that it then releases.
import Foundation

extension OperationState {
    /// The effects of storing an outcome.
    struct Conclusion: ~Copyable, Sendable {
        let effects: OperationStateMachine.Effects
        var transfer: Transfer?
        var scheduler: (any OperationScheduler)?
        var queueEntry: QueueEntryReference?
        /// Closures that stop everything that would still call the operation.
        var callers: [@Sendable () -> Void] = []
        var hasEdges = false
        var notifiesReadiness = false
        /// Set if the operation was abandoned, or if it finishes in the same step, because nothing is left to close and
        /// no observer follows its state.
        var delivery: Dispatch?
        var isSeen = false
    }

    /// The notifications of an outcome.
    struct Dispatch: ~Copyable, Sendable {
        /// Nil if the handlers were dispatched before.
        var outcome: AnyOutcome?
        var handlers: [FinishHandler] = []
        /// Whether observers of events are to be notified of the end.
        var notifiesEvents = false
        /// The progress notifiers, which are stopped.
        var notifiers: [ProgressNotifier] = []
        /// The remaining work, if there are no handlers and no observers.
        var ending: Ending?
    }

    /// The work that remains after the operation has finished, and after its last handler.
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

        /// Calls the hooks that wait for the last handler.
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

    mutating func finish() -> Dispatch {
        _ = machine.handle(.finished)
        return beginDelivery(isEnd: true)
    }

    /// Starts to dispatch the handlers, unless that was done before.
    ///
    /// This method is called when an operation is abandoned, and again when the operation has finished. Only the first
    /// call dispatches the handlers. If there are no handlers and no observers, the delivery ends at once.
    private mutating func beginDelivery(isEnd: Bool) -> Dispatch {
        var dispatch = Dispatch()
        if let outcome, machine.handle(.delivery(.begin)).isTaken {
            let notifiesEvents = isWatched && note(.finished(outcome.error))
            let notifiers = observers?.progress.notifiers ?? []
            // A success reports its last progress before the handlers. The operation waits for that call before it
            // settles.
            if outcome.error == nil, !notifiers.isEmpty {
                handlers.insert(contentsOf: notifiers.map { [progress] in $0.lastCall(progress) }, at: 0)
            }
            dispatch = Dispatch(
                outcome: outcome, handlers: takeHandlers(), notifiesEvents: notifiesEvents,
                notifiers: notifiers)
        }
        // If Foundation is to be notified, the operations that wait for this one are retained until then.
        let isTold = isEnd && wasAskedReadiness
        if dispatch.handlers.isEmpty, dispatch.notifiers.isEmpty, !dispatch.notifiesEvents, !isObserved, !isTold {
            dispatch.ending = endDelivery(isSentOff: dispatch.outcome != nil, isEnd: isEnd)
        }
        return dispatch
    }

    mutating func takeHandlers() -> [FinishHandler] {
        // The arrays are swapped, so that no new array is allocated.
        var sent: [FinishHandler] = []
        swap(&sent, &handlers)
        for index in sent.indices { sent[index] = takeTurn(sent[index]) }
        // Handlers in place have returned by the time all other handlers are dispatched, so they are not counted.
        _ = machine.handle(.delivery(.handlersSent(sent.count { !$0.place.isHere })))
        return sent
    }

    /// Called when the handlers have been dispatched.
    ///
    /// - Parameter isEnd: whether the operation has finished.
    mutating func endDelivery(isSentOff: Bool, isEnd: Bool) -> Ending? {
        if isEnd { _ = machine.handle(.delivery(.endNotified)) }
        let settles = isSentOff && machine.handle(.delivery(.sentOff)).settles
        return isEnd || settles ? takeEnding(settles: settles, isEnd: isEnd) : nil
    }

    /// The remaining work after the operation has finished, or after its last handler has returned.
    ///
    /// This method is called once for each of the two moments, or once for both.
    mutating func takeEnding(settles: Bool, isEnd: Bool) -> Ending {
        var ending = Ending(
            isEnd: isEnd, isSettled: machine.delivery.isSettled, scheduler: scheduler, queueEntry: queueEntry,
            outcome: outcome)
        if settles { swap(&ending.settledHooks, &settledHooks) }
        // The manager now releases the operation.
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

    /// Chooses the place of a handler that is dispatched now.
    ///
    /// A handler with `inTurn` needs the serial executor only if other handlers wait there. A handler with `inPlace`
    /// also needs it while another callback in place is running.
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
