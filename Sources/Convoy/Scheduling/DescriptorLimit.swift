// The descriptor limit: if file descriptors run out, fewer requests run at once, and others wait for a descriptor.
import Foundation

/// The operations that found no descriptor, and the limit of running operations that results.
///
/// If a descriptor is missing, the limit falls to the number of running operations. The limit rises by one whenever as
/// many operations as the limit have finished without another shortage (additive increase). It also rises with time,
/// because running operations may never finish, and other parts of the process may have used the descriptors.
struct DescriptorLimit {
    /// The number of timed-out waits after which an operation no longer waits for a descriptor.
    static let mostTrials: UInt8 = 10
    private static let longestWait = Duration.seconds(30)

    private var waiting: [QueueEntry] = []
    /// How many operations may run; nil for as many as there are slots.
    private(set) var limit: Int?
    private var endedSince = 0
    /// The time after which one more operation may try, even if no operation has finished.
    private var wait = Duration.seconds(1)
    private var isTimed = false
    /// How often an operation may have released descriptors: when it finished, or before it waited for a descriptor.
    private(set) var releases: UInt32 = 0

    /// Whether operations wait for a descriptor, or fewer may run than there are slots.
    var isReached: Bool { limit != nil || !waiting.isEmpty }

    /// Adds an operation that waits and owns no resources.
    ///
    /// - Parameter running: how many other operations have a slot.
    mutating func add(_ queueEntry: QueueEntry, running: Int) {
        queueEntry.status = .awaitingDescriptor
        waiting.append(queueEntry)
        limit = max(1, min(limit ?? .max, running))
        endedSince = 0
        releases &+= 1
    }

    /// Called when an operation has finished.
    ///
    /// - Returns: the first waiting operation, which may then try again.
    mutating func noteEnd(slots: Int) -> QueueEntry? {
        releases &+= 1
        wait = .seconds(1)
        guard isReached else { return nil }
        if let limit {
            endedSince += 1
            if endedSince >= limit { (self.limit, endedSince) = (limit + 1 < slots ? limit + 1 : nil, 0) }
        }
        return takeFirst()
    }

    /// Removes and returns the first waiting operation that is not suspended, which the caller queues.
    ///
    /// Entries that no longer wait are dropped.
    mutating func takeFirst() -> QueueEntry? {
        waiting.removeAll { $0.status != .awaitingDescriptor }
        return waiting.firstIndex { !$0.suspension.value.isSuspended }.map { waiting.remove(at: $0) }
    }

    /// Returns after how long to call `timePassed`; nil if a timer is set already, or no descriptor is missing.
    mutating func takeWait() -> Duration? {
        guard !isTimed, isReached else { return nil }
        isTimed = true
        defer { wait = min(wait * 2, Self.longestWait) }
        return wait
    }

    /// Called after the time that `takeWait` returned; raises the limit by one, or removes it.
    ///
    /// - Returns: the first waiting operation, which may then try again.
    mutating func timePassed(slots: Int) -> QueueEntry? {
        isTimed = false
        if let limit { self.limit = limit + 1 < slots ? limit + 1 : nil }
        let first = takeFirst()
        first?.trials += 1
        return first
    }
}
