// An operation's place in a manager.
import Foundation

/// What a manager knows about one operation, from enqueue until its last callback has returned.
///
/// Every member that changes is touched only under the lock of the one `Scheduler` that made it.
final class Ticket: @unchecked Sendable {
    // @unchecked: see above.

    enum Status {
        /// Waits for dependencies. Next: preparing, gone.
        case blocked
        /// Its request is being built or checked. Next: waiting, held, blocked, gone.
        case preparing
        /// Stands in the line of its host. Next: handed, held, blocked, gone.
        case waiting
        /// Suspended by its owner; stands in no line. Next: waiting, blocked, gone.
        case held
        /// Given to the operation queue; has a slot. Next: parked, gone.
        case handed
        /// In the operation queue, where it got a dependency before it was started; has given its slot back. Next: handed,
        /// gone.
        case parked
        /// Finished, or finishing without having had a slot. Terminal.
        case gone
    }

    /// Until it is over: entries of lines may outlive that.
    var operation: AnyRequestOperation?
    /// The order of enqueueing.
    let sequence: UInt64
    var status = Status.blocked
    var priority: Operation.QueuePriority
    var host = ""
    /// When it joined its line; an entry of a line with another turn is a leftover.
    var turn: UInt64 = 0
    /// A dependency was added while it was preparing.
    var mustBlock = false
    var isFinished = false
    var isSettled = false
    /// Its index among the manager's operations.
    var slot = 0

    init(_ operation: AnyRequestOperation, sequence: UInt64, priority: Operation.QueuePriority = .normal) {
        self.operation = operation
        self.sequence = sequence
        self.priority = priority
    }
}
