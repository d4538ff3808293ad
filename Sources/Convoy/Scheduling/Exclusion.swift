// Mutual exclusion by name.

/// A name that only one operation at a time holds: a lock for which queue entries wait in order.
///
/// An operation takes its name with its first slot and releases it when it has finished. It keeps the name between
/// attempts and while it is suspended. If it has sent nothing, it releases the name with its slot or its place in the
/// host's queue.
///
/// A released name is passed to the first waiter. The waiter loses it to any operation that gets a slot earlier,
/// because the waiter may have low priority or its host may be on hold. An operation that has begun also takes the name
/// from one with a slot that has not begun. That one may be waiting after it in the operation queue. An operation that
/// has lost its name waits again when it is started.
///
/// It is part of a scheduler's state and used only under its lock. It is an object, so that a queue entry finds it
/// without a lookup.
final class Exclusion {
    private struct Waiter: Comparable {
        let turn: Turn
        let queueEntry: QueueEntry
        let queueNumber: UInt64

        /// False for waiters that were cancelled, suspended, blocked or queued again.
        var isLive: Bool {
            queueEntry.status == .awaitingPermit && queueEntry.queueNumber == queueNumber
                && queueEntry.priorityIndex == turn.priorityIndex
        }

        static func < (left: Waiter, right: Waiter) -> Bool { left.turn < right.turn }
        static func == (left: Waiter, right: Waiter) -> Bool { left.turn == right.turn }
    }

    let name: String
    /// How many queue entries hold or want it.
    ///
    /// The last one removes it.
    var queueEntries = 0
    private(set) var holder: QueueEntry?
    private var waiting = Heap<Waiter>()
    /// The number of waiters at which stale ones are removed.
    private var sweepCount = 64

    init(_ name: String) { self.name = name }

    /// Gives a queue entry the name; false if another holds it.
    func take(_ queueEntry: QueueEntry) -> Bool {
        guard let holder, holder !== queueEntry, holder.hasSent || holder.status == .dispatched && !queueEntry.hasBegun
        else {
            holder = queueEntry
            return true
        }
        return false
    }

    /// Adds a queue entry to the waiters with its current turn.
    ///
    /// Call it again after its turn has changed.
    ///
    /// - Complexity: O(log *n*) amortised for *n* waiters.
    func wait(_ queueEntry: QueueEntry, _ turn: Turn) {
        waiting.insert(Waiter(turn: turn, queueEntry: queueEntry, queueNumber: queueEntry.queueNumber))
        guard waiting.count > sweepCount else { return }
        waiting.removeAll { !$0.isLive }
        sweepCount = 2 * waiting.count + 64
    }

    /// Takes the name from a queue entry, if it holds it.
    ///
    /// - Returns: the first waiter, which now holds it.
    func leave(_ queueEntry: QueueEntry) -> QueueEntry? {
        guard holder === queueEntry else { return nil }
        holder = nil
        while holder == nil, let waiter = waiting.popFirst() {
            if waiter.isLive { holder = waiter.queueEntry }
        }
        return holder
    }
}
