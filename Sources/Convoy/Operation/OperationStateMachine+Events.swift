// The events of a request operation, their effects, and queries of its state.

extension OperationStateMachine {
    enum Event: Hashable, Sendable {
        // The handover to an operation queue, and the start.
        case handoverBegan
        case handoverEnded
        /// `start()` was called. If the operation may be blocked, the caller checks the dependency graph first.
        case start(mayBeBlocked: Bool)

        // Suspending and resuming, by the owner or by the group.
        case suspend(pausesInPlace: Bool)
        case resume

        // The task that moves the bytes of an attempt.
        /// Asks whether an attempt may be launched. If `isClaim` is true, the caller makes its task next.
        case launch(attempt: Int, pausesInPlace: Bool, isClaim: Bool)
        case taskMade(attempt: Int, pausesInPlace: Bool)
        case taskNotMade
        case taskResumed(attempt: Int)
        case taskPaused(attempt: Int)
        /// Checks whether the task should run or pause. `isPaused` means back-pressure or a rate limit.
        case adjust(isPaused: Bool)
        /// The attempt that a suspension ended no longer uses its sink.
        case attemptClosed
        /// The task was paused, has ended, or was not made, so the slot may be released.
        case cameToRest

        // Slots and attempts.
        /// A slot was given; nil when none is needed.
        case slotGiven(Slot?)
        /// The operation was resumed before it released its slot.
        case slotKept(Slot)
        case putOff(attempt: Int)
        /// The waiting attempt has requested a slot. The operation had this many slots before, which are released.
        case queued(slots: UInt32)
        case attemptEnded(attempt: Int)
        case repeats(attempt: Int)
        case bodyComplete(attempt: Int, commits: Bool)

        // The outcome and its delivery.
        /// An outcome of the attempt with this number; nil for an outcome from elsewhere, such as a cancellation.
        case end(attempt: Int?)
        case endBeforeStart
        /// The operation finishes: `isFinished` becomes true, and `isExecuting` is false.
        case finished
        case delivery(HandlerDelivery.Event)
    }

    /// A slot of the manager.
    ///
    /// The operation may be notified of a slot that it has already used or released.
    struct Slot: Hashable, Sendable {
        /// The slot's number among the slots of the operation, from 1.
        let number: UInt32
        /// The number of suspensions plus resumptions of the operation when it got the slot.
        let suspensionChanges: UInt32
    }

    /// The effects of an event; empty if the event is dropped.
    struct Effects: Hashable, Sendable {
        var isTaken = false
        /// Check the dependency graph, then continue `start()`.
        var looksAtGraph = false
        var begins = false
        var launches: Int?
        /// Cancel the task of the running attempt, close its sink, then send ``Event/attemptClosed``.
        var endsAttempt = false
        var runsTask: Bool?
        /// Check whether the task should run or pause, with ``AnyRequestOperation/adjustTask()``.
        var adjusts = false
        /// Release the slot, unless the operation is resumed first.
        var leavesSlot = false
        var starts = false
        /// Close the attempt, notify the observers, and deliver the outcome, which is stored.
        var finishes = false
        /// Deliver the outcome, which is stored before the start; the operation finishes later.
        var abandons = false
        /// All handlers have returned: call the settled hooks, and release the operation if its end was notified too.
        var settles = false

        static let dropped = Effects()
        static let taken = Effects(isTaken: true)
    }
}

extension OperationStateMachine {
    var isExecuting: Bool {
        switch phase {
        case .executing, .deciding, .waiting, .decoding, .finishing(wasExecuting: true): true
        case .pending, .abandoned, .finishing(wasExecuting: false), .finished: false
        }
    }

    var isFinished: Bool { phase == .finished }

    var isWaitingToStart: Bool { phase == .pending || phase == .abandoned }

    var hasOutcome: Bool {
        switch phase {
        case .pending, .executing, .deciding, .waiting, .decoding: false
        case .abandoned, .finishing, .finished: true
        }
    }

    /// The number of the running attempt; nil before the first, between two, and once the body is complete.
    var currentAttempt: Int? {
        if case .executing(let attempt) = phase { attempt } else { nil }
    }

    var isSuspended: Bool { suspensionChanges % 2 == 1 }

    /// The state that decides about the operation's slot: whether the operation is suspended, and whether it is idle.
    struct Suspension: Sendable {
        var changes: UInt32 = 0
        var awaitsSlot = false
        var isSuspended: Bool { changes % 2 == 1 }
    }

    /// The suspension with a version that is computed from ``suspensionChanges``.
    ///
    /// The version is twice the number of changes plus 2, or plus 1 while `awaitsSlot` differs from `isSuspended`.
    /// Between two calls of `suspend()` or `resume()`, `awaitsSlot` changes at most once, and then equals
    /// `isSuspended`. So the version only grows.
    var suspension: Versioned<Suspension> {
        Versioned(
            Suspension(changes: suspensionChanges, awaitsSlot: awaitsSlot),
            version: 2 &* suspensionChanges &+ (isSuspended == awaitsSlot ? 2 : 1))
    }

    /// Whether no bytes may move: the operation is suspended, or was suspended and has no slot yet.
    var mustWait: Bool { isSuspended || awaitsSlot }
}

extension OperationStateMachine.Phase {
    var words: String {
        switch self {
        case .pending: "not started"
        case .abandoned: "ended before its start"
        case .executing(let attempt): attempt == 1 ? "executing" : "executing, attempt \(attempt)"
        case .deciding(let attempt): "executing, after attempt \(attempt)"
        case .waiting(let attempt): "executing, before attempt \(attempt)"
        case .decoding: "decoding"
        case .finishing: "finishing"
        case .finished: "finished"
        }
    }
}

/// The progress of delivering an outcome; a part of ``OperationStateMachine``.
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
        /// The outcome is stored. The first event of this kind starts the calls of the handlers.
        case begin
        /// Handlers are about to be dispatched; this many of them will report their return.
        case handlersSent(Int)
        case handlerReturned
        case sentOff
        case endNotified
    }

    /// The number of dispatched handlers that have not returned; the dispatch itself counts as one.
    private(set) var runningHandlers: Int32 = 0
    private(set) var phase = Phase.unsent
    private(set) var isSettled = false
    private(set) var hasNotifiedEnd = false

    var hasBegun: Bool { phase != .unsent }

    /// Whether the operation has finished and its last handler has returned.
    var isOver: Bool { isSettled && hasNotifiedEnd }

    mutating func handle(_ event: Event) -> OperationStateMachine.Effects {
        switch event {
        case .begin:
            guard phase == .unsent else { return .dropped }
            // The dispatch counts as one, so that the count cannot be zero before all handlers are dispatched.
            (phase, runningHandlers) = (.sending, runningHandlers + 1)
        case .handlersSent(let count):
            guard phase == .sending else { return .dropped }
            runningHandlers += Int32(clamping: count)
        case .handlerReturned:
            guard runningHandlers > 0 else { return .dropped }
            runningHandlers -= 1
        case .sentOff:
            guard phase == .sending else { return .dropped }
            (phase, runningHandlers) = (.sent, runningHandlers - 1)
        case .endNotified: hasNotifiedEnd = true
        }
        guard runningHandlers == 0, phase == .sent, !isSettled else { return .taken }
        isSettled = true
        return OperationStateMachine.Effects(isTaken: true, settles: true)
    }
}
