// What can happen to a request operation, what follows from it, and what is asked about its state.

extension OperationStateMachine {
    enum Event: Hashable, Sendable {
        // The way into a queue, and the start.
        case handoverBegan
        case handoverEnded
        /// `start()`. The dependency graph may have to be asked first, unless it has been.
        case start(mayBeBlocked: Bool)

        // The owner.
        case suspend(pausesInPlace: Bool)
        case resume

        // The task.
        /// An attempt may be about to be launched; claimed: its task is made next.
        case launch(attempt: Int, pausesInPlace: Bool, isClaim: Bool)
        case taskMade(attempt: Int, pausesInPlace: Bool)
        case taskNotMade
        /// The first `resume()` has returned.
        case taskResumed(attempt: Int)
        /// The transport holds the task until it is resumed.
        case taskHeld(attempt: Int)
        /// The task may have to run or to pause; whether what was received has to be read, written or paid for first.
        case adjust(isHeld: Bool)
        /// What a suspension has ended uses its sink no more.
        case attemptClosed
        /// The task has been paused, has ended, or was not made: the slot may be of use to others.
        case cameToRest

        // Attempts.
        /// A slot was given; nil when none is needed.
        case slotGiven(Slot?)
        /// It was resumed before others could have its slot.
        case slotKept(Slot)
        /// The attempt cannot be begun yet.
        case putOff(attempt: Int)
        /// The attempt that waits has asked for a slot, when the operation had had so many: those are released.
        case queued(slots: UInt32)
        case attemptEnded(attempt: Int)
        /// Another one follows.
        case repeats(attempt: Int)
        case bodyComplete(attempt: Int, commits: Bool)

        // The end.
        /// An outcome; of an attempt, or of whatever is under way.
        case end(attempt: Int?)
        /// An outcome that counts only before the start.
        case endBeforeStart
        /// `isExecuting` turns false, `isFinished` true.
        case finished
        case delivery(HandlerDelivery.Event)
    }

    /// A slot of the manager's, of which word may come late: after it was used, or after it was given back.
    struct Slot: Hashable, Sendable {
        /// Its number among those that the operation has had, from 1.
        let number: UInt32
        /// How often the operation had been suspended and resumed when it got the slot.
        let suspensionChanges: UInt32
    }

    /// What is to be done after an event; of an event that is dropped, nothing.
    struct Effects: Hashable, Sendable {
        /// The event counted.
        var isTaken = false
        /// The dependency graph is to be asked; then `start()` goes on.
        var looksAtGraph = false
        /// The first attempt begins.
        var begins: Int?
        /// An attempt is to be launched.
        var launches: Int?
        /// The task of the attempt under way is to be cancelled and its sink closed; then ``Event/attemptClosed`` follows.
        var endsAttempt = false
        /// `resume()` or `suspend()` is to be called on the task.
        var runsTask: Bool?
        /// The state of the task is to be looked at, on the queue for tasks.
        var adjusts = false
        /// The slot is to be given back, unless it is resumed before.
        var leavesSlot = false
        /// `start()` is to be called.
        var starts = false
        /// The outcome is stored: close what is under way, notify, deliver.
        var finishes = false
        /// The outcome is stored before the start: deliver; `start()` finishes the operation.
        var abandons = false
        /// The last handler has returned.
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

    /// Whether `start()` is still to come.
    var isWaitingToStart: Bool { phase == .pending || phase == .abandoned }

    /// Whether the outcome is stored.
    var hasOutcome: Bool {
        switch phase {
        case .pending, .executing, .deciding, .waiting, .decoding: false
        case .abandoned, .finishing, .finished: true
        }
    }

    /// The number of the attempt under way; nil before the first, between two, and once the body is complete.
    var currentAttempt: Int? {
        if case .executing(let attempt) = phase { attempt } else { nil }
    }

    /// Whether what arrives for an attempt still counts.
    func accepts(attempt: Int) -> Bool { currentAttempt == attempt }

    /// Whether the owner has suspended it.
    var isSuspended: Bool { suspensionChanges % 2 == 1 }

    /// What its slot depends on: the owner's wish, and whether it is at rest.
    struct Suspension: Sendable {
        var isSuspended = false
        var awaitsSlot = false
        /// How often it was suspended and resumed.
        var changes: UInt32 = 0
    }

    /// The same with the number of the change, which is known without being counted.
    ///
    /// Between two changes of the owner's it changes once at most: one that is suspended comes to rest, and one that is
    /// resumed goes on.
    var suspension: Versioned<Suspension> {
        Versioned(
            Suspension(isSuspended: isSuspended, awaitsSlot: awaitsSlot, changes: suspensionChanges),
            version: 2 &* suspensionChanges &+ (isSuspended == awaitsSlot ? 2 : 1))
    }

    /// Whether its bytes may not move: it is suspended, or was and has no slot yet.
    var isHeldBack: Bool { isSuspended || awaitsSlot }
}

extension OperationStateMachine.Phase {
    /// The phase for people.
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
