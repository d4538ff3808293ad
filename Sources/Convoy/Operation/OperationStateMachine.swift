// The state machine of a request operation, a pure value. Events go in, effects come out.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// No lock, no I/O, no user code: `AnyRequestOperation` guards it with a lock, passes it one ``Event`` at a time and
// performs the ``Effects`` outside the lock. `OperationExplorationTests` run through every order of events.
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
    // Odd while the operation is suspended. A slot that was given before the last change does not count: the scheduler,
    // notified of the change, gives another slot or confirms the present one with `slotKept`.
    private(set) var suspensionChanges: UInt32 = 0
    /// The number of the last slot that the operation used or released; slots up to this number are ignored.
    private(set) var lastSlot: UInt32 = 0
    private(set) var isQueued = false
    // May be out of date. The event `queued` uses it, or drops it if its number is not above ``lastSlot``.
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

    private mutating func takeResting() -> Int? {
        guard isResting, !mustWait else { return nil }
        isResting = false
        return currentAttempt
    }

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
        case attemptClosed
        /// The task was paused, has ended, or was not made, so the slot may be released.
        case cameToRest

        // Slots and attempts.
        case slotGiven(Slot?)
        case slotKept(Slot)
        case putOff(attempt: Int)
        /// The waiting attempt has requested a slot. The operation had this many slots before, which are released.
        case queued(slots: UInt32)
        case attemptEnded(attempt: Int)
        case repeats(attempt: Int)
        case bodyComplete(attempt: Int, commits: Bool)

        // The outcome and its delivery.
        case end(attempt: Int?)
        case endBeforeStart
        case finished
        case delivery(HandlerDelivery.Event)
    }

    struct Slot: Hashable, Sendable {
        let number: UInt32
        let suspensionChanges: UInt32
    }

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
        var leavesSlot = false
        var starts = false
        var finishes = false
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

    // Twice the number of changes plus 2, or plus 1 while `awaitsSlot` differs from `isSuspended`. Between two calls of
    // `suspend()` or `resume()`, `awaitsSlot` changes at most once, and then equals `isSuspended`. So the version only
    // grows.
    var suspension: Versioned<Suspension> {
        Versioned(
            Suspension(changes: suspensionChanges, awaitsSlot: awaitsSlot),
            version: 2 &* suspensionChanges &+ (isSuspended == awaitsSlot ? 2 : 1))
    }

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

    private(set) var runningHandlers: Int32 = 0
    private(set) var phase = Phase.unsent
    private(set) var isSettled = false
    private(set) var hasNotifiedEnd = false

    var hasBegun: Bool { phase != .unsent }

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

// What most queued operations lack; made when the first value is set. Used only under the operation's lock. Not
// `Sendable`, so the compiler prevents its use outside the lock.
final class ExecutionState {
    // `@exclusivity(unchecked)` is safe, because the operation's lock excludes other accesses.
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

extension OperationState {
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
