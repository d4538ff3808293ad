// The operation: its state behind one lock, and the overrides Foundation calls.
import Foundation
import Synchronization

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A request operation of any output: what a manager schedules, and what predicates and monitors are handed.
///
/// Only the library makes subclasses: ``RequestOperation``, and ``GroupOperation`` for work that many of them do.
///
/// ## Concurrency
/// Every member may be used from any thread. One lock guards the state; it is never held while Foundation, a task, an
/// observer or a callback is called, so all of them may call back into the operation.
public class AnyRequestOperation: Operation, @unchecked Sendable {
    // @unchecked: `Operation` forces it. `state` is a lock of its own; `node`, `isReleased` and `releasedFailure` are
    // touched only under the lock of `DependencyGraph`; everything else is constant.

    let context: ExecutionContext
    let options: OperationOptions
    let state: Locked<OperationState>
    private let quality: Atomic<Int>

    var node: DependencyNode?
    var isReleased = false
    var releasedFailure: RequestError?

    /// - Parameters:
    ///   - scheduler: the scheduler of its manager; nil for an operation without a manager.
    ///   - isInternal: whether only the library holds it.
    ///   - isMonitored: whether the manager's monitors receive its events.
    init(
        requestPlan: RequestPlan, context: ExecutionContext, _ scheduler: (any OperationScheduler)? = nil,
        isInternal: Bool = false, isMonitored: Bool = true
    ) {
        self.context = context
        options = OperationOptions(requestPlan, context, isInternal: isInternal)
        state = Locked(
            OperationState(
                requestPlan: requestPlan, scheduler, isMonitored: isMonitored && !context.monitors.isEmpty,
                isInternal: isInternal))
        quality = Atomic((requestPlan.request.policyBox?.policies.qualityOfService ?? .default).rawValue)
        super.init()
        if let name = requestPlan.request.name { self.name = name }
        // Also when it is normal: corelibs files one without a priority by its quality of service, and then lets none raise it.
        let priority = requestPlan.request.priority
        if !isInternal || priority != .normal { super.queuePriority = priority }
    }

    deinit {
        // A chain that was never run hangs together by its links' dependencies and builders; it is taken apart link by
        // link, not by one release inside the other.
        guard node != nil || options.isLink else { return }
        var links: [AnyObject] = []
        if let node { links.append(node) }
        node = nil
        state.withLock { state in
            if let requestPlan = state.requestPlan { links.append(requestPlan) }
            state.requestPlan = nil
        }
        Trampoline.release(&links)
    }

    // MARK: What the caller can ask

    /// The tags of the request; those of a chain's link once it has been built.
    public var tags: Set<String> { state.withLock { $0.requestPlan?.request.tags ?? $0.finalTags } }

    /// The request as it is sent; nil until a manager has checked it, and for a chain's link until it has been built.
    public var request: PreparedRequest? { state.withLock { $0.prepared } }

    /// Why it failed; nil before it has an outcome and after a success.
    public var error: RequestError? { state.withLock { $0.outcome?.error } }

    /// The number of the attempt under way, from 1; nil when none is.
    public var attempt: Int? { state.withLock { $0.machine.currentAttempt } }

    /// What became of each attempt so far, in order: of a finished operation all of them, the last included.
    ///
    /// Empty when nothing was sent. Of an operation that shared another's transfer, those of the transfer.
    public var attempts: [AttemptRecord] {
        let (outcome, records) = state.withLock { ($0.outcome, $0.followUp?.records ?? []) }
        return outcome?.attempts ?? records
    }

    /// The bytes moved so far.
    public var progress: TransferProgress { state.withLock { $0.progress } }

    /// The moments so far.
    public var timings: Timings { state.withLock { $0.timings } }

    /// A new, unsent operation of the same request, ``RequestOperation/copy()``, or ``GroupOperation/copy()``.
    public func copy() -> AnyRequestOperation { self }

    /// The same for `NSObject`.
    @_disfavoredOverload
    public final override func copy() -> Any { copy() as AnyRequestOperation }

    // MARK: Dependencies

    /// Adds a dependency: this operation does not start before it has finished, whatever its outcome.
    ///
    /// Foundation's meaning: use ``addDependency(_:onFailure:)`` or a chain for more. Any `Operation` will do; one that
    /// is not a request costs a small operation in a queue of ours that waits for it, and cycles through it are not seen.
    ///
    /// - Thread: any.
    public final override func addDependency(_ dependency: Operation) {
        guard let dependency = dependency as? AnyRequestOperation else { return addForeignDependency(dependency) }
        addDependency(dependency, onFailure: .ignore)
    }

    /// Removes a dependency; without effect when it is none.
    public final override func removeDependency(_ dependency: Operation) {
        if DependencyGraph.disconnect(self, from: dependency) { dependenciesChanged() }
    }

    /// The dependencies that were added; empty once the operation has finished.
    public final override var dependencies: [Operation] {
        DependencyGraph.dependencies(of: self).filter { !($0 is BarrierOperation) }
    }

    // MARK: What Foundation asks

    /// Always true.
    public final override var isAsynchronous: Bool { true }
    /// Whether it has been started and has not finished.
    public final override var isExecuting: Bool { state.withLock { $0.machine.isExecuting } }
    /// Whether it has finished, whatever the outcome.
    ///
    /// The result was stored before.
    public final override var isFinished: Bool { state.withLock { $0.machine.isFinished } }

    /// Whether all dependencies have finished, or an outcome is known without them.
    public final override var isReady: Bool {
        // A barrier of the queue is Foundation's to wait for, and is waited for by what has been cancelled too: corelibs's
        // barrier follows a pointer to each operation behind it when it ends.
        // Noted before it is looked at: what changes from now on is told.
        state.withLock { $0.wasAskedReadiness = true }
        if !super.isReady {
            lookForBarrier()
        } else if isBlocked {
            noteUnready()
        } else {
            return true
        }
        // Another thread may have made it ready meanwhile, and an old answer would be noted after its.
        return super.isReady && !isBlocked
    }

    /// Starts the request; called by a queue, or by hand for an operation that is in none.
    ///
    /// Returns at once. Starting again has no effect. One that was cancelled before goes straight to finished.
    /// Started by hand before its dependencies have finished, it fails with `.invalidRequest`.
    ///
    /// An operation of a manager belongs to it from now on at the latest: it waits for its slot, its host and its rate, and
    /// ends with `.managerShutDown` after ``RequestManager/shutDown()``.
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
        if let attempt = effects.begins {
            if beginning.queueEntry == nil, let scheduler = beginning.scheduler {
                scheduler.adopt(self)
                beginning = state.withLock { $0.beginning }
            }
            execute(attempt, beginning)
        }
        if effects.finishes { finish(wasExecuting: false) }
    }

    // MARK: What a group does in its own way

    /// Does what the operation is for; called once, after the start.
    func execute(_ attempt: Int, _ beginning: OperationState.Beginning) {
        if beginning.isToBeBuilt {
            // Building a chain's link is user code and may take its time.
            onExecutor { if self.prepare() != nil { self.begin(attempt, self.state.withLock { $0.beginning }) } }
        } else if !beginning.isToBePrepared || prepare() != nil {
            begin(attempt, beginning)
        }
    }
    /// Keeps an outcome that comes from outside, to end with it later; false for an operation that ends at once.
    func postpones(_ outcome: AnyOutcome) -> Bool { false }
    /// Its owner has suspended or resumed it.
    func suspensionChanged() {}
    /// What it does while it is executing, for people; nil where the phase says it all.
    var activity: String? { nil }

    /// Cancels the request; one that has not started never opens a connection.
    ///
    /// The outcome `.cancelled` is stored and delivered promptly, also when the queue is suspended or full.
    /// Safe to call again; after an outcome has been stored it has no effect on it: the first outcome wins.
    ///
    /// - Thread: any, also from inside a callback. Callbacks follow where they were asked for.
    /// - Complexity: O(1), plus O(*d*) for *d* dependents.
    public final override func cancel() {
        #if canImport(FoundationNetworking)
            keepWaitingOperations()
            // Not Foundation's: corelibs forgets what a cancelled operation waits for, a barrier included.
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

    /// The quality of service of the code that waits for the request: its decoders, builders and callbacks; `.default` by
    /// default, and that of ``Request/qualityOfService(_:)``.
    ///
    /// What runs on a queue is given it, on a queue of the caller's too; a run loop runs as it does. A change counts for what is
    /// called later. The transfer and the order in the manager's queue do not depend on it: that is ``queuePriority``.
    public final override var qualityOfService: QualityOfService {
        get { QualityOfService(rawValue: quality.load(ordering: .relaxed)) ?? .default }
        set {
            quality.store(newValue.rawValue, ordering: .relaxed)
            super.qualityOfService = newValue
        }
    }

    /// Takes over a priority that is decided elsewhere; without effect when a newer one is known.
    final func follow(_ priority: Versioned<Operation.QueuePriority>) {
        let (isNew, scheduler) = state.withLock { state -> (Bool, (any OperationScheduler)?) in
            (state.priority.take(priority), state.scheduler)
        }
        guard isNew else { return }
        super.queuePriority = priority.value
        scheduler?.priorityChanged(of: self, to: priority)
    }

    #if canImport(FoundationNetworking)
        /// Blocks the thread until the operation has finished.
        public final override func waitUntilFinished() {
            _ = handedOut()
            super.waitUntilFinished()
        }

        /// Whether it was cancelled before it had finished; its outcome may be another, if that came first.
        public final override var isCancelled: Bool { state.withLock { $0.isCancelled } }

        // corelibs never clears it, so that a block that captures its operation would keep both for ever.
        /// The block that runs after the operation has finished; cleared before it runs.
        public final override var completionBlock: (@Sendable () -> Void)? {
            get { super.completionBlock }
            set {
                guard let block = newValue else {
                    super.completionBlock = nil
                    return
                }
                // corelibs may call it again for one that finished while its queue was starting it.
                let once = Self.once(block)
                super.completionBlock = { [weak self] in
                    self?.clearCompletionBlock()
                    once()
                }
            }
        }

        private func clearCompletionBlock() { super.completionBlock = nil }
    #endif

    /// The name, or method and URL without credentials, for people and logs: one line.
    ///
    /// The name is that of ``Request/named(_:)``, unless the operation's own `name` is set. A chain's link without a name is
    /// called by what it follows until its request has been built.
    public final override var description: String { "\(label) (\(state.withLock { $0.machine.phase }.words))" }
}
