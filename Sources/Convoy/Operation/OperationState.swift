// The complete mutable state of an operation, guarded by its lock.
import Foundation

// Many operations may be queued, so objects that are made later hold what a queued operation does not need, and the
// order of the properties leaves few gaps. The state is never copied: a copy would call a function for each field.
struct OperationState: ~Copyable {
    var machine = OperationStateMachine()
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
    var outcome: AnyOutcome?
    var execution: ExecutionState?
    @OptionalMoment var queuedMoment: CompactInstant?

    /// The queue entry, from enqueueing until the operation has finished and its last callback has returned.
    var queueEntry: QueueEntryReference?

    var followUp: FollowUpState?
    /// The operations that wait for this one in Foundation and must not be freed before it finishes.
    var waitingOperations: [Operation] = []
    var registry: CopyOnWrite<ObserverRegistry>?
    var settledHooks: [@Sendable (AnyOutcome) -> Void] = []
    var handlers: [FinishHandler]
    var suspensionReasons: SuspensionReasons = []
    let isMonitored: Bool
    /// Whether a queue or user code may have a reference to the operation, so that Foundation must be notified of
    /// changes.
    var isSeen: Bool
    /// The number of changes of `isReady` that have yet to be notified.
    var readinessChanges: UInt32 = 0
    /// The thread that notifies them.
    var readinessNotifier: ObjectIdentifier?
    /// Code that waits to run: decoding, building, decisions after attempts, and callbacks without another place.
    var executor = ExecutorWork()
    var confirmsReadiness = false
    var executorHandlers: Int32 = 0
    var priority: Versioned<Operation.QueuePriority>

    init(
        requestPlan: RequestPlan, isMonitored: Bool, isInternal: Bool = false, handlers: [FinishHandler] = []
    ) {
        self.handlers = handlers
        (self.requestPlan, self.isMonitored, isSeen) = (requestPlan, isMonitored, !isInternal || isMonitored)
        priority = Versioned(requestPlan.request.priority, version: 1)
    }

    struct Beginning: Sendable {
        let started: CompactInstant?
        let queueEntry: QueueEntryReference?
        let suspension: Versioned<OperationStateMachine.Suspension>
        let hasSharedAnswer: Bool
        let cacheExchange: (any CacheExchange)?
        let isToBePrepared: Bool
    }

    var beginning: Beginning {
        Beginning(
            started: timings.startedMoment, queueEntry: queueEntry, suspension: machine.suspension,
            hasSharedAnswer: followUp?.sharedAnswer != nil,
            cacheExchange: followUp?.cacheExchange, isToBePrepared: prepared == nil)
    }

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

    // Nil if the operation has been assigned or started before, or with `isStarted` if it is not executing. `defaults`
    // are those for a plain request, which this method prepares if it has no dependencies. With a cache, it prepares
    // nothing, and uses the request that was prepared for the lookup, if there is one.
    mutating func arrive(
        _ queueEntry: QueueEntryReference, _ now: ContinuousClock.Instant,
        preparing defaults: RequestDefaults? = nil, isStarted: Bool = false
    ) -> Arrival? {
        guard self.queueEntry == nil, isStarted ? machine.isExecuting : machine.isWaitingToStart else { return nil }
        self.queueEntry = queueEntry
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

    struct Wish: Sendable {
        var host: String
        /// If the operation has been started since it made the wish, the scheduler ignores the wish.
        var hasBegun = false
        var asksInterceptors = false
        var isCoalesced = false
        var exclusion: String?
        var followsAnswer = false
        var hasAnswer = false
        var suspension: Versioned<OperationStateMachine.Suspension>
        var deadline: ContinuousClock.Instant?
        var queueEntry: QueueEntryReference?
    }

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

    // If false, the graph decides. During the handover to a queue, an outcome does not unblock the operation. Otherwise
    // the queue would start the operation twice.
    var isUnblocked: Bool { !hasEdges || machine.hasOutcome && machine.handover == .none }

    var caption: (summary: RequestSummary?, link: LinkLabel?) {
        (prepared?.summary ?? requestPlan?.core?.summary, requestPlan?.link ?? followUp?.finalLink)
    }

    var isObserved: Bool { registry?.value.state.isEmpty == false }

    var notifiesReadiness: Bool {
        #if canImport(FoundationNetworking)
            wasAskedReadiness || isObserved
        #else
            true
        #endif
    }

    var usesDisk: Bool { requestPlan?.request.body?.usesDisk == true }
}

extension OperationState {
    struct Dispatch: ~Copyable, Sendable {
        var outcome: AnyOutcome?
        var handlers: [FinishHandler] = []
        var notifiesEvents = false
        var notifiers: [ProgressNotifier] = []
        var ending: Ending?
    }

    struct Ending: ~Copyable, Sendable {
        let isEnd: Bool
        let isSettled: Bool
        let queueEntry: QueueEntryReference?
        let outcome: AnyOutcome?
        var settledHooks: [@Sendable (AnyOutcome) -> Void] = []
        var requestPlan: RequestPlan?
        var registry: CopyOnWrite<ObserverRegistry>?
        var requests: FollowUpState.Requests?
        var hasEdges = false
        var waitingOperations: [Operation] = []

        func notifySettled() {
            guard let outcome else { return }
            for hook in settledHooks { hook(outcome) }
        }
    }

    // An operation with an outcome before its start gets two calls: at the outcome, and when it finishes. The first
    // call dispatches. Without handlers and observers the delivery ends at once.
    mutating func beginDelivery(isEnd: Bool) -> Dispatch {
        if isEnd { _ = machine.handle(.finished) }
        var dispatch = Dispatch()
        if let outcome, machine.handle(.delivery(.begin)).isTaken {
            let notifiesEvents = isWatched && note(.finished(outcome.error))
            let notifiers = observers?.progress ?? []
            // A success reports its last progress before the handlers. The settled hooks are called after that report.
            if outcome.error == nil, !notifiers.isEmpty {
                handlers = notifiers.map { [progress] in $0.lastCall(progress) } + handlers
            }
            dispatch = Dispatch(
                outcome: outcome, handlers: takeHandlers(), notifiesEvents: notifiesEvents,
                notifiers: notifiers)
        }
        // The end of the delivery releases the operations that wait for this one. Foundation uses them when it is
        // notified of the end. So if that notification follows, the delivery does not end here.
        let isTold = isEnd && wasAskedReadiness
        if dispatch.handlers.isEmpty, dispatch.notifiers.isEmpty, !dispatch.notifiesEvents, !isObserved, !isTold {
            dispatch.ending = endDelivery(dispatch.outcome == nil ? nil : .sentOff, isEnd: isEnd)
        }
        return dispatch
    }

    // If other handlers wait on the serial executor, a handler with `inTurn` or `inPlace` runs there too. A handler
    // with `inPlace` also runs there while this thread runs another callback in place.
    mutating func takeHandlers() -> [FinishHandler] {
        var sent = handlers
        handlers = []
        for index in sent.indices {
            switch sent[index].place {
            case .inTurn where executorHandlers > 0, .inPlace where executorHandlers > 0 || CallbackInPlace.isRunning:
                sent[index].place = .executor
            case .here, .executor, .inTurn, .inPlace, .elsewhere: break
            }
            if sent[index].place.isExecutor { executorHandlers += 1 }
        }
        // Handlers in place have returned by the time all other handlers are dispatched, so they are not counted.
        _ = machine.handle(.delivery(.handlersSent(sent.count { !$0.place.isHere })))
        return sent
    }

    mutating func endDelivery(_ event: HandlerDelivery.Event?, isEnd: Bool = false) -> Ending? {
        if isEnd { _ = machine.handle(.delivery(.endNotified)) }
        let settles = event.map { machine.handle(.delivery($0)).settles } ?? false
        guard isEnd || settles else { return nil }
        var ending = Ending(
            isEnd: isEnd, isSettled: machine.delivery.isSettled, queueEntry: queueEntry,
            outcome: outcome)
        if settles { swap(&ending.settledHooks, &settledHooks) }
        // Once the operation has finished and its last handler has returned, the manager releases it.
        if machine.delivery.isOver { queueEntry = nil }
        guard isEnd else { return ending }
        swap(&ending.waitingOperations, &waitingOperations)
        if let requestPlan, !requestPlan.isValue {
            let request = requestPlan.request
            if !request.tags.isEmpty { makeFollowUp().finalTags = request.tags }
            if let box = request.policyBox, !box.policies.userInfo.isEmpty, followUp?.userInfo == nil {
                makeFollowUp().userInfo = box.policies.userInfo
            }
            if let link = requestPlan.link { makeFollowUp().finalLink = link }
            (ending.requestPlan, self.requestPlan) = (requestPlan, nil)
        }
        (ending.registry, ending.requests) = (registry == nil ? nil : takeObserversIfOver(), followUp?.takeRequests())
        ending.hasEdges = hasEdges
        return ending
    }
}

struct FinishHandler: Sendable {
    var place: CallbackPlace
    let run: @Sendable (AnyOutcome) -> Void
}

// Used only under the operation's lock. Not `Sendable`, so the compiler prevents its use outside the lock.
final class FollowUpState {
    var records: [AttemptRecord] = []
    var request: PreparedRequest?
    var adapted: PreparedRequest?
    var outdatedCount = 0
    var sharedAnswer: Response<Data>?
    private(set) var isShared = false
    var cacheExchange: (any CacheExchange)?
    /// Whether the cache has lost a response after its lookup, so that later lookups need a slot.
    var lostStoredAnswer = false
    var hasLeftOrigin = false
    /// The number of retries that the policy has decided since a download last made progress; `interceptionCount`
    /// counts those of the interceptors.
    var retryCount = 0
    var resumableBytes: Int64 = 0
    var interceptionCount = 0
    var shortages = 0

    var deadline: ContinuousClock.Instant?
    var wait: Wait?
    fileprivate var callers: [Caller: @Sendable () -> Void] = [:]

    /// One attempt's stream is closed here before the next is made, because the next may truncate the same file.
    private(set) lazy var streamQueue = DispatchQueue(label: "convoy.stream")

    /// The values that the caller has set; nil while the request's values apply.
    var userInfo: [String: any Sendable]?

    var finalTags: Set<String> = []
    var finalLink: LinkLabel?

    var rateLimit: RateLimit?

    var download: (any DownloadTarget)?
    var startsOver = false
    private(set) var hasStartedOver = false

    func share(_ answer: Response<Data>) { (sharedAnswer, isShared) = (answer, true) }

    func startOver() -> Bool {
        guard !hasStartedOver else { return false }
        (hasStartedOver, startsOver) = (true, true)
        return true
    }

    /// The attempts before the successful one; for a shared response, all attempts of the operation that fetched it.
    var earlierAttempts: [AttemptRecord] { sharedAnswer?.attempts ?? records }

    enum Caller { case deadline, wait, interceptors }

    enum Wait {
        case time(ContinuousClock.Instant, asked: RetryAfterReason?)
        case interceptor
        case slot
    }

    func takeCallers() -> [@Sendable () -> Void] {
        defer { callers = [:] }
        return Array(callers.values)
    }

    func takeRequests() -> Requests {
        defer { (request, adapted, sharedAnswer, cacheExchange) = (nil, nil, nil, nil) }
        return (request, adapted, sharedAnswer, cacheExchange)
    }

    typealias Requests = (
        PreparedRequest?, adapted: PreparedRequest?, sharedAnswer: Response<Data>?, (any CacheExchange)?
    )
}

extension AnyRequestOperation {
    var lastRecord: AttemptRecord? { withLock { $0.followUp?.records.last } }

    /// Stores a closure that stops a timer or an interceptor, or calls it now if there is an outcome.
    func keep(_ caller: FollowUpState.Caller, stop: @escaping @Sendable () -> Void) {
        let isOver = withLock { state in
            if state.outcome == nil { state.makeFollowUp().callers[caller] = stop }
            return state.outcome != nil
        }
        if isOver { stop() }
    }
}

extension OperationState {
    mutating func makeFollowUp() -> FollowUpState {
        let followUp = followUp ?? FollowUpState()
        self.followUp = followUp
        return followUp
    }

    var nextRequest: PreparedRequest? { followUp?.request ?? prepared }

    var nextHost: String { (followUp?.adapted ?? nextRequest)?.hostKey ?? "" }

    func attemptRecords(
        _ error: RequestError?, _ now: ContinuousClock.Instant, _ metrics: CopyOnWrite<TransferMetrics>?
    ) -> [AttemptRecord] {
        guard let error else { return [] }
        let records = followUp?.records ?? []
        guard let attempt = transfer?.attempt else { return records }
        let isAnswer = error.code == .unacceptableStatus
        return records + [
            AttemptRecord(
                number: attempt.number, request: attempt.request, started: attempt.started.instant, ended: now,
                response: error.response, failure: isAnswer ? nil : error.code,
                message: isAnswer ? nil : error.message, transfer: progress, metrics: metrics?.value)
        ]
    }
}
