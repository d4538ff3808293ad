// The operation: its state guarded by one lock, and the overrides that Foundation calls.
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
/// Every member may be used from any thread. One lock guards the state. It is never held while Foundation, a task, an
/// observer or a callback is called, so all of them may call back into the operation.
public class AnyRequestOperation: Operation, @unchecked Sendable {
    // @unchecked: `Operation` forces it. `state` has its own lock, and `quality` is atomic. `node`, `isReleased` and
    // `releasedFailure` are used under the lock of `DependencyGraph`, or in `deinit`. The rest is constant.

    let context: ExecutionContext
    /// Whether an interceptor may change the request or decide what follows an attempt.
    let mayIntercept: Bool
    let mayHaveDeadline: Bool
    /// Whether the library made the operation for its own use, so that the manager may start it without a queue.
    let isInternal: Bool
    /// Whether the request needs nothing but a free slot; preparing it reads no file and runs no user code.
    let isPlain: Bool
    /// Whether the operation is a chain's link, whose request is built when its dependencies have finished.
    let isLink: Bool
    /// Whether the operation is a group or a barrier, which sends nothing itself and needs no slot.
    let isGroup: Bool
    private let quality: Atomic<Int8>
    var isReleased = false
    let state: Locked<OperationState>
    var node: DependencyNode?
    var releasedFailure: RequestError?

    /// - Parameters:
    ///   - isMonitored: whether the manager's monitors receive its events.
    ///   - handlers: the first handlers for the outcome.
    init(
        requestPlan: RequestPlan, context: ExecutionContext, _ scheduler: (any OperationScheduler)? = nil,
        isInternal: Bool = false, isMonitored: Bool = true, handlers: FinishHandlers = .none
    ) {
        (self.context, self.isInternal) = (context, isInternal)
        let (isLink, isGroup) = (requestPlan.build != nil, requestPlan.isGroup)
        (self.isLink, self.isGroup) = (isLink, isGroup)
        // `asksInterceptors` receives the box rather than its policies, which are large and would be copied.
        let box = requestPlan.request.policyBox
        let sends = !isLink && !isGroup
        let intercepts = (box != nil || !context.interceptors.isEmpty) && context.asksInterceptors(box)
        let deadline = box?.policies.deadline ?? context.defaults.deadline
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
        state = Locked(
            OperationState(
                requestPlan: requestPlan, scheduler, isMonitored: isMonitored && !context.monitors.isEmpty,
                isInternal: isInternal, handlers: handlers))
        quality = Atomic(Int8(truncatingIfNeeded: (box?.policies.qualityOfService ?? .default).rawValue))
        super.init()
        if let name = requestPlan.request.name { self.name = name }
        // A caller's operation gets its priority even if it is normal. Otherwise swift-corelibs-foundation orders the
        // operation by quality of service, and no later change of the priority can raise it.
        let priority = requestPlan.request.priority
        if !isInternal || priority != .normal { super.queuePriority = priority }
    }

    /// Whether the transport can pause and resume a task without a new attempt.
    var pausesInPlace: Bool { context.pausesInPlace }

    deinit {
        // Links of a chain that never ran retain each other by dependencies and builders. They are released one by
        // one, because nested releases would overflow the stack.
        guard node != nil || isLink else { return }
        var links: [AnyObject] = node.map { [$0] } ?? []
        node = nil
        state.withLock { state in
            guard let requestPlan = state.requestPlan, requestPlan.build != nil else { return }
            links.append(requestPlan)
            state.requestPlan = nil
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
        guard let dependency = dependency as? AnyRequestOperation else { return addForeignDependency(dependency) }
        addDependency(dependency, onFailure: .ignore)
    }

    /// Removes a dependency; an operation that is no dependency is ignored.
    public final override func removeDependency(_ dependency: Operation) {
        if DependencyGraph.disconnect(self, from: dependency) { dependenciesChanged() }
    }

    /// The dependencies that were added; empty once the operation has finished.
    public final override var dependencies: [Operation] {
        DependencyGraph.dependencies(of: self).filter { !($0 is BarrierOperation) }
    }

    /// Always true.
    public final override var isAsynchronous: Bool { true }
    /// Whether the operation has been started and has not finished.
    public final override var isExecuting: Bool { state.withLock { $0.machine.isExecuting } }
    /// Whether the operation has finished, with any outcome; the outcome is stored first.
    public final override var isFinished: Bool { state.withLock { $0.machine.isFinished } }

    /// Whether all dependencies have finished, or an outcome is known without them.
    public final override var isReady: Bool {
        // The mark is set before `isReady` is read, so that every later change is notified. A cancelled operation also
        // waits for barriers. In swift-corelibs-foundation, a finishing barrier dereferences a pointer to each
        // operation that was added after it. An operation that had run before could be freed by then.
        let isUnblocked = state.withLock { state in
            state.wasAskedReadiness = true
            return state.isUnblocked
        }
        if !super.isReady {
            lookForBarrier()
        } else if !isUnblocked, isBlocked {
            noteUnready()
        } else {
            return true
        }
        // Another thread may have made the operation ready since, so the value is read again. Otherwise Foundation
        // would store the old value after the new one.
        return super.isReady && !isBlocked
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
        var (effects, beginning) = claimStart(mayBeBlocked: true)
        if effects.looksAtGraph {
            if DependencyGraph.isBlocked(self), state.withLock({ $0.scheduler })?.hasHandedOver(self) != true {
                conclude(
                    .invalidRequest, "nothing was sent: it was started before its dependencies had finished",
                    onlyBeforeStart: true)
            }
            (effects, beginning) = claimStart(mayBeBlocked: false)
        }
        if effects.begins {
            if beginning.queueEntry == nil, let scheduler = beginning.scheduler {
                scheduler.adopt(self)
                beginning = state.withLock { $0.beginning }
            }
            begin(beginning)
        }
        if effects.finishes { finish(wasExecuting: false) }
    }

    /// Begins the first attempt of a started operation, or makes it wait for a slot.
    func begin(_ beginning: OperationState.Beginning) {
        if beginning.isToBePrepared, isLink {
            // Building a chain's link is user code and may be slow.
            return onExecutor { if self.prepare() != nil { self.begin(self.state.withLock { $0.beginning }) } }
        }
        if beginning.isToBePrepared, prepare() == nil { return }
        if mayHaveDeadline { armDeadline() }
        // The cached response may have become stale while the operation waited.
        let hasAnswer = beginning.hasSharedAnswer || beginning.cacheExchange?.stillAnswers == true
        if hasAnswer {
            beginning.scheduler?.beginsWithAnswer(self)
        } else if let scheduler = beginning.scheduler, let queueEntry = beginning.queueEntry,
            !scheduler.begins(queueEntry, beginning.suspension)
        {
            let waits = state.withLock { state in
                state.followUp?.wait = .slot
                return state.machine.handle(.putOff(attempt: 1)).isTaken
            }
            if waits { scheduler.requeue(self) }
            return
        }
        if asksInterceptors {
            onExecutor { self.launch(1) }
        } else if hasAnswer {
            launch(1)
        } else {
            send(1, at: beginning.isToBePrepared || isLink ? nil : beginning.started)
        }
    }
    /// Stores an outcome to finish with it later; false if the operation finishes at once.
    func postpones(_ outcome: AnyOutcome) -> Bool { false }
    func suspensionChanged() {}
    /// Describes the operation's work while it is executing; nil if the words for its phase suffice.
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
        let scheduler = state.withLock { $0.wasAskedReadiness && $0.outcome == nil ? $0.scheduler : nil }
        if let scheduler { scheduler.withholdSlots(for: self) { cancelNow() } } else { cancelNow() }
    }

    private func cancelNow() {
        #if canImport(FoundationNetworking)
            keepWaitingOperations()
            // `super.cancel()` is not called: in swift-corelibs-foundation it removes all dependencies, even barriers.
            let tells = state.withLock { state in
                guard !state.isCancelled, !state.machine.isFinished else { return false }
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
        let (core, prepared) = state.withLock { ($0.requestPlan?.core, $0.prepared) }
        guard !keepsPart, let core, core.destination.isFile,
            let url = prepared?.url ?? (try? core.prepared(context.defaults))?.url
        else { return cancel() }
        let (download, isNew) = state.withLock { state -> (Download?, Bool) in
            guard state.outcome == nil else { return (nil, false) }
            let followUp = state.makeFollowUp()
            let isNew = followUp.download == nil
            followUp.download = followUp.download ?? core.destination.makeDownload()
            return (followUp.download as? Download, isNew)
        }
        download?.discardPart(of: url)
        // An operation that has not begun has no attempt that closes the download.
        if isNew, let download { download.close { self.cancel() } } else { cancel() }
    }

    /// The priority in the queue; a change takes effect while the operation waits.
    public final override var queuePriority: Operation.QueuePriority {
        get { state.withLock { $0.priority.value } }
        set {
            let (scheduler, priority) = state.withLock { state in
                state.priority.change(to: newValue)
                return (state.scheduler, state.priority)
            }
            super.queuePriority = newValue
            scheduler?.priorityChanged(of: self, to: priority)
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
        public final override var isCancelled: Bool { state.withLock { $0.isCancelled } }

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
    public final override var description: String { "\(label) (\(state.withLock { $0.machine.phase }.words))" }
}
