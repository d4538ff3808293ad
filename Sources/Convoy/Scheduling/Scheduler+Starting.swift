// Starts or resumes the operations that may run, or adds them to the operation queue. One thread at a time does so.
import Foundation

extension Scheduler {
    /// How many operations a call starts on its own thread before another thread continues.
    private static let inlineStartLimit = 64

    /// Starts the operations that may run, or adds them to the operation queue.
    func pump() { handingOver { _ in } }

    /// Passes an event to the state, and starts or queues the operations that may then run.
    ///
    /// One thread at a time does so. Operations therefore enter the operation queue in the order of their slots.
    /// - Parameters:
    ///   - now: the time, if the caller has read the clock.
    ///   - isDeferred: whether the operations are left to a later call.
    @discardableResult
    func handingOver<Result: Sendable>(
        at now: ContinuousClock.Instant? = nil, isDeferred: Bool = false, _ event: (inout SchedulerState) -> Result
    ) -> Result {
        let now = now ?? context.clock.now
        let (result, first) = state.withLock { state -> (Result, SchedulerState.Next?) in
            let result = event(&state)
            // If another thread is starting operations, that thread checks once more before it stops.
            return (result, state.isHandingOver || isDeferred ? nil : state.next(now))
        }
        if let first { handOver(first) }
        return result
    }

    /// Passes an event of an operation to the state, and starts what may then run; nil if there is no queue entry.
    @discardableResult
    func handingOver<Result: Sendable>(
        _ operation: AnyRequestOperation, _ event: (inout SchedulerState, QueueEntry) -> Result
    ) -> Result? {
        guard let reference = reference(of: operation) else { return nil }
        return handingOver { event(&$0, $0[reference]) }
    }

    /// Starts or queues one operation after the other, until none may run or this thread has started enough of them.
    private func handOver(_ first: SchedulerState.Next) {
        var (next, count) = (first, 0)
        while true {
            // The thread that starts operations also sets the timers for new holds.
            for hold in next.holds { liftLater(hold) }
            for waiter in next.waiters { producers.withLock { $0[waiter] }?.slotsAreFree() }
            guard let dispatch = next.dispatch else { return }
            let (operation, isNew) = (dispatch.operation, !dispatch.hasBegun)
            count += 1
            if isNew, ownQueue?.start(operation, at: dispatch.moment) == true {
                // The manager's own queue has started it inline.
            } else if isNew, dispatch.startsBeside {
                // No queue has a member of a group or a shared transfer.
                if !context.transport.isReentrant || !operation.startInline(at: dispatch.moment) {
                    context.taskControl.async { operation.start() }
                }
            } else if isNew, operation.state.withLock({ $0.machine.isWaitingToStart }) {
                enter(operation)
                count -= 1
            } else {
                // The operation resumes after a wait, or was started by hand before this call and keeps its slot until
                // it finishes.
                operation.resumeAttempt(after: .slotGiven(dispatch.slot))
            }
            // The current thread may be the main thread, and other threads may add operations as fast as it starts
            // them.
            if count == Self.inlineStartLimit {
                state.withLock { $0.isHandingOver = false }
                return (startQueue ?? context.taskControl).async { self.pump() }
            }
            let now = context.clock.now
            next = state.withLock { $0.next(now) }
        }
    }

    /// Adds an operation to the operation queue, which starts it.
    func enter(_ operation: AnyRequestOperation) {
        if let ownQueue { return ownQueue.add(operation) }
        operation.handOver {
            queue.addOperation($0)
            BarrierCycles.added($0)
        }
    }

    func begins(_ reference: QueueEntryReference, _ suspension: Versioned<OperationStateMachine.Suspension>) -> Bool {
        let begins = state.withLock { $0.begins($0[reference], suspension) }
        if !begins { pump() }
        return begins
    }

    func beginsWithAnswer(_ operation: AnyRequestOperation) {
        handingOver(operation) { $0.beginsWithAnswer($1) }
    }
}
