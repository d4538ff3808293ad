// How Foundation is told of a blocked request: on Linux by a dependency that it counts.
import Foundation

extension AnyRequestOperation {
    #if canImport(FoundationNetworking)
        /// Closes or opens the gate: an operation that Foundation counts as a dependency while this one is blocked in a queue.
        ///
        /// At each event of a queue, corelibs asks every operation again that it counts no dependency of, and retains it
        /// meanwhile: with a chain of 3,000 that takes half of the time.
        ///
        /// - Returns: whether Foundation and the observers have been notified. Called by one thread at a time.
        func notifyByGate() -> Bool {
            let isBlocked = isBlocked
            let mayClose = isBlocked && FoundationFields.queue(of: self) != nil
            let (opened, closed, old) = state.withLock { state -> (Operation?, Operation?, Operation?) in
                if let gate = state.gate {
                    guard !isBlocked else { return (nil, nil, nil) }
                    (state.gate, state.openedGate) = (nil, gate)
                    return (gate, nil, nil)
                }
                guard mayClose else { return (nil, nil, nil) }
                defer { state.openedGate = nil }
                (state.gate, state.isClosingGate, state.wasUnready) = (Operation(), true, true)
                return (nil, state.gate, state.openedGate)
            }
            if let closed {
                super.addDependency(closed)
                state.withLock { $0.isClosingGate = false }
            }
            // Foundation keeps it else; now no notification of that starts anything.
            if let old { super.removeDependency(old) }
            opened?.start()
            guard closed != nil || opened != nil else { return false }
            if isObservedSynchronously { notifyStateObservers(\.isReady) }
            return true
        }

        /// A queue has asked while the operation is blocked.
        func noteUnready() {
            let isBeingAdded = state.withLock { state in
                state.wasUnready = true
                return state.machine.handover != .none
            }
            // What is being handed over to a queue is told at the end of that.
            if !isBeingAdded, FoundationFields.queue(of: self) != nil { notifyReadiness() }
        }

        /// Looks a little later whether Foundation counts a barrier: the queue may hold its lock now.
        func lookForBarrier() {
            let isWanted = state.withLock { state in
                let isKnown = state.isBarred || state.isClosingGate || state.machine.handover != .none
                guard !isKnown, !state.looksForBarrier else { return false }
                state.looksForBarrier = true
                return true
            }
            guard isWanted else { return }
            context.taskControl.async { [self] in
                state.withLock { $0.looksForBarrier = false }
                BarrierCycles.added(self)
            }
        }

        /// Whether a barrier of the queue that it is in has not run.
        var isBehindBarrier: Bool {
            !super.isReady && FoundationFields.barriers(before: self).contains { !$0.isFinished }
        }
    #else
        func notifyByGate() -> Bool { false }
        func noteUnready() {}
        func lookForBarrier() {}
        /// The same: nothing else makes it depend in Foundation's books.
        var isBehindBarrier: Bool { !super.isReady }
    #endif
}
