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
    private var waiting = (begun: ArraySlice<QueueEntry>(), new: ArraySlice<QueueEntry>())

    /// Gives a queue entry a permit, or has it wait for one.
    mutating func admit(_ queueEntry: QueueEntry) -> Bool {
        guard !queueEntry.hasPermit else { return true }
        guard hasRoom(hasBegun: queueEntry.hasBegun) else {
            if queueEntry.hasBegun { waiting.begun.append(queueEntry) } else { waiting.new.append(queueEntry) }
            return false
        }
        take(queueEntry)
        return true
    }

    /// Gives a queue entry a permit.
    mutating func take(_ queueEntry: QueueEntry) {
        guard !queueEntry.hasPermit else { return }
        queueEntry.hasPermit = true
        count += 1
        if !queueEntry.hasBegun { unstarted += 1 }
    }

    /// A queue entry is about to begin.
    mutating func begin(_ queueEntry: QueueEntry) {
        if queueEntry.hasPermit, !queueEntry.hasBegun { unstarted -= 1 }
    }

    /// Takes a queue entry's permit back, if it has one.
    ///
    /// - Returns: the first that waits for one, which has it now.
    mutating func leave(_ queueEntry: QueueEntry) -> QueueEntry? {
        guard queueEntry.hasPermit else { return nil }
        queueEntry.hasPermit = false
        count -= 1
        if !queueEntry.hasBegun { unstarted -= 1 }
        while let next = popFirst() {
            // Others have been cancelled or suspended meanwhile.
            guard next.status == .awaitingPermit, !next.hasPermit else { continue }
            take(next)
            return next
        }
        return nil
    }

    private func hasRoom(hasBegun: Bool) -> Bool { (hasBegun ? count - unstarted : count) < limit }

    private mutating func popFirst() -> QueueEntry? {
        if hasRoom(hasBegun: true), let next = waiting.begun.popFirst() { return next }
        return hasRoom(hasBegun: false) ? waiting.new.popFirst() : nil
    }
}
