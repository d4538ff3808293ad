// The order of notifications when an operation finishes, and the references that it then releases.
import Foundation

extension OperationState {
    struct Dispatch: ~Copyable, Sendable {
        /// The outcome to dispatch; nil if an earlier call has dispatched the handlers.
        var outcome: AnyOutcome?
        var handlers: [FinishHandler] = []
        var notifiesEvents = false
        var notifiers: [ProgressNotifier] = []
        var ending: Ending?
    }

    /// The work that remains when the operation has finished, or when its last handler has returned.
    struct Ending: ~Copyable, Sendable {
        let isEnd: Bool
        let isSettled: Bool
        let scheduler: (any OperationScheduler)?
        let queueEntry: QueueEntryReference?
        let outcome: AnyOutcome?
        var settledHooks: [@Sendable (AnyOutcome) -> Void] = []
        var requestPlan: RequestPlan?
        var registry: CopyOnWrite<ObserverRegistry>?
        var requests: FollowUpState.Requests?
        var hasEdges = false
        var wasBarred = false
        var waitingOperations: [Operation] = []

        func notifySettled() {
            guard let outcome else { return }
            for hook in settledHooks { hook(outcome) }
        }
    }

    /// Starts to dispatch the handlers, unless an earlier call has done so.
    ///
    /// An operation with an outcome before its start gets two calls: at the outcome, and when it finishes. The first
    /// call dispatches. Without handlers and observers the delivery ends at once.
    mutating func beginDelivery(isEnd: Bool) -> Dispatch {
        if isEnd { _ = machine.handle(.finished) }
        var dispatch = Dispatch()
        if let outcome, machine.handle(.delivery(.begin)).isTaken {
            let notifiesEvents = isWatched && note(.finished(outcome.error))
            let notifiers = observers?.progress.notifiers ?? []
            // A success reports its last progress before the handlers. The settled hooks are called after that report.
            if outcome.error == nil, !notifiers.isEmpty {
                handlers = .several(notifiers.map { [progress] in $0.lastCall(progress) } + handlers.all)
            }
            dispatch = Dispatch(
                outcome: outcome, handlers: takeHandlers(), notifiesEvents: notifiesEvents,
                notifiers: notifiers)
        }
        // The end of the delivery releases the operations that wait for this one. Foundation uses them when it is
        // notified of the end. So if that notification follows, the delivery does not end here.
        let isTold = isEnd && wasAskedReadiness
        if dispatch.handlers.isEmpty, dispatch.notifiers.isEmpty, !dispatch.notifiesEvents, !isObserved, !isTold {
            dispatch.ending = endDelivery(dispatch.outcome == nil ? nil : .sentOff, isEnd: isEnd)
        }
        return dispatch
    }

    /// Removes the handlers that are dispatched now, and chooses their places.
    ///
    /// If other handlers wait on the serial executor, a handler with `inTurn` or `inPlace` runs there too. A handler
    /// with `inPlace` also runs there while this thread runs another callback in place.
    mutating func takeHandlers() -> [FinishHandler] {
        var sent = handlers.all
        handlers = .none
        for index in sent.indices {
            switch sent[index].place {
            case .inTurn where executorHandlers > 0, .inPlace where executorHandlers > 0 || CallbackInPlace.isRunning:
                sent[index].place = .executor
            case .here, .executor, .inTurn, .inPlace, .elsewhere: break
            }
            if sent[index].place.isExecutor { executorHandlers += 1 }
        }
        // Handlers in place have returned by the time all other handlers are dispatched, so they are not counted.
        _ = machine.handle(.delivery(.handlersSent(sent.count { !$0.place.isHere })))
        return sent
    }

    /// Returns the work that remains; nil unless the operation has finished or its last handler has returned.
    mutating func endDelivery(_ event: HandlerDelivery.Event?, isEnd: Bool = false) -> Ending? {
        if isEnd { _ = machine.handle(.delivery(.endNotified)) }
        let settles = event.map { machine.handle(.delivery($0)).settles } ?? false
        guard isEnd || settles else { return nil }
        var ending = Ending(
            isEnd: isEnd, isSettled: machine.delivery.isSettled, scheduler: scheduler, queueEntry: queueEntry,
            outcome: outcome)
        if settles { swap(&ending.settledHooks, &settledHooks) }
        // Once the operation has finished and its last handler has returned, the manager releases it.
        if machine.delivery.isOver { queueEntry = nil }
        guard isEnd else { return ending }
        (ending.wasBarred, isBarred) = (isBarred, false)
        if let relatives { swap(&ending.waitingOperations, &relatives.waiting) }
        if let requestPlan, !requestPlan.isValue {
            let request = requestPlan.request
            if !request.tags.isEmpty { makeFollowUp().finalTags = request.tags }
            if let box = request.policyBox, !box.policies.userInfo.isEmpty, followUp?.userInfo == nil {
                makeFollowUp().userInfo = box.policies.userInfo
            }
            if let link = requestPlan.link { makeFollowUp().finalLink = link }
            (ending.requestPlan, self.requestPlan) = (requestPlan, nil)
        }
        (ending.registry, ending.requests) = (registry == nil ? nil : takeObserversIfOver(), followUp?.takeRequests())
        ending.hasEdges = hasEdges
        return ending
    }
}

struct FinishHandler: Sendable {
    var place: CallbackPlace
    let run: @Sendable (AnyOutcome) -> Void
}

/// Handlers in order.
///
/// Most operations have one, which needs no array.
enum FinishHandlers: Sendable {
    case none
    case one(FinishHandler)
    case several([FinishHandler])

    var all: [FinishHandler] {
        switch self {
        case .none: []
        case .one(let handler): [handler]
        case .several(let handlers): handlers
        }
    }

    var isEmpty: Bool { if case .none = self { true } else { false } }

    mutating func append(_ handler: FinishHandler) {
        switch self {
        case .none: self = .one(handler)
        case .one(let first): self = .several([first, handler])
        case .several(var handlers):
            // Without this, appending would copy the array.
            self = .none
            handlers.append(handler)
            self = .several(handlers)
        }
    }
}
