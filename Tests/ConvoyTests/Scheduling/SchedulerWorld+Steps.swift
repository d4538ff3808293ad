import Foundation

@testable import Convoy

// Performs events and effects like `AnyRequestOperation` and `Scheduler`, one step at a time.
extension SchedulerWorld {
    func perform(_ step: Step, _ index: Int) {
        switch step {
        case .arrive, .dependent, .suspension, .priority, .prepare, .awaitSlot, .handOver, .answer, .abandoned,
            .notifyFinished, .notifySettled:
            performForScheduler(step, index)
        case .release: release(index)
        case .begin, .yield, .queueAgain: performWithSlot(step, index)
        case .follow(let priority): follow(priority, index)
        case .enter: enter(index)
        case .endHandover: if handle(.handoverEnded, index).starts { add(.start, index) }
        case .start: start(index)
        case .launch(let attempt): launch(attempt, index)
        case .makeTask(let attempt): makeTask(attempt, index)
        case .resumeTask(let attempt):
            if members[index].task == .made, members[index].taskAttempt == attempt { members[index].task = .running }
            if handle(.taskResumed(attempt: attempt), index).adjusts { add(.adjust, index) }
        case .adjust: adjust(index)
        case .leaveSlot:
            if members[index].queueEntry != nil, handle(.cameToRest, index).leavesSlot {
                tell(.suspension(members[index].machine.suspension), index)
            }
        case .attemptClosed:
            if let attempt = handle(.attemptClosed, index).launches {
                add(.launch(attempt), index)
            } else {
                add(.leaveSlot, index)
            }
        case .decide(let attempt): decide(attempt, index)
        case .decode(let attempt): conclude(.end(attempt: attempt), index)
        case .adapted:
            members[index].isAdapted = true
            add(.queueAgain, index)
        case .proceed(let attempt): proceed(attempt, index)
        case .resumeAttempt(let event): resumeAttempt(event, index)
        case .conclude(let event): conclude(event, index)
        case .finish: finish(index)
        case .deliver:
            if sendsHandlers(index) { add(.sendOff(hasHandlers: true, isEnd: false), index) }
        case .sendOff(let hasHandlers, let isEnd): sendOff(hasHandlers, isEnd, index)
        case .handlerReturns:
            if handle(.delivery(.handlerReturned), index).settles { add(.notifySettled, index) }
        }
    }

    func handle(_ event: Event, _ index: Int) -> OperationStateMachine.Effects {
        let effects = members[index].machine.handle(event)
        if effects.finishes || effects.abandons {
            if case .start = event {} else { members[index].outcomes += 1 }
            if members[index].outcomes > 1 { fail("\(index) has two outcomes") }
        }
        return effects
    }

    /// Adds a report, and at random the same report again.
    func tell(_ step: Step, _ index: Int) {
        guard members[index].queueEntry != nil || members[index].ends > 0 else { return }
        add(step, index)
        if random.below(8) == 0 { add(step, index) }
    }

    // MARK: The scheduler

    /// Performs an event, and then the work of `Scheduler.handingOver`.
    @discardableResult
    func handingOver<Result>(_ event: (inout SchedulerState) -> Result) -> Result {
        let result = event(&state)
        if defect != .nothingIsHandedOverAfterAnEvent || random.below(2) == 0, !state.isHandingOver { takeNext() }
        return result
    }

    func pump() { if !state.isHandingOver { takeNext() } }

    private func takeNext() {
        let isSuspended = state.isSuspended
        if defect == .suspensionOfTheManagerIsIgnored { state.isSuspended = false }
        let isQueueSuspended = state.isQueueSuspended
        if defect == .suspensionOfTheQueueIsIgnored { state.isQueueSuspended = false }
        let next = state.next(now)
        state.isQueueSuspended = isQueueSuspended
        state.isSuspended = isSuspended
        note(next.holds)
        if let dispatch = next.dispatch {
            let index = index(of: dispatch.operation)
            checkDispatch(index)
            add(.handOver(dispatch), index)
        } else if defect == .handingOverNeverEnds, random.below(20) == 0 {
            state.isHandingOver = true
        }
    }

    func noteNewHolds() { note(state.queues.takeNewHolds()) }

    private func note(_ newHolds: [HostQueues.NewHold]) {
        for hold in newHolds where defect != .aHoldIsNeverLifted {
            alarms.append((due(hold.until), .lift(hold.host.map { $0 == "a" ? 0 : $0 == "b" ? 1 : 2 })))
        }
    }

    func due(_ instant: ContinuousClock.Instant) -> Int {
        Int((now.duration(to: instant) / .milliseconds(1)).rounded(.up)) + milliseconds
    }

    private func handOver(_ dispatch: SchedulerState.Dispatch, _ index: Int) {
        if !dispatch.hasBegun, members[index].machine.isWaitingToStart {
            let startsHere =
                startsInPlace && members[index].isPlain && members[index].unfinished == 0 && queueLimit < 0
                && !isQueueSuspended && members[index].machine.phase == .pending
                && members[index].machine.handover == .none
            if queueKind == .callers {
                add(.start, index)
            } else if startsHere {
                let effects = handle(.start(mayBeBlocked: false), index)
                if effects.begins { add(.begin(1, members[index].machine.suspension), index) }
            } else {
                enter(index)
            }
        } else {
            resumeAttempt(.slotGiven(dispatch.slot), index)
        }
        if random.below(30) == 0 {
            // Many operations were started here, so another thread starts the rest.
            state.isHandingOver = false
            pumps += 1
        } else {
            takeNext()
        }
    }

    func perform(_ effects: SchedulerState.Effects, _ index: Int) {
        if let transfer = effects.transfer, defect != .aSharedTransferIsNotLeft {
            add(.follow(transfer.priority), self.index(of: transfer.operation))
        }
        if effects.enters, defect != .theQueueIsNotGivenWhatEnters || random.below(3) > 0 { add(.enter, index) }
        if effects.resumes { add(.resumeAttempt(.slotGiven(nil)), index) }
        for call in effects.calls { call() }
        if effects.isRefused { add(.conclude(.end(attempt: nil)), index) }
        if effects.starts, defect != .theAbandonedAreNotStarted { add(.start, index) }
        if let slot = effects.keeps, defect != .aKeptSlotIsNotTold { add(.resumeAttempt(.slotKept(slot)), index) }
        if effects.prepares, defect != .nothingIsPrepared || random.below(3) > 0 { add(.prepare, index) }
    }

    private func performForScheduler(_ step: Step, _ index: Int) {
        guard let queueEntry = members[index].queueEntry else { return }
        switch step {
        case .arrive(let arrival):
            perform(handingOver { $0.arrived(queueEntry, arrival) }, index)
        case .dependent(var word):
            if defect == .lateWordsOfDependenciesCount {
                word = Versioned(word.value, version: queueEntry.isDependent.version + 1)
            }
            if defect == .theEndOfDependenciesIsNotTold, !word.value { return }
            perform(
                word.value
                    ? handingOver { $0.dependenciesTold(queueEntry, word) } : state.dependenciesTold(queueEntry, word),
                index)
        case .suspension(var word):
            if defect == .lateWordsOfSuspensionCount {
                word = Versioned(word.value, version: queueEntry.suspension.version + 1)
            }
            if defect == .resumingIsNotTold, !word.value.isSuspended { return }
            perform(handingOver { $0.suspensionTold(queueEntry, word) }, index)
        case .priority(var word):
            if defect == .lateWordsOfPriorityCount {
                word = Versioned(word.value, version: queueEntry.priority.version + 1)
            }
            if defect == .prioritiesAreNotTold { return }
            perform(handingOver { $0.priorityTold(queueEntry, word) }, index)
        case .prepare: add(.awaitSlot(members[index].machine.suspension, hasBegun: false), index)
        case .awaitSlot(let suspension, let hasBegun): awaitSlot(suspension, hasBegun, queueEntry, index)
        case .handOver(let dispatch): handOver(dispatch, index)
        case .abandoned: perform(state.abandoned(queueEntry), index)
        case .notifyFinished(let isSettled):
            if defect == .theEndIsNotTold, random.below(4) == 0 { return }
            perform(handingOver { $0.finished(queueEntry, isSettled: isSettled) }, index)
        case .notifySettled: if defect != .theLastCallbackIsNotTold { for call in state.settled(queueEntry) { call() } }
        case .answer(let key, let suspension, let fails): answer(key, suspension, fails, queueEntry, index)
        default: break
        }
    }

    private func awaitSlot(_ suspension: Suspension, _ hasBegun: Bool, _ queueEntry: QueueEntry, _ index: Int) {
        let wish = OperationState.Wish(
            host: defect == .theNextHostIsNotTold && queueEntry.hasSent
                ? queueEntry.host : Self.name(members[index].host),
            hasBegun: hasBegun, asksInterceptors: members[index].intercepts,
            exclusion: defect == .exclusionsAreIgnored ? nil : members[index].exclusion, suspension: suspension)
        if let group = members[index].group, !members[index].hasAnswer, share(group, wish, queueEntry, index) {
            if hasBegun { add(.resumeAttempt(.queued(slots: queueEntry.slotCount)), index) }
            return
        }
        let (effects, slots) = handingOver { ($0.prepared(queueEntry, wish), queueEntry.slotCount) }
        perform(effects, index)
        if hasBegun { add(.resumeAttempt(.queued(slots: slots)), index) }
    }

    // MARK: Shared transfers

    private func share(_ group: Int, _ wish: OperationState.Wish, _ queueEntry: QueueEntry, _ index: Int) -> Bool {
        let next = members.count
        guard next < SchedulerWorldObjects.count, let key = SchedulerWorldObjects.key(of: group),
            let (change, isNew) = state.shares(queueEntry, key, new: SchedulerWorldObjects.operation(next), wish)
        else { return false }
        if isNew {
            let member = Member()
            (member.shared, member.host) = (key, members[index].host)
            member.priority = Versioned(queueEntry.priority.value, version: 1)
            members.append(member)
            enqueue(next)
        }
        add(.follow(change.priority), self.index(of: change.operation))
        return true
    }

    /// Handles a new priority of the subscribers, or the departure of the last subscriber.
    private func follow(_ priority: Versioned<Operation.QueuePriority>?, _ index: Int) {
        guard let priority else { return conclude(.end(attempt: nil), index) }
        if members[index].priority.take(priority) { tell(.priority(members[index].priority), index) }
    }

    /// Ends a shared transfer.
    func endTransfer(_ key: CoalescingKey, _ shared: Int) {
        for (operation, key) in state.coalescer.end(SchedulerWorldObjects.operation(shared), key) {
            let index = index(of: operation)
            if defect == .answersAreNotTold, random.below(3) == 0 { continue }
            add(.answer(key, members[index].machine.suspension, fails: random.below(4) == 0), index)
        }
    }

    private func answer(
        _ key: CoalescingKey, _ suspension: Suspension, _ fails: Bool, _ queueEntry: QueueEntry, _ index: Int
    ) {
        if fails {
            if queueEntry.shares(key) { conclude(.end(attempt: nil), index) }
        } else if let effects = state.answerCame(queueEntry, of: key, suspension) {
            members[index].hasAnswer = true
            perform(effects, index)
        }
    }

    /// Adds the operation to the operation queue.
    private func enter(_ index: Int) {
        guard handle(.handoverBegan, index).isTaken else { return }
        members[index].isInQueue = true
        add(.endHandover, index)
    }

    // MARK: The slot

    private func performWithSlot(_ step: Step, _ index: Int) {
        switch step {
        case .begin(let attempt, let suspension): begin(attempt, suspension, index)
        case .yield(let follow):
            if let queueEntry = members[index].queueEntry, defect != .slotsAreKeptDuringWaits {
                let isUnsent = if case .adapt = follow { true } else { false }
                handingOver { $0.yieldSlot(queueEntry, isUnsent: isUnsent) }
            }
            switch follow {
            case .time(let delay):
                members[index].waitsForTime = true
                alarms.append((milliseconds + delay, .ring(index)))
            case .adapt: add(.adapted, index)
            case .intercept(let attempt): add(.proceed(attempt), index)
            }
        case .queueAgain:
            if defect == .waitsAreForgotten, random.below(3) == 0 { return }
            add(.awaitSlot(members[index].machine.suspension, hasBegun: true), index)
        default: break
        }
    }

    private func begin(_ attempt: Int, _ suspension: Suspension, _ index: Int) {
        members[index].begins += 1
        if members[index].begins > 1 { fail("\(index) begins twice") }
        if let queueEntry = members[index].queueEntry {
            if members[index].hasAnswer {
                state.beginsWithAnswer(queueEntry)
            } else if !state.begins(queueEntry, suspension), defect != .whatMayNotBeginBegins {
                pump()
                if handle(.putOff(attempt: attempt), index).isTaken { add(.queueAgain, index) }
                return
            }
            if !members[index].hasAnswer, defect != .whatMayNotBeginBegins,
                queueEntry.status != .dispatched, !members[index].machine.hasOutcome
            {
                fail("\(index) begins without a slot")
            }
        }
        add(.launch(attempt), index)
    }
}
