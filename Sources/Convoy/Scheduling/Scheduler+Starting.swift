// Handing over what may run, one thread at a time.
import Foundation

extension Scheduler {
    /// How many operations a thread starts that only came to enqueue or to finish one.
    private static let inlineStartLimit = 64

    /// Hands over what may run.
    ///
    /// One thread at a time, so that what was first in line is first in the queue.
    func pump() { handingOver { _ in } }

    /// Changes the state, and hands over what may run then.
    ///
    /// One thread at a time hands over, so that what was first in line is first in the queue.
    @discardableResult
    func handingOver<Result: Sendable>(_ change: (inout State) -> Result) -> Result {
        // The thread that hands over looks once more before it ends.
        let (result, next) = takeNext { state in (change(&state), !state.isPumping) }
        if let next { handOver(from: next) }
        return result
    }

    /// Changes the state, and takes the operation that may run next if that is wanted then.
    private func takeNext<Result: Sendable>(
        after change: (inout State) -> (result: Result, isWanted: Bool)
    ) -> (Result, Next?) {
        let placeLimit = State.placeLimit(queue.maxConcurrentOperationCount)
        let now = context.clock.now
        let (result, next, holds) = state.withLock { state -> (Result, Next?, [HostQueues.NewHold]) in
            let (result, isWanted) = change(&state)
            guard isWanted else { return (result, nil, []) }
            return (result, state.takeNext(placeLimit, now), state.room.takeNewHolds())
        }
        for hold in holds { liftLater(hold.host, at: hold.until) }
        return (result, next)
    }

    /// Hands over one operation after the other, until none may run.
    private func handOver(from first: Next) {
        var (next, count) = (first, 0)
        while true {
            if handOver(next) { count += 1 }
            // This may be the main thread, and others may add as fast as it starts.
            if count == Self.inlineStartLimit, let startQueue {
                state.withLock { $0.isPumping = false }
                return startQueue.async { self.pump() }
            }
            guard let another = takeNext(after: { _ in ((), isWanted: true) }).1 else { return }
            next = another
        }
    }

    /// Has an operation go on or start here, or gives it to the operation queue to start it; false for the latter.
    private func handOver(_ next: Next) -> Bool {
        if !next.hasBegun, ownQueue?.start(next.operation) == true { return true }
        guard !next.hasBegun, next.operation.state.withLock({ $0.machine.isWaitingToStart }) else {
            // It goes on after a wait; or it was started by hand meanwhile, and keeps its slot until it finishes.
            next.operation.goOn(after: .slotGiven(next.slot))
            return true
        }
        handOver(next.operation)
        return false
    }

    /// Gives an operation to the operation queue to start it.
    func handOver(_ operation: AnyRequestOperation) {
        if let ownQueue { ownQueue.add(operation) } else { operation.handOver { queue.addOperation($0) } }
    }

    /// An operation that has a slot.
    struct Next: Sendable {
        let operation: AnyRequestOperation
        let slot: OperationStateMachine.Slot
        let hasBegun: Bool
    }

    /// An operation has been started: whether it may send at once.
    ///
    /// One that may not has no slot, and is to come back by ``requeue(_:host:)``: it is suspended, its host has been put on
    /// hold while it waited for the operation queue, or its slot was used by another that had begun before.
    func begins(_ reference: TicketReference, isSuspended: Bool) -> Bool {
        let begins = state.withLock { state in
            let ticket = reference.ticket(in: &state)
            guard state.room.begin(ticket, limit: state.slotLimit) else { return false }
            guard isSuspended, ticket.status == .handed else { return true }
            state.room.giveBack(ticket, for: .aside)
            return false
        }
        if !begins { pump() }
        return begins
    }

    /// An operation with an answer that another has fetched has been started: it sends nothing.
    func beginsWithAnswer(_ operation: AnyRequestOperation) {
        change(operation) { state, ticket in _ = state.room.begin(ticket, limit: .max) }
    }
}

extension Scheduler.State {
    /// How many may have a slot: fewer while descriptors are missing.
    var slotLimit: Int { min(limit, shortage.limit ?? .max) }

    /// How many may be in the operation queue.
    ///
    /// A queue that takes none now still gets one: it waits there for the queue's owner.
    static func placeLimit(_ queueLimit: Int) -> Int { queueLimit < 0 ? .max : max(1, queueLimit) }

    /// The next operation to hand over; with none, the thread that asks is done.
    mutating func takeNext(_ placeLimit: Int, _ now: ContinuousClock.Instant) -> Scheduler.Next? {
        isPumping = true
        if !isSuspended, freezes == 0, let ticket = takeTicket(placeLimit, now), let operation = ticket.operation {
            return Scheduler.Next(
                operation: operation, slot: ticket.operationSlot, hasBegun: ticket.hasBegun)
        }
        isPumping = false
        return nil
    }

    /// The next one to run; those that would be too many with their interceptors are put aside.
    private mutating func takeTicket(_ placeLimit: Int, _ now: ContinuousClock.Instant) -> Ticket? {
        while let ticket = room.takeNext(limit: slotLimit, placeLimit: placeLimit, now: now) {
            ticket.releasesSeen = shortage.releases
            // An operation that returns has begun: it does not wait for those that have not.
            if ticket.isReturning { return ticket }
            if !ticket.asksInterceptors || interceptorLimiter.admit(ticket) {
                retryBudget.noteRequest(now: now)
                return ticket
            }
            room.giveBack(ticket, for: .crowded)
        }
        return nil
    }

    /// Gives a ticket its place; true when its operation waits for more than a slot.
    mutating func take(_ ticket: Ticket, _ arrival: OperationState.Arrival) -> Bool {
        insert(ticket)
        // Cancelled meanwhile.
        guard ticket.status == .preparing else { return arrival.host == nil }
        // A carrier is not held: what shares it may have come before the barrier.
        if !barriers.isEmpty, !ticket.isCarrier {
            ticket.isBarred = true
            barriers[barriers.count - 1].held.append(ticket)
        }
        guard let host = arrival.host, !isShutDown, !ticket.mustBlock, !ticket.isBarred else {
            (ticket.status, ticket.mustBlock) = (.blocked, false)
            return true
        }
        ticket.host = host
        // Unless its owner has changed his mind since it arrived.
        let suspension = ticket.suspension ?? arrival.suspension
        ticket.suspension = suspension
        if suspension.isSuspended { ticket.status = .suspended } else { room.join(ticket) }
        return false
    }

    private mutating func insert(_ ticket: Ticket) {
        lastSequence += 1
        ticket.sequence = lastSequence
        // Cancelled, finished and settled before it came here.
        if ticket.isFinished, ticket.isSettled { return }
        count += 1
        if let slot = freeSlots.popLast() {
            ticket.slot = slot
            tickets[slot] = ticket
        } else {
            ticket.slot = tickets.count
            tickets.append(ticket)
        }
    }

    /// Forgets a ticket whose operation has finished and settled; the result is who waited for the last one, nil when it is not
    /// over.
    mutating func removeIfOver(_ ticket: Ticket) -> [CheckedContinuation<Void, Never>]? {
        guard ticket.isFinished, ticket.isSettled else { return nil }
        // The caller holds the operation: this is not its last reference.
        ticket.operation = nil
        return remove(ticket)
    }

    /// Forgets a ticket; the result is who waited for the last one.
    mutating func remove(_ ticket: Ticket) -> [CheckedContinuation<Void, Never>] {
        guard ticket.slot < tickets.count, tickets[ticket.slot] === ticket else { return [] }
        tickets[ticket.slot] = nil
        freeSlots.append(ticket.slot)
        count -= 1
        guard count == 0 else { return [] }
        // Room for a crowd that has gone is given back.
        (tickets, freeSlots) = ([], [])
        defer { drains = [:] }
        return Array(drains.values)
    }
}
