// An operation's entry in its scheduler.
import Foundation

/// What a scheduler knows about one operation, from enqueue until its last callback has returned.
///
/// Every member is touched only under the lock of the one `Scheduler` that made it. Not `Sendable`, so that it cannot
/// leave that lock: outside, there are ``TicketReference``s.
final class Ticket {
    enum Status {
        /// Waits for dependencies or behind a barrier. Next: preparing, ended.
        case blocked
        /// Its request is being built or checked. Next: waiting, suspended, sharing, blocked, ended.
        case preparing
        /// In the queue of its host. Next: dispatched, suspended, blocked, yielded, awaitingPermit, ended.
        case waiting
        /// Suspended by its owner; in no queue, and one that has begun has given its slot back. Next: waiting, yielded,
        /// blocked, ended.
        case suspended
        /// Given to the operation queue, or going on after a wait; has a slot. Next: blockedInQueue, yielded, suspended,
        /// awaitingPermit, ended.
        case dispatched
        /// Has begun, and waits for a retry's time or for interceptors; has given its slot back. Next: waiting, suspended,
        /// awaitingDescriptor, ended.
        case yielded
        /// Has begun, found no file descriptor, and waits for one, suspended or not; see ``Shortage``. Next: waiting, ended.
        case awaitingDescriptor
        /// Waits for its ``Exclusion``; or has not begun, because too many are with their interceptors, see
        /// ``InterceptorLimiter``. Next: waiting, suspended, blocked, yielded, ended.
        case awaitingPermit
        /// Shares the transfer of another operation, and is in no queue. Next: dispatched, suspended, blocked, ended.
        case sharing
        /// In the operation queue, where it got a dependency before it was started; has given its slot back. Next:
        /// dispatched, yielded, ended.
        case blockedInQueue
        /// Finished, or finishing without having had a slot. Terminal.
        case ended
    }

    /// What has been told of the end of its operation; either may come first.
    enum End { case open, finished, settled, over }

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
    /// Its index among the tickets of its scheduler; negative before it has one.
    var index = -1
    /// When a token of the rates was taken with its slot; see ``RequestRate``.
    var token: CompactInstant?
    /// Has been started.
    ///
    /// Until then those that have begun may use its slot: it may be in the operation queue, waiting for them to end.
    var hasBegun = false
    /// Had begun when it was queued: it comes before those of its priority that had not.
    var isReturning = false
    /// Has a place in the operation queue, from the moment it is given to it until it has finished.
    var hasPlace = false
    /// Whether interceptors may change its request or decide what follows.
    var asksInterceptors = false
    /// Counts among those that are with their interceptors; see ``InterceptorLimiter``.
    var hasPermit = false
    /// A barrier that was added before it was enqueued has not run.
    var isBarred = false
    /// Whether it is the transfer of several others, and belongs to no caller.
    let isShared: Bool
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
    ///
    /// It is being prepared, as far as the scheduler knows, until it has ended.
    var isGroup: Bool { operation?.traits.isGroup == true }

    /// Its slot, as the operation is told of it.
    var slot: OperationStateMachine.Slot {
        OperationStateMachine.Slot(number: slotCount, suspensionChanges: suspension.value.changes)
    }

    /// Its queue among those of its host, and its order among hosts: by priority, those that return first.
    var priorityIndex: Int { 2 * priority.value.priorityIndex + (isReturning ? 0 : 1) }

    init(_ operation: AnyRequestOperation?, priority: Operation.QueuePriority = .normal, isShared: Bool = false) {
        (self.operation, self.priority, self.isShared) = (operation, Versioned(priority), isShared)
    }
}

extension Ticket.End {
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
