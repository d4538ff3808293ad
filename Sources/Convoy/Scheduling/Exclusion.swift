// Mutual exclusion by name.

/// A name that only one operation at a time holds: a lock for which queue entries wait in order.
///
/// An operation acquires its name with its first slot and releases the name when it has finished. The operation keeps
/// the name between attempts and while it is suspended. If it has sent nothing, it releases the name together with its
/// slot, or when it leaves the host's queue.
///
/// A released name is passed to the first waiter. The waiter may have low priority, or its host may be on hold. So it
/// loses the name to any operation that gets a slot earlier. An operation A that has begun also takes the name from an
/// operation B that has a slot but has not begun. The operation queue may start B only after A. An operation that has
/// lost its name waits again when it is started.
///
/// An exclusion is part of a scheduler's state and used only under the scheduler's lock. It is an object, so that a
/// queue entry finds it without a lookup.
final class Exclusion {
    let name: String
    /// How many queue entries have or want the name; the last one removes the exclusion.
    var queueEntries = 0
    private(set) var holder: QueueEntry?
    private var waiting = Heap<Turn>()
    /// The number of waiters above which stale waiters are removed.
    private var sweepCount = 64

    init(_ name: String) { self.name = name }

    /// Gives a queue entry the name; false if another entry keeps it.
    ///
    /// The other entry keeps the name if it has sent something. It also keeps the name if it has a slot and the new
    /// entry has not begun.
    func take(_ queueEntry: QueueEntry) -> Bool {
        guard let holder, holder !== queueEntry, holder.hasSent || holder.status == .dispatched && !queueEntry.hasBegun
        else {
            holder = queueEntry
            return true
        }
        return false
    }

    /// Adds a queue entry to the waiters.
    ///
    /// Call this method again after the turn of the entry has changed.
    ///
    /// - Complexity: O(log *n*) amortised for *n* waiters.
    func wait(_ turn: Turn) {
        waiting.insert(turn)
        guard waiting.count > sweepCount else { return }
        waiting.removeAll { !$0.isLive }
        sweepCount = 2 * waiting.count + 64
    }

    /// Releases the name, if the queue entry has it.
    ///
    /// - Returns: the first waiter, which now has the name; nil if there is none.
    func leave(_ queueEntry: QueueEntry) -> QueueEntry? {
        guard holder === queueEntry else { return nil }
        holder = nil
        while holder == nil, let waiter = waiting.popFirst() {
            if waiter.isLive { holder = waiter.queueEntry }
        }
        return holder
    }
}
