// Everything that changes in an operation: one value behind its lock.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The state of an operation.
///
/// What a queued operation does not need yet is nil or empty: many may be queued.
struct OperationState {
    var machine = OperationStateMachine()
    /// Until the operation finishes.
    var requestPlan: RequestPlan?
    /// From the moment the request has been checked.
    var prepared: PreparedRequest?
    /// From the moment it is claimed, for good.
    var outcome: AnyOutcome?
    /// The tags, kept when the plan has been released.
    var finalTags: Set<String> = []
    /// The name of a link whose request was never built, kept likewise.
    var finalLink: LinkLabel?
    var timings = Timings()
    var progress = TransferProgress()

    /// The priority in the queue, counted from 1.
    var priority: Versioned<Operation.QueuePriority>

    /// The working half of the manager that it belongs to.
    var scheduler: (any OperationScheduler)?
    /// Its entry there, from the moment the manager takes it until the last callback has run.
    var queueEntry: QueueEntryReference?

    /// Whether ``BarrierCycles`` counts it: it was behind a barrier of a caller's queue.
    var isBarred = false
    /// Whether a look for barriers is on its way.
    var looksForBarrier = false
    /// What Foundation counts while it is blocked, and the last that was opened; see ``AnyRequestOperation/notifyByGate()``.
    var (gate, openedGate): (Operation?, Operation?)
    /// Whether the gate is just being added to what Foundation counts.
    var isClosingGate = false

    /// The attempt under way and its task.
    var transfer: Transfer?
    /// Whether it is in the dependency graph: it depends on others, or others on it.
    var hasEdges = false
    /// Redirects, retries, deadlines and interceptors; nil for one plain attempt.
    var followUp: FollowUpState?
    var handlers: [FinishHandler] = []
    /// Called after the last handler has returned.
    var settledHooks: [@Sendable (AnyOutcome) -> Void] = []
    /// Whether `isReady` was ever asked, and whether the answer was no: what was never asked need not be told of a change.
    var (wasAskedReadiness, wasUnready) = (false, false)
    /// How many changes of `isReady` are to be told or are being told.
    var readinessChanges: UInt32 = 0
    /// Whether it was cancelled before it had finished; where Foundation's own flag is not used.
    var isCancelled = false
    /// What waits for it in Foundation's books and has to outlive it there.
    var waitingOperations: [Operation] = []
    /// Whose wishes it is to be suspended.
    var suspensionReasons: SuspensionReasons = []

    /// Observers of events, progress and state; nil while there is none.
    var observers: ObserverRegistry?
    /// Code of the user's that waits to run: decoding, building, callbacks without another place.
    var executor = ExecutorWork()
    /// How many handlers of the outcome, and of the last progress, are on the serial executor.
    var executorHandlers = 0

    /// Whether the manager has monitors.
    let isMonitored: Bool
    /// Whether a queue or code of the user's may hold it: Foundation is told of its changes.
    var isSeen: Bool

    init(
        requestPlan: RequestPlan, _ scheduler: (any OperationScheduler)? = nil, isMonitored: Bool,
        isInternal: Bool = false
    ) {
        (self.requestPlan, self.isMonitored, isSeen) = (requestPlan, isMonitored, !isInternal || isMonitored)
        self.scheduler = scheduler
        priority = Versioned(requestPlan.request.priority, version: 1)
    }

    /// What the beginning of the first attempt depends on.
    struct Beginning: Sendable {
        let scheduler: (any OperationScheduler)?
        let queueEntry: QueueEntryReference?
        let suspension: Versioned<OperationStateMachine.Suspension>
        /// A shared transfer has brought the answer.
        let hasSharedAnswer: Bool
        /// What a cache had when it was asked.
        let cacheExchange: (any CacheExchange)?
        /// The request is still to be built by code of the user's, or to be checked.
        let isToBeBuilt: Bool
        let isToBePrepared: Bool
    }

    var beginning: Beginning {
        Beginning(
            scheduler: scheduler, queueEntry: queueEntry, suspension: machine.suspension,
            hasSharedAnswer: followUp?.sharedAnswer != nil, cacheExchange: followUp?.cacheExchange,
            isToBeBuilt: prepared == nil && requestPlan?.build != nil, isToBePrepared: prepared == nil)
    }

    /// Whether starting takes no time and runs no code of the user's.
    var startsInline: Bool {
        machine.phase == .pending && machine.handover == .none && !isObserved && !usesDisk && !hasEdges
    }

    /// Has the first attempt of an operation that was started without a slot wait for one; false when it has ended.
    mutating func awaitsFirstSlot(_ attempt: Int) -> Bool {
        followUp?.wait = .slot
        return machine.handle(.putOff(attempt: attempt)).isTaken
    }

    /// How an operation is when a manager takes it.
    struct Arrival: Sendable {
        /// The host of a request that may be sent as soon as there is a slot; nil for one that is to be prepared.
        var host: String?
        var priority: Versioned<Operation.QueuePriority>
        var suspension: Versioned<OperationStateMachine.Suspension>
        /// Whether it waits for others.
        var isDependent = Versioned(false, version: 1)
        /// It has ended before; whether its last callback has returned, too.
        var hasOutcome = false
        var isSettled = false
        /// It has been started before the manager has taken it.
        var isStarted = false
        var isWatched = false
        var hasEdges = false
        /// Why it cannot be sent.
        var refusal: RequestError?
    }

    /// Becomes a manager's; nil for an operation that a manager has taken, or that has been started.
    ///
    /// - Parameter isStarted: whether it is taken because it has just been started.
    mutating func arrive(
        at scheduler: any OperationScheduler, _ queueEntry: QueueEntryReference, _ now: ContinuousClock.Instant,
        isStarted: Bool = false
    ) -> Arrival? {
        guard self.queueEntry == nil, isStarted ? machine.isExecuting : machine.isWaitingToStart else { return nil }
        (self.scheduler, self.queueEntry, timings.queuedMoment) = (scheduler, queueEntry, CompactInstant(now))
        return Arrival(
            priority: priority, suspension: machine.suspension, hasOutcome: machine.hasOutcome,
            isSettled: machine.delivery.isSettled, isStarted: isStarted, isWatched: isWatched, hasEdges: hasEdges)
    }

    /// Prepares a plain request that waits for nothing else.
    mutating func prepared(for arrival: Arrival, _ defaults: RequestDefaults) -> Arrival {
        var arrival = arrival
        guard outcome == nil, !hasEdges, let plan = requestPlan, plan.hasRequest else { return arrival }
        do throws(RequestError) {
            let request = if let prepared { prepared } else { try plan.request.prepared(defaults) }
            prepared = request
            progress.upload.totalBytes = request.body?.byteCount
            arrival.host = request.hostKey
        } catch {
            arrival.refusal = error.with(plan.request.summary)
        }
        return arrival
    }

    /// What a manager asks of an operation whose request has been checked.
    struct Readiness: Sendable {
        let queueEntry: QueueEntryReference?
        let host: String
        let policyBox: RequestCore.PolicyBox?
        let suspension: Versioned<OperationStateMachine.Suspension>
        let deadline: ContinuousClock.Instant?
    }

    var readiness: Readiness? {
        prepared.map { _ in
            Readiness(
                queueEntry: queueEntry, host: nextHost, policyBox: requestPlan?.request.policyBox,
                suspension: machine.suspension, deadline: followUp?.deadline)
        }
    }

    /// What the output of a complete body is made of.
    struct Completion: Sendable {
        let attempt: Int
        let requestPlan: RequestPlan
        let exchange: Exchange
        let isObserved: Bool
        let hasEdges: Bool
    }

    /// Everything about an attempt that brought a whole answer but its body.
    func exchange(_ request: PreparedRequest, _ head: ResponseHead, _ metrics: CopyOnWrite<TransferMetrics>?)
        -> Exchange
    {
        Exchange(
            request: request, head: head, timings: timings, transfer: progress, metrics: metrics,
            earlierAttempts: followUp?.earlierAttempts ?? [])
    }

    /// Whether an attempt is to be launched now; claimed: its task is made next.
    mutating func launches(_ number: Int, _ options: OperationOptions, isClaim: Bool) -> Bool {
        machine.handle(.launch(attempt: number, pausesInPlace: options.pausesInPlace, isClaim: isClaim)).isTaken
    }

    /// Whether events are observed, in their order; progress alone has none.
    var isWatched: Bool { isMonitored || observers?.events != nil }

    /// Has the end told to the dependency graph; false when it has ended already and the graph was not told.
    mutating func joinGraph() -> Bool {
        if !machine.delivery.hasNotifiedEnd { hasEdges = true }
        return hasEdges
    }

    /// What it is called that has no name of its own.
    var caption: (summary: RequestSummary?, link: LinkLabel?) {
        (prepared?.summary ?? requestPlan?.core?.summary, requestPlan?.link ?? finalLink)
    }

    /// Whether code of the user's runs inside the notifications of the state.
    var isObserved: Bool { observers?.state.isEmpty == false }

    /// Whether a change of `isReady` is to be told; an observer of KVO's need not have asked.
    var notifiesReadiness: Bool {
        #if canImport(FoundationNetworking)
            wasAskedReadiness || isObserved
        #else
            true
        #endif
    }

    /// Whether starting looks at the file of a body; a download looks at its own on its own queue.
    var usesDisk: Bool { requestPlan?.request.body?.usesDisk == true }
}

/// The attempt under way, and its task; what the task was told stands in ``OperationStateMachine/transfer``.
struct Transfer {
    let attempt: Attempt
    let task: any TransferTask
    /// The task as the owner of the operation sees it, once that was asked for.
    var sessionTask: URLSessionTask?
    /// How often the task was told to run or to pause.
    var runningChanges: UInt32 = 0
}

/// A handler for the outcome, and where it runs.
struct FinishHandler: Sendable {
    var place: CallbackPlace
    let run: @Sendable (AnyOutcome) -> Void
}
