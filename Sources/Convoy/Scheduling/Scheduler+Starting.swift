// Handing over what may run, one thread at a time.
import Foundation

extension Scheduler {
    /// How many operations a thread starts that only came to enqueue or to finish one.
    private static let inlineStartLimit = 64

    /// Hands over what may run.
    ///
    /// One thread at a time, so that what was first in line is first in the queue.
    func pump() {
        let isPumping = state.withLock { state in
            defer { state.isPumping = true }
            return state.isPumping
        }
        guard !isPumping else { return }
        var count = 0
        while let (operation, suspensions) = takeNext() {
            if !operation.state.withLock({ $0.machine.isWaitingToStart }) {
                // It goes on after a wait; or it was started by hand meanwhile, and keeps its slot until it finishes.
                operation.goOn(after: suspensions)
            } else if !handOver(operation) {
                continue
            }
            count += 1
            // This may be somebody's main thread, and others may add as fast as it starts.
            if count == Self.inlineStartLimit, let startQueue {
                state.withLock { $0.isPumping = false }
                return startQueue.async { self.pump() }
            }
        }
    }

    /// Starts an operation here, or gives it to the operation queue to start it; false for the latter.
    @discardableResult
    func handOver(_ operation: AnyRequestOperation) -> Bool {
        if inlineQueue?.run(operation) == true { return true }
        operation.handOver { queue.addOperation($0) }
        return false
    }

    /// The next operation that has a slot, and how often it had been suspended when it was given it.
    private func takeNext() -> (AnyRequestOperation, UInt32)? {
        let queueLimit = queue.maxConcurrentOperationCount
        let now = context.clock.now
        let (next, holds) = state.withLock { state in
            var next: (AnyRequestOperation, UInt32)?
            if !state.isSuspended, state.freezes == 0, let ticket = state.takeNext(queueLimit: queueLimit, now: now),
                let operation = ticket.operation
            {
                next = (operation, ticket.suspensions)
            }
            if next == nil { state.isPumping = false }
            return (next, state.room.takeNewHolds())
        }
        for hold in holds { liftLater(hold.host, at: hold.until) }
        return next
    }

    /// An operation has been started: whether it may send at once.
    ///
    /// One that may not has no slot, and is to come back by ``rejoin(_:host:)``: it is suspended, its host has been put on
    /// hold while it waited for the operation queue, or its slot was used by another that had begun before.
    func begins(_ operation: AnyRequestOperation, isSuspended: Bool) -> Bool {
        let begins = change(operation) { state, ticket in
            guard state.room.begin(ticket, limit: state.slotLimit) else { return false }
            guard isSuspended, ticket.status == .handed else { return true }
            state.room.giveBack(ticket, for: .aside)
            return false
        }
        if begins == false { pump() }
        return begins ?? true
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

    /// The next one to run; those that would be too many with their interceptors are put aside.
    mutating func takeNext(queueLimit: Int, now: ContinuousClock.Instant) -> Ticket? {
        let placeLimit = Self.placeLimit(queueLimit)
        while let ticket = room.takeNext(limit: slotLimit, placeLimit: placeLimit, now: now) {
            ticket.releasesSeen = shortage.releases
            // Who returns has begun: it waits for nobody who has not.
            if ticket.isReturning { return ticket }
            if !ticket.asksInterceptors || interceptions.admit(ticket) {
                retryBudget.noteRequest(now: now)
                return ticket
            }
            room.giveBack(ticket, for: .crowded)
        }
        return nil
    }

    mutating func insert(_ ticket: Ticket) {
        count += 1
        if let slot = freeSlots.popLast() {
            ticket.slot = slot
            tickets[slot] = ticket
        } else {
            ticket.slot = tickets.count
            tickets.append(ticket)
        }
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
