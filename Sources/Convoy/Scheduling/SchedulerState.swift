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
    var descriptorLimit = DescriptorLimit()
    /// The names that operations have or wait for.
    private(set) var exclusions: [String: Exclusion] = [:]
    var queueEntries: [QueueEntry?] = []
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
    var heldGroups: [QueueEntry] = []
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
    var slotLimit: Int { min(limit, descriptorLimit.limit ?? .max) }

    // MARK: Coming and going

    /// An operation has come.
    ///
    /// What happened to it since its queue entry was made stands in the queue entry.
    mutating func arrived(_ queueEntry: QueueEntry, _ arrival: OperationState.Arrival) -> Effects {
        insert(queueEntry)
        _ = (queueEntry.priority.take(arrival.priority), queueEntry.suspension.take(arrival.suspension))
        _ = queueEntry.isDependent.take(arrival.isDependent)
        if arrival.isStarted, queueEntry.status == .preparing {
            (queueEntry.hasBegun, queueEntry.status) = (true, queueEntry.isGroup ? .inQueue : .yielded)
        }
        guard queueEntry.status == .preparing else { return Effects(isRefused: isShutDown && arrival.isStarted) }
        let entersAtOnce = queueKind == .callers && queueEntry.role == .caller
        if arrival.hasOutcome {
            queueEntry.status = entersAtOnce ? .inQueue : .ended
            if arrival.isSettled { queueEntry.end.settle() }
            return Effects(enters: entersAtOnce, starts: !entersAtOnce)
        }
        if isShutDown, queueEntry.role != .barrier {
            queueEntry.status = .blocked
            return Effects(isRefused: true)
        }
        if entersAtOnce {
            queueEntry.status = .inQueue
            return Effects(enters: true)
        }
        guard !queueEntry.isDependent.value else {
            queueEntry.status = .blocked
            return Effects()
        }
        guard let host = arrival.host else { return Effects(prepares: true) }
        queueEntry.host = host
        return queue(queueEntry)
    }

    /// An operation has finished: its slot is free.
    ///
    /// - Parameter isSettled: whether its last callback has returned, too.
    mutating func finished(_ queueEntry: QueueEntry, isSettled: Bool) -> Effects {
        if queueEntry.hasPermit || queueEntry.exclusion != nil { leavePermits(queueEntry) }
        if let exclusion = queueEntry.exclusion { forget(exclusion, queueEntry) }
        let transfer = queueEntry.sharedTransfer == nil ? nil : coalescer.leave(queueEntry)
        queues.release(queueEntry)
        // Started by hand while it waited in its queue.
        if queueEntry.status == .waiting { queues.leave(queueEntry, for: .ended) }
        queueEntry.status = .ended
        queueEntry.end.finish()
        if let next = descriptorLimit.noteEnd(slots: limit) { queues.join(next) }
        return Effects(transfer: transfer, calls: isSettled ? settled(queueEntry) : removeIfOver(queueEntry))
    }

    /// The last callback of an operation has returned.
    ///
    /// - Returns: what is to be called because it was the last.
    mutating func settled(_ queueEntry: QueueEntry) -> [@Sendable () -> Void] {
        queueEntry.end.settle()
        return removeIfOver(queueEntry)
    }

    /// An operation has an outcome before its start.
    ///
    /// The operation queue starts what it has, which takes no slot; what it has not is started at once.
    mutating func abandoned(_ queueEntry: QueueEntry) -> Effects {
        switch queueEntry.status {
        case .waiting: queues.leave(queueEntry, for: .ended)
        case .blocked, .preparing, .suspended, .sharing, .awaitingPermit: queueEntry.status = .ended
        case .dispatched, .inQueue, .yielded, .awaitingDescriptor, .ended: return Effects()
        }
        return Effects(starts: true, transfer: coalescer.leave(queueEntry))
    }

    /// Notes what is to be called when no operation is left; false when none is.
    mutating func awaitEnd(_ call: @escaping @Sendable () -> Void, identity: Int) -> Bool {
        guard count > 0 else { return false }
        drains[identity] = call
        return true
    }

    private mutating func insert(_ queueEntry: QueueEntry) {
        lastSequence += 1
        queueEntry.sequence = lastSequence
        // Cancelled, finished and settled before it came here.
        if queueEntry.end == .over { return }
        count += 1
        if let index = freeIndices.popLast() {
            queueEntry.index = index
            queueEntries[index] = queueEntry
        } else {
            queueEntry.index = queueEntries.count
            queueEntries.append(queueEntry)
        }
    }

    private mutating func removeIfOver(_ queueEntry: QueueEntry) -> [@Sendable () -> Void] {
        guard queueEntry.end == .over else { return [] }
        // The caller holds the operation: this is not its last reference.
        queueEntry.operation = nil
        guard queueEntries.indices.contains(queueEntry.index), queueEntries[queueEntry.index] === queueEntry else {
            return []
        }
        queueEntries[queueEntry.index] = nil
        freeIndices.append(queueEntry.index)
        count -= 1
        guard count == 0 else { return [] }
        // Memory for many that have gone is given back.
        (queueEntries, freeIndices) = ([], [])
        defer { drains = [:] }
        return Array(drains.values)
    }

    // MARK: Handing over

    /// The next operation to hand over; with none, the thread that asks is done.
    mutating func next(_ now: ContinuousClock.Instant) -> Dispatch? {
        isHandingOver = true
        if !isSuspended, cancellations == 0, let queueEntry = take(now), let operation = queueEntry.operation {
            return Dispatch(
                operation: operation, slot: queueEntry.slot, hasBegun: queueEntry.hasBegun, moment: CompactInstant(now),
                startsBeside: queueKind == .callers || queueEntry.role == .shared)
        }
        isHandingOver = false
        return nil
    }

    /// The next one to run; those whose name another has, or that would be too many with their interceptors, wait for that.
    private mutating func take(_ now: ContinuousClock.Instant) -> QueueEntry? {
        while let queueEntry = queues.takeNext(limit: slotLimit, takesNew: !isQueueSuspended, now: now) {
            queueEntry.releasesSeen = descriptorLimit.releases
            if let exclusion = queueEntry.exclusion, !exclusion.take(queueEntry) {
                queues.release(queueEntry, for: .awaitingPermit, isUnsent: true)
                exclusion.wait(queueEntry, Turn(queueEntry, queues.prioritization))
                continue
            }
            // One that has sent something has been counted.
            if queueEntry.rank == .returning { return queueEntry }
            if !queueEntry.asksInterceptors || interceptorLimiter.admit(queueEntry) {
                if queueEntry.slotCount == 1 { retryBudget.noteRequest(now: now) }
                queueEntry.hasSent = queueEntry.hasBegun
                return queueEntry
            }
            queues.release(queueEntry, for: .awaitingPermit, isUnsent: true)
        }
        return nil
    }

    /// What lets a queue entry's request go only after its deadline, for people; nil for nothing.
    func hold(of queueEntry: QueueEntry, past deadline: ContinuousClock.Instant?, _ now: ContinuousClock.Instant)
        -> String?
    {
        deadline.flatMap { queues.holdWords(of: queueEntry.host, past: $0, now: now) }
    }

    // MARK: Steps of several events

    /// Has a queue entry wait for a slot, unless its owner has suspended it.
    ///
    /// Where the manager's own queue has a limit, that decides what is next: it gets what is ready without a slot.
    mutating func queue(_ queueEntry: QueueEntry) -> Effects {
        if queueEntry.suspension.value.isSuspended {
            queueEntry.status = .suspended
        } else if isQueueLimited, !queueEntry.hasBegun, queueEntry.role == .caller {
            queueEntry.status = .inQueue
            return Effects(enters: true)
        } else {
            queues.join(queueEntry)
        }
        return Effects()
    }

    /// Takes a queue entry that has begun out of everything, for a wait that is not one for a slot.
    mutating func yieldSlot(_ queueEntry: QueueEntry) {
        queues.release(queueEntry, for: .yielded)
        // Started by hand while it waited in its queue.
        queues.leave(queueEntry, for: .yielded)
        // It came to rest, suspended, and its attempt has ended all the same.
        if queueEntry.status == .suspended || queueEntry.status == .awaitingPermit, queueEntry.hasBegun {
            queueEntry.status = .yielded
        }
    }

    /// Interceptors are done with a queue entry: the next that waits for a permit may come.
    mutating func leaveInterceptors(_ queueEntry: QueueEntry) {
        if let next = interceptorLimiter.leave(queueEntry) { queues.join(next) }
    }

    /// A queue entry waits elsewhere or has ended: what it has and others wait for is theirs.
    mutating func leavePermits(_ queueEntry: QueueEntry) {
        leaveInterceptors(queueEntry)
        if let next = queueEntry.exclusion?.leave(queueEntry) { queues.join(next) }
    }

    /// Sets the name that a queue entry's operation may not run under beside another.
    mutating func setExclusion(_ name: String?, of queueEntry: QueueEntry) {
        guard let name, queueEntry.exclusion == nil else { return }
        let exclusion = exclusions[name] ?? Exclusion(name)
        exclusions[name] = exclusion
        exclusion.queueEntries += 1
        queueEntry.exclusion = exclusion
    }

    private mutating func forget(_ exclusion: Exclusion, _ queueEntry: QueueEntry) {
        queueEntry.exclusion = nil
        exclusion.queueEntries -= 1
        if exclusion.queueEntries == 0 { exclusions[exclusion.name] = nil }
    }
}
