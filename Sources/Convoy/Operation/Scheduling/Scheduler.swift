// One for each manager: its settings, its schedule with the only lock, and the objects that its operations share.
import Foundation

// ``Schedule`` makes the decisions; this class performs them with no lock held. It starts operations, or adds them to
// the operation queue. The operations retain their scheduler, so the manager may be released while they run. The
// manager's own queue receives only operations that are ready: with a slot, unless they need none or the queue has a
// limit. Foundation rescans every operation that is not ready on every event, which makes long chains quadratic. A caller's queue receives every operation at once, so
// that the guarantees of that queue apply. The scheduler of an operation without a manager has no queue.
final class Scheduler: Sendable {
    private static let inlineStartLimit = 64
    static let standalone = Scheduler()

    let transport: any Transport
    let directTransport: (any DirectTransport)?
    let pausesInPlace: Bool
    let defaults: RequestDefaults
    let callbacks: Delivery?
    let monitors: [any EventMonitor]
    /// The size in bytes of the largest body that an outcome stores for a monitor; 0 if no monitor wants bodies.
    let keptBodyBytes: Int
    let redirects: RedirectPolicy
    let retries: RetryPolicy
    let interceptors: [any RequestInterceptor]
    let cookies: CookieJar?
    let cache: (any CacheEngine)?
    let clock: any RequestClock
    /// Whether the results of attempts are reported to the limits of their hosts.
    let samplesHosts: Bool
    let rateLimit: RateLimit
    let unit: @Sendable () -> Double
    let queue: OperationQueue?
    let ownQueue: ManagerQueue?
    /// What the manager decides, and the one lock that guards the records of its operations.
    let schedule: Locked<Schedule>
    /// The batches and similar producers that have not ended.
    let producers = Locked<[ObjectIdentifier: any Producer]>([:])
    let monitorQueue = DispatchQueue(label: "convoy.monitors")
    private let startQueue: DispatchQueue
    private let executors = ExecutorPool()
    private let otherExecutors = Locked<[QualityOfService: ExecutorPool]>([:])

    // Starts or cancels operations, and makes, suspends, resumes or cancels tasks, in order, for callers that must not:
    // a transport's thread and a lock's owner. In swift-corelibs-foundation, `cancel()` waits for the loader's queue,
    // so a callback of that queue that calls `cancel()` deadlocks.
    let taskControl = DispatchQueue(label: "convoy.task-control")

    #if canImport(FoundationNetworking)
        // On Linux, libdispatch creates its timer descriptors with the first timer of the process, and traps if no file
        // descriptor is free. So the library starts a timer before requests use descriptors.
        private static let timersAreReady: Void = {
            let fired = DispatchSemaphore(value: 0)
            DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(100)) { fired.signal() }
            _ = fired.wait(timeout: .now() + .milliseconds(100))
        }()
    #endif

    init(
        transport choice: TransportChoice = .automatic, defaults: RequestDefaults = .standard,
        callbacks: Delivery? = nil, monitors: [any EventMonitor] = [], redirects: RedirectPolicy = .follow,
        retries: RetryPolicy = .never, interceptors: [any RequestInterceptor] = [], cookies: CookieJar? = nil,
        cache: (any ResponseCache)? = nil, clock: any RequestClock = SystemClock.shared,
        maxBytesPerSecond: Int64? = nil, samplesHosts: Bool = false,
        unit: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        queue: OperationQueue? = nil, ownQueue: ManagerQueue? = nil, schedule: (Bool) -> Schedule = { _ in Schedule() }
    ) {
        #if canImport(FoundationNetworking)
            _ = Self.timersAreReady
        #endif
        transport = choice.transport
        directTransport = transport as? any DirectTransport
        pausesInPlace = transport.pausesInPlace
        (self.defaults, self.callbacks, self.monitors) = (defaults, callbacks, monitors)
        keptBodyBytes = monitors.reduce(0) { max($0, ($1 as? any BodyKeepingMonitor)?.keptBodyBytes ?? 0) }
        (self.redirects, self.retries, self.interceptors) = (redirects, retries, interceptors)
        (self.cookies, self.clock, self.unit, self.samplesHosts) = (cookies, clock, unit, samplesHosts)
        (self.cache, self.queue, self.ownQueue) = (cache?.connection.engine, queue, ownQueue)
        rateLimit = RateLimit(maxBytesPerSecond, clock: clock)
        startQueue = ownQueue?.startQueue ?? DispatchQueue(label: "convoy.manager")
        self.schedule = Locked(schedule(transport.isReentrant))
        ownQueue?.follow(self)
    }

    func makeTask(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> any TransferTask {
        if let directTransport { return try directTransport.makeTransfer(for: request, client: client) }
        return try transport.makeTask(for: request, client: client)
    }

    func cancel(_ task: any TransferTask) {
        if transport.isReentrant { task.cancel() } else { taskControl.async { task.cancel() } }
    }

    func asksInterceptors(_ box: RequestCore.PolicyBox?) -> Bool {
        box?.policies.interceptors.isEmpty == false
            || !interceptors.isEmpty && box?.policies.usesManagerInterceptors != false
    }

    func executors(_ quality: QualityOfService) -> ExecutorPool {
        if quality == .default { return executors }
        return otherExecutors.withLock { others in
            let executors = others[quality] ?? ExecutorPool(quality: DispatchQoS(quality))
            others[quality] = executors
            return executors
        }
    }

    /// Returns the error if the operation has finished already, or is not of this manager; nil otherwise.
    @discardableResult
    func enqueue(
        _ operation: AnyRequestOperation, as role: OperationRecord.Role = .caller, then handler: FinishHandler? = nil,
        settled hook: (@Sendable (AnyOutcome) -> Void)? = nil
    ) -> RequestError? {
        guard operation.scheduler === self else { return refuseForeign(operation) }
        if operation.mayHaveDeadline { operation.armDeadline() }
        if role == .caller, let barrier = ownQueue?.lastBarrier,
            operation.withLock({ !$0.isEnqueued && !$0.isFinished })
        {
            operation.addDependency(barrier)
        }
        let (now, defaults) = (clock.now, operation.isPlain ? defaults : nil)
        let arrival = changing(at: now) {
            $0.arrive(operation, as: role, CompactInstant(now), preparing: defaults, then: handler, settled: hook)
        }
        if arrival?.keepsCallbacks != true {
            // It has an outcome, whose handlers may have returned. So the hook follows this handler.
            if let handler {
                operation.whenFinished(
                    FinishHandler(place: handler.place) {
                        handler.run($0)
                        hook?($0)
                    })
            } else if let hook {
                operation.whenSettled(hook)
            }
        }
        guard let arrival else { return refuseFinished(operation) }
        if arrival.notifiesEvents { operation.notifyEvents() }
        operation.perform(arrival.step)
        return nil
    }

    private func refuseFinished(_ operation: AnyRequestOperation) -> RequestError? {
        guard operation.isFinished else { return nil }
        let hint = operation.isGroup ? "" : "; copy() makes another"
        return refuse(operation, "nothing was sent: the operation has finished, and cannot run twice\(hint)")
    }

    /// Refuses an operation that this manager has not made; the operation fails, unless its own manager has it.
    private func refuseForeign(_ operation: AnyRequestOperation) -> RequestError {
        let message = "nothing was sent: this manager did not make the operation; make it with its operation(_:)"
        if operation.withLock({ !$0.isEnqueued }) {
            operation.conclude(.invalidRequest, message, onlyBeforeStart: true)
            // Nothing else would finish it if no queue has it.
            if !operation.isInQueue { operation.start() }
        }
        return refuse(operation, message)
    }

    private func refuse(_ operation: AnyRequestOperation, _ message: String) -> RequestError {
        let error = RequestError(
            .invalidRequest, message, summary: operation.request?.summary ?? RequestSummary(text: operation.label))
        if !monitors.isEmpty {
            monitorQueue.async { [monitors] in
                for monitor in monitors { monitor.operation(operation, wasRefused: error) }
            }
        }
        return error
    }

    static let shutDownReason = "nothing was sent: its manager has been shut down; make another manager"

    // MARK: Starting

    func pump() { changing { _ in } }

    /// Calls `pump()` on another thread, because many operations may start and the current thread has other work.
    func pumpElsewhere() { startQueue.async { self.pump() } }

    // Changes the schedule, and starts what may start then. One thread at a time starts or queues operations, so they
    // enter the operation queue in the order of their slots.
    @discardableResult
    func changing<Result: Sendable & ~Copyable>(
        at now: ContinuousClock.Instant? = nil, _ change: (inout Schedule) -> Result
    ) -> Result {
        var next: Schedule.Next?
        let result = changing(at: now ?? clock.now, then: &next, change)
        handOver(next)
        return result
    }

    // Changes the schedule. The caller then passes `next` to ``handOver(_:)``, after work that waits for nothing.
    func changing<Result: Sendable & ~Copyable>(
        at now: ContinuousClock.Instant, then next: inout Schedule.Next?, _ change: (inout Schedule) -> Result
    ) -> Result {
        schedule.withLock { schedule in
            let result = change(&schedule)
            // If another thread is starting operations, that thread checks once more before it stops.
            if !schedule.isHandingOver { next = schedule.next(now) }
            return result
        }
    }

    func handOver(_ first: Schedule.Next?) {
        guard var next = first else { return }
        var count = 0
        while true {
            // The thread that starts operations also sets the timers for new holds.
            for hold in next.holds { liftLater(hold) }
            for transfer in next.abandoned { transfer.cancel() }
            guard let (operation, step) = next.step else { return }
            count += 1
            if case .enter? = step { if enter(operation) { count -= 1 } } else { operation.perform(step) }
            // The current thread may be the main thread, and other threads may add operations as fast as it starts
            // them.
            if count == Self.inlineStartLimit {
                schedule.withLock { $0.isHandingOver = false }
                return pumpElsewhere()
            }
            let now = clock.now
            next = schedule.withLock { $0.next(now) }
        }
    }

    /// Adds an operation to the operation queue, which starts it; false if it has begun.
    @discardableResult
    func enter(_ operation: AnyRequestOperation) -> Bool {
        if let ownQueue { return ownQueue.add(operation) }
        return operation.handOver { queue?.addOperation($0) }
    }
}

extension Scheduler {
    var operations: [AnyRequestOperation] { operations { !$0.isInternal } }

    func operations(_ isMeant: (OperationRecord.Role) -> Bool) -> [AnyRequestOperation] {
        schedule.withLock { $0.operations(isMeant) }
    }

    func cancelAll() {
        holdingStarts {
            cancelProducers()
            cancelAll { _ in true }
        }
    }

    private func cancelProducers() {
        for producer in producers.withLock({ Array($0.values) }) { producer.cancel() }
    }

    func cancelAll(where isMeant: (AnyRequestOperation) -> Bool) {
        holdingStarts {
            for producer in producers.withLock({ Array($0.values) }) { producer.cancel(where: isMeant) }
            for operation in operations where isMeant(operation) { operation.cancel() }
        }
    }

    /// Otherwise the slot of a cancelled operation would go to another that is about to be cancelled, and is sent in
    /// vain.
    func holdingStarts(_ work: () -> Void) {
        schedule.withLock { $0.cancellations += 1 }
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
        let isFirst = schedule.withLock { schedule in
            schedule.queueCancellations.begun += 1
            schedule.queueCancellations.running += 1
            let isFirst = schedule.queueCancellations.begun == 1
            if isFirst { schedule.cancellations += 1 }
            return isFirst
        }
        let now = DispatchTime.now()
        if isFirst { giveSlotsAgain(after: .milliseconds(2), begun: 1, at: now, until: now + .seconds(5)) }
        cancel()
        schedule.withLock { $0.queueCancellations.running -= 1 }
    }

    /// Gives slots again, or looks again later if a cancellation is running or has begun since the last look.
    private func giveSlotsAgain(
        after delay: DispatchTimeInterval, begun: Int, at last: DispatchTime, until end: DispatchTime
    ) {
        taskControl.asyncAfter(deadline: .now() + delay) {
            let now = DispatchTime.now()
            let newCount = self.schedule.withLock { schedule -> Int? in
                let (nowBegun, running) = schedule.queueCancellations
                let isOver = nowBegun == begun && (running == 0 || now >= last + .milliseconds(500))
                guard isOver || now >= end else { return nowBegun - begun }
                schedule.queueCancellations.begun = 0
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
        holdingStarts {
            // Otherwise a running batch would have requests that are rejected, instead of cancelled.
            cancelProducers()
            schedule.withLock { $0.isShutDown = true }
            cancelAll()
        }
    }

    func drain() async {
        let identity = schedule.withLock { schedule in
            schedule.lastDrain += 1
            return schedule.lastDrain
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let waits = schedule.withLock { schedule in
                    !Task.isCancelled && schedule.awaitEnd({ continuation.resume() }, identity: identity)
                }
                if !waits { continuation.resume() }
            }
        } onCancel: {
            schedule.withLock { $0.drains.removeValue(forKey: identity) }?()
        }
    }

    func why(_ operation: AnyRequestOperation) -> String {
        let now = clock.now
        typealias View = (
            phase: OperationRecord.Phase, hasBegun: Bool, transfer: AnyRequestOperation?, name: String,
            holder: AnyRequestOperation?, slot: String
        )
        let view = schedule.withLock { schedule -> View? in
            guard operation.scheduler === self, operation.record.isEnqueued else { return nil }
            let (phase, exclusion) = (operation.record.phase, operation.record.exclusion)
            return (
                phase, operation.record.hasBegun, schedule.coalescer.operation(operation), exclusion?.name ?? "",
                exclusion?.holder, phase == .waiting(.slot) ? schedule.words(of: operation, now) : ""
            )
        }
        guard let view else { return operation.whyWithoutManager }
        switch view.phase {
        case .blocked: return operation.whyBlocked
        case .preparing where !view.hasBegun: return "waits for its request to be built"
        case .waiting(.owner) where !view.hasBegun: return "waits for its owner: it is suspended"
        case .waiting(.manager): return "waits for the manager: it is suspended"
        case .waiting(.name):
            return "waits for the name “\(view.name)”\(view.holder.map { ": \($0.label) has it" } ?? "")"
        case .waiting(.transfer):
            return view.transfer.map { "shares a transfer that \(why($0))" } ?? operation.whyRunning
        case .waiting(.slot): return view.slot
        case .handedOver, .ended: return whyNotStarted(operation)
        case .finishing, .finished: return operation.whyFinished
        case .created, .preparing, .waiting, .running, .deciding, .completing: return operation.whyRunning
        }
    }

    private func whyNotStarted(_ operation: AnyRequestOperation) -> String {
        if !operation.unfinishedDependencies.isEmpty { return operation.whyBlocked }
        if queue?.isSuspended == true { return "waits for the queue: it is suspended" }
        guard operation.isBehindBarrier else { return "waits for the queue to start it" }
        let earlier = (queue?.operations ?? []).prefix { $0 !== operation }
        let waiting = earlier.filter { !$0.isFinished && ($0 as? AnyRequestOperation)?.isBehindBarrier != true }
        return waiting.isEmpty
            ? "waits for a barrier of its queue"
            : "waits for a barrier, which waits for: \(AnyRequestOperation.names(waiting))"
    }
}

extension Schedule {
    /// Why an operation waits for a slot.
    fileprivate func words(of operation: AnyRequestOperation, _ now: ContinuousClock.Instant) -> String {
        if isSuspended || !operation.record.hasBegun && isQueueSuspended {
            return "waits for the manager: it is suspended"
        }
        guard let host = operation.record.host else { return "waits for a slot" }
        if let hold = queues.holdWords(of: host.name, now: now) { return "waits for \(hold)" }
        // Operations that have begun do not wait for those that have not.
        let counted = queues.running - (operation.record.rank == .new ? 0 : queues.unstarted)
        if counted >= limit { return "waits for a slot: \(counted) running, the limit" }
        let learned = host.words(now: now).map { "; \($0)" } ?? ""
        return "waits for \(host.name): \(host.running) running there, its limit\(learned)"
    }
}

extension Scheduler {
    func prepare(_ operation: AnyRequestOperation) {
        if operation.isGroup { return startGroup(operation) }
        let prepare = { @Sendable in if operation.prepare() { self.awaitSlot(operation) } }
        // Building a chain's link is user code, and checking a file may be slow.
        let isFast = operation.withLock { ($0.requestPlan?.build == nil && !$0.usesDisk) || $0.prepared != nil }
        if isFast { prepare() } else { operation.onExecutor(prepare) }
    }

    private func startGroup(_ group: AnyRequestOperation) {
        if schedule.withLock({ $0.groupStarts(group) }) { group.start() }
    }

    private func awaitSlot(_ operation: AnyRequestOperation) {
        if queue != nil, operation.policyBox?.policies.isCoalesced == true, share(operation) { return }
        if let engine = cache { consult(engine, operation) } else { queue(operation) }
    }

    private func queue(_ operation: AnyRequestOperation, hasAnswer: Bool = false) {
        let now = clock.now
        let (step, hold) = changing(at: now) { schedule -> (Schedule.Step?, String?) in
            let step = schedule.prepared(operation, hasAnswer: hasAnswer)
            guard operation.mayHaveDeadline, case .waiting = operation.record.phase,
                let deadline = operation.record.followUp?.history.deadline
            else { return (step, nil) }
            return (step, schedule.queues.holdWords(of: operation.record.nextHost, past: deadline, now: now))
        }
        // A request that could only be sent after its deadline fails now.
        if let hold { return operation.conclude(.deadlineExceeded, "not sent: \(hold)") }
        operation.perform(step)
    }

    /// Changes a property on which ``Schedule/isHoldingBack`` depends, then starts the groups that may start.
    func suspend(_ change: (inout Schedule) -> Void) {
        let groups = changing { schedule in
            change(&schedule)
            return schedule.takeHeldGroups()
        }
        for group in groups { startGroup(group) }
    }

    func limitQueue(_ isLimited: () -> Bool) {
        for operation in changing({ $0.limitQueue(isLimited()) }) { enter(operation) }
    }
}

extension Scheduler {
    func hold(_ host: String, until instant: ContinuousClock.Instant, _ reason: RetryAfterReason) {
        changing { $0.queues.hold(host, until: instant, reason) }
    }

    func liftLater(_ hold: HostQueues.NewHold) {
        _ = clock.wake(at: hold.until) { [weak self] in
            guard let self else { return }
            let now = clock.now
            schedule.withLock { $0.queues.lift(hold.host, now: now) }
            pumpElsewhere()
        }
    }

    func record(_ sample: HostSample, of operation: AnyRequestOperation) {
        let now = clock.now
        changing(at: now) { $0.queues.record(sample, of: operation, now: now) }
    }

    func takeFromRetryBudget() -> Bool {
        let now = clock.now
        return schedule.withLock { $0.retryBudget.take(now: now) }
    }
}

extension Scheduler {
    // Looks for a stored response that needs no slot, unless interceptors have yet to adapt the request. If there is
    // none, the attempt looks again when it has a slot.
    private func consult(_ cache: any CacheEngine, _ operation: AnyRequestOperation) {
        let asksInterceptors = operation.asksInterceptors
        let given = operation.withLock { record -> (PreparedRequest, AnswerRules)? in
            record.followUp?.cacheExchange = nil
            guard let core = record.requestPlan?.core, record.outcome == nil,
                record.followUp?.history.lostStoredAnswer != true,
                let request = record.followUp?.adapted ?? (asksInterceptors ? nil : record.nextRequest)
            else { return nil }
            return (request, core.answerRules)
        }
        guard let (asked, rules) = given else { return queue(operation) }
        var request = asked
        cookies?.add(to: &request)
        let looks = cache.find(CacheQuery(request, rules, clock: clock)) { found in
            // Nested calls for many stored responses would overflow the stack.
            operation.onExecutor {
                if let found { operation.withLock { if $0.outcome == nil { $0.makeFollowUp().cacheExchange = found } } }
                self.queue(operation, hasAnswer: found != nil)
            }
        }
        if !looks { queue(operation) }
    }

    // Nil if the request needs an operation. Only a plain GET gets a response here, if its manager has no monitors or
    // interceptors and its own queue without a limit, and not during a suspension, a barrier or a cancellation of many
    // operations, or after a shutdown. The output is the stored body, so that no user code runs. `prepared` is set if
    // the cache certainly has no response.
    func storedResponse<Output>(to request: Request<Output>, _ prepared: inout PreparedRequest?) -> Response<Output>? {
        let started = CompactInstant(clock.now)
        let core = request.sharedCore
        guard let cache, core.value.policyBox == nil, core.value.decodesAtOnce, core.value.method == .get,
            core.value.body == nil, case .memory = core.value.destination,
            monitors.isEmpty, interceptors.isEmpty, let ownQueue, ownQueue.lastBarrier == nil,
            schedule.withLock({ !$0.isHoldingBack && !$0.isShutDown && !$0.isQueueLimited }),
            let given = try? core.value.prepared(defaults)
        else { return nil }
        // The operation adds cookies itself, so `prepared` must not have them.
        var sent = given
        cookies?.add(to: &sent)
        let rules = core.value.answerRules
        var isMiss = false
        let response = cache.answer(CacheQuery(sent, rules, clock: clock), isMiss: &isMiss) {
            [sent] head, metrics, body -> Response<Output>? in
            // If there is no value here, the operation delivers the stored response.
            guard rules.refusal(of: head, defaults) == nil, body.count <= rules.memoryLimit(defaults),
                let value = try? request.decode(ReceivedBody(storedData: body, decoder: defaults.decoder), head)
            else { return nil }
            var (timings, transfer) = (Timings(), TransferProgress())
            (timings.queuedMoment, timings.startedMoment, timings.attemptStartedMoment) = (started, started, started)
            let end = CompactInstant(clock.now)
            (timings.firstByteMoment, timings.finishedMoment) = (end, end)
            transfer.download = ByteProgress(completedBytes: Int64(body.count), totalBytes: head.expectedBytes)
            return Response(
                value: value,
                exchange: Exchange(
                    request: sent, head: head, timings: timings, transfer: transfer, metrics: metrics,
                    earlierAttempts: []))
        }
        if isMiss { prepared = given }
        return response
    }
}

extension CookieJar {
    func add(to request: inout PreparedRequest) {
        if request.headerFields.contains("Cookie") || request.omittedFields.contains("cookie") { return }
        request.headerFields["Cookie"] = cookieField(for: request.url)
    }
}

/// A background refresh is a producer, because ``Scheduler/cancelAll()`` cancels only listed operations and producers.
extension AnyRequestOperation: Producer {}

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

    var readAhead: Int { schedule.withLock { $0.readAhead } }
}

extension Schedule {
    static let minReadAhead = 1_024

    /// High, so that operations of a slow host do not keep later operations from free slots.
    var readAhead: Int { max(Self.minReadAhead, 4 * min(1 << 20, limit)) }
}
