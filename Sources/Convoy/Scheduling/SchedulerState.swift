// The model of which operations run and which wait. Events go in, effects come out.
import Foundation

// No lock, no clock, no queue: a `Scheduler` guards it, passes it one event at a time with the facts it needs, and
// performs the ``Effects`` outside the lock. `SchedulerWorld` in the tests runs through random orders of events.
struct SchedulerState {
    var queues: HostQueues
    var limit: Int
    var retryBudget: RetryBudgetState
    var coalescer = Coalescer()
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
    var heldGroups: [QueueEntry] = []
    /// The number of threads that cancel operations; operations about to be cancelled must get no slot.
    var cancellations = 0
    /// The cancellations of operations of operation queues: those since slots are withheld, and those that are running.
    var queueCancellations = (begun: 0, running: 0)
    /// Whether new operations do not start for now.
    var isHoldingBack: Bool { isSuspended || isQueueSuspended || cancellations > 0 }
    var drains: [Int: @Sendable () -> Void] = [:]
    var lastDrain = 0

    enum QueueKind {
        /// The manager. The queue receives ready operations: with a slot, unless the queue has its own limit.
        case own
        /// The caller. The queue receives every operation at once and starts those that are ready. The started
        /// operations then request a slot.
        case callers
    }

    init(
        limit: Int = .max, hosts: HostLimits, _ prioritization: RequestPrioritization = .fifo,
        rate: RequestRate? = nil, retryBudget: RetryBudgetState = RetryBudgetState(.unlimited), queue: QueueKind = .own
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
        var calls: [@Sendable () -> Void] = []
    }

    struct Dispatch: Sendable {
        let operation: AnyRequestOperation
        let slot: OperationStateMachine.Slot
        let hasBegun: Bool
        let moment: CompactInstant
        let startsBeside: Bool
    }

    struct Next: Sendable {
        var dispatch: Dispatch?
        var holds: [HostQueues.NewHold] = []
    }

    // MARK: Arrival and end

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
            if host.holds.isEmpty || host.mayBegin(queueEntry), queues.running - queues.unstarted <= limit,
                host.running - host.unstarted <= host.currentLimit, !newest.value.isSuspended,
                queueEntry.exclusion?.take(queueEntry) != false
            {
                queueEntry.hasSent = true
                return true
            }
            queues.release(queueEntry, for: .yielded, isUnsent: true)
        case .sharing, .yielded, .ended: break
        }
        // The operation has sent nothing, so other operations may use its name until it gets a slot again.
        leaveExclusion(queueEntry)
        return false
    }

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
        return Effects(transfer: transfer, calls: removeIfOver(queueEntry))
    }

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
            let queueEntry = queues.takeNext(limit: limit, takesNew: !isQueueSuspended, now: now)
        {
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
        return next
    }

    // MARK: Shared steps

    // If the manager's own queue has a limit, that queue decides what is next. It then receives ready operations
    // without a slot.
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

    // Releases the slot of an operation that waits, for example during a retry's delay, or removes it from its queue.
    // With `isUnsent`, the operation has sent nothing since it got the slot.
    mutating func yieldSlot(_ queueEntry: QueueEntry, isUnsent: Bool = false) {
        queues.release(queueEntry, for: .yielded, isUnsent: isUnsent)
        // The operation was idle because it is suspended, but its attempt has ended.
        if queueEntry.status == .suspended || queueEntry.status == .awaitingPermit, queueEntry.hasBegun {
            queueEntry.status = .yielded
        }
    }

    mutating func leaveExclusion(_ queueEntry: QueueEntry) {
        if let next = queueEntry.exclusion?.leave(queueEntry) { queues.join(next) }
    }
}

extension SchedulerState {
    // MARK: Before the start

    mutating func dependenciesTold(_ queueEntry: QueueEntry, _ isDependent: Versioned<Bool>) -> Effects {
        guard queueEntry.isDependent.take(isDependent) else { return Effects() }
        guard isDependent.value else {
            guard queueEntry.status == .blocked else { return Effects() }
            queueEntry.status = .preparing
            return Effects(prepares: true)
        }
        // The operation was started while the dependency was being added, so it no longer waits.
        guard !queueEntry.hasBegun else { return Effects() }
        switch queueEntry.status {
        case .waiting: queues.release(queueEntry, for: .blocked)
        case .suspended, .awaitingPermit: queueEntry.status = .blocked
        // The dependency may need the slot. The operation queue starts the operation when the dependency has finished.
        case .dispatched: queues.release(queueEntry, for: .inQueue)
        case .sharing:
            queueEntry.status = .blocked
            return Effects(transfer: coalescer.leave(queueEntry))
        case .preparing, .blocked, .inQueue, .yielded, .ended: return Effects()
        }
        leaveExclusion(queueEntry)
        return Effects()
    }

    /// Called when the request of an operation has been built and checked, or when it is ready for another attempt.
    mutating func prepared(_ queueEntry: QueueEntry, _ wish: OperationState.Wish) -> Effects {
        guard wish.hasBegun == queueEntry.hasBegun else { return Effects() }
        if wish.followsAnswer, queueEntry.status == .inQueue { queueEntry.status = .yielded }
        // The operation was started by hand just when a shared response arrived.
        if queueEntry.hasBegun, queueEntry.status == .inQueue { return Effects(resumes: true) }
        if queueEntry.hasBegun { yieldSlot(queueEntry) }
        guard queueEntry.status == (queueEntry.hasBegun ? .yielded : .preparing) else { return Effects() }
        queueEntry.host = wish.host
        if let name = wish.exclusion, queueEntry.exclusion == nil {
            let exclusion = exclusions[name] ?? Exclusion(name)
            exclusions[name] = exclusion
            exclusion.queueEntries += 1
            queueEntry.exclusion = exclusion
        }
        guard queueEntry.hasBegun || !queueEntry.isDependent.value else {
            queueEntry.status = .blocked
            return Effects()
        }
        _ = queueEntry.suspension.take(wish.suspension)
        return wish.hasAnswer && mayStartAnswered(queueEntry) ? answered(queueEntry) : queue(queueEntry)
    }

    /// The operation then uses no slot and no rate token, and does not count for the limit of its host.
    private func mayStartAnswered(_ queueEntry: QueueEntry) -> Bool {
        queueEntry.exclusion == nil && !queueEntry.suspension.value.isSuspended && !isSuspended && cancellations == 0
            && (queueEntry.hasBegun || !isQueueSuspended)
    }

    mutating func groupStarts(
        _ queueEntry: QueueEntry, _ suspension: Versioned<OperationStateMachine.Suspension>
    ) -> Bool {
        guard queueEntry.status == .preparing, !queueEntry.hasBegun else { return false }
        _ = queueEntry.suspension.take(suspension)
        if queueEntry.isDependent.value {
            queueEntry.status = .blocked
        } else if queueEntry.suspension.value.isSuspended {
            queueEntry.status = .suspended
        } else if isHoldingBack {
            queueEntry.status = .awaitingPermit
            heldGroups.append(queueEntry)
        } else {
            (queueEntry.hasBegun, queueEntry.status) = (true, .inQueue)
        }
        return queueEntry.hasBegun
    }

    mutating func takeHeldGroups() -> [AnyRequestOperation] {
        guard !isHoldingBack, !heldGroups.isEmpty else { return [] }
        defer { heldGroups = [] }
        let groups = heldGroups.filter { $0.status == .awaitingPermit }
        for group in groups { group.status = .preparing }
        return groups.sorted { ($0.priorityIndex, $0.sequence) < ($1.priorityIndex, $1.sequence) }.compactMap(
            \.operation)
    }

    /// From then on that queue decides the order, so it receives the waiting operations.
    mutating func limitQueue() -> [AnyRequestOperation] {
        isQueueLimited = true
        let waiting = queueEntries.compactMap { $0 }.filter {
            $0.status == .waiting && !$0.hasBegun && $0.role == .caller
        }
        for queueEntry in waiting {
            queues.release(queueEntry, for: .inQueue)
            leaveExclusion(queueEntry)
        }
        return waiting.sorted { $0.queueNumber < $1.queueNumber }.compactMap(\.operation)
    }

    /// Makes an operation share a transfer; nil if it has a dependency, has sent something, or its wish is outdated.
    mutating func shares(
        _ queueEntry: QueueEntry, _ key: CoalescingKey, new: RequestOperation<Data>, _ wish: OperationState.Wish
    ) -> (change: Coalescer.Change, isNew: Bool)? {
        guard wish.hasBegun == queueEntry.hasBegun,
            queueEntry.hasBegun
                ? queueEntry.status == .yielded && !queueEntry.hasSent
                : queueEntry.status == .preparing && !queueEntry.isDependent.value
        else { return nil }
        queueEntry.host = wish.host
        _ = queueEntry.suspension.take(wish.suspension)
        return coalescer.join(queueEntry, key, new: new)
    }

    /// Called when the shared transfer of an operation has a response; nil if the operation no longer waits for it.
    mutating func answerCame(
        _ queueEntry: QueueEntry, of key: CoalescingKey, _ suspension: Versioned<OperationStateMachine.Suspension>
    ) -> Effects? {
        guard queueEntry.shares(key) else { return nil }
        queueEntry.sharedTransfer = nil
        let newest = suspension.version > queueEntry.suspension.version ? suspension : queueEntry.suspension
        guard !newest.value.isSuspended else {
            queueEntry.status = .suspended
            return Effects()
        }
        return answered(queueEntry)
    }

    /// Starts or resumes an operation without a slot, because the cache or a shared transfer has its response.
    func answered(_ queueEntry: QueueEntry) -> Effects {
        queueEntry.status = .inQueue
        if queueEntry.hasBegun { return Effects(resumes: true) }
        // Members of groups and shared transfers are not in a caller's queue.
        let enters = queueKind == .own || queueEntry.role == .caller
        return Effects(enters: enters, starts: !enters)
    }

    mutating func priorityTold(_ queueEntry: QueueEntry, _ priority: Versioned<Operation.QueuePriority>) -> Effects {
        let earlier = queueEntry.priority.value
        guard queueEntry.priority.take(priority), earlier != priority.value else { return Effects() }
        if queueEntry.status == .awaitingPermit, let exclusion = queueEntry.exclusion, exclusion.holder !== queueEntry {
            exclusion.wait(Turn(queueEntry, queues.prioritization))
        }
        if queueEntry.status == .waiting {
            queues.release(queueEntry, for: .preparing)
            queues.join(queueEntry)
        }
        return Effects(transfer: coalescer.priorityChanged(of: queueEntry))
    }

    mutating func suspensionTold(
        _ queueEntry: QueueEntry, _ word: Versioned<OperationStateMachine.Suspension>
    ) -> Effects {
        guard queueEntry.suspension.take(word) else { return Effects() }
        let (isSuspended, awaitsSlot) = (word.value.isSuspended, word.value.awaitsSlot)
        switch queueEntry.status {
        case .waiting where isSuspended:
            queues.release(queueEntry, for: .suspended)
            if !queueEntry.hasSent { leaveExclusion(queueEntry) }
        case .awaitingPermit where isSuspended:
            queueEntry.status = .suspended
            if !queueEntry.hasSent { leaveExclusion(queueEntry) }
        // The operation was resumed before it released its slot, perhaps even before it was notified of the slot.
        case .dispatched where awaitsSlot && !isSuspended: return Effects(keeps: queueEntry.slot)
        case .dispatched where awaitsSlot && queueEntry.hasBegun: queues.release(queueEntry, for: .suspended)
        case .suspended where !isSuspended && queueEntry.isGroup:
            queueEntry.status = .preparing
            return Effects(prepares: true)
        case .suspended where !isSuspended: return queue(queueEntry)
        // An operation that is idle in one of these states, for example with a shared response, needs no slot to
        // resume.
        case .blocked, .preparing, .awaitingPermit, .sharing, .inQueue, .ended:
            if awaitsSlot, !isSuspended { return Effects(keeps: queueEntry.slot) }
        case .waiting, .suspended, .dispatched, .yielded: break
        }
        return Effects()
    }

    // An operation in the operation queue is started by that queue, and then finishes. If `starts` is true, no queue
    // contains the operation, so the caller finishes it.
    mutating func abandoned(_ queueEntry: QueueEntry) -> Effects {
        switch queueEntry.status {
        case .waiting: queues.release(queueEntry)
        case .blocked, .preparing, .suspended, .sharing, .awaitingPermit: queueEntry.status = .ended
        case .dispatched, .inQueue, .yielded, .ended: return Effects()
        }
        return Effects(starts: true, transfer: coalescer.leave(queueEntry))
    }

    // MARK: After the start

    mutating func beginsWithAnswer(_ queueEntry: QueueEntry) {
        queues.release(queueEntry, for: .inQueue)
        queueEntry.hasBegun = true
    }
}

// A name that only one operation at a time holds: a lock for which queue entries wait in order.
//
// An operation acquires its name with its first slot and releases the name when it has finished. The operation keeps
// the name between attempts and while it is suspended. If it has sent nothing, it releases the name together with its
// slot, or when it leaves the host's queue.
//
// A released name is passed to the first waiter. The waiter may have low priority, or its host may be on hold. So it
// loses the name to any operation that gets a slot earlier. An operation A that has begun also takes the name from an
// operation B that has a slot but has not begun. The operation queue may start B only after A. An operation that has
// lost its name waits again when it is started.
//
// An exclusion is part of a scheduler's state and used only under the scheduler's lock. It is an object, so that a
// queue entry finds it without a lookup.
final class Exclusion {
    let name: String
    var queueEntries = 0
    private(set) var holder: QueueEntry?
    private var waiting = Heap<Turn>()
    private var sweepCount = 64

    init(_ name: String) { self.name = name }

    /// False if another entry keeps the name: one that has sent something, or has a slot while the new entry has not
    /// begun.
    func take(_ queueEntry: QueueEntry) -> Bool {
        guard let holder, holder !== queueEntry, holder.hasSent || holder.status == .dispatched && !queueEntry.hasBegun
        else {
            holder = queueEntry
            return true
        }
        return false
    }

    /// Called again after the turn of the entry has changed; O(log *n*) amortised for *n* waiters.
    func wait(_ turn: Turn) {
        waiting.insert(turn)
        guard waiting.count > sweepCount else { return }
        waiting.removeAll { !$0.isLive }
        sweepCount = 2 * waiting.count + 64
    }

    /// Returns the first waiter, which now has the name; nil if there is none.
    func leave(_ queueEntry: QueueEntry) -> QueueEntry? {
        guard holder === queueEntry else { return nil }
        holder = nil
        while holder == nil, let waiter = waiting.popFirst() {
            if waiter.isLive { holder = waiter.queueEntry }
        }
        return holder
    }
}
