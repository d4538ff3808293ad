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
    var recipe: Recipe?
    /// From the moment the request has been checked.
    var prepared: PreparedRequest?
    /// From the moment it is claimed, for good.
    var outcome: AnyOutcome?
    /// The tags, kept when the recipe has been let go of.
    var finalTags: Set<String> = []
    /// The name of a link whose request was never built, kept likewise.
    var finalLink: LinkLabel?
    var timings = Timings()
    var progress = TransferProgress()

    /// The manager's half, from enqueue until the last callback has run.
    var scheduler: (any OperationScheduler)?
    var ticket: TicketReference?

    /// The attempt under way and its task.
    var transfer: Transfer?
    /// Whether it is in the dependency graph: it depends on others, or others on it.
    var hasEdges = false
    /// Whether it had finished without ever being there.
    private(set) var isBeyondGraph = false
    /// Redirects, retries, deadlines and interceptors; nil for one plain attempt.
    var course: Course?
    /// A task is being made outside the lock.
    var isLaunching = false
    /// It is on its way into an operation queue, which traps on what has begun, and asks under its own lock whether it is
    /// ready.
    var isBeingHandedOver = false
    /// Somebody called `start()` meanwhile.
    var isStartWanted = false
    /// The caller asked for it.
    var isSuspended = false
    /// How often the caller has; a slot that was got before the last time does not count.
    var suspensions: UInt32 = 0
    /// It came to rest because it was suspended, and others may have its slot: it moves no bytes before it has one again.
    var awaitsSlot = false
    /// The attempt under way was held back before it was launched: whatever lets it go on launches it.
    var isResting = false

    var handlers: [FinishHandler] = []
    /// How many handlers that take turns on the lane have been sent off, or are to be, and have not returned.
    var turnCount = 0
    /// Handlers that have been sent off and have not returned.
    var runningHandlers = 0
    /// Called after the last handler has returned.
    var settledHooks: [@Sendable () -> Void] = []
    var isSettled = false
    /// Whether the handlers have been sent off: later ones run at once.
    var isDelivering = false
    /// Whether they are just being sent off: later ones come behind them.
    var isSendingOff = false
    /// Whether the last event has been noted.
    var hasEmittedEnd = false
    /// How many changes of `isReady` are to be told or are being told.
    var readinessChanges: UInt32 = 0
    /// Whether it was cancelled before it had finished; where Foundation's own flag is not used.
    var isCancelled = false
    /// Whether the observers have been told that it has finished.
    var hasNotifiedEnd = false

    /// Observers of events, progress and state; nil while there is none.
    var watch: Watch?
    /// Code of the user's that waits to run: decoding, building, callbacks without another place.
    var lane = LaneWork()

    /// Whether the manager has monitors.
    let isMonitored: Bool

    init(recipe: Recipe, isMonitored: Bool) { (self.recipe, self.isMonitored) = (recipe, isMonitored) }

    /// What `start()` does.
    enum Start: Sendable {
        /// Look whether a dependency has not finished, then ask again.
        case lookAtGraph
        case begin(attempt: Int, Beginning)
        /// The outcome is known already: send the notifications.
        case finish
        /// Started before, or on its way into a queue.
        case ignore
    }

    /// What the beginning of the first attempt depends on.
    struct Beginning: Sendable {
        let scheduler: (any OperationScheduler)?
        let ticket: TicketReference?
        let isSuspended: Bool
        /// A shared transfer has brought the answer.
        let hasAnswer: Bool
        /// The request is still to be built by code of the user's, or to be checked.
        let isToBeBuilt: Bool
        let isToBePrepared: Bool
    }

    var beginning: Beginning {
        Beginning(
            scheduler: scheduler, ticket: ticket, isSuspended: isSuspended, hasAnswer: course?.carried != nil,
            isToBeBuilt: prepared == nil && recipe?.build != nil, isToBePrepared: prepared == nil)
    }

    /// Claims the start; one that comes while the operation is on its way into a queue waits until it is there.
    ///
    /// Foundation takes the locks of queue and operation in one order when it adds, in the other when one finishes.
    mutating func start(_ now: ContinuousClock.Instant, mayBeBlocked: Bool) -> Start {
        guard !isBeingHandedOver else {
            isStartWanted = true
            return .ignore
        }
        if mayBeBlocked, machine.isWaitingToStart { return .lookAtGraph }
        if machine.phase == .pending { timings.started = now }
        return switch machine.start() {
        case .execute(let attempt): .begin(attempt: attempt, beginning)
        case .finish: .finish
        case .ignore: .ignore
        }
    }

    /// Whether starting takes no time and runs nobody's code.
    var startsInPassing: Bool {
        machine.phase == .pending && !isBeingHandedOver && !isObserved && !usesDisk && !hasEdges
    }

    /// How an operation is when a manager takes it.
    struct Arrival: Sendable {
        let isWatched: Bool
        let suspension: Suspension
        /// The host of a request that may be sent as soon as there is a slot.
        var host: String?
        /// Why it cannot be sent.
        var refusal: RequestError?
    }

    /// Becomes a manager's; nil for an operation that is another's, or has been started.
    mutating func arrive(
        at scheduler: any OperationScheduler, _ ticket: TicketReference, _ now: ContinuousClock.Instant
    ) -> Arrival? {
        guard self.scheduler == nil, machine.isWaitingToStart else { return nil }
        (self.scheduler, self.ticket, timings.queued) = (scheduler, ticket, now)
        return Arrival(isWatched: isWatched, suspension: suspension)
    }

    /// Prepares a plain request that waits for nothing else.
    mutating func prepared(for arrival: Arrival, _ baseURL: URL?) -> Arrival {
        var arrival = arrival
        guard outcome == nil, !hasEdges, let core = recipe?.core else { return arrival }
        do throws(RequestError) {
            let request = if let prepared { prepared } else { try PreparedRequest(core, baseURL: baseURL) }
            prepared = request
            progress.expectedSentBytes = request.body?.byteCount
            arrival.host = request.hostKey
        } catch {
            arrival.refusal = error.with(core.summary)
        }
        return arrival
    }

    /// What the output of a complete body is made of.
    struct Completion: Sendable {
        let recipe: Recipe
        let timings: Timings
        let progress: TransferProgress
        let earlierAttempts: [AttemptRecord]
        let isObserved: Bool
        let hasEdges: Bool
    }

    /// Whether anybody is to be told of events, in their order; progress alone has none.
    var isWatched: Bool { isMonitored || watch?.events != nil }

    /// How an operation is found by one that wants an edge to it.
    enum Standing: Sendable {
        /// It will tell the graph of its end, or has done so; the failure that is known already.
        case inGraph(RequestError?)
        /// It has ended, and the graph was not told.
        case beyondGraph(RequestError?)
    }

    /// Has the end told to the dependency graph, if that is still to come.
    mutating func joinGraph() -> Standing {
        if isBeyondGraph { return .beyondGraph(outcome?.error) }
        hasEdges = true
        return .inGraph(outcome?.error)
    }

    /// Whether the dependency graph is to be told of the end; without edges it never is.
    mutating func leavesGraph() -> Bool {
        isBeyondGraph = !hasEdges
        return hasEdges
    }

    /// What its slot depends on: the owner's wish, and whether it is at rest.
    struct Suspension: Equatable, Sendable {
        let isSuspended: Bool
        let awaitsSlot: Bool
        let number: UInt32
    }

    var suspension: Suspension {
        Suspension(isSuspended: isSuspended, awaitsSlot: awaitsSlot, number: suspensions)
    }

    /// Whether somebody's code runs inside the notifications of the state.
    var isObserved: Bool { watch?.stateObservers.isEmpty == false }

    /// Whether its bytes may not move: it is suspended, or was and has no slot yet.
    var isHeldBack: Bool { isSuspended || awaitsSlot }

    /// Whether starting looks at the file of a body; a download looks at its own on its own queue.
    var usesDisk: Bool { recipe?.core?.body?.usesDisk == true }
}

/// The attempt under way.
struct Transfer {
    let attempt: Attempt
    let task: any TransferTask
    /// What the owner has been given of it.
    var sessionTask: URLSessionTask?
    /// Whether the task was last told to run or to pause.
    var isRunning: Bool { didSet { runningChanges &+= 1 } }
    /// Whether the first `resume()` is on its way, outside the lock.
    var isSettingOff: Bool
    /// How often `isRunning` was told.
    private(set) var runningChanges: UInt32 = 0

    init(attempt: Attempt, task: any TransferTask, isRunning: Bool, isSettingOff: Bool) {
        (self.attempt, self.task, self.isRunning, self.isSettingOff) = (attempt, task, isRunning, isSettingOff)
    }
}

/// Somebody who wants the outcome.
struct FinishHandler: Sendable {
    let place: CallbackPlace
    let run: @Sendable (AnyOutcome) -> Void
}
