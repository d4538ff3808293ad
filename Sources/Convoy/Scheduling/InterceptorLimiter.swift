// How many are with their interceptors: a value, without lock.

/// The permits of operations that are with their interceptors, where they hold no slot.
///
/// Each has a task of its own and waits perhaps for one token: a queue of a hundred thousand must not begin all at once. A
/// permit is taken when an operation gets its first slot and given back when its interceptors are done, or it leaves for
/// another reason; `leave` returns a permit and hands it to the next that waits for one.
struct InterceptorLimiter {
    /// Those that have begun are not kept waiting: after an attempt they take a permit beyond the limit.
    var limit = 256

    private(set) var count = 0
    private var waiting: ArraySlice<Ticket> = []

    /// Gives a ticket a permit, or has it wait for one.
    mutating func admit(_ ticket: Ticket) -> Bool {
        guard !ticket.hasPermit else { return true }
        guard count < limit else {
            waiting.append(ticket)
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
    }

    /// Takes a ticket's permit back, if it has one.
    ///
    /// - Returns: the first that waits for one, which has it now.
    mutating func leave(_ ticket: Ticket) -> Ticket? {
        guard ticket.hasPermit else { return nil }
        ticket.hasPermit = false
        count -= 1
        guard count < limit else { return nil }
        while let next = waiting.popFirst() {
            // Others have been cancelled or suspended meanwhile.
            guard next.status == .awaitingPermit else { continue }
            take(next)
            return next
        }
        return nil
    }
}
