// The queue entry of an operation in its scheduler.
import Foundation

// Used only under the lock of the `Scheduler` that made it. Not `Sendable`, so the compiler prevents its use outside
// that lock; other code uses ``QueueEntryReference``s.
final class QueueEntry {
    enum Status {
        /// Waits for dependencies. Next: preparing, yielded, ended.
        case blocked
        /// The request is being built or checked. Next: waiting, suspended, sharing, blocked, inQueue, yielded, ended,
        /// or for a group awaitingPermit.
        case preparing
        /// Waits in the queue of its host. Next: dispatched, suspended, blocked, yielded, inQueue, ended.
        case waiting
        /// Suspended by its owner, and in no queue. If it has begun, it has released its slot. Next: waiting,
        /// preparing, inQueue, yielded, blocked, ended.
        case suspended
        /// Has a slot, and is about to start or executes. Next: inQueue, yielded, suspended, awaitingPermit, ended.
        case dispatched
        /// Has begun and has no slot. It waits for a retry's delay or for interceptors. Next: waiting, suspended,
        /// sharing, inQueue, ended.
        case yielded
        /// Waits for its ``Exclusion``. A group waits until no suspension and no cancellation is in effect. Next:
        /// waiting, preparing, suspended, blocked, yielded, ended.
        case awaitingPermit
        /// Shares the transfer of another operation, and is in no queue. Next: inQueue, suspended, blocked, ended.
        case sharing
        /// Has no slot. An operation queue starts the operation, or it has a stored or shared response. Next: yielded,
        /// ended.
        case inQueue
        /// Has finished, or has an outcome before it had a slot. This status is final.
        case ended
    }

    enum Role {
        case caller
        /// Added to a group. A member is not added to a caller's queue.
        case member
        /// Made by the scheduler: a transfer that several operations share, or the validation of a stored response.
        case shared
        case barrier

        var isInternal: Bool { self == .shared || self == .barrier }
    }

    /// The order of the entries that have the same priority; the first case precedes the others.
    enum Rank: Int {
        /// Has sent something, and is ready for another attempt.
        case returning
        case started
        case new
    }

    // The order of these properties leaves few gaps, because many operations may be queued.

    // Nil once the operation has finished and its last callback has returned; stale entries in queues may live longer.
    // The scheduler's state calls no method of the operation.
    var operation: AnyRequestOperation?
    var sequence: UInt64 = 0
    /// The number of the entry's last position in a queue; a position with another number is stale and skipped.
    var queueNumber: UInt64 = 0
    var host = ""
    var queue: Host?
    var status = Status.preparing
    /// Whether the operation has finished, and whether its last callback has returned; either may be first.
    var (isFinished, isSettled) = (false, false)
    var isCandidate = false
    var hasBegun = false
    /// Whether the operation has begun and had a slot, so that it may have sent something.
    var hasSent = false
    var rank = Rank.new
    // The operation reports `priority`, `suspension` and `isDependent` with the number of the change. A report that is
    // not newer than the last is ignored.
    var priority = Versioned(Operation.QueuePriority.normal)
    let role: Role
    var slotCount: UInt32 = 0
    var suspension = Versioned(OperationStateMachine.Suspension())
    var isDependent = Versioned(false)
    var index: Int32 = -1
    var exclusion: Exclusion?
    var sharedTransfer: CoalescingKey?
    /// When the operation used a rate token for its slot; see ``RequestRate``.
    var token: CompactInstant?
    var pass: HostBreaker.Pass?

    var isOver: Bool { isFinished && isSettled }

    var isGroup: Bool { operation?.isGroup == true }

    var slot: OperationStateMachine.Slot {
        OperationStateMachine.Slot(number: slotCount, suspensionChanges: suspension.value.changes)
    }

    /// The index of the operation's queue at its host: by priority, then by rank.
    var priorityIndex: Int { 3 * priority.value.priorityIndex + rank.rawValue }

    func shares(_ key: CoalescingKey) -> Bool { status == .sharing && sharedTransfer === key }

    init(_ operation: AnyRequestOperation?, _ role: Role = .caller) { (self.operation, self.role) = (operation, role) }
}

extension SchedulerState {
    subscript(reference: QueueEntryReference) -> QueueEntry { unsafeDowncast(reference.place, to: QueueEntry.self) }
}

extension Operation.QueuePriority {
    /// 0 for the highest, 4 for the lowest; values between Foundation's five count as the next lower one.
    var priorityIndex: Int {
        // Foundation's values are 8, 4, 0, -4 and -8.
        min(max(0, 2 - rawValue >> 2), 4)
    }

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

/// The order of requests that have the same priority; ``RequestManager/Configuration/prioritization``.
public enum RequestPrioritization: Sendable, Hashable {
    /// First in, first out, from the moment a request becomes ready; the default.
    ///
    /// This is the order in which requests get their slots. If two requests have slots at the same time, their order is
    /// undefined, because an operation queue starts them on its own threads.
    case fifo
    /// Last in, first out: the newest request is first, for example for the images of a scrolling list.
    ///
    /// A request counts as new when it becomes ready: when its dependencies have finished, or when it is resumed.
    /// Requests that return for another attempt still precede the others of their priority, first in, first out.
    case lifo
}
