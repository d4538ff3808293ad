// Decides when operations run, and starts them or adds them to the operation queue.
import Foundation

// ``SchedulerState`` makes the decisions; this class supplies the facts and performs the effects with no lock held. The
// operations retain their scheduler, so the manager may be released while they run. The manager's own queue receives
// only operations that are ready and have a slot. Foundation rescans every operation that is not ready on every event,
// which makes long chains quadratic. A caller's queue receives every operation at once, so that the guarantees of that
// queue apply.
final class Scheduler: Sendable {
    private static let inlineStartLimit = 64

    let queue: OperationQueue
    /// The manager's own operation queue runs on it, but does not retain it.
    private let startQueue: DispatchQueue
    let ownQueue: ManagerQueue?
    let context: ExecutionContext
    var state: Locked<SchedulerState> { context.schedule }
    /// The batches and similar producers that have not ended.
    let producers = Locked<[ObjectIdentifier: any Producer]>([:])

    init(
        queue: OperationQueue, ownQueue: ManagerQueue?, startQueue: DispatchQueue, context: ExecutionContext
    ) {
        (self.queue, self.ownQueue, self.startQueue) = (queue, ownQueue, startQueue)
        self.context = context
        ownQueue?.follow(self)
    }

    // With `isStarted`, the operation is executing. Returns the error if it has finished already, or is not of this
    // manager; nil otherwise.
    @discardableResult
    func enqueue(
        _ operation: AnyRequestOperation, as role: QueueEntry.Role = .caller, isStarted: Bool = false
    ) -> RequestError? {
        guard operation.context === context else { return refuseForeign(operation) }
        // From here on the queue entry records changes of the operation, even before the state has the entry.
        let reference = QueueEntryReference(place: QueueEntry(operation, role))
        let now = context.clock.now
        let (defaults, isPlain) = (context.defaults, operation.isPlain)
        guard
            var arrival = operation.withLock({ state in
                state.arrive(reference, now, preparing: isPlain ? defaults : nil, isStarted: isStarted)
            })
        else { return isStarted ? nil : refuseFinished(operation) }
        if arrival.isWatched { operation.emit(.queued) }
        if operation.mayHaveDeadline { operation.armDeadline() }
        if let error = arrival.refusal { operation.conclude(AnyOutcome(error: error)) }
        let barrier = role == .caller && !isStarted ? ownQueue?.lastBarrier : nil
        if let barrier { operation.addDependency(barrier) }
        let hasEdges = arrival.hasEdges || barrier != nil
        if hasEdges { arrival.isDependent = DependencyGraph.isDependent(operation) }
        perform(handingOver(at: now) { [arrival] in $0.arrived($0[reference], arrival) }, for: operation)
        return nil
    }

    func adopt(_ operation: AnyRequestOperation) { enqueue(operation, isStarted: true) }

    private func refuseFinished(_ operation: AnyRequestOperation) -> RequestError? {
        guard operation.isFinished else { return nil }
        let hint = operation.isGroup ? "" : "; copy() makes another"
        return refuse(operation, "nothing was sent: the operation has finished, and cannot run twice\(hint)")
    }

    /// Refuses an operation that this manager has not made; the operation fails, unless its own manager has it.
    private func refuseForeign(_ operation: AnyRequestOperation) -> RequestError {
        let message = "nothing was sent: this manager did not make the operation; make it with its operation(_:)"
        if operation.withLock({ $0.queueEntry == nil }) {
            operation.conclude(.invalidRequest, message, onlyBeforeStart: true)
            // Nothing else would finish it if no queue has it.
            if !operation.isInQueue { operation.start() }
        }
        return refuse(operation, message)
    }

    private func refuse(_ operation: AnyRequestOperation, _ message: String) -> RequestError {
        let error = RequestError(
            .invalidRequest, message, summary: operation.request?.summary ?? RequestSummary(text: operation.label))
        if !context.monitors.isEmpty {
            context.monitorQueue.async { [context] in
                for monitor in context.monitors { monitor.operation(operation, wasRefused: error) }
            }
        }
        return error
    }

    func finished(_ reference: QueueEntryReference, isSettled: Bool) {
        let effects = handingOver { $0.finished($0[reference], isSettled: isSettled) }
        if let transfer = effects.transfer { perform(transfer) }
        for call in effects.calls { call() }
    }

    func settled(_ reference: QueueEntryReference) {
        for call in state.withLock({ $0.settled($0[reference]) }) { call() }
    }

    static let shutDownReason = "nothing was sent: its manager has been shut down; make another manager"

    func perform(_ effects: SchedulerState.Effects, for operation: AnyRequestOperation) {
        if let transfer = effects.transfer { perform(transfer) }
        if effects.isRefused {
            operation.conclude(.managerShutDown, Self.shutDownReason)
        }
        if effects.starts { operation.start() }
        if effects.enters, ownQueue?.start(operation, at: CompactInstant(context.clock.now)) != true {
            enter(operation)
        }
        if let slot = effects.keeps { operation.resumeAttempt(after: .slotKept(slot)) }
        if effects.resumes { operation.resumeAttempt() }
        if effects.prepares { prepare(operation) }
    }

    func reference(of operation: AnyRequestOperation) -> QueueEntryReference? {
        operation.scheduler === self ? operation.withLock { $0.queueEntry } : nil
    }

    /// Passes an event of an operation to the state; nil if the operation has no queue entry.
    func change<Result: Sendable>(
        _ operation: AnyRequestOperation, _ event: (inout SchedulerState, QueueEntry) -> Result
    ) -> Result? {
        guard let reference = reference(of: operation) else { return nil }
        return state.withLock { event(&$0, $0[reference]) }
    }
    // MARK: Starting

    func pump() { handingOver { _ in } }

    /// Calls `pump()` on another thread, because many operations may start and the current thread has other work.
    func pumpElsewhere() { startQueue.async { self.pump() } }

    /// One thread at a time starts or queues operations, so they enter the operation queue in the order of their slots.
    @discardableResult
    func handingOver<Result: Sendable>(
        at now: ContinuousClock.Instant? = nil, _ event: (inout SchedulerState) -> Result
    ) -> Result {
        let now = now ?? context.clock.now
        let (result, first) = state.withLock { state -> (Result, SchedulerState.Next?) in
            let result = event(&state)
            // If another thread is starting operations, that thread checks once more before it stops.
            return (result, state.isHandingOver ? nil : state.next(now))
        }
        if let first { handOver(first) }
        return result
    }

    @discardableResult
    func handingOver<Result: Sendable>(
        _ operation: AnyRequestOperation, _ event: (inout SchedulerState, QueueEntry) -> Result
    ) -> Result? {
        guard let reference = reference(of: operation) else { return nil }
        return handingOver { event(&$0, $0[reference]) }
    }

    private func handOver(_ first: SchedulerState.Next) {
        var (next, count) = (first, 0)
        while true {
            // The thread that starts operations also sets the timers for new holds.
            for hold in next.holds { liftLater(hold) }
            guard let dispatch = next.dispatch else { return }
            let (operation, isNew) = (dispatch.operation, !dispatch.hasBegun)
            count += 1
            if isNew, ownQueue?.start(operation, at: dispatch.moment) == true {
                // The manager's own queue has started the operation on this thread.
            } else if isNew, dispatch.startsBeside {
                // The operation is in no queue: it is a shared transfer, or a member of a group in a caller's queue.
                if !context.transport.isReentrant || !operation.startInline(at: dispatch.moment) {
                    context.taskControl.async { operation.start() }
                }
            } else if isNew, enter(operation) {
                count -= 1
            } else {
                // The operation resumes after a wait, or was started by hand before this call and keeps its slot until
                // it finishes.
                operation.resumeAttempt(after: .slotGiven(dispatch.slot))
            }
            // The current thread may be the main thread, and other threads may add operations as fast as it starts
            // them.
            if count == Self.inlineStartLimit {
                state.withLock { $0.isHandingOver = false }
                return pumpElsewhere()
            }
            let now = context.clock.now
            next = state.withLock { $0.next(now) }
        }
    }

    /// Adds an operation to the operation queue, which starts it; false if it has begun.
    @discardableResult
    func enter(_ operation: AnyRequestOperation) -> Bool {
        if let ownQueue { return ownQueue.add(operation) }
        return operation.handOver { queue.addOperation($0) }
    }

    func begins(_ reference: QueueEntryReference, _ suspension: Versioned<OperationStateMachine.Suspension>) -> Bool {
        let begins = state.withLock { $0.begins($0[reference], suspension) }
        if !begins { pump() }
        return begins
    }

    func beginsWithAnswer(_ operation: AnyRequestOperation) {
        handingOver(operation) { $0.beginsWithAnswer($1) }
    }
}

extension Scheduler {
    var operations: [AnyRequestOperation] { operations { !$0.isInternal } }

    func operations(_ isMeant: (QueueEntry.Role) -> Bool) -> [AnyRequestOperation] {
        state.withLock { state in
            state.queueEntries.compactMap { queueEntry -> (sequence: UInt64, operation: AnyRequestOperation)? in
                guard let queueEntry, isMeant(queueEntry.role), let operation = queueEntry.operation else { return nil }
                return (queueEntry.sequence, operation)
            }
        }.sorted { $0.sequence < $1.sequence }.map(\.operation)
    }

    func cancelAll() {
        frozen {
            cancelProducers()
            cancelAll { _ in true }
        }
    }

    private func cancelProducers() {
        for producer in producers.withLock({ Array($0.values) }) { producer.cancel() }
    }

    func cancelAll(where isMeant: (AnyRequestOperation) -> Bool) {
        frozen {
            for producer in producers.withLock({ Array($0.values) }) { producer.cancel(where: isMeant) }
            for operation in operations where isMeant(operation) { operation.cancel() }
        }
    }

    /// Otherwise the slot of a cancelled operation would go to another that is about to be cancelled, and is sent in
    /// vain.
    func frozen(_ work: () -> Void) {
        state.withLock { $0.cancellations += 1 }
        work()
        suspend { $0.cancellations -= 1 }
    }

    // Foundation's `cancelAllOperations()` cancels the operations of a queue one by one. Each cancelled operation frees
    // its place, and the queue starts the next operation, which would be sent in vain. The end of the loop cannot be
    // observed, but its thread is nearly always inside `cancel`. So slots are given again after a time without a
    // cancellation: 2 ms after a single one, and up to 50 ms in a loop, whose thread the system may interrupt. They
    // are given again 500 ms after the last cancellation that began, because it may wait for another request, and after
    // 5 s at the latest.
    func withholdSlots(for operation: AnyRequestOperation, while cancel: () -> Void) {
        // The manager's own queue withholds slots itself.
        guard operation.isInQueue(otherThan: ownQueue) else { return cancel() }
        let isFirst = state.withLock { state in
            state.queueCancellations.begun += 1
            state.queueCancellations.running += 1
            let isFirst = state.queueCancellations.begun == 1
            if isFirst { state.cancellations += 1 }
            return isFirst
        }
        let now = DispatchTime.now()
        if isFirst { giveSlotsAgain(after: .milliseconds(2), begun: 1, at: now, until: now + .seconds(5)) }
        cancel()
        state.withLock { $0.queueCancellations.running -= 1 }
    }

    /// Gives slots again, or looks again later if a cancellation is running or has begun since the last look.
    private func giveSlotsAgain(
        after delay: DispatchTimeInterval, begun: Int, at last: DispatchTime, until end: DispatchTime
    ) {
        context.taskControl.asyncAfter(deadline: .now() + delay) {
            let now = DispatchTime.now()
            let newCount = self.state.withLock { state -> Int? in
                let (nowBegun, running) = state.queueCancellations
                let isOver = nowBegun == begun && (running == 0 || now >= last + .milliseconds(500))
                guard isOver || now >= end else { return nowBegun - begun }
                state.queueCancellations.begun = 0
                return nil
            }
            guard let newCount else { return self.suspend { $0.cancellations -= 1 } }
            self.giveSlotsAgain(
                after: .milliseconds(newCount >= 16 ? 50 : max(2, newCount)), begun: begun + newCount,
                at: newCount > 0 ? now : last,
                until: end)
        }
    }

    func shutDown() {
        frozen {
            // Otherwise a running batch would have requests that are rejected, instead of cancelled.
            cancelProducers()
            state.withLock { $0.isShutDown = true }
            cancelAll()
        }
    }

    func drain() async {
        let identity = state.withLock { state in
            state.lastDrain += 1
            return state.lastDrain
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let waits = state.withLock { state in
                    !Task.isCancelled && state.awaitEnd({ continuation.resume() }, identity: identity)
                }
                if !waits { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.drains.removeValue(forKey: identity) }?()
        }
    }

    func why(_ operation: AnyRequestOperation) -> String {
        let now = context.clock.now
        let view = change(operation) { state, queueEntry in
            let host = state.queues.hosts[queueEntry.host]
            // Operations that have begun do not wait for those that have not.
            let unstarted = queueEntry.rank == .new ? 0 : state.queues.unstarted
            return (
                status: queueEntry.status, host: queueEntry.host, transfer: state.coalescer.operation(queueEntry),
                hasBegun: queueEntry.hasBegun,
                exclusion: queueEntry.exclusion.flatMap { exclusion in
                    exclusion.holder === queueEntry ? nil : (name: exclusion.name, holder: exclusion.holder?.operation)
                },
                runningThere: host?.running ?? 0,
                hold: queueEntry.status == .waiting ? state.queues.holdWords(of: queueEntry.host, now: now) : nil,
                learned: host?.words(now: now), running: state.queues.running - unstarted,
                limit: state.limit, isHeldBack: state.isSuspended || !queueEntry.hasBegun && state.isQueueSuspended
            )
        }
        guard let view else { return operation.whyWithoutManager }
        switch view.status {
        case .blocked: return operation.whyBlocked
        case .preparing: return "waits for its request to be built"
        case .suspended: return view.hasBegun ? operation.whyRunning : "waits for its owner: it is suspended"
        case .awaitingPermit:
            if operation.isGroup { return "waits for the manager: it is suspended" }
            guard let exclusion = view.exclusion else { return operation.whyBlocked }
            let holder = exclusion.holder.map { ": \($0.label) has it" } ?? ""
            return "waits for the name “\(exclusion.name)”\(holder)"
        case .yielded: return operation.whyRunning
        case .sharing: return view.transfer.map { "shares a transfer that \(why($0))" } ?? operation.whyRunning
        case .waiting:
            if view.isHeldBack { return "waits for the manager: it is suspended" }
            let learned = view.learned.map { "; \($0)" } ?? ""
            if let hold = view.hold { return "waits for \(hold)" }
            if view.running >= view.limit { return "waits for a slot: \(view.running) running, the limit" }
            return "waits for \(view.host): \(view.runningThere) running there, its limit\(learned)"
        case .dispatched, .inQueue:
            guard operation.withLock({ $0.machine.isWaitingToStart }) else { return operation.whyRunning }
            return whyNotStarted(operation)
        case .ended: return operation.whyFinished
        }
    }

    private func whyNotStarted(_ operation: AnyRequestOperation) -> String {
        if !operation.unfinishedDependencies.isEmpty { return operation.whyBlocked }
        if queue.isSuspended { return "waits for the queue: it is suspended" }
        guard operation.isBehindBarrier else { return "waits for the queue to start it" }
        let earlier = queue.operations.prefix { $0 !== operation }
        let waiting = earlier.filter { !$0.isFinished && ($0 as? AnyRequestOperation)?.isBehindBarrier != true }
        return waiting.isEmpty
            ? "waits for a barrier of its queue"
            : "waits for a barrier, which waits for: \(AnyRequestOperation.names(waiting))"
    }
}

extension SchedulerState {
    mutating func awaitEnd(_ call: @escaping @Sendable () -> Void, identity: Int) -> Bool {
        guard count > 0 else { return false }
        drains[identity] = call
        return true
    }
}

extension Scheduler {
    func dependenciesChanged(of operation: AnyRequestOperation, _ reference: QueueEntryReference) {
        let isDependent = DependencyGraph.isDependent(operation)
        let event = { (state: inout SchedulerState) in state.dependenciesTold(state[reference], isDependent) }
        // A newly blocked operation may have released a slot, so another operation may start.
        perform(isDependent.value ? handingOver(event) : state.withLock(event), for: operation)
    }

    func prepare(_ operation: AnyRequestOperation) {
        if operation.isGroup { return startGroup(operation) }
        let prepare = { @Sendable in
            if let wish = operation.prepare() { self.awaitSlot(operation, wish) }
        }
        // Building a chain's link is user code, and checking a file may be slow.
        let isFast = operation.withLock { ($0.requestPlan?.build == nil && !$0.usesDisk) || $0.prepared != nil }
        if isFast { prepare() } else { operation.onExecutor(prepare) }
    }

    private func startGroup(_ group: AnyRequestOperation) {
        let suspension = group.suspension
        if change(group, { $0.groupStarts($1, suspension) }) == true { group.start() }
    }

    func awaitSlot(_ operation: AnyRequestOperation, _ wish: OperationState.Wish) {
        if wish.isCoalesced, share(operation, wish) {
            // A suspension may still send this operation back to the queue. Its state machine therefore notes that the
            // earlier slots are released.
            if wish.hasBegun, let slots = change(operation, { $1.slotCount }) {
                operation.resumeAttempt(after: .queued(slots: slots))
            }
        } else if let engine = context.cache {
            consult(engine, operation, wish)
        } else {
            queue(operation, wish)
        }
    }

    func queue(_ operation: AnyRequestOperation, _ wish: OperationState.Wish) {
        guard let reference = wish.queueEntry else { return }
        let now = context.clock.now
        let (effects, slots, hold) = handingOver { state in
            let queueEntry = state[reference]
            let effects = state.prepared(queueEntry, wish)
            let isQueued = queueEntry.status == .waiting || queueEntry.status == .suspended
            let words = wish.deadline.flatMap { state.queues.holdWords(of: queueEntry.host, past: $0, now: now) }
            return (effects, queueEntry.slotCount, isQueued ? words : nil)
        }
        if wish.hasBegun { operation.resumeAttempt(after: .queued(slots: slots)) }
        // A request that could only be sent after its deadline fails now.
        if let hold { return operation.conclude(.deadlineExceeded, "not sent: \(hold)") }
        perform(effects, for: operation)
    }

    /// Changes a property on which ``SchedulerState/isHoldingBack`` depends, then starts the groups that may start.
    func suspend(_ change: (inout SchedulerState) -> Void) {
        let groups = handingOver { state in
            change(&state)
            return state.takeHeldGroups()
        }
        for group in groups { startGroup(group) }
    }

    func limitQueue(_ isLimited: Bool) {
        guard isLimited else { return state.withLock { $0.isQueueLimited = false } }
        for operation in handingOver({ $0.limitQueue() }) { enter(operation) }
    }

    func suspensionChanged(
        of operation: AnyRequestOperation, to suspension: Versioned<OperationStateMachine.Suspension>
    ) {
        let effects = handingOver(operation) { $0.suspensionTold($1, suspension) }
        if let effects { perform(effects, for: operation) }
    }

    func priorityChanged(of operation: AnyRequestOperation, to priority: Versioned<Operation.QueuePriority>) {
        let effects = handingOver(operation) { $0.priorityTold($1, priority) }
        if let effects { perform(effects, for: operation) }
    }

    func abandoned(_ operation: AnyRequestOperation, _ reference: QueueEntryReference) -> Bool {
        let effects = state.withLock { $0.abandoned($0[reference]) }
        if let transfer = effects.transfer { perform(transfer) }
        return effects.starts
    }

    func hasHandedOver(_ operation: AnyRequestOperation) -> Bool {
        change(operation) { [.dispatched, .inQueue, .ended].contains($1.status) || $1.hasBegun } ?? false
    }
}

extension Scheduler {
    func yieldSlot(_ operation: AnyRequestOperation, isUnsent: Bool) {
        handingOver(operation) { $0.yieldSlot($1, isUnsent: isUnsent) }
    }

    func requeue(_ operation: AnyRequestOperation) {
        let wish = operation.withLock { $0.wish(in: context, hasBegun: true) }
        // An operation without a queue entry waits for no slot.
        guard let wish, wish.queueEntry != nil else { return operation.resumeAttempt() }
        awaitSlot(operation, wish)
    }

    func hold(_ host: String, until instant: ContinuousClock.Instant, _ reason: RetryAfterReason) {
        handingOver { _ = $0.queues.hold(host, until: instant, reason) }
    }

    func liftLater(_ hold: HostQueues.NewHold) {
        _ = context.clock.wake(at: hold.until) { [weak self] in
            guard let self else { return }
            let now = context.clock.now
            state.withLock { $0.queues.lift(hold.host, now: now) }
            pumpElsewhere()
        }
    }

    func sample(
        from operation: AnyRequestOperation, started: ContinuousClock.Instant, statusCode: Int?, failure: RequestError?
    ) {
        guard context.samplesHosts else { return }
        let now = context.clock.now
        let answered = operation.timings.firstByte.flatMap { $0 >= started ? $0 : nil } ?? now
        let sample = HostSample(latency: started.duration(to: answered), statusCode: statusCode, failure: failure?.code)
        handingOver(operation) { $0.queues.record(sample, of: $1, now: now) }
    }

    func takeFromRetryBudget() -> Bool {
        let now = context.clock.now
        return state.withLock { $0.retryBudget.take(now: now) }
    }
}

extension Scheduler {
    /// If the operation waits for a slot, it looks in the cache again when it has one.
    func consult(_ engine: any CacheEngine, _ operation: AnyRequestOperation, _ wish: OperationState.Wish) {
        guard let query = nextQuery(operation, wish),
            engine.recall(query).map({ $0.answers || !$0.isCertain }) != false
        else {
            return queue(operation, wish, answeredBy: nil)
        }
        engine.look(query) { exchange in
            let answer = exchange?.answers == true ? exchange : nil
            // A lookup in memory that found nothing continues on this thread.
            if !engine.mayBlock, answer == nil { return self.queue(operation, wish, answeredBy: nil) }
            // The rest runs on the serial executor, because nested calls for many stored responses would overflow the
            // stack.
            operation.onExecutor {
                if let answer, answer.wantsRefresh { self.refresh(query, answer, for: operation) }
                self.queue(operation, wish, answeredBy: answer)
            }
        }
    }

    private func queue(
        _ operation: AnyRequestOperation, _ wish: OperationState.Wish, answeredBy answer: (any CacheExchange)?
    ) {
        operation.withLock { state in
            let isKept = answer != nil && state.outcome == nil
            if isKept || state.followUp != nil { state.makeFollowUp().cacheExchange = isKept ? answer : nil }
        }
        var wish = wish
        wish.hasAnswer = answer != nil
        queue(operation, wish)
    }

    func lookUp(
        _ request: PreparedRequest, for operation: AnyRequestOperation,
        _ then: @escaping @Sendable ((any CacheExchange)?) -> Void
    ) {
        guard let engine = context.cache, let core = operation.withLock({ $0.requestPlan?.core }) else {
            return then(nil)
        }
        let query = query(request, core)
        @Sendable func lookAgain() { engine.look(query) { self.goOn($0, query, for: operation, then) } }
        @Sendable func shares(_ exchange: (any CacheExchange)?) -> Bool {
            self.shares(exchange, orSends: { self.goOn(exchange, query, for: operation, then) }, lookAgain)
        }
        if let known = engine.recall(query), !known.answers {
            if shares(known) { return }
            if known.isCertain { return then(known) }
        }
        engine.look(query) { exchange in
            if shares(exchange) { return }
            guard engine.mayBlock || exchange?.answers == true else { return then(exchange) }
            self.goOn(exchange, query, for: operation, then)
        }
    }

    /// Continues an operation after a lookup, on its serial executor.
    private func goOn(
        _ exchange: (any CacheExchange)?, _ query: CacheQuery, for operation: AnyRequestOperation,
        _ then: @escaping @Sendable ((any CacheExchange)?) -> Void
    ) {
        operation.onExecutor {
            if let exchange, exchange.wantsRefresh { self.refresh(query, exchange, for: operation) }
            then(exchange)
        }
    }

    private static let mostWait = Duration.seconds(5)

    // False if the request does not wait. It keeps its slot meanwhile. The wait ends when the response is stored or
    // cannot be shared, or after ``mostWait``. It also ends when the equal request fails, is cancelled or is suspended,
    // and this request takes its place.
    private func shares(
        _ exchange: (any CacheExchange)?, orSends send: @escaping @Sendable () -> Void,
        _ lookAgain: @escaping @Sendable () -> Void
    ) -> Bool {
        guard let exchange, !exchange.answers else { return false }
        var timer: ClockTimer?
        let isShared = exchange.awaitEqual {
            let takesOver = Locked(false)
            // A `ClockTimer` runs its action once, whichever end of the wait comes first.
            let end = ClockTimer { if takesOver.withLock({ $0 }) { send() } else { lookAgain() } }
            timer = end
            return { isNext in
                takesOver.withLock { $0 = isNext }
                end.fire()
            }
        }
        guard isShared, let timer else { return false }
        _ = context.clock.wake(at: context.clock.now + Self.mostWait) { timer.fire() }
        return true
    }

    /// The next attempt as a cache query; nil if the cache must not be used or interceptors have yet to adapt the
    /// request.
    private func nextQuery(_ operation: AnyRequestOperation, _ wish: OperationState.Wish) -> CacheQuery? {
        let given = operation.withLock { state -> (PreparedRequest, RequestCore)? in
            guard let core = state.requestPlan?.core, state.outcome == nil,
                state.followUp?.lostStoredAnswer != true,
                let request = state.followUp?.adapted ?? (wish.asksInterceptors ? nil : state.nextRequest)
            else { return nil }
            return (request, core)
        }
        guard let (asked, core) = given else { return nil }
        var request = asked
        context.cookies?.add(to: &request)
        return query(request, core)
    }

    private func query(_ request: PreparedRequest, _ core: RequestCore) -> CacheQuery {
        let keepsCoding = core.destination.isFile && request.keepsCoding || request.asksForIdentity
        return CacheQuery(request, core.policyBox?.policies.cache, keepsCoding: keepsCoding, clock: context.clock)
    }

    /// Validates a stale response in the background, while an operation uses it (RFC 5861, section 3).
    private func refresh(_ query: CacheQuery, _ exchange: any CacheExchange, for operation: AnyRequestOperation) {
        let given = operation.withLock { ($0.requestPlan?.core, $0.followUp?.hasLeftOrigin == true) }
        guard var core = given.0 else { return exchange.refreshEnded() }
        let request = exchange.refreshRequest
        (core.url, core.headerFields) = (request.url, request.headerFields)
        (core.query, core.tags, core.name, core.priority) = ([], [], nil, .low)
        (core.destination, core.decodesAtOnce) = (.nowhere, true)
        var policies = core.policies
        var options = query.options
        (options.policy, options.maxAge, options.maxStaleness, options.isRefresh) = (.revalidate, nil, nil, true)
        (policies.cache, policies.isCoalesced, policies.exclusion) = (options, false, nil)
        (policies.deadline, policies.inheritedDeadline) = (nil, nil)
        (policies.acceptableStatusCodes, policies.acceptableContentTypes) = (.any, nil)
        (policies.decodesRefusal, policies.sharedRateLimit) = (nil, nil)
        if given.1 { policies.hasLeftOrigin = true }
        core.policies = policies
        let made = RequestOperation(Request<Data>(core: core) { body, _ in body.data }, of: self, isInternal: true)
        begin(made)
        made.whenFinished(
            FinishHandler(place: .executor) { [unowned made] _ in
                self.end(made)
                exchange.refreshEnded()
            })
        enqueue(made, as: .shared)
    }
}

/// A background refresh is a producer, because ``Scheduler/cancelAll()`` cancels only listed operations and producers.
extension AnyRequestOperation: Producer {}

extension Scheduler {
    func send<Output>(
        _ request: Request<Output>, asking cache: any CacheEngine
    ) async throws(RequestError) -> Response<Output> {
        let isCancelled = Task.isCancelled
        var prepared: PreparedRequest?
        if !isCancelled, let response = storedResponse(to: request, from: cache, &prepared) { return response }
        let operation = RequestOperation(request, of: self, isInternal: true)
        if let prepared { operation.withLock { $0.prepared = prepared } }
        if isCancelled { operation.cancel() }
        enqueue(operation)
        return try await operation.response()
    }

    // Nil if the request needs an operation. Only a plain GET gets a response here, if its manager is not suspended and
    // has no monitors or interceptors. The output is the stored body, so that no user code runs. `prepared` is set if
    // the cache certainly has no response.
    private func storedResponse<Output>(
        to request: Request<Output>, from cache: any CacheEngine, _ prepared: inout PreparedRequest?
    ) -> Response<Output>? {
        let started = context.clock.now
        let core = request.sharedCore
        guard core.value.policyBox == nil, core.value.decodesAtOnce, core.value.method == .get,
            core.value.body == nil, case .memory = core.value.destination,
            context.monitors.isEmpty, context.interceptors.isEmpty, servesAtOnce,
            var asked = try? core.value.prepared(context.defaults)
        else { return nil }
        // The operation adds cookies itself, so `prepared` must not have them.
        let given = asked
        context.cookies?.add(to: &asked)
        let query = CacheQuery(asked, nil, keepsCoding: asked.asksForIdentity, clock: context.clock)
        switch cache.answer(query) {
        case .unknown: return nil
        case .none:
            prepared = given
            return nil
        case .stored(let answer, let body):
            let response = response(to: request, asked, answer, body, started: started)
            // If this method returns no response, the operation delivers the stored response and counts the hit.
            if response != nil { cache.countHit(answer, bytes: Int64(body.count)) }
            return response
        }
    }

    // False during a suspension, a barrier or a cancellation of many operations, and after a shutdown. Also false with
    // a limit of the manager's own queue, and with a caller's queue.
    private var servesAtOnce: Bool {
        guard let ownQueue, ownQueue.lastBarrier == nil else { return false }
        return state.withLock { !$0.isHoldingBack && !$0.isShutDown && !$0.isQueueLimited }
    }

    private func response<Output>(
        to request: Request<Output>, _ sent: PreparedRequest, _ answer: StoredAnswer, _ body: Data,
        started: ContinuousClock.Instant
    ) -> Response<Output>? {
        let rules = request.sharedCore.value.answerRules
        guard rules.refusal(of: answer.head, context.defaults) == nil,
            body.count <= rules.memoryLimit(context.defaults),
            let value = try? answer.decode(body, for: request, context.defaults.decoder)
        else { return nil }
        var (timings, transfer) = (Timings(), TransferProgress())
        let moment = CompactInstant(started)
        (timings.queuedMoment, timings.startedMoment, timings.attemptStartedMoment) = (moment, moment, moment)
        let end = CompactInstant(context.clock.now)
        (timings.firstByteMoment, timings.finishedMoment) = (end, end)
        transfer.download = ByteProgress(
            completedBytes: Int64(body.count), totalBytes: answer.head.expectedBytes)
        return Response(
            value: value,
            exchange: Exchange(
                request: sent, head: answer.head, timings: timings, transfer: transfer, metrics: answer.metrics,
                earlierAttempts: []))
    }
}

/// Cancelling only the existing operations would not stop a producer.
protocol Producer: AnyObject, Sendable {
    func cancel()
    func cancel(where isMeant: (AnyRequestOperation) -> Bool)
    func limitHasChanged()
}

extension Producer {
    func cancel(where _: (AnyRequestOperation) -> Bool) {}
    func limitHasChanged() {}
}

extension Scheduler {
    func begin(_ producer: some Producer) {
        producers.withLock { $0[ObjectIdentifier(producer)] = producer }
    }

    func end(_ producer: some Producer) {
        // This line may release the last reference to the producer, which must happen outside the lock.
        _ = producers.withLock { $0.removeValue(forKey: ObjectIdentifier(producer)) }
    }

    func limitHasChanged() {
        for producer in producers.withLock({ Array($0.values) }) { producer.limitHasChanged() }
    }

    var readAhead: Int { state.withLock { $0.readAhead } }
}

extension SchedulerState {
    static let minReadAhead = 1_024

    /// High, so that operations of a slow host do not keep later operations from free slots.
    var readAhead: Int { max(Self.minReadAhead, 4 * min(1 << 20, limit)) }
}
