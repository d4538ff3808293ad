// Which operations of a manager run, and which wait for what. Events go in, effects come out.
import Foundation

// The one lock of a manager guards this value and the records of its operations. No clock, no queue, no call: every
// decision that concerns more than one operation is a function here, which returns what to do once the lock is
// released.
struct Schedule {
    var queues: HostQueues
    var limit: Int
    var retryBudget: RetryBudgetState
    var coalescer = Coalescer()
    private(set) var exclusions: [String: Exclusion] = [:]
    /// The number of enqueued operations, and the ends of their list, in the order of arrival.
    private(set) var count = 0
    private var ends: (first: Unmanaged<AnyRequestOperation>?, last: Unmanaged<AnyRequestOperation>?)
    /// Whether a thread is starting operations; that thread checks once more before it stops.
    var isHandingOver = false
    var isShutDown = false
    var isSuspended = false
    let queueKind: QueueKind
    /// Whether the transport may be called from its own callbacks.
    let isReentrant: Bool
    /// Whether the manager's own queue is suspended, and whether it has its own limit.
    var (isQueueSuspended, isQueueLimited) = (false, false)
    private var heldGroups = WaitQueue()
    private(set) var abandoned: [AnyRequestOperation] = []
    /// The number of threads that cancel operations; operations about to be cancelled must get no slot.
    var cancellations = 0
    /// The cancellations of operations of operation queues: those since slots are withheld, and those that are running.
    var queueCancellations = (begun: 0, running: 0)
    /// Whether new operations do not start for now.
    var isHoldingBack: Bool { isSuspended || isQueueSuspended || cancellations > 0 }
    var drains: [Int: @Sendable () -> Void] = [:]
    var lastDrain = 0

    enum QueueKind {
        /// No queue: an operation without a manager begins when it is started, without a slot.
        case none
        /// The manager. The queue receives ready operations: with a slot, unless the queue has its own limit.
        case own
        /// The caller. The queue receives every operation at once and starts those that are ready. The started
        /// operations then wait for a slot.
        case callers
    }

    init(
        limit: Int = .max, hosts: HostLimits = HostLimits(fixed: .max), _ prioritization: RequestPrioritization = .fifo,
        rate: RequestRate? = nil, retryBudget: RetryBudgetState = RetryBudgetState(.unlimited),
        queue: QueueKind = .none, isReentrant: Bool = false
    ) {
        (self.limit, self.retryBudget) = (max(1, limit), retryBudget)
        (queueKind, self.isReentrant) = (queue, isReentrant)
        queues = HostQueues(limits: hosts, prioritization, rate: rate)
    }

    /// The action that follows an event, after the lock is released.
    enum Step: Sendable {
        /// Build and check the request and ask the cache, then call ``Schedule/prepared(_:hasAnswer:)``.
        case prepare
        /// Add the operation to the operation queue.
        case enter
        /// Call `start()`, because the operation is ready or has an outcome, and no queue starts it.
        case start
        /// The same on another thread, because this one may be a transport's.
        case startElsewhere
        /// Fail the operation, because it was started before its dependencies had finished; then start it again.
        case refuseStart
        /// Fail the operation, because the manager has been shut down.
        case refuse
        case fail(RequestError)
        /// Run the function of a group.
        case begin
        /// Make the task of the attempt, after the interceptors.
        case launch
        /// The operation has begun here, without a queue: send its request.
        case send(OperationRecord.Launch)
        /// See whether the task should run or pause.
        case adjust
        case finish
    }

    /// The next operation to run, and what else follows a change.
    struct Next: Sendable {
        var step: (operation: AnyRequestOperation, Step?)?
        var holds: [HostQueues.NewHold] = []
        /// Shared transfers that no operation needs any more, to be cancelled.
        var abandoned: [AnyRequestOperation] = []
    }

    // MARK: Arrival and end

    /// Every operation that is enqueued and selected, in the order of arrival.
    func operations(_ isMeant: (OperationRecord.Role) -> Bool) -> [AnyRequestOperation] {
        var operations: [AnyRequestOperation] = []
        var next = ends.first
        while let link = next {
            let operation = link.takeUnretainedValue()
            if isMeant(operation.record.role) { operations.append(operation) }
            next = operation.record.listed.next
        }
        return operations
    }

    // Nil if the operation is enqueued already or cannot run any more. `defaults` are those for a plain request, which
    // is prepared here. With a cache, only a request that was prepared for the lookup is used.
    mutating func arrive(
        _ operation: AnyRequestOperation, as role: OperationRecord.Role, _ now: CompactInstant,
        preparing defaults: RequestDefaults? = nil, then handler: FinishHandler? = nil,
        settled hook: (@Sendable (AnyOutcome) -> Void)? = nil
    ) -> (step: Step?, notifiesEvents: Bool, keepsCallbacks: Bool)? {
        guard !operation.record.isEnqueued, operation.record.isWaitingToStart else { return nil }
        let notifiesEvents = list(operation, role, now)
        let entersAtOnce = queueKind == .callers && role == .caller
        var step: Step? = entersAtOnce ? .enter : .start
        guard operation.record.phase != .ended else { return (step, notifiesEvents, false) }
        if let handler { operation.record.handlers.append(handler) }
        if let hook { operation.record.settledHooks.append(hook) }
        operation.record.phase = .preparing
        if isShutDown, role != .barrier {
            step = .refuse
        } else if entersAtOnce {
            operation.record.phase = .handedOver
        } else if operation.record.unfinished > 0 {
            operation.record.phase = .blocked
            step = nil
        } else if let defaults, let plan = operation.record.requestPlan,
            operation.record.prepared != nil || !defaults.hasCache
        {
            do throws(RequestError) {
                if operation.record.prepared == nil { operation.record.prepared = try plan.request.prepared(defaults) }
                step = queue(operation)
            } catch {
                step = .fail(error.with(plan.request.summary))
            }
        } else {
            step = .prepare
        }
        return (step, notifiesEvents, true)
    }

    /// Returns whether the caller sends the event that the operation was queued.
    private mutating func list(
        _ operation: AnyRequestOperation, _ role: OperationRecord.Role, _ now: CompactInstant
    ) -> Bool {
        let link = Unmanaged.passRetained(operation)
        (operation.record.isEnqueued, operation.record.role) = (true, role)
        operation.record.listed = (ends.last, nil)
        if let last = ends.last { last.takeUnretainedValue().record.listed.next = link } else { ends.first = link }
        ends.last = link
        count += 1
        let queued = operation.record.execution?.timings.startedMoment ?? now
        operation.record.queuedMoment = queued
        operation.record.execution?.timings.queuedMoment = queued
        return !operation.record.delivery.hasBegun && operation.record.note(.queued)
    }

    // The operation has an outcome. If it has begun, it keeps its slot until it has finished. True if it has not begun
    // and no queue will start it, so that the caller finishes it.
    mutating func concluded(_ operation: AnyRequestOperation, in phase: OperationRecord.Phase) -> Bool {
        switch phase {
        case .waiting(let wait): leave(operation, wait)
        case .blocked, .preparing: break
        case .created, .handedOver, .running, .deciding, .completing, .ended, .finishing, .finished: return false
        }
        return operation.record.isEnqueued && !operation.record.hasBegun
    }

    mutating func finished(_ operation: AnyRequestOperation) {
        if let exclusion = operation.record.exclusion {
            leaveExclusion(operation)
            operation.record.exclusion = nil
            exclusion.users -= 1
            if exclusion.users == 0 { exclusions[exclusion.name] = nil }
        }
        queues.release(operation)
    }

    /// Called when the operation has finished and its last callback has returned; the manager no longer lists it.
    mutating func remove(_ operation: AnyRequestOperation) -> [@Sendable () -> Void] {
        guard operation.record.isEnqueued else { return [] }
        let (previous, next) = operation.record.listed
        if let previous { previous.takeUnretainedValue().record.listed.next = next } else { ends.first = next }
        if let next { next.takeUnretainedValue().record.listed.previous = previous } else { ends.last = previous }
        (operation.record.isEnqueued, operation.record.listed) = (false, (nil, nil))
        // The caller has a reference to the operation, so this line does not release the operation under the lock.
        Unmanaged.passUnretained(operation).release()
        count -= 1
        guard count == 0 else { return [] }
        defer { drains = [:] }
        return Array(drains.values)
    }

    mutating func awaitEnd(_ call: @escaping @Sendable () -> Void, identity: Int) -> Bool {
        guard count > 0 else { return false }
        drains[identity] = call
        return true
    }

    // MARK: Before the start

    /// An operation has a dependency that has not finished.
    mutating func block(_ operation: AnyRequestOperation) {
        // Started while the dependency was being added, so it no longer waits.
        guard !operation.record.hasBegun else { return }
        if case .waiting(let wait) = operation.record.phase {
            operation.record.phase = .blocked
            leave(operation, wait)
        } else if operation.record.phase == .handedOver, operation.record.hasSlot {
            // The dependency may need the slot. The operation queue starts the operation when it has finished.
            queues.release(operation)
            leaveExclusion(operation)
        }
    }

    mutating func unblock(_ operation: AnyRequestOperation) -> Step? {
        guard operation.record.phase == .blocked else { return nil }
        operation.record.phase = .preparing
        return .prepare
    }

    /// Takes an operation out of what it waits for.
    private mutating func leave(_ operation: AnyRequestOperation, _ wait: OperationRecord.Wait) {
        switch wait {
        case .slot: queues.release(operation)
        case .name: operation.record.exclusion?.waiting.remove(operation)
        case .transfer: follow(coalescer.leave(operation))
        case .manager: heldGroups.remove(operation)
        case .owner, .time, .interceptor: break
        }
        if !operation.record.hasSent { leaveExclusion(operation) }
    }

    // Called when the request of an operation has been built and checked, or when it is ready for another attempt. With
    // `hasAnswer`, the cache has the response.
    mutating func prepared(_ operation: AnyRequestOperation, hasAnswer: Bool = false) -> Step? {
        guard operation.record.phase == .preparing else { return nil }
        guard queueKind != .none else { return run(operation) }
        queues.release(operation)
        if operation.record.exclusion == nil,
            let name = operation.record.requestPlan?.request.policyBox?.policies.exclusion
        {
            let exclusion = exclusions[name] ?? Exclusion(name)
            exclusions[name] = exclusion
            exclusion.users += 1
            operation.record.exclusion = exclusion
        }
        guard operation.record.hasBegun || operation.record.unfinished == 0 else {
            operation.record.phase = .blocked
            return nil
        }
        return hasAnswer && mayAnswer(operation) ? answered(operation) : queue(operation)
    }

    /// The operation then uses no slot and no rate token, and does not count for the limit of its host.
    private func mayAnswer(_ operation: AnyRequestOperation) -> Bool {
        operation.record.exclusion == nil && !operation.record.isSuspended && !isSuspended && cancellations == 0
            && (operation.record.hasBegun || !isQueueSuspended)
    }

    /// Starts or resumes an operation without a slot, because the cache or a shared transfer has its response.
    private func answered(_ operation: AnyRequestOperation) -> Step? {
        if operation.record.hasBegun { return run(operation) }
        operation.record.phase = .handedOver
        // Members of groups and shared transfers are not in a caller's queue.
        let isInQueue = queueKind == .own ? !startsHere(operation) : operation.record.role == .caller
        return isInQueue ? .enter : .start
    }

    private func run(_ operation: AnyRequestOperation) -> Step? {
        operation.record.phase = .running
        switch operation.record.taskPhase {
        case .none:
            operation.record.taskPhase = .launching
            return .launch
        case .launching: return nil
        case .running, .paused: return .adjust
        }
    }

    // If the manager's own queue has a limit, that queue decides what is next. It then receives ready operations
    // without a slot.
    private mutating func queue(_ operation: AnyRequestOperation) -> Step? {
        if operation.record.isSuspended {
            operation.record.phase = .waiting(.owner)
        } else if isQueueLimited, !operation.record.hasBegun, operation.record.role == .caller {
            operation.record.phase = .handedOver
            return .enter
        } else {
            queues.join(operation)
        }
        return nil
    }

    // MARK: The start

    // `start()` was called. With `hasAnswer`, the cache still has the response. `begins` is true if the operation begins.
    mutating func start(
        _ operation: AnyRequestOperation, _ now: CompactInstant, hasAnswer: Bool
    ) -> (step: Step?, begins: Bool, notifiesEvents: Bool) {
        guard operation.record.handover == .none else {
            operation.record.handover = .startWanted
            return (nil, false, false)
        }
        let phase = operation.record.phase
        if phase == .ended {
            operation.record.phase = .finishing(wasExecuting: false)
            return (.finish, false, false)
        }
        guard operation.record.isPending else { return (nil, false, false) }
        if operation.record.unfinished > 0, phase != .handedOver { return (.refuseStart, false, false) }
        let isAnswered = hasAnswer || operation.record.followUp?.sharedAnswer != nil
        if isAnswered || operation.isGroup { leaveForStart(operation) }
        operation.record.attempt = 1
        operation.record.timings.startedMoment = now
        var notifiesEvents = false
        if !operation.record.isEnqueued, operation.record.role == .caller, queueKind != .none {
            // The manager schedules the operation from now on.
            notifiesEvents = list(operation, .caller, now)
            if isShutDown { return (.refuse, true, notifiesEvents) }
        }
        var step: Step?
        if operation.isGroup {
            operation.record.phase = .running
            step = .begin
        } else if isAnswered || operation.record.hasSlot && begins(operation) {
            step = run(operation)
        } else if phase != .waiting(.transfer), phase != .preparing {
            leaveForStart(operation)
            operation.record.phase = .preparing
            step = .prepare
        }
        return (step, true, notifiesEvents)
    }

    private mutating func leaveForStart(_ operation: AnyRequestOperation) {
        if case .waiting(let wait) = operation.record.phase { return leave(operation, wait) }
        queues.release(operation, isUnsent: true)
        // It has sent nothing, so other operations may use its name until it gets a slot again.
        leaveExclusion(operation)
    }

    // Whether an operation that has a slot may send at once. If not, it waits for a slot again. There are four causes:
    // it is suspended, another operation has its name, its host was put on hold after it got its slot, or an operation
    // that began earlier uses its slot. Another operation may have taken the name while this one was in the operation
    // queue, or was blocked there.
    private mutating func begins(_ operation: AnyRequestOperation) -> Bool {
        queues.began(operation)
        guard queues.mayBegin(operation, limit: limit), !operation.record.isSuspended,
            operation.record.exclusion?.take(operation) != false
        else {
            return false
        }
        operation.record.hasSent = true
        return true
    }

    /// Whether a group starts now; if not, it waits.
    mutating func groupStarts(_ group: AnyRequestOperation) -> Bool {
        guard group.record.phase == .preparing, !group.record.hasBegun else { return false }
        if group.record.unfinished > 0 {
            group.record.phase = .blocked
        } else if group.record.isSuspended {
            group.record.phase = .waiting(.owner)
        } else if isHoldingBack {
            group.record.phase = .waiting(.manager)
            queues.append(group, to: &heldGroups)
        } else {
            group.record.phase = .handedOver
            return true
        }
        return false
    }

    mutating func takeHeldGroups() -> [AnyRequestOperation] {
        var groups: [AnyRequestOperation] = []
        while !isHoldingBack, let group = heldGroups.first(.fifo) {
            heldGroups.remove(group)
            group.record.phase = .preparing
            groups.append(group)
        }
        return groups
    }

    /// With a limit, the queue decides the order, so it receives the waiting operations.
    mutating func limitQueue(_ isLimited: Bool) -> [AnyRequestOperation] {
        isQueueLimited = isLimited
        guard isLimited else { return [] }
        let waiting = operations { $0 == .caller }.filter {
            $0.record.phase == .waiting(.slot) && !$0.record.hasBegun
        }
        for operation in waiting {
            queues.release(operation)
            operation.record.phase = .handedOver
            leaveExclusion(operation)
        }
        return waiting.sorted { $0.record.order < $1.record.order }
    }

    // MARK: Choosing the next operation

    // Gives a slot to the first operation that also gets its name; earlier ones wait.
    mutating func next(_ now: ContinuousClock.Instant) -> Next {
        var next = Next()
        while next.step == nil, !isSuspended, cancellations == 0,
            let operation = queues.takeNext(limit: limit, takesNew: !isQueueSuspended, now: now)
        {
            if let exclusion = operation.record.exclusion, !exclusion.take(operation) {
                queues.release(operation, isUnsent: true)
                operation.record.phase = .waiting(.name)
                queues.append(operation, to: &exclusion.waiting)
                continue
            }
            if !operation.record.hasHadSlot { retryBudget.noteRequest(now: now) }
            operation.record.hasHadSlot = true
            guard !operation.record.hasBegun else {
                operation.record.hasSent = true
                next.step = (operation, run(operation))
                break
            }
            operation.record.phase = .handedOver
            let isBeside = queueKind == .callers || operation.record.role == .shared
            guard isBeside ? isReentrant && operation.startsInline : startsHere(operation),
                // Whether the cache still has its response is asked outside the lock.
                operation.record.followUp?.cacheExchange == nil
            else {
                next.step = (operation, isBeside ? .startElsewhere : .enter)
                break
            }
            queues.began(operation)
            (operation.record.attempt, operation.record.hasSent) = (1, true)
            operation.record.timings.startedMoment = CompactInstant(now)
            var step = run(operation)
            if !operation.mayIntercept, operation.record.followUp?.sharedAnswer == nil {
                let launch = operation.record.launch(1, pausesInPlace: operation.pausesInPlace, CompactInstant(now))
                step = launch.map { .send($0) }
            }
            next.step = (operation, step)
        }
        isHandingOver = next.step != nil
        if !queues.newHolds.isEmpty { next.holds = queues.takeNewHolds() }
        if !abandoned.isEmpty { swap(&next.abandoned, &abandoned) }
        return next
    }

    /// Whether the manager starts an operation on the thread that gives it a slot: one to which no caller has a
    /// reference, if the manager's own queue neither limits nor suspends operations.
    private func startsHere(_ operation: AnyRequestOperation) -> Bool {
        isReentrant && !isQueueLimited && !isQueueSuspended && operation.isInternal && operation.startsInline
    }

    // MARK: After the start

    /// The attempt waits without a slot; false if it is no longer the current one.
    mutating func postpone(_ operation: AnyRequestOperation, _ attempt: Int, until wait: OperationRecord.Wait) -> Bool {
        guard operation.record.phase == .running, operation.record.attempt == attempt else { return false }
        (operation.record.phase, operation.record.taskPhase) = (.waiting(wait), .none)
        queues.release(operation, isUnsent: wait == .interceptor)
        return true
    }

    /// True if the attempt is the current one; the operation then decides what follows.
    mutating func attemptEnded(_ operation: AnyRequestOperation, _ number: Int) -> Bool {
        guard operation.record.currentAttempt == number else { return false }
        // A paused transfer may fail while it waits for a slot.
        if case .waiting(let wait) = operation.record.phase { leave(operation, wait) }
        operation.record.phase = .deciding
        return true
    }

    /// True if the attempt is the current one; its body is then decoded.
    mutating func bodyComplete(_ operation: AnyRequestOperation, _ number: Int, commits: Bool) -> Bool {
        let isDecided = operation.record.phase == .deciding && operation.record.attempt == number
        guard isDecided || operation.record.currentAttempt == number else { return false }
        if case .waiting(let wait) = operation.record.phase { leave(operation, wait) }
        operation.record.phase = .completing(isCommitted: commits)
        return true
    }

    /// The wait for a time or an interceptor is over.
    mutating func returned(_ operation: AnyRequestOperation) -> Step? {
        guard operation.record.phase == .waiting(.time) || operation.record.phase == .waiting(.interceptor) else {
            return nil
        }
        operation.record.phase = .preparing
        return .prepare
    }

    /// The task was paused, has ended, or was not made, so the slot of a suspended operation is released.
    mutating func rest(_ operation: AnyRequestOperation) {
        guard operation.record.isSuspended, operation.record.phase == .running, operation.record.hasSlot,
            operation.record.taskPhase == .none || operation.record.taskPhase == .paused
        else { return }
        queues.release(operation)
        operation.record.phase = .waiting(.owner)
    }

    /// The attempt that a suspension has ended is closed.
    mutating func attemptClosed(_ operation: AnyRequestOperation) -> Step? {
        guard operation.record.taskPhase == .launching else { return nil }
        operation.record.taskPhase = .none
        guard operation.record.isSuspended else {
            return operation.record.phase == .running ? run(operation) : nil
        }
        rest(operation)
        return nil
    }

    // MARK: Suspension and priority

    struct SuspensionChange: Sendable {
        var step: Step?
        /// The attempt that the suspension ends.
        var ended: Transfer?
    }

    // Nil if the operation was suspended before, or still is. A transport that cannot pause in place ends the attempt.
    mutating func setSuspended(
        _ isSuspended: Bool, _ operation: AnyRequestOperation, by reason: SuspensionReasons, pausesInPlace: Bool,
        _ now: ContinuousClock.Instant, _ last: (attempt: Attempt, received: Attempt.Receiving)? = nil
    ) -> SuspensionChange? {
        if operation.record.hasOutcome { return nil }
        let wasSuspended = operation.record.isSuspended
        if isSuspended {
            operation.record.suspensionReasons.insert(reason)
        } else {
            operation.record.suspensionReasons.remove(reason)
        }
        guard operation.record.isSuspended != wasSuspended else { return nil }
        var change = SuspensionChange()
        switch operation.record.phase {
        case .waiting(let wait) where isSuspended && (wait == .slot || wait == .name || wait == .manager):
            leave(operation, wait)
            operation.record.phase = .waiting(.owner)
        case .waiting(.owner) where !isSuspended && operation.isGroup:
            operation.record.phase = .preparing
            change.step = .prepare
        case .waiting(.owner) where !isSuspended: change.step = queue(operation)
        case .running where isSuspended && operation.record.taskPhase.isMade && !pausesInPlace:
            // The next attempt is not launched until this one has stopped writing.
            change.ended = operation.record.takeSuspendedTransfer(last, now)
            operation.record.attempt += 1
            operation.record.taskPhase = .launching
        case .running where !isSuspended && !operation.isGroup: change.step = run(operation)
        case .running: change.step = .adjust
        case .created, .blocked, .preparing, .waiting, .handedOver, .deciding, .completing, .ended, .finishing,
            .finished:
            break
        }
        return change
    }

    mutating func setPriority(_ priority: Operation.QueuePriority, of operation: AnyRequestOperation) {
        let earlier = operation.record.priority
        (operation.record.priority, operation.record.hasOwnPriority) = (priority, true)
        guard earlier != priority else { return }
        switch operation.record.phase {
        case .waiting(.name):
            guard let exclusion = operation.record.exclusion else { break }
            exclusion.waiting.remove(operation)
            queues.append(operation, to: &exclusion.waiting)
        case .waiting(.slot):
            queues.release(operation)
            queues.join(operation)
        default: break
        }
        follow(coalescer.priorityChanged(of: operation))
    }

    // MARK: Sharing

    /// Makes an operation share a transfer; nil if it has a dependency or has sent something.
    mutating func share(
        _ operation: AnyRequestOperation, _ key: CoalescingKey, new: RequestOperation<Data>
    ) -> (transfer: RequestOperation<Data>, isNew: Bool)? {
        guard operation.record.phase == .preparing, !operation.record.hasSent,
            operation.record.hasBegun || operation.record.unfinished == 0
        else { return nil }
        operation.record.phase = .waiting(.transfer)
        queues.release(operation)
        let (change, isNew) = coalescer.join(operation, key, new: new)
        follow(change)
        return (change.operation, isNew)
    }

    /// A shared transfer has the highest priority of its subscribers; without any, it is cancelled.
    private mutating func follow(_ change: Coalescer.Change?) {
        guard let change else { return }
        if let priority = change.priority {
            setPriority(priority, of: change.operation)
        } else {
            abandoned.append(change.operation)
        }
    }

    /// The shared transfer of an operation has a response, which has no effect if the operation no longer waits for it.
    mutating func answerCame(
        _ operation: AnyRequestOperation, of key: CoalescingKey, _ answer: Response<Data>, _ progress: TransferProgress
    ) -> Step? {
        guard operation.record.phase == .waiting(.transfer), operation.record.sharedTransfer === key else { return nil }
        operation.record.sharedTransfer = nil
        operation.record.makeFollowUp().share(answer)
        operation.record.progress = progress
        guard !operation.record.isSuspended else {
            operation.record.phase = .waiting(.owner)
            return nil
        }
        return answered(operation)
    }

    mutating func leaveExclusion(_ operation: AnyRequestOperation) {
        if let next = operation.record.exclusion?.leave(operation) { queues.join(next) }
    }
}

// A name that only one operation at a time holds: a lock for which operations wait in order.
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
// Used only under the manager's lock. It is an object, so that a record finds it without a lookup.
final class Exclusion {
    let name: String
    var users = 0
    private(set) var holder: AnyRequestOperation?
    var waiting = WaitQueue()

    init(_ name: String) { self.name = name }

    /// False if another operation keeps the name: one that has sent something, or has a slot while the new one has not
    /// begun.
    func take(_ operation: AnyRequestOperation) -> Bool {
        guard let holder, holder !== operation,
            holder.record.hasSent || holder.record.hasSlot && !operation.record.hasBegun
        else {
            holder = operation
            return true
        }
        return false
    }

    /// Returns the first waiter, which now has the name; nil if there is none.
    func leave(_ operation: AnyRequestOperation) -> AnyRequestOperation? {
        guard holder === operation else { return nil }
        holder = waiting.first(.fifo)
        if let holder { waiting.remove(holder) }
        return holder
    }
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
