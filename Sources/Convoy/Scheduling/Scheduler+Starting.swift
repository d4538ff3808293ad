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
        // If another thread is starting operations, that thread checks once more before it stops.
        let (result, next) = takeNext(now) { state in (event(&state), !state.isHandingOver && !isDeferred) }
        if let next { handOver(from: next) }
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

    /// Passes an event to the state, and returns the next operation if the event asks for one.
    private func takeNext<Result: Sendable>(
        _ now: ContinuousClock.Instant, after event: (inout SchedulerState) -> (result: Result, isWanted: Bool)
    ) -> (Result, SchedulerState.Dispatch?) {
        let (result, next, holds, waiters) = state.withLock {
            state -> (Result, SchedulerState.Dispatch?, [HostQueues.NewHold], Set<ObjectIdentifier>) in
            let (result, isWanted) = event(&state)
            // The thread that starts operations also sets the timers for new holds.
            guard isWanted else { return (result, nil, [], []) }
            let next = state.next(now)
            let waiters = next == nil ? state.takeSlotWaiters() : []
            return (result, next, state.queues.newHolds.isEmpty ? [] : state.queues.takeNewHolds(), waiters)
        }
        for hold in holds { liftLater(hold) }
        for waiter in waiters { producers.withLock { $0[waiter] }?.slotsAreFree() }
        return (result, next)
    }

    /// Starts or queues one operation after the other, until none may run or this thread has started enough of them.
    private func handOver(from first: SchedulerState.Dispatch) {
        var (next, count) = (first, 0)
        while true {
            if handOver(next) { count += 1 }
            // The current thread may be the main thread, and other threads may add operations as fast as it starts
            // them.
            if count == Self.inlineStartLimit {
                state.withLock { $0.isHandingOver = false }
                return (startQueue ?? context.taskControl).async { self.pump() }
            }
            guard let another = takeNext(context.clock.now, after: { _ in ((), isWanted: true) }).1 else { return }
            next = another
        }
    }

    /// Resumes or starts an operation here, or adds it to the operation queue.
    ///
    /// False if the operation was added to the queue.
    private func handOver(_ next: SchedulerState.Dispatch) -> Bool {
        let operation = next.operation
        if !next.hasBegun, ownQueue?.start(operation, at: next.moment) == true { return true }
        if !next.hasBegun, next.startsBeside {
            startBeside(operation, at: next.moment)
            return true
        }
        guard !next.hasBegun, operation.state.withLock({ $0.machine.isWaitingToStart }) else {
            // The operation resumes after a wait, or was started by hand before this call and keeps its slot until it
            // finishes.
            operation.resumeAttempt(after: .slotGiven(next.slot))
            return true
        }
        enter(operation)
        return false
    }

    /// Adds an operation to the operation queue, which starts it.
    func enter(_ operation: AnyRequestOperation) {
        if let ownQueue { return ownQueue.add(operation) }
        operation.handOver {
            queue.addOperation($0)
            BarrierCycles.added($0)
        }
    }

    /// Starts an operation that is in no queue: a member of a group, or a shared transfer.
    private func startBeside(_ operation: AnyRequestOperation, at moment: CompactInstant) {
        if context.transport.isReentrant, operation.startInline(at: moment) { return }
        context.taskControl.async { operation.start() }
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
