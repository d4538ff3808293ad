// The complete mutable state of an operation, guarded by its lock.
import Foundation

/// The state of an operation.
///
/// Many operations may be queued, so the state is small. Objects that are made later hold what a queued operation does
/// not need. The order of the properties leaves few gaps. The state is never copied, because a copy would call a
/// function for each field.
struct OperationState: ~Copyable {
    var machine = OperationStateMachine()
    /// Whether ``BarrierCycles`` counts the operation, because it was added after a barrier of a caller's queue.
    var isBarred = false
    /// Whether the operation may have dependencies or dependents in the graph.
    var hasEdges = false
    /// Whether `isReady` was ever read, so that its changes are notified, and whether it was false.
    var (wasAskedReadiness, wasUnready) = (false, false)
    /// Whether the operation was cancelled before it had finished; used only with swift-corelibs-foundation.
    var isCancelled = false
    /// The request and its decoding; released when the operation finishes, unless ``RequestPlan/isValue`` is true.
    var requestPlan: RequestPlan?
    var prepared: PreparedRequest? {
        didSet { execution?.progress.upload.totalBytes = prepared?.body?.byteCount }
    }
    /// Set once, when the operation gets its outcome, and never changed.
    var outcome: AnyOutcome?
    var execution: ExecutionState?
    @OptionalMoment var queuedMoment: CompactInstant?

    var scheduler: (any OperationScheduler)?
    /// The queue entry, from enqueueing until the operation has finished and its last callback has returned.
    var queueEntry: QueueEntryReference?

    /// Redirects, retries, deadlines and interceptors; nil for one plain attempt.
    var followUp: FollowUpState?
    /// The operations of Foundation that this operation refers to; nil for most.
    var relatives: FoundationRelatives?
    /// The observers; nil before the first one.
    var registry: CopyOnWrite<ObserverRegistry>?
    /// Called after the last handler has returned.
    var settledHooks: [@Sendable (AnyOutcome) -> Void] = []
    var handlers: FinishHandlers
    var suspensionReasons: SuspensionReasons = []
    let isMonitored: Bool
    /// Whether a queue or user code may have a reference to the operation, so that Foundation must be notified of
    /// changes.
    var isSeen: Bool
    /// The number of changes of `isReady` that have yet to be notified.
    var readinessChanges: UInt32 = 0
    /// Code that waits to run: decoding, building, decisions after attempts, and callbacks without another place.
    var executor = ExecutorWork()
    var (looksForBarrier, notesUnready) = (false, false)
    /// Whether the gate of ``AnyRequestOperation/notifyByGate()`` is being added to Foundation's dependencies now.
    var isClosingGate = false
    /// The number of handlers for the outcome and the last progress on the serial executor.
    var executorHandlers: Int32 = 0
    var priority: Versioned<Operation.QueuePriority>

    init(
        requestPlan: RequestPlan, _ scheduler: (any OperationScheduler)? = nil, isMonitored: Bool,
        isInternal: Bool = false, handlers: FinishHandlers = .none
    ) {
        self.handlers = handlers
        (self.requestPlan, self.isMonitored, isSeen) = (requestPlan, isMonitored, !isInternal || isMonitored)
        self.scheduler = scheduler
        priority = Versioned(requestPlan.request.priority, version: 1)
    }

    /// The state on which the first attempt depends.
    struct Beginning: Sendable {
        let started: CompactInstant?
        let scheduler: (any OperationScheduler)?
        let queueEntry: QueueEntryReference?
        let suspension: Versioned<OperationStateMachine.Suspension>
        let hasSharedAnswer: Bool
        let cacheExchange: (any CacheExchange)?
        /// Whether the request has yet to be built or checked.
        let isToBePrepared: Bool
    }

    var beginning: Beginning {
        Beginning(
            started: timings.startedMoment, scheduler: scheduler, queueEntry: queueEntry,
            suspension: machine.suspension, hasSharedAnswer: followUp?.sharedAnswer != nil,
            cacheExchange: followUp?.cacheExchange, isToBePrepared: prepared == nil)
    }

    /// Whether starting is fast and runs no user code.
    var startsInline: Bool {
        machine.phase == .pending && machine.handover == .none && !isObserved && !usesDisk && !hasEdges
    }

    struct Arrival: Sendable {
        /// The host of a request that may be sent as soon as there is a slot; nil if it has yet to be prepared.
        var host: String?
        var priority: Versioned<Operation.QueuePriority>
        var suspension: Versioned<OperationStateMachine.Suspension>
        var isDependent = Versioned(false, version: 1)
        /// Whether the operation has an outcome; `isSettled`, whether its last callback has returned too.
        var hasOutcome = false
        var isSettled = false
        var isStarted = false
        var isWatched = false
        var hasEdges = false
        var refusal: RequestError?
    }

    /// Assigns the operation to a manager.
    ///
    /// Nil if the operation has been assigned to a manager before. Also nil if it has been started, or with `isStarted`
    /// if it is not executing.
    ///
    /// - Parameter defaults: the defaults for a plain request, which this method prepares if it has no dependencies;
    ///   nil for any other request. With a cache, the method prepares nothing, and uses the request that was prepared
    ///   for the lookup, if there is one.
    mutating func arrive(
        at scheduler: any OperationScheduler, _ queueEntry: QueueEntryReference, _ now: ContinuousClock.Instant,
        preparing defaults: RequestDefaults? = nil, isStarted: Bool = false
    ) -> Arrival? {
        guard self.queueEntry == nil, isStarted ? machine.isExecuting : machine.isWaitingToStart else { return nil }
        (self.scheduler, self.queueEntry) = (scheduler, queueEntry)
        queuedMoment = execution?.timings.startedMoment ?? CompactInstant(now)
        execution?.timings.queuedMoment = queuedMoment
        var arrival = Arrival(
            priority: priority, suspension: machine.suspension, hasOutcome: machine.hasOutcome,
            isSettled: machine.delivery.isSettled, isStarted: isStarted, isWatched: isWatched, hasEdges: hasEdges)
        guard let defaults, outcome == nil, !hasEdges, let plan = requestPlan, plan.hasRequest,
            prepared != nil || !defaults.hasCache
        else { return arrival }
        do throws(RequestError) {
            let request = if let prepared { prepared } else { try plan.request.prepared(defaults) }
            prepared = request
            arrival.host = request.hostKey
        } catch {
            arrival.refusal = error.with(plan.request.summary)
        }
        return arrival
    }

    /// The needs of an operation for its next attempt.
    struct Wish: Sendable {
        var host: String
        /// Whether the operation had been started when it made the wish.
        ///
        /// If the operation has been started since, the scheduler ignores the wish.
        var hasBegun = false
        var asksInterceptors = false
        var isCoalesced = false
        /// The name that no other running operation may hold.
        var exclusion: String?
        /// Whether a cache has answered the previous attempt; `hasAnswer`, whether the cache can answer the next one.
        var followsAnswer = false
        var hasAnswer = false
        var suspension: Versioned<OperationStateMachine.Suspension>
        var deadline: ContinuousClock.Instant?
        var queueEntry: QueueEntryReference?
    }

    /// The needs of the next attempt; nil until the request has been checked.
    func wish(in context: ExecutionContext, hasBegun: Bool = false) -> Wish? {
        guard prepared != nil else { return nil }
        let box = requestPlan?.request.policyBox
        return Wish(
            host: nextHost, hasBegun: hasBegun, asksInterceptors: context.asksInterceptors(box),
            isCoalesced: box?.policies.isCoalesced == true, exclusion: box?.policies.exclusion,
            followsAnswer: followUp?.cacheExchange != nil, suspension: machine.suspension,
            deadline: followUp?.deadline, queueEntry: queueEntry)
    }

    struct Completion: Sendable {
        let attempt: Int
        let requestPlan: RequestPlan
        let exchange: Exchange
        let moment: CompactInstant
        let isObserved: Bool
        let hasEdges: Bool
    }

    var observers: ObserverRegistry? { registry?.value }

    /// Whether a monitor or a reader of `events` receives the events; handlers for progress alone do not count.
    var isWatched: Bool { isMonitored || registry?.value.events != nil }

    /// Makes the operation notify the graph when it finishes; false if it has finished without notifying the graph.
    mutating func joinGraph() -> Bool {
        if !machine.delivery.hasNotifiedEnd { hasEdges = true }
        return hasEdges
    }

    /// Whether the operation certainly waits for no dependency; if false, the graph decides.
    ///
    /// During the handover to a queue, an outcome does not unblock the operation. Otherwise the queue would start the
    /// operation twice.
    var isUnblocked: Bool { !hasEdges || machine.hasOutcome && machine.handover == .none }

    var caption: (summary: RequestSummary?, link: LinkLabel?) {
        (prepared?.summary ?? requestPlan?.core?.summary, requestPlan?.link ?? followUp?.finalLink)
    }

    /// Whether user code runs inside the notifications of the state.
    var isObserved: Bool { registry?.value.state.isEmpty == false }

    /// Whether a change of `isReady` is to be notified; KVO may observe an operation whose `isReady` was never read.
    var notifiesReadiness: Bool {
        #if canImport(FoundationNetworking)
            wasAskedReadiness || isObserved
        #else
            true
        #endif
    }

    /// Whether starting checks the file of a body.
    var usesDisk: Bool { requestPlan?.request.body?.usesDisk == true }
}
