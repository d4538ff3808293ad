// Decides when operations run, and starts them or adds them to the operation queue.
import Foundation

/// Schedules the operations of a manager.
///
/// ``SchedulerState`` makes the decisions. This class supplies the facts for its events and performs its effects with
/// no lock held. The operations retain their scheduler, so the manager may be released while they run.
///
/// The manager's own queue receives only operations that are ready and have a slot. Foundation rescans every operation
/// that is not ready on every event, which makes long chains quadratic. Here each enqueue, finish and cancel is O(1)
/// amortised. A caller's queue receives every operation at once, so that the guarantees of that queue apply.
final class Scheduler: OperationScheduler {
    /// How many operations a call starts on its own thread before another thread continues.
    private static let inlineStartLimit = 64

    let queue: OperationQueue
    /// Starts operations that no other thread starts.
    ///
    /// The manager's own operation queue runs on it, but does not retain it.
    private let startQueue: DispatchQueue
    /// The operation queue, if it is the manager's own; nil also for the queue of another manager.
    let ownQueue: ManagerQueue?
    let context: ExecutionContext
    let state: Locked<SchedulerState>
    /// Reports whether there is a network; nil if requests do not wait for one.
    let connectivity: (any ConnectivityMonitor)?
    /// The batches and similar producers that have not ended.
    let producers = Locked<[ObjectIdentifier: any Producer]>([:])

    init(
        queue: OperationQueue, ownQueue: ManagerQueue?, startQueue: DispatchQueue, context: ExecutionContext,
        connectivity: (any ConnectivityMonitor)?, _ state: SchedulerState
    ) {
        (self.queue, self.ownQueue, self.startQueue) = (queue, ownQueue, startQueue)
        (self.context, self.connectivity) = (context, connectivity)
        self.state = Locked(state)
        connectivity?.start { [weak self] isConnected in self?.connectivityChanged(isConnected) }
        ownQueue?.follow(self)
    }

    /// Enqueues an operation, unless it was enqueued or started before.
    ///
    /// - Parameter isStarted: whether the operation has been started before it was enqueued, and is executing.
    /// - Returns: the error if the operation has finished already; nil otherwise.
    @discardableResult
    func enqueue(
        _ operation: AnyRequestOperation, as role: QueueEntry.Role = .caller, isStarted: Bool = false
    ) -> RequestError? {
        // From here on the queue entry records changes of the operation, even before the state has the entry.
        let reference = QueueEntryReference(place: QueueEntry(operation, role))
        let now = context.clock.now
        // Another manager may have made the operation. Its request gets the defaults of that manager, because defaults
        // may contain secrets.
        let defaults = operation.context.defaults
        let isPlain = operation.isPlain
        guard
            var arrival = operation.state.withLock({ state in
                state.arrive(at: self, reference, now, preparing: isPlain ? defaults : nil, isStarted: isStarted)
            })
        else { return isStarted ? nil : refuseFinished(operation) }
        if arrival.isWatched { operation.emit(.queued) }
        if operation.mayHaveDeadline { operation.armDeadline() }
        if let error = arrival.refusal { operation.conclude(AnyOutcome(error: error)) }
        let barrier = role == .caller && !isStarted ? ownQueue?.lastBarrier : nil
        if let barrier { operation.addDependency(barrier) }
        let hasEdges = arrival.hasEdges || barrier != nil
        if hasEdges { arrival.isDependent = DependencyGraph.isDependent(operation) }
        perform(handingOver(at: now) { [arrival] in $0.arrived($0[reference], arrival) }, for: operation)
        return nil
    }

    func adopt(_ operation: AnyRequestOperation) { enqueue(operation, isStarted: true) }

    /// Returns an error and notifies the monitors, if an enqueued operation had finished before; nil otherwise.
    private func refuseFinished(_ operation: AnyRequestOperation) -> RequestError? {
        guard operation.isFinished else { return nil }
        let hint = operation.isGroup ? "" : "; copy() makes another"
        let error = RequestError(
            .invalidRequest, "nothing was sent: the operation has finished, and cannot run twice\(hint)",
            summary: operation.request?.summary ?? RequestSummary(text: operation.label))
        if !context.monitors.isEmpty {
            context.monitorQueue.async { [context] in
                for monitor in context.monitors { monitor.operation(operation, wasRefused: error) }
            }
        }
        return error
    }

    func finished(_ reference: QueueEntryReference, isSettled: Bool) {
        let effects = handingOver { $0.finished($0[reference], isSettled: isSettled) }
        if let transfer = effects.transfer { perform(transfer) }
        for call in effects.calls { call() }
    }

    func settled(_ reference: QueueEntryReference) {
        for call in state.withLock({ $0.settled($0[reference]) }) { call() }
    }

    static let shutDownReason = "nothing was sent: its manager has been shut down; make another manager"

    func perform(_ effects: SchedulerState.Effects, for operation: AnyRequestOperation) {
        if let transfer = effects.transfer { perform(transfer) }
        if effects.isRefused {
            operation.conclude(.managerShutDown, Self.shutDownReason)
        }
        if effects.starts { operation.start() }
        if effects.enters, ownQueue?.start(operation, at: CompactInstant(context.clock.now)) != true {
            enter(operation)
        }
        if let slot = effects.keeps { operation.resumeAttempt(after: .slotKept(slot)) }
        if effects.resumes { operation.resumeAttempt() }
        if effects.prepares { prepare(operation) }
    }

    /// The queue entry of an operation, if it belongs to this manager.
    func reference(of operation: AnyRequestOperation) -> QueueEntryReference? {
        operation.state.withLock { $0.scheduler === self ? $0.queueEntry : nil }
    }

    /// Passes an event of an operation to the state; nil if the operation has no queue entry.
    func change<Result: Sendable>(
        _ operation: AnyRequestOperation, _ event: (inout SchedulerState, QueueEntry) -> Result
    ) -> Result? {
        guard let reference = reference(of: operation) else { return nil }
        return state.withLock { event(&$0, $0[reference]) }
    }
    // MARK: Starting

    /// Starts the operations that may run, or adds them to the operation queue.
    func pump() { handingOver { _ in } }

    /// Calls `pump()` on another thread, because many operations may start and the current thread has other work.
    func pumpElsewhere() { startQueue.async { self.pump() } }

    /// Passes an event to the state, and starts or queues the operations that may then run.
    ///
    /// One thread at a time starts or queues them. Operations therefore enter the operation queue in the order of their
    /// slots.
    @discardableResult
    func handingOver<Result: Sendable>(
        at now: ContinuousClock.Instant? = nil, _ event: (inout SchedulerState) -> Result
    ) -> Result {
        let now = now ?? context.clock.now
        let (result, first) = state.withLock { state -> (Result, SchedulerState.Next?) in
            let result = event(&state)
            // If another thread is starting operations, that thread checks once more before it stops.
            return (result, state.isHandingOver ? nil : state.next(now))
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
                // The manager's own queue has started the operation on this thread.
            } else if isNew, dispatch.startsBeside {
                // The operation is in no queue: it is a shared transfer, or a member of a group in a caller's queue.
                if !context.transport.isReentrant || !operation.startInline(at: dispatch.moment) {
                    context.taskControl.async { operation.start() }
                }
            } else if isNew, enter(operation) {
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
                return pumpElsewhere()
            }
            let now = context.clock.now
            next = state.withLock { $0.next(now) }
        }
    }

    /// Adds an operation to the operation queue, which starts it; false if it has begun.
    @discardableResult
    func enter(_ operation: AnyRequestOperation) -> Bool {
        if let ownQueue { return ownQueue.add(operation) }
        return operation.handOver {
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
