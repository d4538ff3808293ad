// An operation's place in a manager.
import Foundation

/// What a manager knows about one operation, from enqueue until its last callback has returned.
///
/// Every member is touched only under the lock of the one `Scheduler` that made it. Not `Sendable`, so that it cannot
/// leave that lock: outside, there are ``TicketReference``s.
final class Ticket {
    enum Status {
        /// Waits for dependencies. Next: preparing, gone.
        case blocked
        /// Its request is being built or checked. Next: waiting, suspended, riding, blocked, gone.
        case preparing
        /// Stands in the line of its host. Next: handed, suspended, blocked, aside, crowded, gone.
        case waiting
        /// Suspended by its owner; stands in no line, and one that has begun has given its slot back. Next: waiting, aside,
        /// blocked, gone.
        case suspended
        /// Given to the operation queue, or going on after a wait; has a slot. Next: parked, aside, suspended, gone.
        case handed
        /// Has begun, and waits for a retry's time, interceptors or a descriptor; has given its slot back. Next: waiting, suspended, gone.
        case aside
        /// Has not begun, because too many are with their interceptors. Next: waiting, suspended, blocked, gone.
        case crowded
        /// Shares the transfer of another operation, and stands in no line. Next: handed, suspended, gone.
        case riding
        /// In the operation queue, where it got a dependency before it was started; has given its slot back. Next: handed,
        /// aside, gone.
        case parked
        /// Finished, or finishing without having had a slot. Terminal.
        case gone
    }

    /// Until it is over: entries of lines may outlive that.
    var operation: AnyRequestOperation?
    /// The order of enqueueing.
    var sequence: UInt64 = 0
    var status = Status.blocked
    var priority: Operation.QueuePriority
    var host = ""
    /// The host itself, while it waits in its line or has a slot.
    var line: Host?
    /// When it joined its line; an entry of a line with another turn is a leftover.
    var turn: UInt64 = 0
    /// How many slots it has had.
    var slotCount: UInt32 = 0
    /// Has been started.
    ///
    /// Until then those who have begun may use its slot: it may be in the operation queue, waiting for them to end.
    var hasBegun = false
    /// Had begun when it joined its line: it comes before those of its priority that had not.
    var isReturning = false
    /// Has a place in the operation queue, from the moment it is given to it until it has finished.
    var hasPlace = false
    /// What its owner wanted when that was last told; nil before the ticket is in its scheduler.
    var suspension: OperationState.Suspension?
    /// Whether interceptors may change its request or decide what follows.
    var asksInterceptors = false
    /// Has a place among those that are with their interceptors; see ``InterceptorLimiter``.
    var isIntercepted = false
    /// A barrier that was added before it was enqueued has not run.
    var isBarred = false
    /// A dependency was added while it was preparing.
    var mustBlock = false
    /// Found no file descriptor, and waits for one; see ``Shortage``.
    var lacksDescriptor = false
    /// How often it was tried again because of the time alone.
    var trials = 0
    /// How often descriptors had been given back when it got its slot.
    var releasesSeen: UInt64 = 0
    /// What its host's breaker let it out with, until the end of its attempt has been told.
    var pass: HostBreaker.Pass?
    /// The transfer it shares.
    var flight: CoalescingKey?
    /// Whether it was made to be shared, and belongs to no caller.
    let isCarrier: Bool
    var isFinished = false
    var isSettled = false
    /// Its index among the manager's operations.
    var slot = 0

    /// Its slot, as the operation is told of it.
    var operationSlot: OperationStateMachine.Slot {
        OperationStateMachine.Slot(number: slotCount, suspensions: suspension?.number ?? 0)
    }

    /// Its line among those of its host, and its place among hosts: by priority, those who return first.
    var rank: Int { 2 * priority.rank + (isReturning ? 0 : 1) }

    init(_ operation: AnyRequestOperation, priority: Operation.QueuePriority = .normal, isCarrier: Bool = false) {
        (self.operation, self.priority, self.isCarrier) = (operation, priority, isCarrier)
    }
}

extension TicketReference {
    init(_ ticket: Ticket) { self.init(place: ticket) }

    /// The ticket, for the state of the scheduler that made it: under its lock alone.
    func ticket(in state: inout Scheduler.State) -> Ticket { unsafeDowncast(place, to: Ticket.self) }
}
