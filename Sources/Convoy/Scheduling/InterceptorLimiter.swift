// Who is with interceptors: a value, without lock.

/// The places for operations that are with their interceptors, where they hold no slot.
///
/// Each has a task of its own and waits perhaps for one token: a queue of a hundred thousand must not begin all at once. A
/// place is taken when an operation is let out of the waiting room and given back when its interceptors are done, or it
/// leaves for another reason; `leave` returns a place and hands it to the first of the crowd.
struct InterceptorLimiter {
    /// Those who have begun are not kept waiting: after an attempt they take a place beyond the limit.
    static let limit = 256

    private(set) var count = 0
    private var crowd: ArraySlice<Ticket> = []

    /// Gives a ticket a place, or puts it at the end of the crowd.
    mutating func admit(_ ticket: Ticket) -> Bool {
        guard !ticket.isIntercepted else { return true }
        guard count < Self.limit else {
            crowd.append(ticket)
            return false
        }
        take(ticket)
        return true
    }

    /// Gives a ticket a place.
    mutating func take(_ ticket: Ticket) {
        guard !ticket.isIntercepted else { return }
        ticket.isIntercepted = true
        count += 1
    }

    /// Takes a ticket's place back, if it has one.
    ///
    /// - Returns: the first of the crowd, which has a place now.
    mutating func leave(_ ticket: Ticket) -> Ticket? {
        guard ticket.isIntercepted else { return nil }
        ticket.isIntercepted = false
        count -= 1
        guard count < Self.limit else { return nil }
        while let next = crowd.popFirst() {
            // Others have been cancelled or suspended meanwhile.
            guard next.status == .crowded else { continue }
            take(next)
            return next
        }
        return nil
    }
}
