// The state machine of a request operation, a pure value. Events go in, effects come out.

/// The life of an operation, from creation until its last handler has returned.
///
/// The state machine has no lock, no I/O and no user code. `AnyRequestOperation` guards it with a lock, passes it one
/// ``Event`` at a time and performs the ``Effects`` outside the lock. `OperationStateMachineTests` lists the result of
/// every event at each stage. `OperationExplorationTests` run through every order of events.
struct OperationStateMachine: Hashable, Sendable {
    enum Phase: Hashable, Sendable {
        /// Made, perhaps queued, not started. Next: executing, abandoned.
        case pending
        /// Cancelled or failed before its start. The outcome is stored and delivered. Next: finishing, at its start.
        case abandoned
        /// The attempt with this number is running. Next: deciding, decoding, waiting, executing with a higher number,
        /// finishing.
        case executing(attempt: Int)
        /// The attempt has ended, and the operation decides what follows. Next: decoding, waiting with the next
        /// number, finishing.
        case deciding(attempt: Int)
        /// The next attempt has this number. It waits for a delay, a slot, an interceptor or a file descriptor. Next:
        /// executing, finishing.
        case waiting(attempt: Int)
        /// The body is complete and is being decoded. If committed, its file is being moved into place, so a
        /// cancellation no longer has an effect. Next: finishing.
        case decoding(attempt: Int, isCommitted: Bool)
        /// The outcome is stored, and notifications are being sent. Next: finished.
        case finishing(wasExecuting: Bool)
        /// The operation has finished. No event changes this phase.
        case finished
    }

    /// The task of the running attempt.
    enum Transfer: Hashable, Sendable {
        /// There is no task. Next: launching.
        case none
        /// A task is being made, or the previous task is being ended. Next: none, settingOff, paused.
        case launching
        /// The first `resume()` is being called. `runs` is false if the transport has paused the task during that call.
        /// Next: running, paused, none, launching.
        case settingOff(runs: Bool)
        /// The task was last resumed. Next: paused, none, launching.
        case running
        /// The task was last paused, or paused itself. Next: running, none, launching.
        case paused

        var isMade: Bool { self != .none && self != .launching }

        var isPaused: Bool { self == .paused || self == .settingOff(runs: false) }
    }

    /// The handover to an operation queue, which traps on operations that have begun.
    enum Handover: Hashable, Sendable {
        case none
        case underWay
        /// `start()` was called during the handover. It is called again afterwards.
        case startWanted
    }

    private(set) var phase = Phase.pending
    private(set) var transfer = Transfer.none
    private(set) var handover = Handover.none
    private(set) var delivery = HandlerDelivery()
    /// The number of suspensions plus resumptions; odd while the operation is suspended.
    ///
    /// A slot that was given before the last change does not count. The scheduler is notified of the change. It then
    /// gives another slot, or confirms the present one with `slotKept`.
    private(set) var suspensionChanges: UInt32 = 0
    /// The number of the last slot that the operation used or released; slots up to this number are ignored.
    private(set) var lastSlot: UInt32 = 0
    private(set) var isQueued = false
    /// A slot that the scheduler gave before the event `queued` arrived; it may be out of date.
    ///
    /// `queued` then uses the slot, or drops it if its number is not above ``lastSlot``.
    private(set) var offeredSlot: Slot?
    /// Whether a suspension has made the operation idle: its slot may be released, and it needs another to move bytes.
    private(set) var awaitsSlot = false
    /// Whether the running attempt has no task yet, because the operation was suspended.
    private(set) var isResting = false

    mutating func handle(_ event: Event) -> Effects {
        switch event {
        case .handoverBegan:
            guard isWaitingToStart else { return .dropped }
            handover = .underWay
            return .taken
        case .handoverEnded:
            guard handover != .none else { return .dropped }
            defer { handover = .none }
            return Effects(isTaken: true, starts: handover == .startWanted)
        case .start(let mayBeBlocked): return start(mayBeBlocked)
        case .suspend(let pausesInPlace): return suspend(pausesInPlace)
        case .resume: return resume()
        case .launch(let attempt, let pausesInPlace, let isClaim):
            guard currentAttempt == attempt, transfer == .none else { return .dropped }
            isResting = mustWait && !pausesInPlace
            guard !isResting else { return .dropped }
            if isClaim { transfer = .launching }
            return .taken
        case .taskMade(let attempt, let pausesInPlace): return taskMade(attempt, pausesInPlace)
        case .taskNotMade:
            guard transfer == .launching else { return .dropped }
            transfer = .none
            return .taken
        case .taskResumed(let attempt):
            guard currentAttempt == attempt, case .settingOff(let runs) = transfer else { return .dropped }
            transfer = runs ? .running : .paused
            // Changes made during the first `resume()` have waited until now, because that call would have undone them.
            return Effects(isTaken: true, adjusts: mustWait || !runs)
        case .taskPaused(let attempt):
            guard currentAttempt == attempt, transfer.isMade else { return .dropped }
            if case .settingOff = transfer { transfer = .settingOff(runs: false) } else { transfer = .paused }
            return .taken
        case .adjust(let isPaused):
            let runs = !mustWait && !isPaused
            guard currentAttempt != nil, transfer == (runs ? .paused : .running) else { return .dropped }
            transfer = runs ? .running : .paused
            return Effects(isTaken: true, runsTask: runs)
        case .attemptClosed:
            guard transfer == .launching else { return .dropped }
            (transfer, isResting) = (.none, true)
            return takeResting().map { Effects(isTaken: true, launches: $0) } ?? .taken
        case .cameToRest:
            guard isSuspended, currentAttempt != nil, transfer == .none || transfer == .paused else { return .dropped }
            awaitsSlot = true
            return Effects(isTaken: true, leavesSlot: true)
        case .slotGiven(let slot): return slotGiven(slot)
        case .slotKept(let slot): return slotKept(slot)
        case .putOff(let attempt):
            guard currentAttempt == attempt else { return .dropped }
            (phase, isQueued, offeredSlot) = (.waiting(attempt: attempt), false, nil)
            return .taken
        case .queued(let slots): return queued(slots)
        case .attemptEnded(let attempt):
            guard currentAttempt == attempt else { return .dropped }
            phase = .deciding(attempt: attempt)
            return .taken
        case .repeats(let attempt):
            guard phase == .deciding(attempt: attempt) else { return .dropped }
            (phase, transfer, isQueued, offeredSlot) = (.waiting(attempt: attempt + 1), .none, false, nil)
            return .taken
        case .bodyComplete(let attempt, let commits):
            guard currentAttempt == attempt || phase == .deciding(attempt: attempt) else { return .dropped }
            phase = .decoding(attempt: attempt, isCommitted: commits)
            return .taken
        case .end(let attempt): return end(attempt)
        case .endBeforeStart: return endBeforeStart()
        case .finished:
            guard case .finishing = phase else { return .dropped }
            phase = .finished
            return .taken
        case .delivery(let event):
            guard event != .begin || hasOutcome else { return .dropped }
            return delivery.handle(event)
        }
    }

    private mutating func start(_ mayBeBlocked: Bool) -> Effects {
        guard handover == .none else {
            handover = .startWanted
            return .taken
        }
        if mayBeBlocked, phase == .pending { return Effects(looksAtGraph: true) }
        switch phase {
        case .pending:
            phase = .executing(attempt: 1)
            return Effects(isTaken: true, begins: true)
        case .abandoned:
            phase = .finishing(wasExecuting: false)
            return Effects(isTaken: true, finishes: true)
        case .executing, .deciding, .waiting, .decoding, .finishing, .finished: return .dropped
        }
    }

    private mutating func suspend(_ pausesInPlace: Bool) -> Effects {
        guard !isSuspended, !hasOutcome else { return .dropped }
        suspensionChanges &+= 1
        guard !pausesInPlace, transfer.isMade, numberNextAttempt() else { return Effects(isTaken: true, adjusts: true) }
        // The next attempt is not launched until this one has stopped writing.
        transfer = .launching
        return Effects(isTaken: true, endsAttempt: true)
    }

    private mutating func resume() -> Effects {
        guard isSuspended, !hasOutcome else { return .dropped }
        suspensionChanges &+= 1
        if let attempt = takeResting() { return Effects(isTaken: true, launches: attempt) }
        return Effects(isTaken: true, adjusts: true)
    }

    private mutating func queued(_ slots: UInt32) -> Effects {
        guard case .waiting = phase else { return .dropped }
        (isQueued, lastSlot) = (true, max(lastSlot, slots))
        defer { offeredSlot = nil }
        guard let offeredSlot, offeredSlot.number > lastSlot else { return .taken }
        return slotGiven(offeredSlot)
    }

    private mutating func slotGiven(_ slot: Slot?) -> Effects {
        // The slot was used or released already. The waiting attempt needs another one.
        if let slot, slot.number <= lastSlot { return .dropped }
        guard case .waiting(let attempt) = phase else { return slotKept(slot) }
        guard isQueued || slot == nil else {
            offeredSlot = slot
            return .taken
        }
        _ = slotKept(slot)
        if let slot { lastSlot = slot.number }
        phase = .executing(attempt: attempt)
        return Effects(isTaken: true, launches: attempt)
    }

    /// Continues a suspended operation, unless a later suspension may have released the slot.
    private mutating func slotKept(_ slot: Slot?) -> Effects {
        switch phase {
        case .executing: if let slot { lastSlot = max(lastSlot, slot.number) }
        // The waiting attempt begins with its slot, which may still arrive.
        case .waiting: break
        case .pending, .abandoned, .deciding, .decoding, .finishing, .finished: return .dropped
        }
        if !isSuspended, slot?.suspensionChanges ?? suspensionChanges == suspensionChanges { awaitsSlot = false }
        if let attempt = takeResting() { return Effects(isTaken: true, launches: attempt) }
        return Effects(isTaken: true, adjusts: transfer.isPaused)
    }

    /// The attempt to launch because the operation is no longer suspended; nil if there is none.
    private mutating func takeResting() -> Int? {
        guard isResting, !mustWait else { return nil }
        isResting = false
        return currentAttempt
    }

    /// Gives the running attempt the next number; false if no attempt is running.
    private mutating func numberNextAttempt() -> Bool {
        guard let attempt = currentAttempt else { return false }
        phase = .executing(attempt: attempt + 1)
        return true
    }

    private mutating func taskMade(_ attempt: Int, _ pausesInPlace: Bool) -> Effects {
        guard transfer == .launching else { return .dropped }
        transfer = .none
        guard currentAttempt == attempt else { return .dropped }
        if mustWait, !pausesInPlace {
            isResting = numberNextAttempt()
            return .dropped
        }
        transfer = mustWait ? .paused : .settingOff(runs: true)
        return mustWait ? .taken : Effects(isTaken: true, runsTask: true)
    }

    /// Handles an outcome; only the first is accepted.
    private mutating func end(_ attempt: Int?) -> Effects {
        if phase == .pending, attempt == nil { return endBeforeStart() }
        let isMeant =
            switch phase {
            case .executing(let current), .deciding(let current), .waiting(let current):
                attempt == nil || attempt == current
            case .decoding(let current, let isCommitted): attempt == current || attempt == nil && !isCommitted
            case .pending, .abandoned, .finishing, .finished: false
            }
        guard isMeant else { return .dropped }
        (phase, transfer) = (.finishing(wasExecuting: true), .none)
        return Effects(isTaken: true, finishes: true)
    }

    private mutating func endBeforeStart() -> Effects {
        guard phase == .pending else { return .dropped }
        phase = .abandoned
        return Effects(isTaken: true, abandons: true)
    }
}
