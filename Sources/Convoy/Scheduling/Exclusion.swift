// Mutual exclusion by name.

/// A name that one operation at a time has: a lock on which queue entries wait in their order.
///
/// An operation takes its name with its first slot and releases it when it has finished: it keeps it between attempts and
/// while it is suspended. One that has sent nothing releases it with its slot or its place in the queue of its host. The
/// first that waited for it is given it, and loses it again to any that gets a slot before it does: it may be of low
/// priority, or for a host that is on hold. One that has begun also takes the name from one that has a slot and has not
/// begun, which may be waiting behind it in the operation queue. One that has lost its name waits again when it is started.
///
/// Part of a scheduler's state, and touched only under its lock; an object, so that a queue entry finds it without a look-up.
final class Exclusion {
    private struct Waiter: Comparable {
        let turn: Turn
        let queueEntry: QueueEntry
        let queueNumber: UInt64

        /// Others have been cancelled, suspended or blocked meanwhile, or have come again.
        var isLive: Bool {
            queueEntry.status == .awaitingPermit && queueEntry.queueNumber == queueNumber
                && queueEntry.priorityIndex == turn.priorityIndex
        }

        static func < (left: Waiter, right: Waiter) -> Bool { left.turn < right.turn }
        static func == (left: Waiter, right: Waiter) -> Bool { left.turn == right.turn }
    }

    let name: String
    /// How many queue entries have or want it: with the last it goes.
    var queueEntries = 0
    private(set) var holder: QueueEntry?
    private var waiting = Heap<Waiter>()
    /// So many waiters are looked through for those that wait no more.
    private var sweepCount = 64

    init(_ name: String) { self.name = name }

    /// Gives a queue entry the name; false when another has it.
    func take(_ queueEntry: QueueEntry) -> Bool {
        guard let holder, holder !== queueEntry, holder.hasSent || holder.status == .dispatched && !queueEntry.hasBegun
        else {
            holder = queueEntry
            return true
        }
        return false
    }

    /// Notes that a queue entry waits for the name, with its present turn; again after that has changed.
    ///
    /// - Complexity: O(log *n*) amortised for *n* that wait.
    func wait(_ queueEntry: QueueEntry, _ turn: Turn) {
        waiting.insert(Waiter(turn: turn, queueEntry: queueEntry, queueNumber: queueEntry.queueNumber))
        guard waiting.count > sweepCount else { return }
        waiting.removeAll { !$0.isLive }
        sweepCount = 2 * waiting.count + 64
    }

    /// Takes the name from a queue entry, if it has it.
    ///
    /// - Returns: the first that waits for it, which has it now.
    func leave(_ queueEntry: QueueEntry) -> QueueEntry? {
        guard holder === queueEntry else { return nil }
        holder = nil
        while holder == nil, let waiter = waiting.popFirst() {
            if waiter.isLive { holder = waiter.queueEntry }
        }
        return holder
    }
}
