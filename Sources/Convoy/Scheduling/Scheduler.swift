// Decides when operations run: what is ready goes to the operation queue, the rest waits here.
import Foundation

/// The working half of a manager.
///
/// What is decided stands in ``SchedulerState``; here its events get their facts, and its effects are performed, with no lock
/// held. Its operations keep it alive, so that a manager may be let go of while they run.
///
/// The manager's own queue gets only what is ready and has a slot: Foundation's rescans every operation that is not ready on
/// every event, which makes long chains quadratic. Here each enqueue, finish and cancel is O(1) amortised. A queue of the
/// caller's gets everything at once, so that all it promises holds.
final class Scheduler: OperationScheduler {
    let queue: OperationQueue
    /// The queue under the operation queue when that is the manager's own; an operation queue does not keep it alive.
    let startQueue: DispatchQueue?
    /// The operation queue, when it is the manager's own.
    let ownQueue: ManagerQueue?
    let context: ExecutionContext
    let state: Locked<SchedulerState>
    /// Tells whether there is a network; nil where requests do not wait for one.
    let connectivity: (any ConnectivityMonitor)?
    /// The batches and the like that have not ended.
    let producers = Locked<[ObjectIdentifier: any Producer]>([:])

    init(
        queue: OperationQueue, startQueue: DispatchQueue?, context: ExecutionContext,
        connectivity: (any ConnectivityMonitor)?, _ state: SchedulerState
    ) {
        self.connectivity = connectivity
        self.queue = queue
        ownQueue = queue as? ManagerQueue
        self.startQueue = startQueue
        self.context = context
        self.state = Locked(state)
    }

    /// Follows the network, and tells the manager's own queue of the operations.
    func follow() {
        connectivity?.start { [weak self] isConnected in self?.connectivityChanged(isConnected) }
        ownQueue?.follow(self)
    }

    /// Takes an operation; one that has been taken or started before is left alone.
    ///
    /// - Returns: why it is not taken: it has finished.
    @discardableResult
    func enqueue(_ operation: AnyRequestOperation, as role: QueueEntry.Role = .caller) -> RequestError? {
        // What happens to the operation from here on is noted in its queue entry, before the state has that.
        let reference = QueueEntryReference(QueueEntry(operation, role))
        let now = context.clock.now
        // Its own manager's, which may be another: they may be secrets.
        let defaults = operation.context.defaults
        let isPlain = operation.options.isPlain
        guard
            var arrival = operation.state.withLock({ state -> OperationState.Arrival? in
                state.arrive(at: self, reference, now).map { arrival in
                    isPlain ? state.prepared(for: arrival, defaults) : arrival
                }
            })
        else { return refuseFinished(operation) }
        if arrival.isWatched { operation.emit(.queued) }
        if operation.options.mayHaveDeadline { operation.armDeadline() }
        if let error = arrival.refusal { operation.conclude(AnyOutcome(error: error)) }
        let barrier = role == .caller ? ownQueue?.lastBarrier : nil
        if let barrier { operation.addDependency(barrier) }
        let hasEdges = arrival.hasEdges || barrier != nil
        if hasEdges { arrival.isDependent = DependencyGraph.isDependent(operation) }
        let effects = handingOver(at: now) { [arrival] state in
            let queueEntry = reference.queueEntry(in: &state)
            return state.arrived(queueEntry, arrival)
        }
        perform(effects, for: operation)
        return nil
    }

    func adopt(_ operation: AnyRequestOperation) {
        let reference = QueueEntryReference(QueueEntry(operation))
        let now = context.clock.now
        let arrival = operation.state.withLock { state in
            state.arrive(at: self, reference, state.timings.started ?? now, isStarted: true)
        }
        guard let arrival else { return }
        if arrival.isWatched { operation.emit(.queued) }
        if operation.options.mayHaveDeadline { operation.armDeadline() }
        let effects = state.withLock { state in
            let queueEntry = reference.queueEntry(in: &state)
            return state.arrived(queueEntry, arrival)
        }
        perform(effects, for: operation)
    }

    /// Tells the monitors of an operation that had finished before it was enqueued; nil for one that has not finished.
    private func refuseFinished(_ operation: AnyRequestOperation) -> RequestError? {
        guard operation.isFinished else { return nil }
        let hint = operation.options.isGroup ? "" : "; copy() makes another"
        let error = RequestError(
            .invalidRequest, "nothing was sent: the operation has finished, and none runs twice\(hint)",
            summary: operation.request?.summary ?? RequestSummary(text: operation.label))
        if !context.monitors.isEmpty {
            context.monitorQueue.async { [context] in
                for monitor in context.monitors { monitor.operation(operation, wasRefused: error) }
            }
        }
        return error
    }

    func finished(_ reference: QueueEntryReference, isSettled: Bool, wasCancelled: Bool) {
        // A queue of the caller's may be cancelling all it has: the next must not be sent for nothing before its turn.
        let isDeferred = wasCancelled && ownQueue == nil
        let effects = handingOver(isDeferred: isDeferred) { state in
            let queueEntry = reference.queueEntry(in: &state)
            return state.finished(queueEntry, isSettled: isSettled)
        }
        if isDeferred { context.taskControl.async { self.pump() } }
        if let transfer = effects.transfer { perform(transfer) }
        for call in effects.calls { call() }
    }

    func settled(_ reference: QueueEntryReference) {
        let calls = state.withLock { state in
            let queueEntry = reference.queueEntry(in: &state)
            return state.settled(queueEntry)
        }
        for call in calls { call() }
    }

    /// Performs what an event of an operation has led to.
    func perform(_ effects: SchedulerState.Effects, for operation: AnyRequestOperation) {
        if let transfer = effects.transfer { perform(transfer) }
        if effects.isRefused {
            operation.conclude(
                .managerShutDown, "nothing was sent: its manager has been shut down; make another manager")
        }
        if effects.starts { operation.start() }
        if effects.enters { enter(operation) }
        if let slot = effects.keeps { operation.resumeAttempt(after: .slotKept(slot)) }
        if effects.resumes { operation.resumeAttempt() }
        if effects.prepares { prepare(operation) }
    }

    /// The queue entry of an operation, if it is one of this manager's.
    func reference(of operation: AnyRequestOperation) -> QueueEntryReference? {
        operation.state.withLock { $0.scheduler === self ? $0.queueEntry : nil }
    }

    /// Gives the state an event of an operation; nil for an operation that has no queue entry.
    func change<Result: Sendable>(
        _ operation: AnyRequestOperation, _ event: (inout SchedulerState, QueueEntry) -> Result
    ) -> Result? {
        guard let reference = reference(of: operation) else { return nil }
        return state.withLock { state in
            let queueEntry = reference.queueEntry(in: &state)
            return event(&state, queueEntry)
        }
    }
}
