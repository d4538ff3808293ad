// Which operations run, and which wait for what: a model. Events go in, effects come out.
import Foundation

/// The state of a scheduler.
///
/// No lock, no clock, no queue, and nothing is called: a `Scheduler` holds it behind its lock, gives it an event at a time
/// with the facts that belong to it, and performs the ``Effects`` after the lock has been given back. `SchedulerWorld` in
/// the tests runs through random orders of events.
struct SchedulerState {
    var queues: HostQueues
    var limit: Int
    var retryBudget: RetryBudgetState
    var interceptorLimiter = InterceptorLimiter()
    var shortage = Shortage()
    /// The names that operations have or wait for.
    private(set) var exclusions: [String: Exclusion] = [:]
    var tickets: [Ticket?] = []
    private var freeIndices: [Int] = []
    private(set) var count = 0
    private var lastSequence: UInt64 = 0
    /// A thread hands operations over: it looks once more before it ends.
    var isHandingOver = false
    var isShutDown = false
    var isSuspended = false
    /// How many threads are cancelling many operations: a slot that one frees must not go to the next to be cancelled.
    var cancellations = 0
    /// What is to be called when no operation is left.
    var drains: [Int: @Sendable () -> Void] = [:]
    var lastDrain = 0
    /// The barriers of the manager's own queue that have not run, and what each holds back.
    var barriers: [(barrier: Barrier, held: [Ticket])] = []

    /// - Parameter rate: of the requests to all hosts together.
    init(
        limit: Int, hosts: HostLimits, _ prioritization: RequestPrioritization = .fifo, rate: RequestRate? = nil,
        retryBudget: RetryBudgetState
    ) {
        (self.limit, self.retryBudget) = (max(1, limit), retryBudget)
        queues = HostQueues(limits: hosts, prioritization, rate: rate)
    }

    /// What is to be done for an operation after an event of its own; after a late or double word, nothing.
    struct Effects: Sendable {
        /// Its request is to be built and checked; then ``SchedulerState/prepared(_:host:asksInterceptors:_:)`` follows.
        var prepares = false
        /// It fails: the manager has been shut down.
        var isRefused = false
        /// `start()` is to be called: it has an outcome, and no queue starts it.
        var starts = false
        /// It goes on with the slot that it has kept.
        var keeps: OperationStateMachine.Slot?
        /// The shared transfer that it leaves.
        var leaves: CoalescingKey?
    }

    /// An operation that has a slot: it is to be given to the operation queue, or to go on.
    struct Dispatch: Sendable {
        let operation: AnyRequestOperation
        let slot: OperationStateMachine.Slot
        let hasBegun: Bool
    }

    /// A barrier that is next to run, and the operations that it waits for.
    struct Barrier: Sendable {
        let block: @Sendable () -> Void
        let earlier: [AnyRequestOperation]
    }

    /// An operation as it comes.
    struct Arrival {
        /// The host of a request that may be sent as soon as there is a slot; nil for one that is to be prepared.
        var host: String?
        var priority: Versioned<Operation.QueuePriority>
        var suspension: Versioned<OperationStateMachine.Suspension>
        var isDependent: Versioned<Bool>
        /// It has ended before; whether its last callback has returned, too.
        var hasOutcome = false
        var isSettled = false
    }

    /// How many may have a slot: fewer while descriptors are missing.
    var slotLimit: Int { min(limit, shortage.limit ?? .max) }

    /// How many may be in the operation queue.
    ///
    /// A queue that takes none now still gets one: it waits there for the queue's owner.
    static func placeLimit(_ queueLimit: Int) -> Int { queueLimit < 0 ? .max : max(1, queueLimit) }

    // MARK: Coming and going

    /// An operation has come.
    ///
    /// What happened to it since its ticket was made stands in the ticket.
    mutating func arrived(_ ticket: Ticket, _ arrival: Arrival) -> Effects {
        insert(ticket)
        _ = (ticket.priority.take(arrival.priority), ticket.suspension.take(arrival.suspension))
        _ = ticket.isDependent.take(arrival.isDependent)
        // Cancelled meanwhile.
        guard ticket.status == .preparing else { return Effects() }
        if arrival.hasOutcome {
            ticket.status = .ended
            if arrival.isSettled { ticket.end.settle() }
            return Effects(starts: true)
        }
        // What is made to be shared is not held back: operations that share it may have come before the barrier.
        if !barriers.isEmpty, !ticket.isShared {
            ticket.isBarred = true
            barriers[barriers.count - 1].held.append(ticket)
        }
        guard !isShutDown, !ticket.isDependent.value, !ticket.isBarred else {
            ticket.status = .blocked
            return Effects(isRefused: isShutDown)
        }
        guard let host = arrival.host else { return Effects(prepares: true) }
        ticket.host = host
        queue(ticket)
        return Effects()
    }

    /// An operation has finished: its slot is free.
    ///
    /// - Parameter isSettled: whether its last callback has returned, too.
    /// - Returns: what is to be called because it was the last.
    mutating func finished(_ ticket: Ticket, isSettled: Bool) -> [@Sendable () -> Void] {
        leavePermits(ticket)
        if let exclusion = ticket.exclusion { forget(exclusion, ticket) }
        queues.giveBack(ticket)
        // Started by hand while it waited in its queue.
        queues.leave(ticket, for: .ended)
        queues.leavePlace(ticket)
        ticket.status = .ended
        ticket.end.finish()
        if let next = shortage.noteEnd(slots: limit) { queues.join(next) }
        return isSettled ? settled(ticket) : removeIfOver(ticket)
    }

    /// The last callback of an operation has returned.
    mutating func settled(_ ticket: Ticket) -> [@Sendable () -> Void] {
        ticket.end.settle()
        return removeIfOver(ticket)
    }

    /// An operation has an outcome before its start.
    ///
    /// The operation queue starts what it has, which takes no slot; what it has not is started at once.
    mutating func abandoned(_ ticket: Ticket) -> Effects {
        let leaves = ticket.status == .sharing ? ticket.sharedTransfer : nil
        switch ticket.status {
        case .waiting: queues.leave(ticket, for: .ended)
        case .blocked, .preparing, .suspended, .sharing, .awaitingPermit: ticket.status = .ended
        case .dispatched, .blockedInQueue, .yielded, .awaitingDescriptor, .ended: return Effects()
        }
        return Effects(starts: true, leaves: leaves)
    }

    /// Notes what is to be called when no operation is left; false when none is.
    mutating func awaitEnd(_ call: @escaping @Sendable () -> Void, identity: Int) -> Bool {
        guard count > 0 else { return false }
        drains[identity] = call
        return true
    }

    private mutating func insert(_ ticket: Ticket) {
        lastSequence += 1
        ticket.sequence = lastSequence
        // Cancelled, finished and settled before it came here.
        if ticket.end == .over { return }
        count += 1
        if let index = freeIndices.popLast() {
            ticket.index = index
            tickets[index] = ticket
        } else {
            ticket.index = tickets.count
            tickets.append(ticket)
        }
    }

    private mutating func removeIfOver(_ ticket: Ticket) -> [@Sendable () -> Void] {
        guard ticket.end == .over else { return [] }
        // The caller holds the operation: this is not its last reference.
        ticket.operation = nil
        guard tickets.indices.contains(ticket.index), tickets[ticket.index] === ticket else { return [] }
        tickets[ticket.index] = nil
        freeIndices.append(ticket.index)
        count -= 1
        guard count == 0 else { return [] }
        // Memory for many that have gone is given back.
        (tickets, freeIndices) = ([], [])
        defer { drains = [:] }
        return Array(drains.values)
    }

    // MARK: Handing over

    /// The next operation to hand over; with none, the thread that asks is done.
    mutating func next(_ placeLimit: Int, _ now: ContinuousClock.Instant) -> Dispatch? {
        isHandingOver = true
        if !isSuspended, cancellations == 0, let ticket = take(placeLimit, now), let operation = ticket.operation {
            return Dispatch(operation: operation, slot: ticket.slot, hasBegun: ticket.hasBegun)
        }
        isHandingOver = false
        return nil
    }

    /// The next one to run; those whose name another has, or that would be too many with their interceptors, wait for that.
    private mutating func take(_ placeLimit: Int, _ now: ContinuousClock.Instant) -> Ticket? {
        while let ticket = queues.takeNext(limit: slotLimit, placeLimit: placeLimit, now: now) {
            ticket.releasesSeen = shortage.releases
            if let exclusion = ticket.exclusion, !exclusion.take(ticket) {
                queues.giveBack(ticket, for: .awaitingPermit, isUnsent: true)
                exclusion.wait(ticket, Turn(ticket, queues.prioritization))
                continue
            }
            // An operation that returns has begun: it does not wait for those that have not.
            if ticket.isReturning { return ticket }
            if !ticket.asksInterceptors || interceptorLimiter.admit(ticket) {
                retryBudget.noteRequest(now: now)
                return ticket
            }
            queues.giveBack(ticket, for: .awaitingPermit)
        }
        return nil
    }

    /// What lets a ticket's request go only after its deadline, for people; nil for nothing.
    func hold(of ticket: Ticket, past deadline: ContinuousClock.Instant?, _ now: ContinuousClock.Instant) -> String? {
        deadline.flatMap { queues.holdWords(of: ticket.host, past: $0, now: now) }
    }

    // MARK: Steps of several events

    /// Queues a ticket, unless its owner has suspended it.
    mutating func queue(_ ticket: Ticket) {
        if ticket.suspension.value.isSuspended { ticket.status = .suspended } else { queues.join(ticket) }
    }

    /// Takes a ticket that has begun out of everything, for a wait that is not one for a slot.
    mutating func yieldSlot(_ ticket: Ticket) {
        queues.giveBack(ticket, for: .yielded)
        // Started by hand while it waited in its queue.
        queues.leave(ticket, for: .yielded)
        // It came to rest, suspended, and its attempt has ended all the same.
        if ticket.status == .suspended || ticket.status == .awaitingPermit, ticket.hasBegun { ticket.status = .yielded }
    }

    /// Interceptors are done with a ticket: the next that waits for a permit may come.
    mutating func leaveInterceptors(_ ticket: Ticket) {
        if let next = interceptorLimiter.leave(ticket) { queues.join(next) }
    }

    /// A ticket waits elsewhere or has ended: what it has and others wait for is theirs.
    mutating func leavePermits(_ ticket: Ticket) {
        leaveInterceptors(ticket)
        if let next = ticket.exclusion?.leave(ticket) { queues.join(next) }
    }

    /// Sets the name that a ticket's operation may not run under beside another.
    mutating func setExclusion(_ name: String?, of ticket: Ticket) {
        guard let name, ticket.exclusion == nil else { return }
        let exclusion = exclusions[name] ?? Exclusion(name)
        exclusions[name] = exclusion
        exclusion.tickets += 1
        ticket.exclusion = exclusion
    }

    private mutating func forget(_ exclusion: Exclusion, _ ticket: Ticket) {
        ticket.exclusion = nil
        exclusion.tickets -= 1
        if exclusion.tickets == 0 { exclusions[exclusion.name] = nil }
    }
}
