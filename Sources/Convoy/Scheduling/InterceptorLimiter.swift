// Limits how many operations run their interceptors at once. A value, without lock.

/// The permits of operations that run their interceptors, during which they have no slot.
///
/// Each of these operations has its own Swift task, and all tasks may wait for the same access token. A queue of
/// 100,000 operations must not start all tasks at once. An operation gets a permit with its first slot. The operation
/// releases the permit when its interceptors have returned, or when it is suspended, is blocked or has finished.
///
/// As with slots, the permit of an operation that has not begun does not count against operations that have begun.
struct InterceptorLimiter {
    /// How many permits may be in use before an operation that has sent nothing must wait for one.
    var limit = 256

    private(set) var count = 0
    /// The number of permits of operations that have not begun.
    private var unstarted = 0
    private var waiting = (begun: ArraySlice<QueueEntry>(), new: ArraySlice<QueueEntry>())

    /// Gives a queue entry a permit; false if the entry has to wait for one.
    mutating func admit(_ queueEntry: QueueEntry) -> Bool {
        guard !queueEntry.hasPermit else { return true }
        guard hasRoom(hasBegun: queueEntry.hasBegun) else {
            if queueEntry.hasBegun { waiting.begun.append(queueEntry) } else { waiting.new.append(queueEntry) }
            return false
        }
        take(queueEntry)
        return true
    }

    /// Gives a queue entry a permit, beyond the limit if necessary.
    mutating func take(_ queueEntry: QueueEntry) {
        guard !queueEntry.hasPermit else { return }
        queueEntry.hasPermit = true
        count += 1
        if !queueEntry.hasBegun { unstarted += 1 }
    }

    /// Called when a queue entry is about to begin.
    mutating func begin(_ queueEntry: QueueEntry) {
        if queueEntry.hasPermit, !queueEntry.hasBegun { unstarted -= 1 }
    }

    /// Releases a queue entry's permit, if it has one.
    ///
    /// - Returns: the waiting ``QueueEntry`` that now has the permit. Nil if the given one had none, if no other waits,
    ///   or if no permit is free.
    mutating func leave(_ queueEntry: QueueEntry) -> QueueEntry? {
        guard queueEntry.hasPermit else { return nil }
        queueEntry.hasPermit = false
        count -= 1
        if !queueEntry.hasBegun { unstarted -= 1 }
        while let next = popFirst() {
            // Waiters that were cancelled or suspended during their wait are skipped.
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
