// An operation's entry in its scheduler.
import Foundation

/// What a scheduler knows about one operation, from enqueue until its last callback has returned.
///
/// Every member is touched only under the lock of the one `Scheduler` that made it. Not `Sendable`, so that it cannot
/// leave that lock: outside, there are ``QueueEntryReference``s.
final class QueueEntry {
    enum Status {
        /// Waits for dependencies. Next: preparing, yielded, ended.
        case blocked
        /// Its request is being built or checked. Next: waiting, suspended, sharing, blocked, inQueue, yielded, ended.
        case preparing
        /// In the queue of its host. Next: dispatched, suspended, blocked, yielded, awaitingPermit, ended.
        case waiting
        /// Suspended by its owner; in no queue, and one that has begun has given its slot back. Next: waiting, yielded,
        /// blocked, ended.
        case suspended
        /// Has a slot: it is about to be started, or executes. Next: inQueue, yielded, suspended, awaitingPermit, ended.
        case dispatched
        /// Has begun, and waits for a retry's time or for interceptors; has no slot. Next: waiting, suspended, sharing,
        /// awaitingDescriptor, ended.
        case yielded
        /// Has begun, found no file descriptor, and waits for one, suspended or not; see ``DescriptorLimit``. Next: waiting, ended.
        case awaitingDescriptor
        /// Waits for its ``Exclusion``; or has not begun, because too many are with their interceptors, see
        /// ``InterceptorLimiter``. Next: waiting, suspended, blocked, yielded, ended.
        case awaitingPermit
        /// Shares the transfer of another operation, and is in no queue. Next: inQueue, suspended, blocked, ended.
        case sharing
        /// An operation queue has it and starts it, or it has the answer of another; has no slot. Next: yielded, ended.
        case inQueue
        /// Finished, or finishing without having had a slot. Terminal.
        case ended
    }

    /// What has been told of the end of its operation; either may come first.
    enum End { case open, finished, settled, over }

    /// How the operation came to the manager.
    enum Role {
        /// Enqueued, or started without the manager.
        case caller
        /// Added to a group. It takes no place of its own in a caller's queue.
        case member
        /// Made by the coalescer: the transfer that several operations share.
        case shared
        /// A ``BarrierOperation``.
        case barrier

        /// Whether ``RequestManager/operations`` leaves it out.
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

    /// Until it is over, as entries of queues may outlive that; the state only passes it on.
    var operation: AnyRequestOperation?
    /// The order of enqueueing.
    var sequence: UInt64 = 0
    var status = Status.preparing
    var end = End.open
    // What its operation has told, with the number of the change: what comes late or twice is older, and is dropped.
    var priority: Versioned<Operation.QueuePriority>
    var suspension = Versioned(OperationStateMachine.Suspension())
    /// Whether a dependency has not finished.
    var isDependent = Versioned(false)

    var host = ""
    /// The host itself, while it waits in its queue or has a slot.
    var queue: Host?
    /// Sequence number of the last time it was queued; an entry of a queue with another number is stale and skipped.
    var queueNumber: UInt64 = 0
    /// Its index among the queue entries of its scheduler; negative before it has one.
    var index = -1
    /// When a token of the rates was taken with its slot; see ``RequestRate``.
    var token: CompactInstant?
    /// Has been started.
    ///
    /// Until then those that have begun may use its slot: it may be in the operation queue, waiting for them to end.
    var hasBegun = false
    /// Has begun, and had a slot: it may have sent something.
    var hasSent = false
    /// As it was when it was queued.
    var rank = Rank.new
    /// Whether interceptors may change its request or decide what follows.
    var asksInterceptors = false
    /// Counts among those that are with their interceptors; see ``InterceptorLimiter``.
    var hasPermit = false
    let role: Role
    /// How often it was tried again for a descriptor because of the time alone.
    var trials: UInt8 = 0
    /// How many slots it has had.
    var slotCount: UInt32 = 0
    /// The name that no other that runs may have.
    var exclusion: Exclusion?
    /// How often descriptors had been given back when it got its slot.
    var releasesSeen: UInt64 = 0
    /// What its host's breaker let it out with, until the end of its attempt has been told.
    var pass: HostBreaker.Pass?
    /// The transfer it shares.
    var sharedTransfer: CoalescingKey?

    /// Takes no slot; its members take slots.
    var isGroup: Bool { operation?.options.isGroup == true }

    /// Its slot, as the operation is told of it.
    var slot: OperationStateMachine.Slot {
        OperationStateMachine.Slot(number: slotCount, suspensionChanges: suspension.value.changes)
    }

    /// Its queue among those of its host, and its order among hosts: by priority, then by rank.
    var priorityIndex: Int { 3 * priority.value.priorityIndex + rank.rawValue }

    init(_ operation: AnyRequestOperation?, priority: Operation.QueuePriority = .normal, _ role: Role = .caller) {
        (self.operation, self.priority, self.role) = (operation, Versioned(priority), role)
    }
}

extension QueueEntry.End {
    /// Notes that the operation has finished.
    mutating func finish() { if self == .open { self = .finished } else if self == .settled { self = .over } }

    /// Notes that its last callback has returned.
    mutating func settle() { if self == .open { self = .settled } else if self == .finished { self = .over } }
}

extension Operation.QueuePriority {
    /// 0 for the highest, 4 for the lowest; values between Foundation's five count as the nearest below.
    var priorityIndex: Int {
        switch rawValue {
        case Operation.QueuePriority.veryHigh.rawValue...: 0
        case Operation.QueuePriority.high.rawValue...: 1
        case Operation.QueuePriority.normal.rawValue...: 2
        case Operation.QueuePriority.low.rawValue...: 3
        default: 4
        }
    }

    /// The highest priority of an index.
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
