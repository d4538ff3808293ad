// Decides when operations run: what is ready goes to the operation queue, the rest waits here.
import Foundation

/// The working half of a manager.
///
/// Its operations keep it alive, so that a manager may be let go of while they run.
///
/// Foundation's queue gets only what is ready and has a slot: it rescans every operation that is not ready on every
/// event, which makes long chains quadratic. Here each enqueue, finish and cancel is O(1) amortised.
final class Scheduler: Sendable {
    struct State {
        var room: WaitingRoom
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
        var interceptions = Interceptions()
        var shortage = Shortage()
    }

    let queue: OperationQueue
    /// The queue under the operation queue when that is the manager's own; an operation queue does not keep it alive.
    let startQueue: DispatchQueue?
    /// The operation queue, when it starts operations on the thread that hands them over.
    let inlineQueue: InlineQueue?
    let context: ExecutionContext
    let state: Locked<State>
    /// Whether the ends of attempts say something about their hosts.
    let learns: Bool
    /// The transfers that are shared.
    let flights = Locked(Flights())
    /// The batches and the like that have not ended.
    let undertakings = Locked<[ObjectIdentifier: any Undertaking]>([:])

    init(
        queue: OperationQueue, startQueue: DispatchQueue?, configuration: RequestManager.Configuration
    ) {
        self.queue = queue
        inlineQueue = queue as? InlineQueue
        self.startQueue = startQueue
        context = ExecutionContext(configuration)
        let limits = HostLimits(
            fixed: configuration.maxConcurrentPerHost, adaptive: configuration.hostLimits,
            breaker: configuration.breaker)
        learns = limits.learn
        state = Locked(
            State(
                room: WaitingRoom(limits: limits),
                limit: max(1, configuration.maxConcurrentOperationCount),
                retryBudget: RetryBudgetState(configuration.retryBudget)))
    }

    /// Takes an operation; one that has been taken or started before is left alone.
    func enqueue(_ operation: AnyRequestOperation, isCarrier: Bool = false) {
        guard operation.state.withLock({ $0.scheduler == nil && $0.machine.isWaitingToStart }) else { return }
        let priority = operation.queuePriority
        let now = context.clock.now
        // Among the tickets before the operation knows of it: it may be cancelled, and finish, as soon as it does.
        let (ticket, isShutDown) = state.withLock { state in
            state.lastSequence += 1
            let ticket = Ticket(operation, sequence: state.lastSequence, priority: priority)
            ticket.isCarrier = isCarrier
            state.insert(ticket)
            return (TicketReference(ticket), state.isShutDown)
        }
        let isTaken = operation.state.withLock { state in
            guard state.scheduler == nil, state.machine.isWaitingToStart else { return false }
            state.scheduler = self
            state.ticket = ticket
            state.timings.queued = now
            return true
        }
        guard isTaken else {
            // Another manager, or a start by hand, came between.
            let drains = state.withLock { state in
                let ticket = ticket.ticket(in: &state)
                return state.remove(ticket)
            }
            for drain in drains { drain.resume() }
            return
        }
        // It may have changed before there was a ticket to change.
        if operation.queuePriority != priority { priorityChanged(of: operation) }
        operation.emit(.queued)
        operation.armDeadline()
        if isShutDown {
            operation.conclude(
                .managerShutDown, "nothing was sent: its manager has been shut down; make another manager")
        }
        if operation.state.withLock({ $0.outcome != nil }) {
            // It had ended before it came here.
            if operation.state.withLock({ $0.isSettled }) { settled(operation) }
            abandoned(operation)
        } else {
            dependenciesChanged(of: operation)
        }
    }

    /// An operation has finished: its slot is free.
    func finished(_ operation: AnyRequestOperation) {
        change(operation) { state, ticket in
            state.leaveInterceptors(ticket)
            state.room.giveBack(ticket)
            // Started by hand while it stood in line.
            state.room.leave(ticket, for: .gone)
            state.room.leavePlace(ticket)
            ticket.status = .gone
            ticket.isFinished = true
            if let next = state.shortage.noteEnd(slots: state.limit) { state.room.join(next) }
        }
        removeIfOver(operation)
        pump()
        // Behind what it made room for, so that who waits for the queue to be empty is not told so in between.
        inlineQueue?.finished(operation)
    }

    /// The last callback of an operation has returned.
    func settled(_ operation: AnyRequestOperation) {
        change(operation) { $1.isSettled = true }
        removeIfOver(operation)
    }

    private func removeIfOver(_ operation: AnyRequestOperation) {
        let drains = change(operation) { state, ticket -> [CheckedContinuation<Void, Never>]? in
            guard ticket.isFinished, ticket.isSettled else { return nil }
            // The caller holds the operation: this is not its last reference.
            ticket.operation = nil
            return state.remove(ticket)
        }
        guard let drains = drains ?? nil else { return }
        operation.state.withLock { ($0.scheduler, $0.ticket) = (nil, nil) }
        for drain in drains { drain.resume() }
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

extension OperationStateMachine {
    /// Whether `start()` is still to come.
    var isWaitingToStart: Bool { phase == .pending || phase == .abandoned }
}
