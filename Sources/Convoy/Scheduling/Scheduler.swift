// Decides when operations run: what is ready goes to the operation queue, the rest waits here.
import Foundation

/// The working half of a manager.
///
/// What is decided stands in ``SchedulerState``; here its events get their facts, and its effects are performed, with no lock
/// held. Its operations keep it alive, so that a manager may be let go of while they run.
///
/// Foundation's queue gets only what is ready and has a slot: it rescans every operation that is not ready on every
/// event, which makes long chains quadratic. Here each enqueue, finish and cancel is O(1) amortised.
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
    /// The transfers that are shared.
    let coalescer = Locked(Coalescer())
    /// The batches and the like that have not ended.
    let undertakings = Locked<[ObjectIdentifier: any Undertaking]>([:])

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
        ownQueue?.follow(
            ManagerQueue.Members(
                unfinished: { [weak self] in self?.operations.filter { !$0.isFinished } ?? [] },
                addBarrier: { [weak self] block in
                    self?.state.withLock { $0.barrierAdded(block) }
                    return self
                }))
    }

    /// Takes an operation; one that has been taken or started before is left alone.
    ///
    /// - Parameter isShared: whether it is the transfer of several others, and belongs to no caller.
    /// - Returns: why it is not taken: it has finished.
    @discardableResult
    func enqueue(_ operation: AnyRequestOperation, isShared: Bool = false) -> RequestError? {
        // What happens to the operation from here on is noted in its ticket, before the state has that.
        let reference = TicketReference(Ticket(operation, isShared: isShared))
        let now = context.clock.now
        // Its own manager's, which may be another: they may be secrets.
        let defaults = operation.context.defaults
        let isPlain = operation.traits.isPlain
        guard
            let arrival = operation.state.withLock({ state -> OperationState.Arrival? in
                state.arrive(at: self, reference, now).map { arrival in
                    isPlain ? state.prepared(for: arrival, defaults) : arrival
                }
            })
        else { return refuseFinished(operation) }
        if arrival.isWatched { operation.emit(.queued) }
        operation.armDeadline()
        if let error = arrival.refusal { operation.conclude(AnyOutcome(error: error)) }
        let isDependent =
            arrival.hasEdges ? DependencyGraph.isDependent(operation) : Versioned(false, version: 1)
        let effects = handingOver { state in
            let ticket = reference.ticket(in: &state)
            return state.arrived(
                ticket,
                SchedulerState.Arrival(
                    host: arrival.host, priority: arrival.priority, suspension: arrival.suspension,
                    isDependent: isDependent, hasOutcome: arrival.hasOutcome, isSettled: arrival.isSettled))
        }
        perform(effects, for: operation)
        return nil
    }

    /// Tells the monitors of an operation that had finished before it was enqueued; nil for one that has not finished.
    private func refuseFinished(_ operation: AnyRequestOperation) -> RequestError? {
        guard operation.isFinished else { return nil }
        let hint = operation.traits.isGroup ? "" : "; copy() makes another"
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

    func finished(_ reference: TicketReference, isSettled: Bool) {
        let calls = handingOver { state in
            let ticket = reference.ticket(in: &state)
            return state.finished(ticket, isSettled: isSettled)
        }
        for call in calls { call() }
    }

    func settled(_ reference: TicketReference) {
        let calls = state.withLock { state in
            let ticket = reference.ticket(in: &state)
            return state.settled(ticket)
        }
        for call in calls { call() }
    }

    /// Performs what an event of an operation has led to.
    func perform(_ effects: SchedulerState.Effects, for operation: AnyRequestOperation) {
        if let transfer = effects.leaves { leaveSharedTransfer(operation, transfer) }
        if effects.isRefused {
            operation.conclude(
                .managerShutDown, "nothing was sent: its manager has been shut down; make another manager")
        }
        if effects.starts { operation.start() }
        if let slot = effects.keeps { operation.resumeAttempt(after: .slotKept(slot)) }
        if effects.prepares { prepare(operation) }
    }

    /// Gives the state an event of an operation; nil for an operation that has no ticket.
    func change<Result: Sendable>(
        _ operation: AnyRequestOperation, _ event: (inout SchedulerState, Ticket) -> Result
    ) -> Result? {
        guard let reference = operation.state.withLock({ $0.ticket }) else { return nil }
        return state.withLock { state in
            let ticket = reference.ticket(in: &state)
            return event(&state, ticket)
        }
    }
}
