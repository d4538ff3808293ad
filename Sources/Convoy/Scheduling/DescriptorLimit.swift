// Too few file descriptors: fewer in flight, and a wait until one is given back.
import Foundation

/// The operations that found no descriptor, and how many may be in flight because of that; a value, without lock.
///
/// The limit falls to what is in flight when a descriptor is missing, and rises by one each time that many operations have
/// ended without another miss (additive increase), and after a time in any case: those in flight may never end, and the
/// descriptors may have been used by other parts of the process.
struct DescriptorLimit {
    /// So often a request is tried again because of the time alone.
    static let mostTrials: UInt8 = 10
    private static let longestWait = Duration.seconds(30)

    private var waiting: [QueueEntry] = []
    /// How many may be in flight; nil for as many as there are slots.
    private(set) var limit: Int?
    private var endedSince = 0
    /// How long until the time alone lets another try.
    private var wait = Duration.seconds(1)
    private var isTimed = false
    /// How often descriptors have been given back, ever.
    private(set) var releases: UInt64 = 0

    /// An operation waits, with nothing in its hands.
    ///
    /// - Parameter running: how many others have a slot.
    mutating func add(_ queueEntry: QueueEntry, running: Int) {
        queueEntry.status = .awaitingDescriptor
        waiting.append(queueEntry)
        limit = max(1, min(limit ?? .max, running))
        endedSince = 0
        releases += 1
    }

    /// An operation has ended: the first that waits may try again.
    mutating func noteEnd(slots: Int) -> QueueEntry? {
        releases += 1
        wait = .seconds(1)
        if let limit {
            endedSince += 1
            if endedSince >= limit { (self.limit, endedSince) = (limit + 1 < slots ? limit + 1 : nil, 0) }
        }
        return waiting.isEmpty ? nil : takeFirst()
    }

    /// The first that still waits, to be queued; what its owner has suspended waits on.
    mutating func takeFirst() -> QueueEntry? {
        waiting.removeAll { $0.status != .awaitingDescriptor }
        return waiting.firstIndex { !$0.suspension.value.isSuspended }.map { waiting.remove(at: $0) }
    }

    /// How long until time alone changes something; nil when that has been asked, or nothing is missing.
    mutating func takeWait() -> Duration? {
        guard !isTimed, limit != nil || !waiting.isEmpty else { return nil }
        isTimed = true
        defer { wait = min(wait * 2, Self.longestWait) }
        return wait
    }

    /// That time is over: the limit rises, and the first that waits may try again.
    mutating func timePassed(slots: Int) -> QueueEntry? {
        isTimed = false
        if let limit { self.limit = limit + 1 < slots ? limit + 1 : nil }
        let first = takeFirst()
        first?.trials += 1
        return first
    }
}

extension QueueEntry {
    /// Whether its operation may have descriptors that it gives back when it ends.
    var mayHoldDescriptors: Bool {
        switch status {
        case .dispatched, .yielded: true
        // Paused, with its connection; or between two attempts.
        case .waiting, .suspended: hasSent
        case .blocked, .preparing, .awaitingDescriptor, .awaitingPermit, .sharing, .inQueue, .ended: false
        }
    }
}
