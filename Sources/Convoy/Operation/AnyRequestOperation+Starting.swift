// Starting: by a queue, by hand, or inline on the thread that found a slot.
import Foundation

extension AnyRequestOperation {
    /// Starts it, where that takes no time and runs no code of the user's; false where it does, or it has been started.
    func startInline(at moment: CompactInstant) -> Bool {
        #if !canImport(FoundationNetworking)
            // Where KVO may be told of it.
            if isObservedSynchronously { return false }
        #endif
        // What is started inline is not observed.
        let (effects, beginning) = state.withLock { state in
            let effects = state.startsInline ? state.machine.handle(.start(mayBeBlocked: false)) : .dropped
            if effects.begins != nil { state.timings.startedMoment = moment }
            return (effects, state.beginning)
        }
        guard let attempt = effects.begins else { return false }
        execute(attempt, beginning)
        return true
    }

    /// Of two threads that start it, one gets to begin.
    func claimStart(mayBeBlocked: Bool) -> (OperationStateMachine.Effects, OperationState.Beginning) {
        let now = context.clock.now
        return notifying([.isExecuting]) {
            state.withLock { state in
                let event = OperationStateMachine.Event.start(mayBeBlocked: mayBeBlocked && state.hasEdges)
                let effects = state.machine.handle(event)
                if effects.begins != nil { state.timings.startedMoment = CompactInstant(now) }
                // Nothing has changed unless it begins.
                return ((effects, state.beginning), effects.begins == nil ? .none : state.notificationTargets)
            }
        }
    }

    /// Puts the operation into a queue, unless it has begun.
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
        // Here where that takes no time, before the next is handed over. Else elsewhere: this may be a transport's thread.
        let hasBegun =
            handover.starts && context.transport.isReentrant
            && startInline(at: CompactInstant(context.clock.now))
        if handover.starts, !hasBegun { context.taskControl.async { self.start() } }
        // A queue that asked while the answer was no may note that answer after it was told of the change.
        if wasUnready { notifyReadiness() }
    }
}
