@testable import Convoy

// Performs the effects like `AnyRequestOperation` and `Scheduler`, one step at a time.
extension OperationWorld {
    mutating func enqueue() {
        slot = machine.isSuspended ? .givenBack : .queued
        toldSuspensions = machine.suspensionChanges
        // The operation had an outcome before it was enqueued.
        if machine.hasOutcome { steps.append(.start) }
    }

    mutating func cancel() {
        isCancelled = true
        let (phase, count) = (machine.phase, outcomes)
        conclude(.end(attempt: nil))
        if case .decoding(_, isCommitted: true) = phase, outcomes > count {
            fail("its file is there, and it is cancelled")
        }
    }

    private mutating func conclude(_ event: OperationStateMachine.Event) {
        let effects = handle(event)
        if effects.finishes {
            if task == .made || task == .running || task == .paused { task = .cancelled }
            steps.append(.finish)
        }
        if effects.abandons {
            steps.append(.deliver)
            // The queue starts the operations that it contains. The scheduler starts the others.
            if !isInQueue, !startedByHand, slot != .none { steps.append(.start) }
        }
    }

    mutating func startByHand() {
        startedByHand = true
        steps.append(.start)
    }

    mutating func suspend() {
        suspendCount += 1
        changeSuspension(.suspend(pausesInPlace: pausesInPlace))
    }

    mutating func resume() { changeSuspension(.resume) }

    private mutating func changeSuspension(_ event: OperationStateMachine.Event) {
        let effects = handle(event)
        guard effects.isTaken else { return }
        steps.append(.notifyScheduler)
        if effects.endsAttempt { steps.append(.endSuspendedAttempt) }
        if let attempt = effects.launches { steps.append(.launch(attempt)) }
        if effects.adjusts, pausesInPlace { steps.append(.adjust) }
    }

    mutating func giveSlot() {
        (slot, slotCount) = (.taken, slotCount + 1)
        if machine.isWaitingToStart, !isInQueue {
            if handle(.handoverBegan).isTaken {
                steps.append(.endHandover)
                isInQueue = true
            } else {
                steps.append(.start)
            }
        } else {
            steps.append(.resumeAttempt(.slotGiven(operationSlot)))
        }
    }

    private var operationSlot: OperationStateMachine.Slot {
        OperationStateMachine.Slot(number: slotCount, suspensionChanges: toldSuspensions)
    }

    mutating func endTask() {
        task = .ended
        if handle(.attemptEnded(attempt: taskAttempt)).isTaken { steps.append(.decide(taskAttempt)) }
    }

    mutating func hold() {
        (isReaderBehind, task, holdCount) = (true, .paused, holdCount + 1)
        _ = handle(.taskPaused(attempt: taskAttempt))
        // The reader may have caught up before the hold was recorded.
        steps.append(.adjust)
    }

    mutating func perform(_ step: Step) {
        switch step {
        case .endHandover: if handle(.handoverEnded).starts { steps.append(.start) }
        case .start:
            let effects = handle(.start(mayBeBlocked: false))
            if effects.begins { steps.append(.begin) }
            if effects.finishes { steps.append(.finish) }
        case .begin:
            // An attempt that is suspended before it begins releases its slot.
            if machine.isSuspended, slot == .taken {
                slot = .aside
                if handle(.putOff(attempt: 1)).isTaken { steps.append(.queueAgain) }
            } else {
                steps.append(.launch(1))
            }
        case .launch(let attempt):
            let event = OperationStateMachine.Event.launch(
                attempt: attempt, pausesInPlace: pausesInPlace, isClaim: true)
            steps.append(handle(event).isTaken ? .makeTask(attempt) : .leaveSlot)
        case .makeTask(let attempt): makeTask(attempt)
        case .resumeTask(let attempt):
            if task == .made, taskAttempt == attempt { task = .running }
            if handle(.taskResumed(attempt: attempt)).adjusts { steps.append(.adjust) }
        case .adjust: adjust()
        case .leaveSlot:
            if slot != .none, handle(.cameToRest).leavesSlot { steps.append(.notifyScheduler) }
        case .notifyScheduler: notifyScheduler()
        case .endSuspendedAttempt:
            if task == .made || task == .running || task == .paused { task = .cancelled }
            steps.append(.closeSuspendedAttempt)
        case .closeSuspendedAttempt:
            if let attempt = handle(.attemptClosed).launches {
                steps.append(.launch(attempt))
            } else {
                steps.append(.leaveSlot)
            }
        case .decide(let attempt): decide(attempt)
        case .queueAgain:
            _ = handle(.queued(slots: UInt32(slotCount)))
            if slot == .none {
                steps.append(.resumeAttempt(.slotGiven(nil)))
            } else if slot != .over {
                slot = machine.isSuspended ? .givenBack : .queued
            }
        case .decode(let attempt): conclude(.end(attempt: attempt))
        case .resumeAttempt(let event):
            let effects = handle(event)
            if let attempt = effects.launches { steps.append(.launch(attempt)) }
            if effects.adjusts, pausesInPlace { steps.append(.adjust) }
        case .finish:
            if handle(.finished).isTaken {
                if isFinishedTold { fail("finished twice") }
                isFinishedTold = true
                slot = .over
                steps.append(.deliver)
            }
            _ = handle(.delivery(.endNotified))
        case .deliver:
            guard handle(.delivery(.begin)).isTaken else { return }
            deliveries += 1
            if deliveries > 1 { fail("the handlers are called twice") }
            _ = handle(.delivery(.handlersSent(bounds.handlers)))
            steps += Array(repeating: .handlerReturns, count: bounds.handlers) + [.sendOff]
        case .sendOff: _ = handle(.delivery(.sentOff))
        case .handlerReturns:
            handlersRun += 1
            _ = handle(.delivery(.handlerReturned))
        }
    }

    private mutating func makeTask(_ attempt: Int) {
        if task == .made || task == .running || task == .paused { fail("two tasks at a time") }
        let effects = handle(.taskMade(attempt: attempt, pausesInPlace: pausesInPlace))
        guard effects.isTaken else { return steps.append(.leaveSlot) }
        (task, taskAttempt, isReaderBehind) = (.made, attempt, false)
        if machine.hasOutcome { fail("a task for an operation that has an outcome") }
        steps.append(effects.runsTask == true ? .resumeTask(attempt) : .leaveSlot)
    }

    private mutating func adjust() {
        guard pausesInPlace else { return }
        if let runs = handle(.adjust(isPaused: isReaderBehind)).runsTask {
            if runs, machine.mustWait { fail("a task runs that is held back") }
            if task == .made || task == .running || task == .paused { task = runs ? .running : .paused }
        }
        steps.append(.leaveSlot)
    }

    private mutating func notifyScheduler() {
        toldSuspensions = machine.suspensionChanges
        switch slot {
        case .taken where machine.awaitsSlot:
            guard !machine.isSuspended else {
                slot = .givenBack
                return
            }
            steps.append(.resumeAttempt(.slotKept(operationSlot)))
        case .queued where machine.isSuspended: slot = .givenBack
        case .givenBack where !machine.isSuspended: slot = .queued
        case .none, .queued, .taken, .givenBack, .aside, .over: break
        }
    }

    private mutating func decide(_ attempt: Int) {
        if attempt < bounds.attempts, handle(.repeats(attempt: attempt)).isTaken {
            task = .none
            if slot != .none, slot != .over { slot = .aside }
            return steps.append(.queueAgain)
        }
        if handle(.bodyComplete(attempt: attempt, commits: isCommitting)).isTaken {
            steps.append(.decode(attempt))
        }
    }

    // MARK: Invariants

    /// The defect of a state without pending steps; nil if the operation may stay in it.
    var stillness: String? {
        guard steps.isEmpty else { return nil }
        let isTaskThere = task == .made || task == .running || task == .paused
        switch machine.phase {
        case .finishing: return "it never finishes"
        case .deciding, .decoding: return "nothing decides what follows"
        case .abandoned where slot != .none && !isInQueue: return "it ended before its start and is never started"
        case .abandoned where deliveries == 0: return "its handlers wait for ever"
        case .waiting where slot != .queued && !machine.isSuspended: return "it waits for no slot"
        case .finished:
            if settlements != 1 { return "it never settles" }
            if !machine.delivery.isOver { return "its manager never forgets it" }
            if isTaskThere { return "its task goes on" }
        case .executing: return executingStillness(isTaskThere)
        case .pending where startedByHand || machine.handover != .none: return "its start is lost"
        case .pending, .abandoned, .waiting: break
        }
        return nil
    }

    private func executingStillness(_ isTaskThere: Bool) -> String? {
        if machine.isSuspended {
            if task == .running { return "a task runs though its operation is suspended" }
            return slot == .taken ? "it is at rest and keeps its slot" : nil
        }
        if !startedByHand, task == .running, slot != .taken { return "it runs without a slot" }
        if machine.awaitsSlot { return slot == .queued ? nil : "it awaits a slot that never comes" }
        if !isTaskThere { return "it has neither a task nor a wait" }
        if task == .made || task == .paused && !isReaderBehind { return "its task stands still" }
        if task == .running, isReaderBehind { return "its task runs though its body is not read" }
        return nil
    }
}
