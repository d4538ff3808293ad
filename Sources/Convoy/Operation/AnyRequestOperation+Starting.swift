// Starting an operation: by a queue, by hand, or inline on the thread that found a slot.
import Foundation

extension AnyRequestOperation {
    /// Starts the operation inline if this is fast and runs no user code.
    ///
    /// False if the operation must start elsewhere, or has been started.
    func startInline(at moment: CompactInstant) -> Bool {
        #if !canImport(FoundationNetworking)
            // A KVO observer would run user code.
            if isObservedSynchronously { return false }
        #endif
        // An operation that starts inline has no observer.
        let (effects, beginning) = state.withLock { state in
            let effects = state.startsInline ? state.machine.handle(.start(mayBeBlocked: false)) : .dropped
            if effects.begins != nil { state.timings.startedMoment = moment }
            return (effects, state.beginning)
        }
        guard let attempt = effects.begins else { return false }
        execute(attempt, beginning)
        return true
    }

    /// Lets exactly one of several threads start the operation.
    func claimStart(mayBeBlocked: Bool) -> (OperationStateMachine.Effects, OperationState.Beginning) {
        let now = context.clock.now
        return notifying([.isExecuting]) {
            state.withLock { state in
                let event = OperationStateMachine.Event.start(mayBeBlocked: mayBeBlocked && state.hasEdges)
                let effects = state.machine.handle(event)
                if effects.begins != nil { state.timings.startedMoment = CompactInstant(now) }
                // The state has changed only if the operation begins.
                return ((effects, state.beginning), effects.begins == nil ? .none : state.notificationTargets)
            }
        }
    }

    /// Adds the operation to a queue, unless it has begun.
    ///
    /// - Parameter add: adds it to the queue.
    func handOver(_ add: (AnyRequestOperation) -> Void) {
        let beginning = state.withLock { state in
            state.isSeen = true
            return state.machine.handle(.handoverBegan)
        }
        guard beginning.isTaken else { return }
        add(self)
        let (handover, wasUnready) = state.withLock { ($0.machine.handle(.handoverEnded), $0.wasUnready) }
        // The operation starts here if that is fast, before the next handover. Otherwise another thread starts it,
        // because the current thread may be a transport's.
        let hasBegun =
            handover.starts && context.transport.isReentrant
            && startInline(at: CompactInstant(context.clock.now))
        if handover.starts, !hasBegun { context.taskControl.async { self.start() } }
        // The queue may store an old value of `isReady` after the notification of the change. So notify once more.
        if wasUnready { notifyReadiness() }
    }
}
