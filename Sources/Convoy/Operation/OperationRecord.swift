// All that changes about an operation, and the steps of one operation that concern no other.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// One record for each operation, guarded by the lock of its manager. ``phase`` alone says where the operation is.
// `Schedule` changes phases that concern other operations, the methods below the others. Many operations may be
// queued, so objects that are made later hold what a queued operation does not need. The record is never copied.
struct OperationRecord: ~Copyable {
    enum Phase: Hashable, Sendable {
        /// Neither enqueued nor started; a group may be started by hand. Next: preparing, blocked, handedOver, running,
        /// ended, finishing.
        case created
        /// Waits for its dependencies. Next: preparing, ended.
        case blocked
        /// Its request is built and checked, or looked up in the cache. Next: waiting, handedOver, blocked, running,
        /// ended, finishing.
        case preparing
        /// Has no slot; a transfer that is paused may end. Next: preparing, handedOver, running, blocked, deciding,
        /// completing, ended, finishing.
        case waiting(Wait)
        /// An operation queue starts it. With the manager's own queue it has a slot, unless it needs none or the queue
        /// has a limit. Next: running, preparing, ended.
        case handedOver
        /// An attempt is running, or the function of a group. A request has a slot, unless the cache or another
        /// request answers it, or it has no manager. Next: deciding, completing, waiting, finishing.
        case running
        /// The attempt has ended, and the operation decides what follows. Next: waiting, completing, finishing.
        case deciding
        /// The body is complete and is being decoded. If committed, its file is being moved into place, so a
        /// cancellation no longer has an effect. Next: finishing.
        case completing(isCommitted: Bool)
        /// Cancelled or failed before its start. Next: finishing.
        case ended
        /// The outcome is stored, and notifications are being sent. Next: finished.
        case finishing(wasExecuting: Bool)
        /// The end: no event changes this phase.
        case finished
    }

    enum Wait: Hashable, Sendable {
        /// In the queue of its host.
        case slot
        /// Another operation has its ``Exclusion``.
        case name
        /// Suspended by its owner or its group.
        case owner
        /// A group that starts when the manager is neither suspended nor cancelling operations.
        case manager
        /// For the response of the transfer that it shares.
        case transfer
        /// For the time of the next attempt.
        case time
        /// An interceptor adapts the request.
        case interceptor
    }

    /// The task that moves the bytes of an attempt.
    enum TaskPhase: Hashable, Sendable {
        /// There is no task. Next: launching.
        case none
        /// A task is being made, or the previous task is being ended. Next: none, running, paused.
        case launching
        /// The task was last resumed. Next: paused, none, launching.
        case running
        /// The task was last paused, or paused itself. Next: running, none, launching.
        case paused

        var isMade: Bool { self == .running || self == .paused }
    }

    /// The handover to an operation queue, which traps on operations that have begun.
    enum Handover: Hashable, Sendable {
        case none
        case underWay
        /// `start()` was called during the handover. It is called again afterwards.
        case startWanted
    }

    enum Role {
        case caller
        /// Added to a group. A member is not added to a caller's queue.
        case member
        /// Made by the scheduler: a transfer that several operations share, or the validation of a stored response.
        case shared
        case barrier

        var isInternal: Bool { self == .shared || self == .barrier }
    }

    /// The order of the waiting operations that have the same priority; the first case precedes the others.
    enum Rank: Int {
        /// Has sent something, and is ready for another attempt.
        case returning
        case started
        case new
    }

    var phase = Phase.created
    var taskPhase = TaskPhase.none
    var handover = Handover.none
    var suspensionReasons: SuspensionReasons = []
    /// Whether the manager lists the operation: until it has finished and its last callback has returned.
    var isEnqueued = false
    /// The number of the running attempt or of the next one; 0 before the start.
    var attempt: Int32 = 0
    /// The number of unfinished dependencies.
    var unfinished: Int32 = 0
    var delivery = HandlerDelivery()

    // The schedule's facts; see ``Schedule`` and ``WaitQueue``.
    var role = Role.caller
    var priority: Operation.QueuePriority
    /// Whether the caller or a shared transfer has set the priority, so that a chain's link keeps it.
    var hasOwnPriority = false
    var hasSlot = false
    var hasHadSlot = false
    /// Whether the operation has begun and had a slot, so that it may have sent something.
    var hasSent = false
    /// The index of its list in a ``WaitQueue``.
    var line: Int8 = -1
    /// The host whose slot it has, or for which it waits.
    var host: Host?
    var neighbours: (previous: Unmanaged<AnyRequestOperation>?, next: Unmanaged<AnyRequestOperation>?)
    var order: UInt64 = 0
    /// The operations that were enqueued before and after it.
    var listed: (previous: Unmanaged<AnyRequestOperation>?, next: Unmanaged<AnyRequestOperation>?)
    var exclusion: Exclusion?
    var sharedTransfer: CoalescingKey?
    /// When the operation used a rate token for its slot; see ``RequestRate``.
    var token: CompactInstant?
    var pass: HostBreaker.Pass?

    // How Foundation sees the operation.
    /// Whether `isReady` was ever read, so that its changes are notified, and whether it was false.
    var (wasAskedReadiness, wasUnready) = (false, false)
    /// Whether the operation was cancelled before it had finished; used only with swift-corelibs-foundation.
    var isCancelled = false
    var confirmsReadiness = false
    /// Whether a queue or user code may have a reference to the operation, so that Foundation must be notified of
    /// changes.
    var isSeen: Bool
    /// The number of changes of `isReady` that have yet to be notified.
    var readinessChanges: UInt32 = 0
    /// The thread that notifies them.
    var readinessNotifier: ObjectIdentifier?
    /// The operations that wait for this one in Foundation and must not be freed before it finishes.
    var waitingOperations: [Operation] = []

    /// The request and its decoding; released when the operation finishes, unless ``RequestPlan/isValue`` is true.
    var requestPlan: RequestPlan?
    var prepared: PreparedRequest? {
        didSet { execution?.progress.upload.totalBytes = prepared?.body?.byteCount }
    }
    var outcome: AnyOutcome?
    var edges: DependencyEdges?
    /// Whether the dependents no longer wait.
    var isReleased = false
    var execution: ExecutionState?
    var followUp: FollowUpState?
    @OptionalMoment var queuedMoment: CompactInstant?

    // Callbacks.
    let isMonitored: Bool
    var executorHandlers: Int32 = 0
    var registry: CopyOnWrite<ObserverRegistry>?
    var settledHooks: [@Sendable (AnyOutcome) -> Void] = []
    var handlers: [FinishHandler]
    /// Code that waits to run: decoding, building, decisions after attempts, and callbacks without another place.
    var executor = ExecutorWork()

    init(requestPlan: RequestPlan, isMonitored: Bool, isInternal: Bool = false, handlers: [FinishHandler] = []) {
        self.handlers = handlers
        (self.requestPlan, self.isMonitored, isSeen) = (requestPlan, isMonitored, !isInternal || isMonitored)
        priority = requestPlan.request.priority
    }
}

extension OperationRecord {
    var hasBegun: Bool { attempt > 0 }

    var isExecuting: Bool {
        switch phase {
        case .created, .blocked, .preparing, .waiting, .handedOver, .running, .deciding, .completing: hasBegun
        case .finishing(let wasExecuting): wasExecuting
        case .ended, .finished: false
        }
    }

    var isFinished: Bool { phase == .finished }

    var hasOutcome: Bool {
        switch phase {
        case .created, .blocked, .preparing, .waiting, .handedOver, .running, .deciding, .completing: false
        case .ended, .finishing, .finished: true
        }
    }

    /// Whether the operation has neither begun nor an outcome.
    var isPending: Bool { !hasBegun && !hasOutcome }
    var isWaitingToStart: Bool { isPending || phase == .ended }

    /// The number of the running attempt; nil before the first, between two, and once the body is complete.
    var currentAttempt: Int? {
        switch phase {
        case .running: Int(attempt)
        case .waiting where taskPhase.isMade: Int(attempt)
        default: nil
        }
    }

    var rank: Rank { hasSent ? .returning : hasBegun ? .started : .new }

    var isSuspended: Bool { !suspensionReasons.isEmpty }

    /// Whether the attempt may move bytes.
    var mayMove: Bool { phase == .running && !isSuspended }

    // During the handover to a queue, an outcome does not unblock the operation. Otherwise the queue would start the
    // operation twice.
    var isBlocked: Bool { unfinished > 0 && !(hasOutcome && handover == .none) }

    var observers: ObserverRegistry? { registry?.value }

    /// Whether a monitor or a reader of `events` receives the events; handlers for progress alone do not count.
    var isWatched: Bool { isMonitored || registry?.value.events != nil }

    var isObserved: Bool { registry?.value.state.isEmpty == false }

    var notifiesReadiness: Bool {
        #if canImport(FoundationNetworking)
            wasAskedReadiness || isObserved
        #else
            true
        #endif
    }

    var usesDisk: Bool { requestPlan?.request.body?.usesDisk == true }

    var caption: (summary: RequestSummary?, link: LinkLabel?) {
        (prepared?.summary ?? requestPlan?.core?.summary, requestPlan?.link ?? followUp?.finalLink)
    }

    var words: String {
        switch phase {
        case .ended: "ended before its start"
        case .finishing: "finishing"
        case .finished: "finished"
        case .completing: "decoding"
        case .deciding: "executing, after attempt \(attempt)"
        case .created, .blocked, .preparing, .waiting, .handedOver, .running:
            switch currentAttempt {
            case _ where !hasBegun: "not started"
            case nil: "executing, before attempt \(attempt)"
            case 1: "executing"
            case let attempt?: "executing, attempt \(attempt)"
            }
        }
    }
}

// MARK: The task of an attempt

extension OperationRecord {
    /// The request, the plan and the download of a task that is about to be made.
    struct Launch: Sendable {
        let number: Int
        let request: PreparedRequest
        let plan: RequestPlan
        let moment: CompactInstant
        var progress = TransferProgress()
        var download: Download?
        var asksForWhole = false
    }

    /// Nil if the attempt is over, or is suspended and cannot be paused in place: resuming it launches it.
    mutating func launch(_ number: Int, pausesInPlace: Bool, _ now: CompactInstant) -> Launch? {
        guard currentAttempt == number, taskPhase == .launching, let requestPlan,
            let request = followUp?.adapted ?? nextRequest
        else { return nil }
        if isSuspended, !pausesInPlace {
            taskPhase = .none
            return nil
        }
        timings.attemptStartedMoment = now
        followUp?.adapted = nil
        var launch = Launch(
            number: number, request: request, plan: requestPlan, moment: now, progress: progress)
        if let segment = requestPlan.request.destination.segment {
            launch.download = segment.download
        } else if requestPlan.request.destination.isFile {
            let followUp = makeFollowUp()
            followUp.download = followUp.download ?? requestPlan.request.destination.makeDownload()
            (launch.download, launch.asksForWhole) = (followUp.download, followUp.history.startsOver)
        }
        return launch
    }

    enum Made {
        case resume
        /// The task is kept, paused.
        case keep
        /// The attempt is over, or has been suspended: cancel the task.
        case drop
    }

    mutating func taskMade(_ made: Transfer, pausesInPlace: Bool) -> Made {
        guard taskPhase == .launching else { return .drop }
        taskPhase = .none
        guard currentAttempt == made.attempt.number else { return .drop }
        if isSuspended, !pausesInPlace {
            attempt += 1
            return .drop
        }
        taskPhase = isSuspended ? .paused : .running
        transfer = made
        return isSuspended ? .keep : .resume
    }

    mutating func taskPaused(_ number: Int) -> Bool {
        guard currentAttempt == number, taskPhase.isMade else { return false }
        taskPhase = .paused
        return true
    }

    // Whether to resume or to pause the task; nil for neither. `isPaused` means back-pressure or a rate limit.
    mutating func adjust(isPaused: Bool) -> Bool? {
        let runs = mayMove && !isPaused
        guard currentAttempt != nil, taskPhase == (runs ? .paused : .running) else { return nil }
        taskPhase = runs ? .running : .paused
        return runs
    }

    /// The next attempt has the next number; it waits until ``AnyRequestOperation/queueAgain()``.
    mutating func repeats(_ number: Int) -> Bool {
        guard phase == .deciding, attempt == number else { return false }
        (phase, taskPhase) = (.waiting(.time), .none)
        attempt += 1
        return true
    }

}

// MARK: The outcome and its delivery

extension OperationRecord {
    /// The first outcome wins: false if there is one, if the attempt with the number is over, or after the start.
    mutating func end(_ number: Int?, onlyBeforeStart: Bool) -> Bool {
        switch phase {
        case .ended, .finishing, .finished: return false
        case _ where isPending:
            if number == nil { phase = .ended }
            return number == nil
        case .completing(isCommitted: true) where number == nil: return false
        case .created, .blocked, .preparing, .waiting, .handedOver, .running, .deciding, .completing:
            guard !onlyBeforeStart, number ?? Int(attempt) == Int(attempt) else { return false }
            (phase, taskPhase) = (.finishing(wasExecuting: true), .none)
            return true
        }
    }

    struct Completion: Sendable {
        let attempt: Int
        let requestPlan: RequestPlan
        let exchange: Exchange
        let moment: CompactInstant
        let prepared: PreparedRequest?
        let isObserved: Bool
        let dependents: [AnyRequestOperation]
    }

    struct Dispatch: ~Copyable, Sendable {
        var outcome: AnyOutcome?
        var handlers: [FinishHandler] = []
        var notifiesEvents = false
        var notifiers: [ProgressNotifier] = []
    }

    /// The references of an operation that are released outside the lock, when it has finished or its last handler has
    /// returned.
    struct Ending: ~Copyable, Sendable {
        let outcome: AnyOutcome?
        var settledHooks: [@Sendable (AnyOutcome) -> Void] = []
        var requestPlan: RequestPlan?
        var registry: CopyOnWrite<ObserverRegistry>?
        var requests: FollowUpState.Requests?
        var edges: ReleasedEdges?
        var waitingOperations: [Operation] = []
        /// The waits for the end of all operations, of which this was the last.
        var calls: [@Sendable () -> Void] = []

        func notifySettled() {
            guard let outcome else { return }
            for hook in settledHooks { hook(outcome) }
        }
    }

    // An operation with an outcome before its start gets two calls: at the outcome, and when it finishes. The first
    // call dispatches.
    mutating func beginDelivery(isEnd: Bool) -> Dispatch {
        if isEnd, case .finishing = phase { phase = .finished }
        guard let outcome, hasOutcome, delivery.phase == .unsent else { return Dispatch() }
        // The dispatch counts as one, so that the count cannot be zero before all handlers are dispatched.
        (delivery.phase, delivery.runningHandlers) = (.sending, delivery.runningHandlers + 1)
        let notifiesEvents = isWatched && note(.finished(outcome.error))
        let notifiers = observers?.progress ?? []
        // A success reports its last progress before the handlers. The settled hooks are called after that report.
        if outcome.error == nil, !notifiers.isEmpty {
            handlers = notifiers.map { [progress] in $0.lastCall(progress) } + handlers
        }
        return Dispatch(
            outcome: outcome, handlers: takeHandlers(), notifiesEvents: notifiesEvents, notifiers: notifiers)
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
        if delivery.phase == .sending { delivery.runningHandlers += Int32(clamping: sent.count { !$0.place.isHere }) }
        return sent
    }

    mutating func endDelivery(_ event: HandlerDelivery.Event?, isEnd: Bool = false) -> Ending? {
        let settles = delivery.handle(event, isEnd: isEnd)
        guard isEnd || settles else { return nil }
        var ending = Ending(outcome: outcome)
        if settles { swap(&ending.settledHooks, &settledHooks) }
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
        ending.edges = releaseEdges()
        return ending
    }
}

struct HandlerDelivery: Hashable, Sendable {
    enum Phase: Hashable, Sendable {
        /// The handlers have not been called. Next: sending.
        case unsent
        /// The handlers are being called. Handlers added now run after them. Next: sent.
        case sending
        /// All handlers have been called or dispatched. Later handlers are called at once.
        case sent
    }

    enum Event: Hashable, Sendable {
        case handlerReturned
        /// All handlers were called or dispatched.
        case sentOff
    }

    fileprivate(set) var runningHandlers: Int32 = 0
    fileprivate(set) var phase = Phase.unsent
    private(set) var isSettled = false
    private(set) var hasNotifiedEnd = false

    var hasBegun: Bool { phase != .unsent }

    var isOver: Bool { isSettled && hasNotifiedEnd }

    /// True once, when every handler has returned.
    mutating func handle(_ event: Event?, isEnd: Bool = false) -> Bool {
        if isEnd { hasNotifiedEnd = true }
        switch event {
        case .handlerReturned where runningHandlers > 0: runningHandlers -= 1
        case .sentOff where phase == .sending: (phase, runningHandlers) = (.sent, runningHandlers - 1)
        case .handlerReturned, .sentOff, nil: break
        }
        guard event != nil, runningHandlers == 0, phase == .sent, !isSettled else { return false }
        isSettled = true
        return true
    }
}

struct FinishHandler: Sendable {
    var place: CallbackPlace
    let run: @Sendable (AnyOutcome) -> Void
}

// MARK: What most queued operations lack

// Made when the first value is set. Used only under the lock. Not `Sendable`, so the compiler prevents its use outside
// the lock.
final class ExecutionState {
    // `@exclusivity(unchecked)` is safe, because the lock excludes other accesses.
    @exclusivity(unchecked) var timings = Timings()
    @exclusivity(unchecked) var progress = TransferProgress()
    @exclusivity(unchecked) var transfer: Transfer?
}

struct Transfer {
    let attempt: Attempt
    let task: any TransferTask
    /// The `URLSessionTask`, once the caller has asked for it.
    var sessionTask: URLSessionTask?
    var runningChanges: UInt32 = 0
}

extension OperationRecord {
    mutating func keep(_ received: Attempt.Receiving) {
        progress = received.progress
        if let moment = received.firstByteMoment { timings.firstByteMoment = moment }
    }

    // Those of the attempts that have ended; the running one has its own.
    var timings: Timings {
        get {
            if let execution { return execution.timings }
            var timings = Timings()
            timings.queuedMoment = queuedMoment
            return timings
        }
        _modify { yield &makeExecution().timings }
    }

    var progress: TransferProgress {
        get {
            execution?.progress ?? TransferProgress(upload: ByteProgress(totalBytes: prepared?.body?.byteCount))
        }
        _modify { yield &makeExecution().progress }
    }

    var transfer: Transfer? {
        get { execution?.transfer }
        _modify { yield &makeExecution().transfer }
    }

    private mutating func makeExecution() -> ExecutionState {
        if let execution { return execution }
        let made = ExecutionState()
        (made.timings, made.progress) = (timings, progress)
        execution = made
        return made
    }
}

extension OperationRecord {
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
        let records = followUp?.history.records ?? []
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

struct SuspensionReasons: OptionSet, Sendable {
    let rawValue: UInt8

    static let owner = SuspensionReasons(rawValue: 1)
    static let group = SuspensionReasons(rawValue: 2)
}
