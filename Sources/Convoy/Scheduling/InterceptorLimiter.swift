// How many are with their interceptors: a value, without lock.

/// The permits of operations that are with their interceptors, where they hold no slot.
///
/// Each has a task of its own and waits perhaps for one token: a queue of a hundred thousand must not begin all at once. A
/// permit is taken when an operation gets its first slot and released when its interceptors are done, or it leaves for
/// another reason; `leave` releases a permit and hands it to the next that waits for one.
///
/// As with slots, the permit of an operation that has not begun does not count against those that have.
struct InterceptorLimiter {
    /// Those that have sent something are not kept waiting: after an attempt they take a permit beyond the limit.
    var limit = 256

    private(set) var count = 0
    /// How many of them have not begun.
    private var unstarted = 0
    private var waiting = (begun: ArraySlice<Ticket>(), new: ArraySlice<Ticket>())

    /// Gives a ticket a permit, or has it wait for one.
    mutating func admit(_ ticket: Ticket) -> Bool {
        guard !ticket.hasPermit else { return true }
        guard hasRoom(hasBegun: ticket.hasBegun) else {
            if ticket.hasBegun { waiting.begun.append(ticket) } else { waiting.new.append(ticket) }
            return false
        }
        take(ticket)
        return true
    }

    /// Gives a ticket a permit.
    mutating func take(_ ticket: Ticket) {
        guard !ticket.hasPermit else { return }
        ticket.hasPermit = true
        count += 1
        if !ticket.hasBegun { unstarted += 1 }
    }

    /// A ticket is about to begin.
    mutating func begin(_ ticket: Ticket) {
        if ticket.hasPermit, !ticket.hasBegun { unstarted -= 1 }
    }

    /// Takes a ticket's permit back, if it has one.
    ///
    /// - Returns: the first that waits for one, which has it now.
    mutating func leave(_ ticket: Ticket) -> Ticket? {
        guard ticket.hasPermit else { return nil }
        ticket.hasPermit = false
        count -= 1
        if !ticket.hasBegun { unstarted -= 1 }
        while let next = popFirst() {
            // Others have been cancelled or suspended meanwhile.
            guard next.status == .awaitingPermit, !next.hasPermit else { continue }
            take(next)
            return next
        }
        return nil
    }

    private func hasRoom(hasBegun: Bool) -> Bool { (hasBegun ? count - unstarted : count) < limit }

    private mutating func popFirst() -> Ticket? {
        if hasRoom(hasBegun: true), let next = waiting.begun.popFirst() { return next }
        return hasRoom(hasBegun: false) ? waiting.new.popFirst() : nil
    }
}
