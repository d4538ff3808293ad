@testable import Convoy

/// One operation without threads: its state machine, its pending steps, its task, its slot and its owner.
///
/// Threads perform some steps outside the operation's lock. These steps may run later and in any order.
///
/// A world is a value, so the exploration can copy it. The exploration tries all possible next steps of each world, and
/// visits each world once.
struct OperationWorld: Hashable {
    /// A step that a thread performs later.
    enum Step: Hashable {
        case endHandover
        case start
        case begin
        case launch(Int)
        case makeTask(Int)
        case resumeTask(Int)
        case adjust
        case leaveSlot
        /// Notifies the scheduler of a suspension or a resume.
        case notifyScheduler
        case endSuspendedAttempt
        case closeSuspendedAttempt
        case decide(Int)
        case queueAgain
        case decode(Int)
        case resumeAttempt(OperationStateMachine.Event)
        case finish
        case deliver
        case sendOff
        case handlerReturns
    }

    enum Slot: Hashable {
        case none, queued, taken
        /// The slot was released because of a suspension; a resume queues the operation again.
        case givenBack
        /// The slot was released after an attempt that another one follows, or because a suspension put off an attempt.
        ///
        /// The step `queueAgain` requests another slot, or a later resume does.
        case aside
        case over
    }

    enum TaskState: Hashable { case none, made, running, paused, cancelled, ended }

    struct Bounds: Hashable {
        var attempts = 2
        var suspensions = 2
        var holds = 1
        var handlers = 1
    }

    let bounds: Bounds
    let pausesInPlace: Bool
    let isCommitting: Bool
    var machine = OperationStateMachine()
    /// The pending steps, which have no order; they are sorted, so that equal worlds are equal.
    var steps: [Step] = []
    var slot = Slot.none
    var slotCount: UInt32 = 0
    /// The number of suspensions of which the scheduler was notified.
    var toldSuspensions: UInt32 = 0
    var task = TaskState.none
    var taskAttempt = 0
    var isReaderBehind = false
    var suspendCount = 0
    var holdCount = 0
    var isCancelled = false
    var isInQueue = false
    var startedByHand = false
    var outcomes = 0
    var deliveries = 0
    var settlements = 0
    var handlersRun = 0
    var isFinishedTold = false
    /// The first broken invariant; nil if there is none.
    var violation: String?

    init(_ bounds: Bounds = Bounds(), pausesInPlace: Bool, isCommitting: Bool = false) {
        (self.bounds, self.pausesInPlace, self.isCommitting) = (bounds, pausesInPlace, isCommitting)
    }

    /// All worlds that can follow, each with the name of its event.
    func successors(_ defect: Defect? = nil) -> [(String, OperationWorld)] {
        var result: [(String, OperationWorld)] = []
        func add(_ name: String, _ change: (inout OperationWorld) -> Void) {
            var next = self
            change(&next)
            next.steps.sort { $0.hashValue < $1.hashValue }
            result.append((name, next))
        }
        for (index, step) in steps.enumerated() where !steps[..<index].contains(step) {
            add("\(step)") {
                $0.steps.remove(at: index)
                $0.perform(step, defect)
            }
        }
        addOwner(add, defect)
        addSurroundings(add, defect)
        return result
    }

    /// Adds the actions of the owner.
    private func addOwner(_ add: (String, (inout OperationWorld) -> Void) -> Void, _ defect: Defect?) {
        if slot == .none, machine.isWaitingToStart { add("enqueue") { $0.enqueue() } }
        if !isCancelled { add("cancel") { $0.cancel(defect) } }
        if !startedByHand, slot == .none { add("start by hand") { $0.startByHand(defect) } }
        if !machine.isSuspended, suspendCount < bounds.suspensions { add("suspend") { $0.suspend(defect) } }
        if machine.isSuspended { add("resume") { $0.resume(defect) } }
    }

    /// Adds the actions of the scheduler, the queue, the transport and the reader of the body.
    private func addSurroundings(_ add: (String, (inout OperationWorld) -> Void) -> Void, _ defect: Defect?) {
        if slot == .queued { add("slot") { $0.giveSlot(defect) } }
        if isInQueue, machine.isWaitingToStart, !steps.contains(.start) {
            add("queue starts") { $0.steps.append(.start) }
        }
        if task == .running {
            add("task ends") { $0.endTask(defect) }
            if pausesInPlace, !isReaderBehind, holdCount < bounds.holds {
                add("reader falls behind") { $0.hold(defect) }
            }
        }
        if isReaderBehind {
            add("reader catches up") {
                $0.isReaderBehind = false
                $0.steps.append(.adjust)
            }
        }
    }

    // MARK: The state machine

    mutating func handle(
        _ event: OperationStateMachine.Event, _ defect: Defect?
    ) -> OperationStateMachine.Effects {
        guard let event = defect.map({ $0.changed(event, machine) }) ?? event else { return .dropped }
        var effects = machine.handle(event)
        defect?.change(&effects, of: event)
        if effects.finishes || effects.abandons {
            if case .start = event {} else { outcomes += 1 }
            if outcomes > 1 { violation = "two outcomes" }
        }
        if effects.settles {
            settlements += 1
            if settlements > 1 { violation = "settled twice" }
            if handlersRun < bounds.handlers { violation = "settled before a handler had returned" }
        }
        return effects
    }

    mutating func fail(_ text: String) { violation = violation ?? text }
}

extension OperationWorld {
    /// Possible mistakes of the state machine, or of the code that performs its effects; the exploration finds each.
    enum Defect: CaseIterable {
        // Events that are lost.
        case returnOfResume, pause, closeOfASuspendedAttempt, comingToRest, endOfHandover, failedWayIntoTheNextAttempt
        case askingForASlot, finishing, endForTheDelivery, returnOfAHandler, delivery
        // Events that are taken for others.
        case slotCountsThoughSuspendedSince, keptSlotBeginsWhatWaits, taskThatCannotPauseIsKept, readerIsNotAsked
        case cancellationEndsWhatIsCommitted
        // Effects that are lost or doubled.
        case startIsNotCalledAgain, resumeDoesNotLookAtTheTask, suspendDoesNotLookAtTheTask, resumeDoesNotLaunch
        case slotDoesNotLaunch, suspendedAttemptIsNotEnded, taskIsNotResumed, eventsDuringResumeAreNotLookedAt
        case handlersAreCalledByEach, secondOutcomeIsStored, slotIsNeverGivenBack

        /// Whether the exploration finds the defect only after more events than a short run visits.
        var isDeep: Bool { self == .slotCountsThoughSuspendedSince }
        var isCommitting: Bool { self == .cancellationEndsWhatIsCommitted }
        /// Whether the defect needs a transport that can pause.
        var pausesInPlace: Bool {
            switch self {
            case .returnOfResume, .pause, .readerIsNotAsked, .cancellationEndsWhatIsCommitted,
                .resumeDoesNotLookAtTheTask, .suspendDoesNotLookAtTheTask, .eventsDuringResumeAreNotLookedAt:
                true
            default: false
            }
        }

        /// The event that the machine handles instead; nil for none.
        func changed(_ event: OperationStateMachine.Event, _ machine: OperationStateMachine)
            -> OperationStateMachine.Event?
        {
            switch (self, event) {
            case (.returnOfResume, .taskResumed), (.pause, .taskPaused), (.closeOfASuspendedAttempt, .attemptClosed),
                (.comingToRest, .cameToRest), (.endOfHandover, .handoverEnded), (.askingForASlot, .queued),
                (.failedWayIntoTheNextAttempt, .putOff), (.finishing, .finished),
                (.endForTheDelivery, .delivery(.endNotified)), (.returnOfAHandler, .delivery(.handlerReturned)),
                (.delivery, .delivery(.begin)):
                return nil
            case (.slotCountsThoughSuspendedSince, .slotGiven(let slot?)):
                return .slotGiven(.init(number: slot.number, suspensionChanges: machine.suspensionChanges))
            case (.keptSlotBeginsWhatWaits, .slotKept(let slot)): return .slotGiven(slot)
            case (.taskThatCannotPauseIsKept, .taskMade(let attempt, false)):
                return .taskMade(attempt: attempt, pausesInPlace: true)
            case (.readerIsNotAsked, .adjust): return .adjust(isPaused: false)
            case (.cancellationEndsWhatIsCommitted, .end(attempt: nil)):
                guard case .decoding(let attempt, true) = machine.phase else { return event }
                return .end(attempt: attempt)
            default: return event
            }
        }

        func change(_ effects: inout OperationStateMachine.Effects, of event: OperationStateMachine.Event) {
            switch (self, event) {
            case (.startIsNotCalledAgain, .handoverEnded): effects.starts = false
            case (.resumeDoesNotLookAtTheTask, .resume), (.suspendDoesNotLookAtTheTask, .suspend),
                (.eventsDuringResumeAreNotLookedAt, .taskResumed):
                effects.adjusts = false
            case (.resumeDoesNotLaunch, .resume), (.slotDoesNotLaunch, .slotGiven): effects.launches = nil
            case (.suspendedAttemptIsNotEnded, .suspend): effects.endsAttempt = false
            case (.taskIsNotResumed, .taskMade): effects.runsTask = nil
            case (.handlersAreCalledByEach, .delivery(.begin)): effects.isTaken = true
            case (.secondOutcomeIsStored, .end): effects.finishes = true
            case (.slotIsNeverGivenBack, .cameToRest): effects.leavesSlot = false
            default: break
            }
        }
    }
}
