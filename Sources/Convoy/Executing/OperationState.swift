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
    var scheduler: Scheduler?
    var ticket: TicketReference?

    /// The attempt under way and its task.
    var transfer: Transfer?
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

    init(recipe: Recipe) { self.recipe = recipe }

    /// Claims the start; one that comes while the operation is on its way into a queue waits until it is there.
    ///
    /// Foundation takes the locks of queue and operation in one order when it adds, in the other when one finishes.
    mutating func start() -> OperationStateMachine.StartEffect {
        guard !isBeingHandedOver else {
            isStartWanted = true
            return .ignore
        }
        return machine.start()
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

    /// Whether its bytes may not move: it is suspended, or was and has no slot yet.
    var isHeldBack: Bool { isSuspended || awaitsSlot }

    /// Whether starting looks at the file of a body; a download looks at its own on its own queue.
    var usesDisk: Bool { recipe?.core?.body?.usesDisk == true }
}

/// The attempt under way.
struct Transfer {
    let attempt: Attempt
    let task: URLSessionTask
    /// Whether the task was last told to run or to pause.
    var isRunning: Bool { didSet { runningChanges &+= 1 } }
    /// Whether the first `resume()` is on its way, outside the lock.
    var isSettingOff: Bool
    /// How often `isRunning` was told.
    private(set) var runningChanges: UInt32 = 0

    init(attempt: Attempt, task: URLSessionTask, isRunning: Bool, isSettingOff: Bool) {
        (self.attempt, self.task, self.isRunning, self.isSettingOff) = (attempt, task, isRunning, isSettingOff)
    }
}

/// Somebody who wants the outcome.
struct FinishHandler: Sendable {
    let place: CallbackPlace
    let run: @Sendable (AnyOutcome) -> Void
}
