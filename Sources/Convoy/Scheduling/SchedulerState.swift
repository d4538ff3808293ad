// The model of which operations run and which wait. Events go in, effects come out.
import Foundation

/// The state of a scheduler.
///
/// The state has no lock, no clock and no queue, and calls no other code. A `Scheduler` guards it with a lock, passes
/// it one event at a time with the facts it needs, and performs the ``Effects`` outside the lock. `SchedulerWorld` in
/// the tests runs through random orders of events.
struct SchedulerState {
    var queues: HostQueues
    var limit: Int
    var retryBudget: RetryBudgetState
    var coalescer = Coalescer()
    var descriptorLimit = DescriptorLimit()
    /// The names that operations hold or wait for.
    var exclusions: [String: Exclusion] = [:]
    var queueEntries: [QueueEntry?] = []
    private var freeIndices: [Int] = []
    var count: Int { queueEntries.count - freeIndices.count }
    private var lastSequence: UInt64 = 0
    /// Whether a thread is starting operations; that thread checks once more before it stops.
    var isHandingOver = false
    var isShutDown = false
    var isSuspended = false
    let queueKind: QueueKind
    /// Whether the manager's own queue is suspended, and whether it has its own limit.
    var (isQueueSuspended, isQueueLimited) = (false, false)
    /// The groups that wait until a suspension or a cancellation of all operations ends.
    var heldGroups: [QueueEntry] = []
    /// The number of threads that cancel operations; operations about to be cancelled must get no slot.
    var cancellations = 0
    /// The cancellations of operations of operation queues: those since slots are withheld, and those that are running.
    var queueCancellations = (begun: 0, running: 0)
    /// Whether new operations do not start for now.
    var isHoldingBack: Bool { isSuspended || isQueueSuspended || cancellations > 0 }
    /// The callbacks of ``Scheduler/drain()``, called when no operation is left.
    var drains: [Int: @Sendable () -> Void] = [:]
    var lastDrain = 0

    /// Who owns the operation queue.
    enum QueueKind {
        /// The manager. The queue receives ready operations: with a slot, unless the queue has its own limit.
        case own
        /// The caller. The queue receives every operation at once and starts those that are ready. The started
        /// operations then request a slot.
        case callers
    }

    init(
        limit: Int, hosts: HostLimits, _ prioritization: RequestPrioritization = .fifo, rate: RequestRate? = nil,
        retryBudget: RetryBudgetState, queue: QueueKind = .own
    ) {
        (self.limit, self.retryBudget, queueKind) = (max(1, limit), retryBudget, queue)
        queues = HostQueues(limits: hosts, prioritization, rate: rate)
    }

    /// The effects for an operation after one of its events; empty after a late or repeated report.
    struct Effects: Sendable {
        /// Build and check the request, then call ``SchedulerState/prepared(_:_:)``.
        var prepares = false
        /// Add the operation to the operation queue, without a slot.
        var enters = false
        /// Fail the operation, because the manager has been shut down.
        var isRefused = false
        /// Call `start()`, because the operation is ready or has an outcome, and no queue starts it.
        var starts = false
        /// Resume the operation with the slot that it has kept.
        var keeps: OperationStateMachine.Slot?
        /// Resume the operation without a slot.
        var resumes = false
        /// Change a shared transfer.
        var transfer: Coalescer.Change?
        /// Call these closures, because no operation is left.
        var calls: [@Sendable () -> Void] = []
    }

    /// An operation that has a slot, to be started or resumed.
    struct Dispatch: Sendable {
        let operation: AnyRequestOperation
        let slot: OperationStateMachine.Slot
        let hasBegun: Bool
        /// When the operation got its slot.
        let moment: CompactInstant
        /// Whether no queue starts the operation: its role is `shared`, or its group is in a caller's queue.
        let startsBeside: Bool
    }

    /// The next operation, and the work that the search for it has caused.
    struct Next: Sendable {
        /// The operation to start or resume; nil if none may run.
        var dispatch: Dispatch?
        /// New holds, for which the scheduler sets timers.
        var holds: [HostQueues.NewHold] = []
        /// The producers to notify, because no operation wants a free slot.
        var waiters: Set<ObjectIdentifier> = []
    }

    /// How many operations may have a slot; fewer while file descriptors are missing.
    var slotLimit: Int { min(limit, descriptorLimit.limit ?? .max) }

    /// The producers that continue once a slot is free that no operation wants.
    var slotWaiters: Set<ObjectIdentifier> = []

    // MARK: Arrival and end

    /// Adds an operation that was enqueued or started.
    ///
    /// Its queue entry already has the changes that were reported since the entry was made.
    mutating func arrived(_ queueEntry: QueueEntry, _ arrival: OperationState.Arrival) -> Effects {
        lastSequence += 1
        queueEntry.sequence = lastSequence
        // The entry is over if the operation had finished, and its last callback had returned, before this call.
        if !queueEntry.isOver {
            let index = freeIndices.popLast() ?? queueEntries.count
            if index == queueEntries.count { queueEntries.append(nil) }
            queueEntries[index] = queueEntry
            queueEntry.index = Int32(truncatingIfNeeded: index)
        }
        _ = (queueEntry.priority.take(arrival.priority), queueEntry.suspension.take(arrival.suspension))
        _ = queueEntry.isDependent.take(arrival.isDependent)
        if arrival.isStarted, queueEntry.status == .preparing {
            (queueEntry.hasBegun, queueEntry.status) = (true, queueEntry.isGroup ? .inQueue : .yielded)
        }
        guard queueEntry.status == .preparing else { return Effects(isRefused: isShutDown && arrival.isStarted) }
        let entersAtOnce = queueKind == .callers && queueEntry.role == .caller
        if arrival.hasOutcome {
            queueEntry.status = entersAtOnce ? .inQueue : .ended
            if arrival.isSettled { queueEntry.isSettled = true }
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

    /// Called when an operation has started.
    ///
    /// Returns whether the operation may send at once.
    ///
    /// If not, the operation has no slot and requests one with ``prepared(_:_:)``. There are five causes:
    /// - The caller or a queue of the caller has started the operation, which therefore had no slot.
    /// - The operation is suspended.
    /// - Another operation has its name.
    /// - Its host was put on hold after the operation got its slot.
    /// - An operation that began earlier uses its slot.
    ///
    /// - Parameter suspension: the suspension at the start. Newer reports take precedence.
    mutating func begins(_ queueEntry: QueueEntry, _ suspension: Versioned<OperationStateMachine.Suspension>) -> Bool {
        queueEntry.hasBegun = true
        switch queueEntry.status {
        case .waiting: queues.release(queueEntry, for: .yielded)
        case .blocked, .preparing, .suspended, .awaitingPermit, .inQueue: queueEntry.status = .yielded
        case .dispatched:
            guard let host = queueEntry.queue else { break }
            queues.unstarted -= 1
            host.unstarted -= 1
            // A newer suspension is not stored here, because its report follows. If the operation was resumed, the
            // report lets it keep its slot. `take` asks for the name again. Another operation may have taken the name
            // while this one was in the operation queue, or was blocked there.
            let newest = suspension.version > queueEntry.suspension.version ? suspension : queueEntry.suspension
            if host.holds.isEmpty || host.mayBegin(queueEntry), queues.running - queues.unstarted <= slotLimit,
                host.running - host.unstarted <= host.currentLimit, !newest.value.isSuspended,
                queueEntry.exclusion?.take(queueEntry) != false
            {
                queueEntry.hasSent = true
                return true
            }
            queues.release(queueEntry, for: .yielded, isUnsent: true)
        case .sharing, .yielded, .awaitingDescriptor, .ended: break
        }
        // The operation has sent nothing, so other operations may use its name until it gets a slot again.
        leaveExclusion(queueEntry)
        return false
    }

    /// Releases the slot of an operation that has finished.
    ///
    /// - Parameter isSettled: whether its last callback has returned too.
    mutating func finished(_ queueEntry: QueueEntry, isSettled: Bool) -> Effects {
        if let exclusion = queueEntry.exclusion {
            leaveExclusion(queueEntry)
            queueEntry.exclusion = nil
            exclusion.queueEntries -= 1
            if exclusion.queueEntries == 0 { exclusions[exclusion.name] = nil }
        }
        let transfer = queueEntry.sharedTransfer == nil ? nil : coalescer.leave(queueEntry)
        queues.release(queueEntry)
        (queueEntry.status, queueEntry.isFinished) = (.ended, true)
        if isSettled { queueEntry.isSettled = true }
        if let next = descriptorLimit.noteEnd(slots: limit) { queues.join(next) }
        return Effects(transfer: transfer, calls: removeIfOver(queueEntry))
    }

    /// Called when the last callback of an operation has returned.
    ///
    /// - Returns: the callbacks to call if it was the last operation.
    mutating func settled(_ queueEntry: QueueEntry) -> [@Sendable () -> Void] {
        queueEntry.isSettled = true
        return removeIfOver(queueEntry)
    }

    private mutating func removeIfOver(_ queueEntry: QueueEntry) -> [@Sendable () -> Void] {
        guard queueEntry.isOver else { return [] }
        // The caller has a reference to the operation, so this line does not release the operation under the lock.
        queueEntry.operation = nil
        let index = Int(queueEntry.index)
        guard queueEntries.indices.contains(index) else { return [] }
        queueEntries[index] = nil
        freeIndices.append(index)
        queueEntry.index = -1
        guard count == 0 else { return [] }
        // The arrays are replaced, because many operations may have enlarged them.
        (queueEntries, freeIndices) = ([], [])
        defer { drains = [:] }
        return Array(drains.values)
    }

    // MARK: Choosing the next operation

    /// Gives a slot to the first operation that also gets its name; earlier ones wait.
    mutating func next(_ now: ContinuousClock.Instant) -> Next {
        var next = Next()
        while next.dispatch == nil, !isSuspended, cancellations == 0,
            let queueEntry = queues.takeNext(limit: slotLimit, takesNew: !isQueueSuspended, now: now)
        {
            queueEntry.releasesSeen = descriptorLimit.releases
            if let exclusion = queueEntry.exclusion, !exclusion.take(queueEntry) {
                queues.release(queueEntry, for: .awaitingPermit, isUnsent: true)
                exclusion.wait(Turn(queueEntry, queues.prioritization))
            } else if let operation = queueEntry.operation {
                if queueEntry.slotCount == 1 { retryBudget.noteRequest(now: now) }
                queueEntry.hasSent = queueEntry.hasBegun
                next.dispatch = Dispatch(
                    operation: operation, slot: queueEntry.slot, hasBegun: queueEntry.hasBegun,
                    moment: CompactInstant(now), startsBeside: queueKind == .callers || queueEntry.role == .shared)
            }
        }
        isHandingOver = next.dispatch != nil
        if !queues.newHolds.isEmpty { next.holds = queues.takeNewHolds() }
        if !isHandingOver, !slotWaiters.isEmpty, hasFreeSlots { swap(&next.waiters, &slotWaiters) }
        return next
    }

    // MARK: Shared steps

    /// Queues an entry for a slot, unless the operation is suspended.
    ///
    /// If the manager's own queue has a limit, that queue decides what is next. It then receives ready operations
    /// without a slot.
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

    /// Makes an operation that has begun wait without a slot, for example during a retry's delay or for its
    /// interceptors: releases its slot, or removes it from its queue.
    ///
    /// - Parameter isUnsent: whether the operation has sent nothing since it got the slot.
    mutating func yieldSlot(_ queueEntry: QueueEntry, isUnsent: Bool = false) {
        queues.release(queueEntry, for: .yielded, isUnsent: isUnsent)
        // The operation was idle because it is suspended, but its attempt has ended.
        if queueEntry.status == .suspended || queueEntry.status == .awaitingPermit, queueEntry.hasBegun {
            queueEntry.status = .yielded
        }
    }

    /// Releases the name of a queue entry that has ended or waits elsewhere, and queues the next waiter.
    mutating func leaveExclusion(_ queueEntry: QueueEntry) {
        if let next = queueEntry.exclusion?.leave(queueEntry) { queues.join(next) }
    }
}
