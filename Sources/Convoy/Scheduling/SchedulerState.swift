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
    var coalescer = Coalescer()
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
    let queueKind: QueueKind
    /// Whether the manager's own queue is suspended, and whether it has a limit of its own.
    var (isQueueSuspended, isQueueLimited) = (false, false)
    /// The groups that wait for the end of a suspension, or of cancelling.
    var heldGroups: [Ticket] = []
    /// How many threads are cancelling many operations: a slot that one frees must not go to the next to be cancelled.
    var cancellations = 0
    /// What is to be called when no operation is left.
    var drains: [Int: @Sendable () -> Void] = [:]
    var lastDrain = 0

    /// Whose the operation queue is.
    enum QueueKind {
        /// The manager's: it gets an operation that is ready and has a slot.
        case own
        /// The caller's: it gets every operation at once, and starts what is ready. An operation asks for its slot then.
        case callers
    }

    /// - Parameter rate: of the requests to all hosts together.
    init(
        limit: Int, hosts: HostLimits, _ prioritization: RequestPrioritization = .fifo, rate: RequestRate? = nil,
        retryBudget: RetryBudgetState, queue: QueueKind = .own
    ) {
        (self.limit, self.retryBudget, queueKind) = (max(1, limit), retryBudget, queue)
        queues = HostQueues(limits: hosts, prioritization, rate: rate)
    }

    /// What is to be done for an operation after an event of its own; after a late or double word, nothing.
    struct Effects: Sendable {
        /// Its request is to be built and checked; then ``SchedulerState/prepared(_:_:)`` follows.
        var prepares = false
        /// It is to be given to the operation queue, without a slot.
        var enters = false
        /// It fails: the manager has been shut down.
        var isRefused = false
        /// `start()` is to be called: it has an outcome, and no queue starts it.
        var starts = false
        /// It resumes with the slot that it has kept.
        var keeps: OperationStateMachine.Slot?
        /// It resumes, and needs no slot.
        var resumes = false
        /// What follows for a shared transfer.
        var transfer: Coalescer.Change?
        /// What is to be called, as no operation is left.
        var calls: [@Sendable () -> Void] = []
    }

    /// An operation that has a slot: it is to be started, or to go on.
    struct Dispatch: Sendable {
        let operation: AnyRequestOperation
        let slot: OperationStateMachine.Slot
        let hasBegun: Bool
        /// When it was taken.
        let moment: CompactInstant
        /// Whether no queue starts it: it is a shared transfer, or a member of a group in a queue of the caller's.
        let startsBeside: Bool
    }

    /// How many may have a slot: fewer while descriptors are missing.
    var slotLimit: Int { min(limit, shortage.limit ?? .max) }

    // MARK: Coming and going

    /// An operation has come.
    ///
    /// What happened to it since its ticket was made stands in the ticket.
    mutating func arrived(_ ticket: Ticket, _ arrival: OperationState.Arrival) -> Effects {
        insert(ticket)
        _ = (ticket.priority.take(arrival.priority), ticket.suspension.take(arrival.suspension))
        _ = ticket.isDependent.take(arrival.isDependent)
        if arrival.isStarted, ticket.status == .preparing {
            (ticket.hasBegun, ticket.status) = (true, ticket.isGroup ? .inQueue : .yielded)
        }
        guard ticket.status == .preparing else { return Effects(isRefused: isShutDown && arrival.isStarted) }
        let entersAtOnce = queueKind == .callers && ticket.role == .caller
        if arrival.hasOutcome {
            ticket.status = entersAtOnce ? .inQueue : .ended
            if arrival.isSettled { ticket.end.settle() }
            return Effects(enters: entersAtOnce, starts: !entersAtOnce)
        }
        if isShutDown, ticket.role != .barrier {
            ticket.status = .blocked
            return Effects(isRefused: true)
        }
        if entersAtOnce {
            ticket.status = .inQueue
            return Effects(enters: true)
        }
        guard !ticket.isDependent.value else {
            ticket.status = .blocked
            return Effects()
        }
        guard let host = arrival.host else { return Effects(prepares: true) }
        ticket.host = host
        return queue(ticket)
    }

    /// An operation has finished: its slot is free.
    ///
    /// - Parameter isSettled: whether its last callback has returned, too.
    mutating func finished(_ ticket: Ticket, isSettled: Bool) -> Effects {
        if ticket.hasPermit || ticket.exclusion != nil { leavePermits(ticket) }
        if let exclusion = ticket.exclusion { forget(exclusion, ticket) }
        let transfer = ticket.sharedTransfer == nil ? nil : coalescer.leave(ticket)
        queues.release(ticket)
        // Started by hand while it waited in its queue.
        if ticket.status == .waiting { queues.leave(ticket, for: .ended) }
        ticket.status = .ended
        ticket.end.finish()
        if let next = shortage.noteEnd(slots: limit) { queues.join(next) }
        return Effects(transfer: transfer, calls: isSettled ? settled(ticket) : removeIfOver(ticket))
    }

    /// The last callback of an operation has returned.
    ///
    /// - Returns: what is to be called because it was the last.
    mutating func settled(_ ticket: Ticket) -> [@Sendable () -> Void] {
        ticket.end.settle()
        return removeIfOver(ticket)
    }

    /// An operation has an outcome before its start.
    ///
    /// The operation queue starts what it has, which takes no slot; what it has not is started at once.
    mutating func abandoned(_ ticket: Ticket) -> Effects {
        switch ticket.status {
        case .waiting: queues.leave(ticket, for: .ended)
        case .blocked, .preparing, .suspended, .sharing, .awaitingPermit: ticket.status = .ended
        case .dispatched, .inQueue, .yielded, .awaitingDescriptor, .ended: return Effects()
        }
        return Effects(starts: true, transfer: coalescer.leave(ticket))
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
    mutating func next(_ now: ContinuousClock.Instant) -> Dispatch? {
        isHandingOver = true
        if !isSuspended, cancellations == 0, let ticket = take(now), let operation = ticket.operation {
            return Dispatch(
                operation: operation, slot: ticket.slot, hasBegun: ticket.hasBegun, moment: CompactInstant(now),
                startsBeside: queueKind == .callers || ticket.role == .shared)
        }
        isHandingOver = false
        return nil
    }

    /// The next one to run; those whose name another has, or that would be too many with their interceptors, wait for that.
    private mutating func take(_ now: ContinuousClock.Instant) -> Ticket? {
        while let ticket = queues.takeNext(limit: slotLimit, takesNew: !isQueueSuspended, now: now) {
            ticket.releasesSeen = shortage.releases
            if let exclusion = ticket.exclusion, !exclusion.take(ticket) {
                queues.release(ticket, for: .awaitingPermit, isUnsent: true)
                exclusion.wait(ticket, Turn(ticket, queues.prioritization))
                continue
            }
            // One that has sent something has been counted.
            if ticket.rank == .returning { return ticket }
            if !ticket.asksInterceptors || interceptorLimiter.admit(ticket) {
                if ticket.slotCount == 1 { retryBudget.noteRequest(now: now) }
                ticket.hasSent = ticket.hasBegun
                return ticket
            }
            queues.release(ticket, for: .awaitingPermit, isUnsent: true)
        }
        return nil
    }

    /// What lets a ticket's request go only after its deadline, for people; nil for nothing.
    func hold(of ticket: Ticket, past deadline: ContinuousClock.Instant?, _ now: ContinuousClock.Instant) -> String? {
        deadline.flatMap { queues.holdWords(of: ticket.host, past: $0, now: now) }
    }

    // MARK: Steps of several events

    /// Has a ticket wait for a slot, unless its owner has suspended it.
    ///
    /// Where the manager's own queue has a limit, that decides what is next: it gets what is ready without a slot.
    mutating func queue(_ ticket: Ticket) -> Effects {
        if ticket.suspension.value.isSuspended {
            ticket.status = .suspended
        } else if isQueueLimited, !ticket.hasBegun, ticket.role == .caller {
            ticket.status = .inQueue
            return Effects(enters: true)
        } else {
            queues.join(ticket)
        }
        return Effects()
    }

    /// Takes a ticket that has begun out of everything, for a wait that is not one for a slot.
    mutating func yieldSlot(_ ticket: Ticket) {
        queues.release(ticket, for: .yielded)
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
