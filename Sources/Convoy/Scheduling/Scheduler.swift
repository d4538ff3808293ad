// Decides when operations run: what is ready goes to the operation queue, the rest waits here.
import Foundation

/// The working half of a manager.
///
/// Its operations keep it alive, so that a manager may be let go of while they run.
///
/// Foundation's queue gets only what is ready and has a slot: it rescans every operation that is not ready on every
/// event, which makes long chains quadratic. Here each enqueue, finish and cancel is O(1) amortised.
final class Scheduler: OperationScheduler {
    struct State {
        var room: HostQueues
        var limit: Int
        var tickets: [Ticket?] = []
        var freeSlots: [Int] = []
        var count = 0
        var lastSequence: UInt64 = 0
        var isPumping = false
        var isShutDown = false
        var isSuspended = false
        /// How many are cancelling a crowd: what they free must not go to those who are next to be cancelled.
        var freezes = 0
        var drains: [Int: CheckedContinuation<Void, Never>] = [:]
        var lastDrain = 0
        var retryBudget: RetryBudgetState
        var interceptorLimiter = InterceptorLimiter()
        var shortage = Shortage()
        /// The barriers of the manager's own queue that have not run, and what each holds back.
        var barriers: [(barrier: Barrier, held: [Ticket])] = []
    }

    let queue: OperationQueue
    /// The queue under the operation queue when that is the manager's own; an operation queue does not keep it alive.
    let startQueue: DispatchQueue?
    /// The operation queue, when it is the manager's own.
    let ownQueue: ManagerQueue?
    let context: ExecutionContext
    let state: Locked<State>
    /// The transfers that are shared.
    let coalescer = Locked(Coalescer())
    /// The batches and the like that have not ended.
    let undertakings = Locked<[ObjectIdentifier: any Undertaking]>([:])

    init(
        queue: OperationQueue, startQueue: DispatchQueue?, context: ExecutionContext, limit: Int, hosts: HostLimits,
        retryBudget: RetryBudget
    ) {
        self.queue = queue
        ownQueue = queue as? ManagerQueue
        self.startQueue = startQueue
        self.context = context
        state = Locked(
            State(
                room: HostQueues(limits: hosts), limit: max(1, limit), retryBudget: RetryBudgetState(retryBudget)))
    }

    /// Tells the manager's own queue of the operations.
    func followMembers() {
        ownQueue?.follow(
            ManagerQueue.Members(
                unfinished: { [weak self] in self?.operations.filter { !$0.isFinished } ?? [] },
                addBarrier: { [weak self] block in
                    self?.addBarrier(block)
                    return self
                }))
    }

    /// Takes an operation; one that has been taken or started before is left alone.
    func enqueue(_ operation: AnyRequestOperation, isCarrier: Bool = false) {
        let priority = operation.queuePriority
        let ticket = Ticket(operation, priority: priority, isCarrier: isCarrier)
        // What happens to the operation from here on is noted in its ticket, before that has its place.
        ticket.status = .preparing
        let reference = TicketReference(ticket)
        let now = context.clock.now
        let baseURL = context.baseURL
        let isPlain = operation.traits.isPlain
        guard
            let arrival = operation.state.withLock({ state -> OperationState.Arrival? in
                state.arrive(at: self, reference, now).map { arrival in
                    isPlain ? state.prepared(for: arrival, baseURL) : arrival
                }
            })
        else { return }
        if arrival.isWatched { operation.emit(.queued) }
        operation.armDeadline()
        let (isShutDown, waits) = handingOver { state in
            let ticket = reference.ticket(in: &state)
            return (state.isShutDown, state.take(ticket, arrival))
        }
        // It may have changed before there was a ticket to change.
        if operation.queuePriority != priority { priorityChanged(of: operation) }
        if isShutDown {
            operation.conclude(
                .managerShutDown, "nothing was sent: its manager has been shut down; make another manager")
        }
        if let error = arrival.refusal { operation.conclude(AnyOutcome(error: error)) }
        guard waits else { return }
        let (hasOutcome, isSettled) = operation.state.withLock {
            ($0.machine.hasOutcome, $0.machine.delivery.isSettled)
        }
        if hasOutcome {
            // It had ended before it came here.
            if isSettled { settled(reference) }
            abandoned(operation)
        } else {
            dependenciesChanged(of: operation)
        }
    }

    /// An operation has finished: its slot is free.
    ///
    /// - Parameter isSettled: whether its last callback has returned, too.
    func finished(_ reference: TicketReference, isSettled: Bool) {
        let drains = handingOver { state -> [CheckedContinuation<Void, Never>]? in
            let ticket = reference.ticket(in: &state)
            state.leaveInterceptors(ticket)
            state.room.giveBack(ticket)
            // Started by hand while it stood in line.
            state.room.leave(ticket, for: .gone)
            state.room.leavePlace(ticket)
            ticket.status = .gone
            ticket.isFinished = true
            if isSettled { ticket.isSettled = true }
            if let next = state.shortage.noteEnd(slots: state.limit) { state.room.join(next) }
            return state.removeIfOver(ticket)
        }
        for drain in drains ?? [] { drain.resume() }
    }

    /// The last callback of an operation has returned.
    func settled(_ reference: TicketReference) {
        let drains = state.withLock { state in
            let ticket = reference.ticket(in: &state)
            ticket.isSettled = true
            return state.removeIfOver(ticket)
        }
        for drain in drains ?? [] { drain.resume() }
    }

    @discardableResult
    func change<Result: Sendable>(
        _ operation: AnyRequestOperation, _ body: (inout State, Ticket) -> Result
    ) -> Result? {
        guard let reference = operation.state.withLock({ $0.ticket }) else { return nil }
        return state.withLock { state in
            let ticket = reference.ticket(in: &state)
            return body(&state, ticket)
        }
    }
}
