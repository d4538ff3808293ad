// The operation: what Foundation and the caller call, and what follows outside the lock.
import Foundation
import Synchronization

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A request operation of any output type, as managers, predicates and monitors receive it.
///
/// Only the library makes subclasses: ``RequestOperation``, and ``GroupOperation`` for work of many requests.
///
/// ## Concurrency
/// Every member may be used from any thread. One lock of the manager guards the state. It is never held while Foundation, a task, an
/// observer or a callback is called, so all of them may call back into the operation.
public class AnyRequestOperation: Operation, @unchecked Sendable {
    // @unchecked: `Operation` forces it. `record` is used under the lock of the manager, or in `deinit`. `quality` and
    // `hasListeners` are atomic. The rest is constant.

    let scheduler: Scheduler
    let mayIntercept: Bool
    let mayHaveDeadline: Bool
    /// Whether the library made the operation for its own use, so that the manager may start it without a queue.
    let isInternal: Bool
    /// Whether the request needs nothing but a free slot; preparing it reads no file and runs no user code.
    let isPlain: Bool
    let isLink: Bool
    /// Whether the operation is a group or a barrier, which sends nothing itself and needs no slot.
    let isGroup: Bool
    private let quality: Atomic<Int8>
    /// Whether something receives the events or the progress, so that the transport's thread need not ask the record.
    let hasListeners: Atomic<Bool>
    // `@exclusivity(unchecked)` is safe, because the lock of the manager excludes other accesses. Only `withLock` and
    // `Schedule` use the record.
    @exclusivity(unchecked) final var record: OperationRecord

    init(
        requestPlan: RequestPlan, scheduler: Scheduler, isInternal: Bool = false, isMonitored: Bool = true,
        handlers: [FinishHandler] = []
    ) {
        (self.scheduler, self.isInternal) = (scheduler, isInternal)
        let (isLink, isGroup) = (requestPlan.build != nil, requestPlan.isGroup)
        (self.isLink, self.isGroup) = (isLink, isGroup)
        // `asksInterceptors` receives the box rather than its policies, which are large and would be copied.
        let box = requestPlan.request.policyBox
        let sends = !isLink && !isGroup
        let intercepts =
            (box != nil || !scheduler.interceptors.isEmpty) && scheduler.asksInterceptors(box)
        let deadline = box?.policies.deadline ?? scheduler.defaults.deadline
        let hasDeadline = deadline != nil || box?.policies.inheritedDeadline != nil
        let mayWait =
            switch requestPlan.request.body {
            case nil, .data: false
            case .file, .stream, .multipart, .json: true
            }
        (mayIntercept, mayHaveDeadline) = (isLink || sends && intercepts, isLink || sends && hasDeadline)
        isPlain =
            sends && !intercepts && !hasDeadline && box?.policies.isCoalesced != true && !mayWait
            && box?.policies.exclusion == nil
        let isMonitored = isMonitored && !scheduler.monitors.isEmpty
        record = OperationRecord(
            requestPlan: requestPlan, isMonitored: isMonitored, isInternal: isInternal, handlers: handlers)
        hasListeners = Atomic(isMonitored)
        quality = Atomic(Int8(truncatingIfNeeded: (box?.policies.qualityOfService ?? .default).rawValue))
        super.init()
        if let name = requestPlan.request.name { self.name = name }
        // A caller's operation gets its priority even if it is normal. Otherwise swift-corelibs-foundation orders the
        // operation by quality of service, and no later change of the priority can raise it.
        let priority = requestPlan.request.priority
        if !isInternal || priority != .normal { super.queuePriority = priority }
    }

    @inline(__always)
    final func withLock<Result: Sendable & ~Copyable, Failure: Error>(
        _ body: (inout OperationRecord) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try scheduler.schedule.withLock { _ throws(Failure) in try body(&record) }
    }

    /// Changes the schedule and the record, then starts the operations that may start.
    @discardableResult
    func schedule<Result: Sendable & ~Copyable>(
        at now: ContinuousClock.Instant? = nil, _ change: (inout Schedule) -> Result
    ) -> Result {
        scheduler.changing(at: now, change)
    }

    func perform(_ step: Schedule.Step?) {
        switch step {
        case nil: break
        case .prepare: scheduler.prepare(self)
        case .enter: scheduler.enter(self)
        case .start: start()
        case .startElsewhere: scheduler.taskControl.async { self.start() }
        case .refuseStart:
            conclude(
                .invalidRequest, "nothing was sent: it was started before its dependencies had finished",
                onlyBeforeStart: true)
            start()
        case .refuse: conclude(.managerShutDown, Scheduler.shutDownReason)
        case .fail(let error): conclude(AnyOutcome(error: error))
        case .begin: begin()
        case .launch: launchWithoutBlocking()
        case .send(let launch): send(launch)
        case .adjust: adjustTask()
        case .finish: finish(wasExecuting: false)
        }
    }

    var pausesInPlace: Bool { scheduler.pausesInPlace }

    deinit {
        // Links of a chain that never ran retain each other by dependencies and builders. They are released one by
        // one, because nested releases would overflow the stack.
        guard record.edges != nil || isLink else { return }
        var links: [AnyObject] = record.edges.map { [$0] } ?? []
        record.edges = nil
        if let requestPlan = record.requestPlan, requestPlan.build != nil {
            links.append(requestPlan)
            record.requestPlan = nil
        }
        Trampoline.release(&links)
    }

    /// A new, unsent operation of the same request, as ``RequestOperation/copy()`` makes it.
    public func copy() -> AnyRequestOperation { self }

    /// A new, unsent operation of the same request, for callers of `NSObject.copy()`.
    @_disfavoredOverload
    public final override func copy() -> Any { copy() as AnyRequestOperation }

    /// Adds a dependency: this operation does not start until the dependency has finished, whatever its outcome.
    ///
    /// For failure policies, use ``addDependency(_:onFailure:)`` or a chain. A dependency that is not a request costs a
    /// small operation in a queue of the library, and cycles through it are not detected.
    ///
    /// - Thread: any.
    public final override func addDependency(_ dependency: Operation) {
        guard let dependency = dependency as? AnyRequestOperation else { return connect(toForeign: dependency) }
        addDependency(dependency, onFailure: .ignore)
    }

    /// Removes a dependency; an operation that is no dependency is ignored.
    public final override func removeDependency(_ dependency: Operation) {
        disconnect(from: dependency)
    }

    /// The dependencies that were added; empty once the operation has finished.
    public final override var dependencies: [Operation] {
        withLock { $0.edges?.dependencies ?? [] }.filter { !($0 is BarrierOperation) }
    }

    /// Always true.
    public final override var isAsynchronous: Bool { true }
    /// Whether the operation has been started and has not finished.
    public final override var isExecuting: Bool { withLock { $0.isExecuting } }
    /// Whether the operation has finished, with any outcome; the outcome is stored first.
    public final override var isFinished: Bool { withLock { $0.isFinished } }

    /// Whether all dependencies have finished, or an outcome is known without them.
    public final override var isReady: Bool {
        // The mark is set before `isReady` is read, so that every later change is notified. A cancelled operation also
        // waits for barriers. In swift-corelibs-foundation, a finishing barrier dereferences a pointer to each
        // operation that was added after it. An operation that had run before could be freed by then.
        let (isBlocked, wasUnready) = withLock { record in
            record.wasAskedReadiness = true
            return (record.isBlocked, record.wasUnready)
        }
        if super.isReady, !isBlocked {
            if wasUnready { confirmReadiness() }
            return true
        }
        // Another thread may have made the operation ready since, so the value is read again. Otherwise Foundation
        // would store the old value after the new one.
        let isReady = super.isReady && !withLock { $0.isBlocked }
        if !isReady { withLock { $0.wasUnready = true } }
        return isReady
    }

    /// Starts the request.
    ///
    /// A queue calls this method, or the caller does for an operation in no queue.
    ///
    /// The call returns at once. Starting again has no effect. A cancelled operation finishes immediately. An operation
    /// started by hand before its dependencies have finished fails with `.invalidRequest`.
    ///
    /// If a manager made the operation and it was not enqueued, the manager schedules it from its start on. It waits
    /// for a slot, for its host and for the rate limit, and fails with `.managerShutDown` after
    /// ``RequestManager/shutDown()``.
    ///
    /// - Thread: any. The transfer and the callbacks run elsewhere.
    public final override func start() {
        // The cached response may have become stale while the operation waited.
        let exchange = scheduler.cache == nil ? nil : withLock { $0.followUp?.cacheExchange }
        let (step, begins, notifiesEvents) = claimStart(hasAnswer: exchange?.answers(at: scheduler.clock.date) == true)
        if begins, mayHaveDeadline { armDeadline() }
        if notifiesEvents { notifyEvents() }
        perform(step)
    }

    /// A group or a barrier has been started.
    func begin() {}
    /// Stores an outcome to finish with it later; false if the operation finishes at once.
    func postpones(_ outcome: AnyOutcome) -> Bool { false }
    func suspensionChanged() {}
    var activity: String? { nil }

    /// Cancels the request.
    ///
    /// A request that has not started never opens a connection.
    ///
    /// The outcome `.cancelled` is stored and delivered promptly, even if the queue is suspended or full. The first
    /// outcome wins. A complete download that is being moved to its file still succeeds.
    ///
    /// - Thread: any, also from inside a callback. Callbacks run where the caller requested.
    /// - Complexity: O(1), plus O(*d*) for *d* dependents.
    public final override func cancel() {
        // If no queue has read `isReady`, the operation is in no queue.
        let mayBeInQueue = withLock { $0.wasAskedReadiness && $0.outcome == nil }
        if mayBeInQueue { scheduler.withholdSlots(for: self) { cancelNow() } } else { cancelNow() }
    }

    private func cancelNow() {
        #if canImport(FoundationNetworking)
            keepWaitingOperations()
            // `super.cancel()` is not called: in swift-corelibs-foundation it removes all dependencies, even barriers.
            let tells = withLock { state in
                guard !state.isCancelled, !state.isFinished else { return false }
                state.isCancelled = true
                return state.isObserved
            }
            if tells { notifyStateObservers(\.isCancelled) }
        #else
            super.cancel()
        #endif
        conclude(.cancelled, "it was cancelled")
    }

    /// Cancels the request; a download then removes the bytes that it would resume, unless it is to keep them.
    ///
    /// The bytes are those of this operation, and of earlier downloads of the same URL to the same file. They are
    /// removed before the outcome `.cancelled` is delivered. The call has no effect on a complete file, and none after
    /// the operation has finished. With `true`, and for any other request, the call does the same as ``cancel()``.
    ///
    /// - Parameter keepsPart: whether repeating the download resumes it.
    /// - Thread: any. The call does not wait for the disk, so a download that has not begun is cancelled a moment later.
    public final func cancel(keepingPart keepsPart: Bool) {
        let (core, prepared) = withLock { ($0.requestPlan?.core, $0.prepared) }
        guard !keepsPart, let core, core.destination.isFile,
            let url = prepared?.url ?? (try? core.prepared(scheduler.defaults))?.url
        else { return cancel() }
        let (download, isNew) = withLock { state -> (Download?, Bool) in
            guard state.outcome == nil else { return (nil, false) }
            let followUp = state.makeFollowUp()
            let isNew = followUp.download == nil
            followUp.download = followUp.download ?? core.destination.makeDownload()
            return (followUp.download, isNew)
        }
        download?.discardPart(of: url)
        // An operation that has not begun has no attempt that closes the download.
        if isNew, let download { download.close { self.cancel() } } else { cancel() }
    }

    /// The priority in the queue; a change takes effect while the operation waits.
    public final override var queuePriority: Operation.QueuePriority {
        get { withLock { $0.priority } }
        set {
            schedule { $0.setPriority(newValue, of: self) }
            super.queuePriority = newValue
        }
    }

    /// The quality of service of code that waits for the request: its decoders, builders and callbacks.
    ///
    /// The default is that of ``Request/qualityOfService(_:)``, or `.default`. A run loop ignores the quality. A change
    /// applies to later calls. The transfer and the order in the manager's queue depend on ``queuePriority`` instead.
    public final override var qualityOfService: QualityOfService {
        get { QualityOfService(rawValue: Int(quality.load(ordering: .relaxed))) ?? .default }
        set {
            quality.store(Int8(truncatingIfNeeded: newValue.rawValue), ordering: .relaxed)
            super.qualityOfService = newValue
        }
    }

    #if canImport(FoundationNetworking)
        /// Blocks the thread until the operation has finished.
        public final override func waitUntilFinished() {
            _ = handedOut()
            super.waitUntilFinished()
        }

        /// Whether the operation was cancelled before it had finished; an outcome stored earlier may differ.
        public final override var isCancelled: Bool { withLock { $0.isCancelled } }

        // swift-corelibs-foundation never clears `completionBlock`, so a block that captures its operation would leak.
        /// The block that runs after the operation has finished; cleared before it runs.
        public final override var completionBlock: (@Sendable () -> Void)? {
            get { super.completionBlock }
            set {
                super.completionBlock = newValue.map { block -> @Sendable () -> Void in
                    // swift-corelibs-foundation may call the block twice, if the operation finishes while its
                    // `OperationQueue` starts it. `ClockTimer` runs the block once.
                    let once = ClockTimer(block)
                    return { [weak self] in
                        self?.completionBlock = nil
                        once.fire()
                    }
                }
            }
        }
    #endif

    /// The name, or method and URL without credentials, on one line.
    ///
    /// The name is that of ``Request/named(_:)``, unless the operation's own `name` is set. Until its request has been
    /// built, a chain's link without a name is labelled by its dependency.
    public final override var description: String { "\(label) (\(withLock { $0.words }))" }
}

extension AnyRequestOperation {
    /// The tags of the request; empty for a chain's link until its request has been built.
    public var tags: Set<String> { withLock { $0.requestPlan?.request.tags ?? $0.followUp?.finalTags ?? [] } }

    /// The request with the manager's defaults, before interceptors and redirects; nil until it has been checked.
    public var request: PreparedRequest? { withLock { $0.prepared } }

    /// The failure; nil before the outcome and after a success.
    public var error: RequestError? { withLock { $0.outcome?.error } }

    /// The number of the running attempt, from 1; nil if none is running.
    public var attempt: Int? { withLock { $0.currentAttempt } }

    /// A record of each attempt so far, in order.
    ///
    /// A finished operation lists every attempt, including the last.
    ///
    /// Empty if nothing was sent. An operation that shared a transfer lists the attempts of that transfer.
    public var attempts: [AttemptRecord] {
        let (outcome, records) = withLock { ($0.outcome, $0.followUp?.history.records ?? []) }
        return outcome?.attempts ?? records
    }

    /// The bytes transferred so far.
    public var progress: TransferProgress {
        let (attempt, earlier) = withLock { ($0.transfer?.attempt, $0.progress) }
        return attempt?.progress ?? earlier
    }

    /// The timings recorded so far.
    public var timings: Timings {
        var (attempt, timings) = withLock { ($0.transfer?.attempt, $0.timings) }
        if let moment = attempt?.receiving.withLock({ $0.firstByteMoment }) { timings.firstByteMoment = moment }
        return timings
    }

    /// Values that the caller stores in the operation.
    ///
    /// The initial values are those of ``Request/userInfo(_:_:)``.
    ///
    /// The values are available before the start and after the finish. A chain's link has none until its request has
    /// been built, unless they were set here.
    ///
    /// - Thread: any. The values are released with the operation.
    public final var userInfo: [String: any Sendable] {
        get {
            withLock { $0.followUp?.userInfo ?? $0.requestPlan?.core?.policyBox?.policies.userInfo ?? [:] }
        }
        set {
            let old = withLock { state in
                let followUp = state.makeFollowUp()
                defer { followUp.userInfo = newValue }
                return followUp.userInfo
            }
            // The old values are released outside the lock, because a deinit may call back.
            withExtendedLifetime(old) {}
        }
    }

    /// Enters a dispatch group.
    ///
    /// The operation leaves the group once the outcome is set and every handler added before has returned.
    ///
    /// ```swift
    /// let group = DispatchGroup()
    /// for operation in operations { operation.enter(group) }
    /// manager.enqueue(contentsOf: operations)
    /// group.notify(queue: .main) { showAll() }
    /// ```
    ///
    /// Each call enters the group once and leaves it once, whatever the outcome.
    ///
    /// An operation without an outcome never leaves the group, so enqueue, start or cancel each operation.
    ///
    /// - Thread: any. The group is left on any thread, or on the calling thread if all handlers have returned before.
    @discardableResult
    public final func enter(_ group: DispatchGroup) -> Self {
        group.enter()
        whenSettled { _ in group.leave() }
        return self
    }
}

extension AnyRequestOperation {
    /// Adds a dependency with a policy for its failure.
    ///
    /// If it is added twice, it counts once with the stricter policy, which is ``DependencyPolicy/fail``.
    ///
    /// Adding a dependency to an operation that has started or has an outcome has no effect. A dependency that would
    /// close a cycle is not added. This operation then fails with `.dependencyCycle`, or the dependency does if this
    /// operation is a barrier. The message names the cycle. If threads close a cycle at the same time, at least one of
    /// their dependencies is not added.
    ///
    /// - Thread: any.
    /// - Complexity: O(1) if this operation has no dependents, or the dependency has no dependencies.
    public final func addDependency(_ dependency: AnyRequestOperation, onFailure policy: DependencyPolicy) {
        switch connect(to: dependency, policy: policy) {
        case .connected: break
        case .failed(let error):
            // The dependency has already failed. No edge was made, so this operation fails now.
            let reason = FailureReason(dependency, error)
            dependencyFailed(reason.message, reason.root)
        case .cycle(let members):
            // A barrier always runs. The dependency, which waits for the barrier, fails instead.
            let ending = self is BarrierOperation ? dependency : self
            ending.conclude(.dependencyCycle, message(of: members), onlyBeforeStart: true)
        }
    }

    func message(of cycle: [AnyRequestOperation]) -> String {
        let round = cycle + cycle.prefix(1)
        var names = round.prefix(8).map(\.label)
        if round.count > 8 { names.append("\(round.count - 9) more, and finally for \(names[0])") }
        let links = names.dropFirst().joined(separator: ", which waits for ")
        return "\(label) would wait for itself: \(names[0]) waits for \(links)"
    }

    func dependencyFailed(_ message: String, _ root: any Error) {
        guard let caption = withLock({ $0.isPending ? $0.caption : nil }) else { return }
        let summary = name.map { RequestSummary(text: $0.oneLine) } ?? caption.summary
        let error = RequestError(
            .dependencyFailed, message, summary: summary ?? RequestSummary(text: caption.link?.description ?? ""),
            underlying: root)
        conclude(AnyOutcome(error: error), onlyBeforeStart: true)
    }

    var label: String {
        let (caption, error) = withLock { ($0.caption, $0.outcome?.error) }
        // A finished operation that sent nothing may have neither a request nor a plan. Its error names the request.
        return name?.oneLine ?? caption.summary?.resolved(scheduler.defaults.resolved).description
            ?? caption.link?.description ?? error?.request ?? "a request not built yet"
    }

    func linkLabel(others: Int) -> LinkLabel {
        let (requestPlan, prepared) = withLock { ($0.requestPlan, $0.prepared) }
        if let name { return LinkLabel(root: RequestSummary(text: name.oneLine), others: others) }
        if let link = requestPlan?.link, prepared == nil {
            // The text of the root is built once and reused by later links, because a failing chain names each link.
            let root = link.distance == 1 ? RequestSummary(text: link.root.description) : link.root
            return LinkLabel(root: root, others: link.others + others, distance: link.distance + 1)
        }
        let summary = prepared?.summary ?? requestPlan?.core?.summary
        return LinkLabel(root: summary ?? RequestSummary(text: label), others: others)
    }
}

extension AnyRequestOperation {
    /// The task that moves the bytes; nil unless an attempt is running.
    ///
    /// The operation owns the task. Only read the task; call ``cancel()``, ``suspend()`` and ``resume()`` on the
    /// operation instead.
    public var task: URLSessionTask? {
        let (made, task) = withLock { ($0.transfer?.sessionTask, $0.transfer?.task) }
        guard made == nil, let fresh = task?.makeSessionTask() else { return made }
        return withLock { state in
            guard let transfer = state.transfer, transfer.task === task else { return fresh }
            let sessionTask = transfer.sessionTask ?? fresh
            state.transfer?.sessionTask = sessionTask
            return sessionTask
        }
    }

    // Whether the operation may begin on the thread that gives it a slot, perhaps a transport's: its start runs no user
    // code and waits for no disk. Used under the lock.
    var startsInline: Bool {
        #if canImport(FoundationNetworking)
            let isObserved = record.isObserved
        #else
            // A KVO observer would run user code.
            let isObserved = record.isSeen
        #endif
        return record.handover == .none && !isObserved && !record.usesDisk && record.edges == nil
    }

    private func claimStart(hasAnswer: Bool) -> (step: Schedule.Step?, begins: Bool, notifiesEvents: Bool) {
        let now = scheduler.clock.now
        var (isObserved, mayStartOthers) = (false, false)
        let start = notifying([.isExecuting]) {
            scheduler.schedule.withLock { schedule in
                let hadSlot = record.hasSlot
                let start = schedule.start(self, CompactInstant(now), hasAnswer: hasAnswer)
                mayStartOthers = hadSlot && !record.hasSlot || !schedule.abandoned.isEmpty
                // The value of `isExecuting` has changed only if the operation begins.
                guard start.begins else { return (start, OperationRecord.NotificationTargets.none) }
                isObserved = record.isObserved
                if isObserved { record.registry?.value.startNotification = .isRunning }
                return (start, record.notificationTargets)
            }
        }
        let endFollows =
            isObserved
            && withLock { record in
                defer { record.registry?.value.startNotification = .none }
                return record.registry?.value.startNotification == .endFollows
            }
        if endFollows { finish(wasExecuting: true) }
        if mayStartOthers { scheduler.pump() }
        return start
    }

    func handOver(_ add: (AnyRequestOperation) -> Void) -> Bool {
        let isWaiting = withLock { record in
            guard record.isWaitingToStart else { return false }
            (record.handover, record.isSeen) = (.underWay, true)
            return true
        }
        guard isWaiting else { return false }
        add(self)
        let (startsNow, wasUnready) = withLock { record in
            defer { record.handover = .none }
            return (record.handover == .startWanted, record.wasUnready)
        }
        // If `start()` was called during the handover, the operation starts here, provided that this is fast. Otherwise
        // another thread starts it, because the current thread may be a transport's.
        if startsNow, scheduler.transport.isReentrant, scheduler.schedule.withLock({ _ in startsInline }) {
            start()
        } else if startsNow {
            scheduler.taskControl.async { self.start() }
        }
        // The queue may have stored an old value of `isReady` after the change was notified. So notify once more, on
        // another thread, because the current thread may be a transport's.
        if wasUnready { scheduler.taskControl.async { self.notifyReadiness() } }
        return true
    }

    // False if the operation has failed. Building the request runs user code. If the request must be built, the caller
    // therefore uses the serial executor.
    func prepare() -> Bool {
        let (given, isPrepared) = withLock { ($0.requestPlan, $0.prepared != nil) }
        guard var requestPlan = given, !isPrepared else { return isPrepared }
        do throws(RequestError) {
            if let build = requestPlan.build {
                do { requestPlan = try build() } catch let error as RequestError { throw error } catch {
                    throw RequestError(.invalidRequest, "its request could not be built: \(error)", underlying: error)
                }
            }
            guard let core = requestPlan.core else { return false }
            let prepared = try core.prepared(scheduler.defaults)
            if isLink { takePolicies(of: core) }
            let replaced = withLock { record -> RequestPlan? in
                guard let replaced = record.requestPlan else { return nil }
                (record.requestPlan, record.prepared) = (requestPlan, prepared)
                return replaced
            }
            // The builder and its captured values are released outside the lock.
            return withExtendedLifetime(replaced) { replaced != nil }
        } catch {
            conclude(AnyOutcome(error: error.with(requestPlan.core?.summary ?? name.map { RequestSummary(text: $0) })))
            return false
        }
    }

    private func takePolicies(of core: RequestCore) {
        let box = core.policyBox
        if box != nil || scheduler.defaults.deadline != nil { armDeadline(of: box?.policies) }
        if let quality = box?.policies.qualityOfService, qualityOfService == .default { qualityOfService = quality }
        if let given = core.name, name == nil { name = given }
        if core.priority != .normal, !withLock({ $0.hasOwnPriority }) { queuePriority = core.priority }
    }

    // The current thread may belong to a ``Transport`` or to a caller of ``resume()``. It must not wait for a disk or
    // run a ``RequestInterceptor``. A transport that is not reentrant cannot make a task on its own thread.
    func launchWithoutBlocking() {
        if isPlain && scheduler.transport.isReentrant { return launch() }
        if withLock({ $0.usesDisk }) || asksInterceptors || !scheduler.transport.isReentrant {
            onExecutor { self.launch() }
        } else {
            launch()
        }
    }

    private func launch() {
        let given = withLock { record -> (Int, plan: RequestPlan, adapted: PreparedRequest?, Response<Data>?)? in
            guard let number = record.currentAttempt, let plan = record.requestPlan else { return nil }
            return (number, plan, record.followUp?.adapted, record.followUp?.sharedAnswer)
        }
        guard let (number, plan, adapted, sharedAnswer) = given else { return }
        if let sharedAnswer { return takeSharedAnswer(sharedAnswer, attempt: number) }
        guard asksInterceptors else { return send(number) }
        if let adapted, isCurrent(adapted, interceptors(plan.request.policyBox)) {
            send(number)
        } else {
            adapt(number, plan.request.policyBox)
        }
    }

    private func takeSharedAnswer(_ response: Response<Data>, attempt number: Int) {
        let completion = attempt(
            number, hasWholeBodyOf: response.head, to: response.request, response.exchange.keptMetrics)
        if let completion { complete(completion, with: ReceivedBody(storedData: response.value)) }
    }

    private func send(_ number: Int) {
        // Interceptors are asked first, on the serial executor.
        let now = CompactInstant(scheduler.clock.now)
        guard let launch = withLock({ $0.launch(number, pausesInPlace: pausesInPlace, now) }) else { return rest() }
        send(launch)
    }

    private func send(_ launch: OperationRecord.Launch) {
        var request = launch.request
        scheduler.cookies?.add(to: &request)
        guard let download = launch.download else { return transmit(request, launch, at: launch.moment) }
        // The rest runs on the download's own serial executor, because opening and reading files may be slow.
        let segment = launch.plan.request.destination.segment
        download.begin(request, asksForWhole: launch.asksForWhole, in: segment) { [request] beginning in
            switch beginning {
            case .success(.send(let request, let point)):
                let transmit: @Sendable () -> Void = {
                    let now = CompactInstant(self.scheduler.clock.now)
                    self.transmit(request, launch, at: now, continuing: point)
                }
                // A transport that makes tasks on its own queue may block there until an earlier attempt has finished
                // writing. So the queue `taskControl` makes the task.
                if self.scheduler.transport.isReentrant, self.pausesInPlace {
                    transmit()
                } else {
                    self.scheduler.taskControl.async(execute: transmit)
                }
            case .success(.isThere(let file)):
                self.finishUnsent(launch.number, with: file, request)
            case .failure(let error):
                if error.lacksDescriptors, self.waitForDescriptor(launch.number) { return }
                self.conclude(error.with(request.summary), attempt: launch.number)
            }
        }
    }

    private func finishUnsent(_ number: Int, with file: URL, _ request: PreparedRequest) {
        let head = ResponseHead(statusCode: 304, url: request.url)
        guard let completion = attempt(number, hasWholeBodyOf: head, to: request, nil, isSent: false) else { return }
        complete(completion, with: ReceivedBody(file: file))
    }

    private func transmit(
        _ request: PreparedRequest, _ launch: OperationRecord.Launch, at now: CompactInstant,
        continuing point: ResumePoint? = nil
    ) {
        let attempt = Attempt(launch, of: self, request: request, started: now, continuing: point)
        let task: any TransferTask
        do throws(RequestError) {
            if request.body?.isUsedUp == true { throw .bodyNotReplayable }
            if !pausesInPlace, let defect = attempt.rateLimitDefect { throw defect }
            if let cache = scheduler.cache {
                let found = withLock { $0.followUp?.cacheExchange }
                task = cache.makeTransfer(
                    for: CacheQuery(request, attempt.rules, clock: scheduler.clock), found, client: attempt)
            } else {
                task = try scheduler.makeTask(for: request, client: attempt)
            }
        } catch {
            let error = error.blamed(on: lastRecord, for: request)
            // This thread may be a transport's, which must not notify observers.
            return onExecutor { self.conclude(error.with(request.summary), attempt: launch.number) }
        }

        let made = withLock {
            $0.taskMade(Transfer(attempt: attempt, task: task), pausesInPlace: pausesInPlace)
        }
        guard made != .drop else {
            attempt.close()
            return scheduler.taskControl.async {
                task.cancel()
                self.rest()
            }
        }
        emit(.started(attempt: launch.number))
        if made == .resume { task.resume() } else { rest() }
        let setOff = attempt.setOff.exchange(.isOver, ordering: .acquiringAndReleasing)
        if setOff == .adjustsAfterwards { adjustTask() }
    }
}

extension AnyRequestOperation {
    var asksInterceptors: Bool {
        isLink ? scheduler.asksInterceptors(policyBox) : mayIntercept
    }

    var policyBox: RequestCore.PolicyBox? { withLock { $0.requestPlan?.request.policyBox } }

    func interceptors(_ box: RequestCore.PolicyBox?) -> [any RequestInterceptor] {
        guard let policies = box?.policies else { return scheduler.interceptors }
        return (policies.usesManagerInterceptors ? scheduler.interceptors : []) + policies.interceptors
    }
}

extension AnyRequestOperation {
    func reportShared(_ progress: TransferProgress) {
        var progress = progress
        // Each observer measures the speed itself.
        (progress.upload.bytesPerSecond, progress.download.bytesPerSecond) = (nil, nil)
        tell(progress) { [progress] record in
            guard record.phase == .waiting(.transfer), record.progress != progress else { return false }
            record.progress = progress
            return true
        }
    }

    /// The attempt has moved bytes, and something listens.
    func hasMoved(_ attempt: Attempt) {
        tell(attempt.progress) { $0.currentAttempt == attempt.number }
    }

    private func tell(_ progress: TransferProgress, if isNew: (inout OperationRecord) -> Bool) {
        let listeners = withLock { record -> (isWatched: Bool, notifiers: [ProgressNotifier])? in
            isNew(&record) ? (record.isWatched, record.observers?.progress ?? []) : nil
        }
        guard let listeners else { return }
        // If only progress is observed, its order relative to other events does not matter. Its observers are then
        // called directly.
        if listeners.isWatched { return emit(.progress(progress)) }
        for notifier in listeners.notifiers { notifier.moved(self) }
    }

    func attemptIsPaused(_ number: Int) {
        withLock { state in
            if state.taskPaused(number) { state.transfer?.runningChanges &+= 1 }
        }
    }

    /// Records that the body is complete; nil if the attempt is no longer the current one.
    func attempt(
        _ number: Int, hasWholeBodyOf head: ResponseHead, to request: PreparedRequest,
        _ metrics: CopyOnWrite<TransferMetrics>?, _ received: Attempt.Receiving? = nil, commits: Bool = false,
        isSent: Bool = true
    ) -> OperationRecord.Completion? {
        let now = CompactInstant(scheduler.clock.now)
        return scheduler.schedule.withLock { schedule in
            completion(&schedule, number, head, request, metrics, received, now, commits: commits, isSent: isSent)
        }
    }

    private func completion(
        _ schedule: inout Schedule, _ number: Int, _ head: ResponseHead, _ request: PreparedRequest,
        _ metrics: CopyOnWrite<TransferMetrics>?, _ received: Attempt.Receiving?, _ now: CompactInstant,
        commits: Bool = false, isSent: Bool = true
    ) -> OperationRecord.Completion? {
        guard let requestPlan = record.requestPlan, schedule.bodyComplete(self, number, commits: commits) else {
            return nil
        }
        if let received { record.keep(received) }
        record.timings.finishedMoment = now
        if !isSent { record.timings.attemptStartedMoment = nil }
        let exchange = Exchange(
            request: request, head: head, timings: record.timings, transfer: record.progress, metrics: metrics,
            earlierAttempts: record.followUp?.earlierAttempts ?? [])
        // An operation that is loaded here is returned, so that its last reference is not released under the lock.
        var dependents: [AnyRequestOperation] = []
        for dependent in record.edges?.dependents ?? [] {
            if let operation = dependent.operation { dependents.append(operation) }
            if dependents.count == 2 { break }
        }
        return OperationRecord.Completion(
            attempt: number, requestPlan: requestPlan, exchange: exchange, moment: now,
            prepared: record.prepared, isObserved: record.isObserved, dependents: dependents)
    }

    // The body is complete, in memory. With `decodesAtOnce`, decoding is fast and calls no user code. If nothing observes
    // or depends on the operation, it then finishes in the same critical section.
    func attempt(
        _ number: Int, hasReceived body: ReceivedBody, _ head: ResponseHead, to request: PreparedRequest,
        _ received: Attempt.Receiving, decodesAtOnce: Bool
    ) {
        #if !canImport(FoundationNetworking)
            let decodesAtOnce = decodesAtOnce && !isObservedSynchronously
        #endif
        let now = CompactInstant(scheduler.clock.now)
        var completion: OperationRecord.Completion?
        var next: Schedule.Next?
        let ended = scheduler.changing(at: now.instant, then: &next) { schedule -> Ended? in
            completion = self.completion(&schedule, number, head, request, received.metrics, received, now)
            guard let made = completion, decodesAtOnce, !made.isObserved, made.dependents.isEmpty else { return nil }
            return end(&schedule, outcome(of: body, made), attempt: number, isDelivered: true, now)
        }
        if let ended {
            conclude(ended, then: next, taskHasEnded: true)
        } else {
            scheduler.handOver(next)
            if let completion { complete(completion, with: body, decodesAtOnce: decodesAtOnce) }
        }
    }

    /// With `decodesAtOnce`, decoding is fast and calls no user code, so it runs on this thread, perhaps a transport's.
    func complete(
        _ completion: OperationRecord.Completion, with body: ReceivedBody, decodesAtOnce: Bool = false
    ) {
        #if canImport(FoundationNetworking)
            let isObserved = completion.isObserved
        #else
            let isObserved = isObservedSynchronously
        #endif
        // If two or more dependents or an observed one must be notified, the serial executor does it.
        let dependents = completion.dependents
        if decodesAtOnce, !isObserved, dependents.count < 2, dependents.allSatisfy({ !$0.isObservedSynchronously }) {
            return conclude(
                outcome(of: body, completion), attempt: completion.attempt, taskHasEnded: true, isDelivered: true,
                at: completion.moment)
        }
        onExecutor {
            self.conclude(
                self.outcome(of: body, completion), attempt: completion.attempt, taskHasEnded: true, isDelivered: true)
        }
    }

    private func outcome(of body: ReceivedBody, _ completion: OperationRecord.Completion) -> AnyOutcome {
        let exchange = completion.exchange
        var body = body
        body.decoder = scheduler.defaults.decoder
        do {
            let outcome = try completion.requestPlan.respond(body, exchange)
            guard scheduler.keptBodyBytes > 0, let data = body.storedData, data.count <= scheduler.keptBodyBytes else {
                return outcome
            }
            return outcome.keeping(data)
        } catch let error as RequestError {
            return AnyOutcome(error: error.with(completion.prepared?.summary, response: exchange.head))
        } catch {
            return AnyOutcome(
                error: RequestError(
                    .decodingFailed,
                    "the body of \(body.data.count) bytes could not be decoded: \(error.decodingWords)",
                    summary: exchange.request.summary, response: exchange.head, body: body.data, underlying: error))
        }
    }
}

extension AnyRequestOperation {
    /// What an archive records of a finished operation; nil if it has shared another operation's transfer.
    package var finishedTransfer: (attempts: [AttemptRecord], body: Data?, clock: any RequestClock)? {
        let (outcome, isShared) = withLock { ($0.outcome, $0.followUp?.isShared == true) }
        return isShared ? nil : outcome.map { ($0.attempts, $0.body, scheduler.clock) }
    }

    package var sentRequests: [PreparedRequest] {
        // The running attempt is read before the records. If it ends in between, it is among the records.
        let running = withLock { $0.transfer?.attempt.request }
        return attempts.map(\.request) + [running].compactMap(\.self)
    }
}

extension AnyRequestOperation {
    // Called when the operation is enqueued or started, and by the first attempt; only the first call has an effect.
    // The deadline of a chain's link starts when its request has been built.
    func armDeadline() {
        if !isLink { armDeadline(of: policyBox?.policies) }
    }

    func armDeadline(of policies: RequestPolicies?) {
        // The deadline is limited to 1,000,000,000 seconds, because an overflowing sum would trap. The check of the
        // request reports a deadline that is not positive.
        let own = (policies?.deadline ?? scheduler.defaults.deadline).flatMap {
            $0 > .zero ? scheduler.clock.now + min($0, .seconds(1_000_000_000)) : nil
        }
        guard let deadline = [own, policies?.inheritedDeadline].compactMap({ $0 }).min() else { return }
        let isFirst = withLock { state in
            guard state.outcome == nil, state.followUp?.history.deadline == nil else { return false }
            state.makeFollowUp().history.deadline = deadline
            return true
        }
        guard isFirst else { return }
        let timer = scheduler.clock.wake(at: deadline) { [weak self] in
            guard let self else { return }
            // The operation's own executor may be busy with slow user code, so the deadline uses another queue.
            scheduler.taskControl.async { self.deadlineHasPassed() }
        }
        timer.noteDeadline()
        keep(.deadline) { timer.cancel() }
    }

    var deadline: ContinuousClock.Instant? {
        mayHaveDeadline ? withLock { $0.followUp?.history.deadline } : nil
    }

    private func deadlineHasPassed() {
        withLock { $0.transfer?.attempt }?.recordMissingResponse()
        let why = scheduler.why(self)
        conclude(.deadlineExceeded, "its deadline has passed: it \(why)\(spentTime)")
    }

    private var spentTime: String {
        let (timings, records, isInAttempt) = withLock {
            ($0.timings, $0.followUp?.history.records ?? [], $0.currentAttempt != nil)
        }
        let now = scheduler.clock.now
        var parts: [String] = []
        if let queued = timings.queued { parts.append("\(queued.duration(to: timings.started ?? now).words) queued") }
        if records.isEmpty, let started = timings.started {
            parts.append("\(started.duration(to: now).words) executing")
        }
        if let first = records.first, let last = records.last {
            let inAttempts = records.reduce(Duration.zero) { $0 + $1.started.duration(to: $1.ended) }
            let next = timings.attemptStarted.map { $0 >= last.ended ? $0 : now } ?? now
            let between = first.started.duration(to: next) - inAttempts
            parts.append("\(inAttempts.words) in \(records.count) attempts before")
            parts.append("\(between.words) between attempts")
            if isInAttempt, next < now { parts.append("\(next.duration(to: now).words) in this one") }
        }
        return parts.isEmpty ? "" : " (spent: \(parts.joined(separator: ", ")))"
    }
}

extension AnyRequestOperation {
    /// Suspends this operation.
    ///
    /// The manager skips a queued operation. A running operation moves no more bytes.
    ///
    /// A running operation releases its slot. After ``resume()`` it waits for a slot, ahead of operations of the same
    /// priority that have not begun. In your own `OperationQueue` it still counts towards the queue's limit, because
    /// Foundation cannot suspend a started operation.
    ///
    /// If the transport cannot pause a transfer, the attempt ends, and ``resume()`` begins another with a new body.
    /// (URLSession on Linux restarts a paused transfer by itself and lets its timeout run.) A download that can be
    /// resumed also ends its attempt, on every transport. It uses no connection while it is suspended. It resumes from
    /// its partial file even after hours. Suspending twice, or after the operation has finished, has no effect.
    ///
    /// - Thread: any.
    public final func suspend() { setSuspended(true, by: .owner) }

    /// Undoes ``suspend()``.
    ///
    /// This has no effect on an operation that is not suspended, and does not start an operation.
    ///
    /// A member of a suspended group resumes with the group.
    ///
    /// - Thread: any.
    public final func resume() { setSuspended(false, by: .owner) }

    /// Whether ``suspend()`` was called on this operation or on its group, without a later ``resume()``.
    public final var isSuspended: Bool { withLock { $0.isSuspended } }

    final func setSuspended(_ isSuspended: Bool, by suspensionReason: SuspensionReasons) {
        let now = scheduler.clock.now
        let (download, segment, attempt) = withLock {
            ($0.followUp?.download, $0.requestPlan?.request.destination.segment, $0.transfer?.attempt)
        }
        let pausesInPlace = self.pausesInPlace && segment == nil && download?.keepsPart != true
        let last = attempt.map { ($0, $0.receiving.withLock { $0 }) }
        let change = schedule(at: now) {
            $0.setSuspended(isSuspended, self, by: suspensionReason, pausesInPlace: pausesInPlace, now, last)
        }
        guard let change else { return }
        emit(isSuspended ? .suspended : .resumed)
        if let ended = change.ended {
            let control = scheduler.taskControl
            control.async { ended.task.cancel() }
            // The slot is released only after the task was cancelled and the attempt has closed its sink.
            ended.attempt.close {
                control.async { self.perform(self.schedule { $0.attemptClosed(self) }) }
            }
        }
        perform(change.step)
        suspensionChanged()
    }

    /// Releases the slot of a suspended operation.
    func rest() { schedule { $0.rest(self) } }

    /// How long the rest of the body takes at the average speed of this attempt.
    ///
    /// Nil before the head of the response or the first byte, and when the length of the body is unknown.
    ///
    /// - Thread: any.
    public final var estimatedTimeLeft: Duration? {
        let now = scheduler.clock.now
        let progress = progress
        guard let began = timings.firstByte, let expected = progress.download.totalBytes else { return nil }
        let (received, left) = (
            progress.download.completedBytes - progress.resumedBytes, expected - progress.download.completedBytes
        )
        guard left > 0 else { return .zero }
        guard received > 0 else { return nil }
        // The time is limited to 1e11 seconds (about 3,200 years), because a server may announce any length.
        return .seconds(min((now - began).seconds * Double(left) / Double(received), 1e11))
    }

    /// Each call reads the state on the serial queue, so the order of two calls does not matter.
    func adjustTask() {
        guard pausesInPlace else { return }
        scheduler.taskControl.async {
            let attempt = self.withLock { $0.transfer?.attempt }
            if attempt?.adjustsLater() == true { return }
            let isPaused = attempt?.isPaused ?? false
            var isStale = false
            let action = self.withLock { state -> (task: any TransferTask, runs: Bool)? in
                // Another attempt may have begun, which is not paused for the reasons of this one.
                isStale = state.transfer?.attempt !== attempt
                guard !isStale, let runs = state.adjust(isPaused: isPaused) else { return nil }
                state.transfer?.runningChanges &+= 1
                return state.transfer.map { ($0.task, runs) }
            }
            if isStale { return self.adjustTask() }
            if let action {
                self.noteRunning()
                if action.runs { action.task.resume() } else { action.task.suspend() }
            }
            self.rest()
        }
    }
}

extension OperationRecord {
    mutating func takeSuspendedTransfer(
        _ last: (attempt: Attempt, received: Attempt.Receiving)?, _ now: ContinuousClock.Instant
    ) -> Transfer? {
        guard let ended = transfer else { return nil }
        let attempt = ended.attempt
        if let last, last.attempt === attempt { keep(last.received) }
        makeFollowUp().history.records.append(
            AttemptRecord(
                number: attempt.number, request: attempt.request, started: attempt.started.instant, ended: now,
                next: .suspended, transfer: progress))
        transfer = nil
        return ended
    }
}

extension AnyRequestOperation {
    /// With `attempt`, the call has an effect only while that attempt is the current one.
    func conclude(_ error: RequestError, attempt: Int? = nil, taskHasEnded: Bool = false) {
        conclude(AnyOutcome(error: error.with(request?.summary)), attempt: attempt, taskHasEnded: taskHasEnded)
    }

    // No effect if there is an outcome, while a complete download is moved to its file, or with `onlyBeforeStart` after
    // the start. A running group finishes with its first failure, when its function has returned and its members have
    // finished. A running barrier ignores the failure.
    func conclude(_ code: RequestError.Code, _ message: String, onlyBeforeStart: Bool = false) {
        // A fast exit for a common case: cancelling an operation that has an outcome.
        guard let caption = withLock({ $0.outcome == nil ? $0.caption : nil }) else { return }
        let summary = caption.summary ?? RequestSummary(text: name ?? caption.link?.description ?? "")
        let outcome = AnyOutcome(error: RequestError(code, message, summary: summary))
        if onlyBeforeStart || !postpones(outcome) { conclude(outcome, onlyBeforeStart: onlyBeforeStart) }
    }

    // The first outcome wins. `attempt` is nil for an outcome from elsewhere, such as a cancellation. With
    // `isDelivered`, the attempt has passed on its body and owns no more resources. `moment` is the current time, if
    // the caller has read the clock.
    func conclude(
        _ outcome: AnyOutcome, attempt: Int? = nil, taskHasEnded: Bool = false, isDelivered: Bool = false,
        onlyBeforeStart: Bool = false, at moment: CompactInstant? = nil
    ) {
        let now = moment ?? CompactInstant(scheduler.clock.now)
        let failed = outcome.error == nil || onlyBeforeStart ? nil : withLock { $0.transfer?.attempt }
        let last = failed.map { ($0, $0.receiving.withLock { $0 }) }
        var next: Schedule.Next?
        let ended = scheduler.changing(at: now.instant, then: &next) {
            end(
                &$0, outcome, attempt: attempt, last, isDelivered: isDelivered, onlyBeforeStart: onlyBeforeStart,
                now
            )
        }
        if let ended {
            conclude(ended, then: next, taskHasEnded: taskHasEnded)
        } else {
            scheduler.handOver(next)
        }
    }

    /// Stores the outcome, under the lock; nil if it has no effect.
    private func end(
        _ schedule: inout Schedule, _ outcome: AnyOutcome, attempt: Int?,
        _ last: (attempt: Attempt, received: Attempt.Receiving)? = nil, isDelivered: Bool,
        onlyBeforeStart: Bool = false, _ now: CompactInstant
    ) -> Ended? {
        let phase = record.phase
        guard record.end(attempt, onlyBeforeStart: onlyBeforeStart) else { return nil }
        let received = last.flatMap { record.transfer?.attempt === $0.attempt ? $0.received : nil }
        if let received { record.keep(received) }
        record.outcome =
            outcome.error == nil
            ? outcome : outcome.listing(record.attemptRecords(outcome.error, now.instant, received?.metrics))
        record.timings.finishedMoment = now
        var ended = Ended(
            error: outcome.error, isSeen: record.isSeen, notifiesReadiness: record.notifiesReadiness,
            isEnqueued: record.isEnqueued,
            callers: record.followUp?.takeCallers() ?? [])
        ended.isInNoQueue = schedule.concluded(self, in: phase)
        swap(&ended.transfer, &record.transfer)
        // The target of a delivered download owns no partial file, so nothing has to close the target.
        if isDelivered, let followUp = record.followUp { swap(&ended.download, &followUp.download) }
        if record.phase == .ended {
            ended.dispatch = record.beginDelivery(isEnd: false)
        } else {
            #if canImport(FoundationNetworking)
                // No attempt is left to close, and no observer of the state is left to notify. So the delivery begins
                // here. If only the library's own handlers are to be called, it also ends here.
                ended.isEnd = isDelivered && !record.isObserved
                guard ended.isEnd else { return ended }
                let isSettled = !record.isSeen && record.registry == nil && record.handlers.allSatisfy(\.place.isOwn)
                ended.dispatch = record.beginDelivery(isEnd: true)
                if isSettled { ended.ending = endDelivery(&schedule, .sentOff, isEnd: true) }
            #endif
        }
        return ended
    }

    private func conclude(_ given: consuming Ended, then next: Schedule.Next?, taskHasEnded: Bool) {
        var ended = given
        // No code that may wait for another operation runs before the next operation has begun.
        if let ending = ended.ending.take(), let dispatch = ended.dispatch.take(), let outcome = ending.outcome {
            for handler in dispatch.handlers { handler.run(outcome) }
            scheduler.handOver(next)
            for stop in ended.callers { stop() }
            return release(ending)
        }
        scheduler.handOver(next)
        for stop in ended.callers { stop() }
        guard let dispatch = ended.dispatch.take() else {
            // The task is cancelled before its slot is given to another operation.
            if let transfer = ended.transfer, !taskHasEnded { scheduler.cancel(transfer.task) }
            return close(ended.transfer?.attempt) { self.finish(wasExecuting: true) }
        }
        if ended.isEnd {
            if ended.isSeen { notifying([.isFinished]) { ((), .foundation) } }
            return deliver(dispatch, isEnd: true)
        }
        if ended.notifiesReadiness { notifyReadiness() }
        deliver(dispatch, isEnd: false)
        // `finish` also notifies the dependents. If a queue finishes the operation later, dependents fail now, and others
        // wait for the queue. If no queue has the operation, nothing may ever finish it, so none waits.
        if ended.isInNoQueue {
            finish(wasExecuting: false, isAbandoned: true)
        } else if !ended.isEnqueued, !isInQueue {
            if let edges = withLock({ $0.isFinished ? nil : $0.releaseEdges() }) {
                notifyDependents(edges, error: ended.error)
            }
        } else if let error = ended.error {
            failDependents(because: error)
        }
    }

    private struct Ended: ~Copyable, Sendable {
        let error: RequestError?
        let isSeen: Bool
        let notifiesReadiness: Bool
        let isEnqueued: Bool
        let callers: [@Sendable () -> Void]
        /// Whether the operation has finished with this outcome.
        var isEnd = false
        var isInNoQueue = false
        var transfer: Transfer?
        var download: Download?
        var dispatch: OperationRecord.Dispatch?
        /// Set if the delivery ends with the handlers of `dispatch`, which wait for nothing.
        var ending: OperationRecord.Ending?
    }

    /// When `afterwards` is called, another operation may use the partial file.
    private func close(_ attempt: Attempt?, _ afterwards: @escaping @Sendable () -> Void) {
        let download = withLock { state -> Download? in
            defer { state.followUp?.download = nil }
            return state.followUp?.download
        }
        download?.stop()
        let rest: @Sendable () -> Void = {
            if let download { download.close(afterwards) } else { afterwards() }
        }
        if let attempt { attempt.close(rest) } else { rest() }
    }

    // With `isAbandoned`, the operation has not been started. If `start()` was called meanwhile, that call finishes the
    // operation, and this call has no effect.
    func finish(wasExecuting: Bool, isAbandoned: Bool = false) {
        var dispatch: OperationRecord.Dispatch?
        notifying(wasExecuting ? [.isExecuting, .isFinished] : [.isFinished]) {
            let notificationTargets = withLock { record -> OperationRecord.NotificationTargets in
                if isAbandoned {
                    guard record.phase == .ended else { return .none }
                    guard record.handover == .none else {
                        record.handover = .startWanted
                        return .none
                    }
                    record.phase = .finishing(wasExecuting: false)
                }
                if wasExecuting, record.registry?.value.startNotification == .isRunning {
                    // Another thread is notifying observers of the start. That thread calls this method afterwards.
                    record.registry?.value.startNotification = .endFollows
                    return .none
                }
                dispatch = record.beginDelivery(isEnd: true)
                return record.notificationTargets
            }
            return ((), notificationTargets)
        }
        if let dispatch = dispatch.take() { deliver(dispatch, isEnd: true) }
    }

    func whenFinished(_ handler: FinishHandler) {
        let (outcome, handlers) = withLock { state -> (AnyOutcome?, [FinishHandler]) in
            state.handlers.append(handler)
            // Until the phase is `sent`, the new handler waits: for the outcome, or for the handlers that are being
            // dispatched now.
            return state.delivery.phase == .sent ? (state.outcome, state.takeHandlers()) : (nil, [])
        }
        if let outcome { for handler in handlers { run(handler, with: outcome, counts: false) } }
    }

    /// Calls back once the operation has an outcome and every handler added before has returned.
    func whenSettled(_ hook: @escaping @Sendable (AnyOutcome) -> Void) {
        let outcome = withLock { state -> AnyOutcome? in
            if state.delivery.isSettled { return state.outcome }
            state.settledHooks.append(hook)
            return nil
        }
        if let outcome { hook(outcome) }
    }

    // After the last handler, the settled hooks are called. If the operation has finished, its slot is released, and its
    // dependents are notified.
    private func deliver(_ dispatch: consuming OperationRecord.Dispatch, isEnd: Bool) {
        if dispatch.notifiesEvents { notifyEvents() }
        for notifier in dispatch.notifiers { notifier.stop() }
        let outcome = dispatch.outcome
        var handlers = dispatch.handlers
        var ending: OperationRecord.Ending?
        repeat {
            var pieces: [@Sendable () -> Void] = []
            if let outcome {
                for handler in handlers {
                    switch handler.place {
                    case .here, .inTurn: handler.run(outcome)
                    case .inPlace: CallbackInPlace.run { handler.run(outcome) }
                    case .executor: pieces.append { self.call(handler, with: outcome) }
                    case .elsewhere: run(handler, with: outcome)
                    }
                }
            }
            var next: Schedule.Next?
            let isQueued = scheduler.changing(at: scheduler.clock.now, then: &next) { schedule in
                // Handlers that were added during the dispatch run after the earlier ones.
                handlers = outcome == nil ? [] : record.takeHandlers()
                if handlers.isEmpty {
                    ending = endDelivery(&schedule, outcome == nil ? nil : .sentOff, isEnd: isEnd)
                }
                return pieces.reduce(false) { record.executor.add($1) || $0 }
            }
            if isQueued { scheduler.executors(qualityOfService).submit(self) }
            scheduler.handOver(next)
        } while !handlers.isEmpty
        if let ending = ending.take() { release(ending) }
    }

    private func endDelivery(
        _ schedule: inout Schedule, _ event: HandlerDelivery.Event?, isEnd: Bool = false
    ) -> OperationRecord.Ending? {
        guard var ending = record.endDelivery(event, isEnd: isEnd) else { return nil }
        if isEnd { schedule.finished(self) }
        if record.delivery.isOver { ending.calls = schedule.remove(self) }
        return ending
    }

    private func release(_ ending: consuming OperationRecord.Ending) {
        if !ending.settledHooks.isEmpty { ending.notifySettled() }
        for call in ending.calls { call() }
        if let edges = ending.edges { notifyDependents(edges, error: ending.outcome?.error) }
        // `ending` may hold the last reference to an object. It is released here, outside the lock, because a deinit may
        // call back.
    }

    /// - Parameter counts: whether ``whenSettled(_:)`` waits until this handler has returned.
    private func run(_ handler: FinishHandler, with outcome: AnyOutcome, counts: Bool = true) {
        run(at: handler.place) { self.call(handler, with: outcome, counts: counts) }
    }

    private func call(_ handler: FinishHandler, with outcome: AnyOutcome, counts: Bool = true) {
        handler.run(outcome)
        var ending = schedule { schedule -> OperationRecord.Ending? in
            if handler.place.isExecutor { record.executorHandlers -= 1 }
            return counts ? endDelivery(&schedule, .handlerReturned) : nil
        }
        if let ending = ending.take() { release(ending) }
    }

    func run(at place: CallbackPlace, _ work: @escaping @Sendable () -> Void) {
        switch place {
        case .here, .inTurn: work()
        case .inPlace where CallbackInPlace.isRunning, .executor: onExecutor(work)
        case .inPlace: CallbackInPlace.run(work)
        case .elsewhere(let run): run(work, qualityOfService)
        }
    }
}

extension AnyRequestOperation {
    enum StateKey: String {
        case isExecuting
        case isFinished
        case isReady

        var keyPath: KeyPath<Operation, Bool> & Sendable {
            switch self {
            case .isExecuting: \.isExecuting
            case .isFinished: \.isFinished
            case .isReady: \.isReady
            }
        }
    }

    /// Whether user code runs inside the notifications, which are then never sent on a transport's thread.
    var isObservedSynchronously: Bool {
        #if canImport(FoundationNetworking)
            withLock { $0.isObserved }
        #else
            observationInfo != nil
        #endif
    }

    // swift-corelibs-foundation reads the value and stores it later. If two threads notified at once, the older value
    // could be stored last, and the queue would never start the operation. So one thread notifies for all.
    func notifyReadiness() {
        var told: UInt32 = 0
        let isNotifier = withLock { state in
            guard state.notifiesReadiness else { return false }
            state.readinessChanges &+= 1
            told = state.readinessChanges
            guard told == 1 else { return false }
            state.readinessNotifier = ObjectIdentifier(Thread.current)
            return true
        }
        guard isNotifier else { return }
        repeat {
            notifying([.isReady]) { withLock { ((), $0.notificationTargets) } }
        } while withLock { state in
            defer { told = state.readinessChanges }
            guard state.readinessChanges == told else { return true }
            (state.readinessChanges, state.readinessNotifier) = (0, nil)
            return false
        }
    }

    // No lock is held. On Linux there is no KVO: Foundation needs `isReady` and `isFinished`, the library's own
    // observers need every key.
    func notifying<Result>(_ keys: [StateKey], around change: () -> (Result, OperationRecord.NotificationTargets))
        -> Result
    {
        #if canImport(FoundationNetworking)
            let (result, notificationTargets) = change()
            for key in keys {
                let isObserved = notificationTargets == .observers
                if isObserved || notificationTargets == .foundation && key != .isExecuting {
                    didChangeValue(forKey: key.rawValue)
                }
                if isObserved { notifyStateObservers(key.keyPath) }
            }
            return result
        #else
            for key in keys { willChangeValue(forKey: key.rawValue) }
            let (result, _) = change()
            for key in keys { didChangeValue(forKey: key.rawValue) }
            return result
        #endif
    }
}

extension OperationRecord {
    enum NotificationTargets {
        /// None: no code outside Convoy refers to the operation, and on Linux notifying Foundation takes five locks.
        case none
        /// Foundation: a queue, a dependent that is not a request, or a thread may wait for the operation.
        case foundation
        /// Foundation, and the observers that `observeState` has added.
        case observers
    }

    var notificationTargets: NotificationTargets { isObserved ? .observers : isSeen ? .foundation : .none }

    /// True if the operation finished before the mark; the caller must then notify Foundation of the end.
    mutating func markSeen() -> Bool {
        guard !isSeen else { return false }
        isSeen = true
        return isFinished
    }
}

extension AnyRequestOperation {
    /// Returns the operation for user code, which may wait for it or make another operation depend on it.
    func handedOut() -> Self {
        #if canImport(FoundationNetworking)
            if isInternal, withLock({ $0.markSeen() }) {
                didChangeValue(forKey: StateKey.isFinished.rawValue)
            }
        #endif
        return self
    }
}

extension AnyRequestOperation {
    var whyWithoutManager: String {
        if isFinished { return whyFinished }
        if isExecuting { return whyRunning }
        return unfinishedDependencies.isEmpty ? "waits to be enqueued or started" : whyBlocked
    }

    var whyFinished: String {
        attempts.last?.isFromCache == true ? "has finished, from the cache" : "has finished"
    }

    var whyRunning: String {
        let (phase, words, isSuspended, due, attempt) = withLock { record in
            (record.phase, record.words, record.isSuspended, record.followUp?.due, record.attempt)
        }
        let what =
            switch phase {
            case .ended, .finishing, .finished: "has \(words)"
            case .deciding: "is deciding what follows attempt \(attempt)"
            case .waiting(.time):
                "is executing, attempt \(attempt) "
                    + (due.map { due in
                        "in \(scheduler.clock.now.duration(to: due.moment).words)"
                            + (due.asked.map { ", \($0.wordsForItself)" } ?? "")
                    } ?? "waits for a slot")
            case .waiting(.interceptor): "is executing, attempt \(attempt) waits for an interceptor"
            case .preparing: "is executing, attempt \(attempt) waits for a slot"
            default: "is \(activity ?? words)"
            }
        return isSuspended ? "\(what), suspended by its owner" : what
    }

    var whyBlocked: String {
        let waiting = unfinishedDependencies
        // The last dependency has just finished, or a barrier had none. The operation still waits for its turn.
        guard !waiting.isEmpty else { return "waits for its turn" }
        if let barrier = waiting.last as? BarrierOperation, waiting.count == 1 {
            return barrier.isExecuting
                ? "waits for a barrier, which is executing" : "waits for a barrier, which \(barrier.whyBlocked)"
        }
        return "waits for: \(Self.names(waiting))"
    }

    static func names(_ operations: [Operation]) -> String {
        let named = operations.prefix(3).map { operation in
            guard let operation = operation as? AnyRequestOperation else { return operation.description }
            let words = operation.withLock { record in
                record.isPending ? record.isEnqueued ? "queued" : "not enqueued" : record.words
            }
            return "\(operation.label) (\(words))"
        }
        let more = operations.count > 3 ? " and \(operations.count - 3) more" : ""
        return named.joined(separator: ", ") + more
    }
}
