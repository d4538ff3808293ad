// The queue entry of an operation in its scheduler.
import Foundation

/// The scheduler's record of one operation, from enqueue until its last callback has returned.
///
/// Every member is used only under the lock of the `Scheduler` that made it. It is not `Sendable`, so it cannot leave
/// that lock. Other code uses ``QueueEntryReference``s.
final class QueueEntry {
    enum Status {
        /// Waits for dependencies. Next: preparing, yielded, ended.
        case blocked
        /// Its request is being built or checked. Next: waiting, suspended, sharing, blocked, inQueue, yielded, ended.
        case preparing
        /// Waits in the queue of its host. Next: dispatched, suspended, blocked, yielded, awaitingPermit, ended.
        case waiting
        /// Suspended by its owner, and in no queue. If it has begun, it has released its slot. Next: waiting, yielded,
        /// blocked, ended.
        case suspended
        /// Has a slot, and is about to start or executes. Next: inQueue, yielded, suspended, awaitingPermit, ended.
        case dispatched
        /// Has begun and has no slot. It waits for a retry's delay or for interceptors. Next: waiting, suspended,
        /// sharing, awaitingDescriptor, ended.
        case yielded
        /// Has begun and waits for a file descriptor, suspended or not; see ``DescriptorLimit``. Next: waiting, ended.
        case awaitingDescriptor
        /// Waits for its ``Exclusion``, or for a permit of the ``InterceptorLimiter`` before it begins. Next: waiting,
        /// suspended, blocked, yielded, ended.
        case awaitingPermit
        /// Shares the transfer of another operation, and is in no queue. Next: inQueue, suspended, blocked, ended.
        case sharing
        /// Has no slot. An operation queue starts it, or it has another operation's response. Next: yielded, ended.
        case inQueue
        /// Finished, or finishing without having had a slot. Terminal.
        case ended
    }

    /// Which ends of its operation have been reported; they arrive in either order.
    enum End { case open, finished, settled, over }

    /// How the operation came to the manager.
    enum Role {
        /// Enqueued, or started without the manager.
        case caller
        /// Added to a group. It takes no place of its own in a caller's queue.
        case member
        /// Made by the coalescer as the transfer that several operations share.
        case shared
        /// A ``BarrierOperation``.
        case barrier

        /// Whether ``RequestManager/operations`` omits it.
        var isInternal: Bool { self == .shared || self == .barrier }
    }

    /// The order within a priority.
    enum Rank: Int {
        /// Has sent something, and is ready for another attempt.
        case returning
        /// Has been started, and has sent nothing.
        case started
        /// Has not been started.
        case new
    }

    /// Set until it is over.
    ///
    /// Entries in queues may live longer. The state only passes it on.
    var operation: AnyRequestOperation?
    /// The order of enqueueing.
    var sequence: UInt64 = 0
    var status = Status.preparing
    var end = End.open
    // Reported by its operation with the number of the change. Late and repeated reports are older, and are dropped.
    var priority: Versioned<Operation.QueuePriority>
    var suspension = Versioned(OperationStateMachine.Suspension())
    /// Whether a dependency has not finished.
    var isDependent = Versioned(false)

    var host = ""
    /// The host itself, while the entry waits in its queue or has a slot.
    var queue: Host?
    /// The number of its last place in a queue.
    ///
    /// An entry with another number is stale and skipped.
    var queueNumber: UInt64 = 0
    /// Its index among the queue entries of its scheduler; negative before it has one.
    var index = -1
    /// When a rate token was taken with its slot; see ``RequestRate``.
    var token: CompactInstant?
    /// Whether it has been started.
    ///
    /// Until then, operations that have begun may use its slot. It may be in the operation queue, waiting for them to
    /// finish.
    var hasBegun = false
    /// Whether it has begun and had a slot, so that it may have sent something.
    var hasSent = false
    /// Its rank when it was queued.
    var rank = Rank.new
    /// Whether interceptors may change its request or decide what follows.
    var asksInterceptors = false
    /// Whether it has a permit of the ``InterceptorLimiter``.
    var hasPermit = false
    let role: Role
    /// How many times it retried for a descriptor because of time alone.
    var trials: UInt8 = 0
    /// How many slots it has had.
    var slotCount: UInt32 = 0
    /// The name that no other running operation may hold.
    var exclusion: Exclusion?
    /// How often descriptors had been released when it got its slot.
    var releasesSeen: UInt64 = 0
    /// The pass of its host's breaker, until the end of its attempt has been reported.
    var pass: HostBreaker.Pass?
    /// The transfer that it shares.
    var sharedTransfer: CoalescingKey?

    /// Whether it is a group, which takes no slot.
    ///
    /// Its members take slots.
    var isGroup: Bool { operation?.options.isGroup == true }

    /// Its slot, as reported to the operation.
    var slot: OperationStateMachine.Slot {
        OperationStateMachine.Slot(number: slotCount, suspensionChanges: suspension.value.changes)
    }

    /// The index of its queue at its host, which also orders hosts: by priority, then by rank.
    var priorityIndex: Int { 3 * priority.value.priorityIndex + rank.rawValue }

    init(_ operation: AnyRequestOperation?, priority: Operation.QueuePriority = .normal, _ role: Role = .caller) {
        (self.operation, self.priority, self.role) = (operation, Versioned(priority), role)
    }
}

extension QueueEntry.End {
    /// Records that the operation has finished.
    mutating func finish() { if self == .open { self = .finished } else if self == .settled { self = .over } }

    /// Records that its last callback has returned.
    mutating func settle() { if self == .open { self = .settled } else if self == .finished { self = .over } }
}

extension Operation.QueuePriority {
    /// 0 for the highest, 4 for the lowest.
    ///
    /// Values between Foundation's five count as the next lower one.
    var priorityIndex: Int {
        switch rawValue {
        case Operation.QueuePriority.veryHigh.rawValue...: 0
        case Operation.QueuePriority.high.rawValue...: 1
        case Operation.QueuePriority.normal.rawValue...: 2
        case Operation.QueuePriority.low.rawValue...: 3
        default: 4
        }
    }

    /// The highest priority with an index.
    init(priorityIndex: Int) {
        switch priorityIndex {
        case ...0: self = .veryHigh
        case 1: self = .high
        case 2: self = .normal
        case 3: self = .low
        default: self = .veryLow
        }
    }
}
