import Foundation

@testable import Convoy

// What `AnyRequestOperation`, `Scheduler` and `Coalescer` do with events and effects, a step at a time.
extension SchedulerWorld {
    func perform(_ step: Step, _ index: Int) {
        switch step {
        case .arrive, .dependent, .suspension, .priority, .prepare, .prepared, .handOver, .joined, .answer, .leave,
            .abandoned, .tellFinished, .tellSettled:
            performForScheduler(step, index)
        case .release: release(index)
        case .begin, .yield, .queueAgain, .requeue, .awaitDescriptor: performWithSlot(step, index)
        case .endHandover: if handle(.handoverEnded, index).starts { add(.start, index) }
        case .start: start(index)
        case .launch(let attempt): launch(attempt, index)
        case .makeTask(let attempt): makeTask(attempt, index)
        case .resumeTask(let attempt):
            if members[index].task == .made, members[index].taskAttempt == attempt { members[index].task = .running }
            if handle(.taskResumed(attempt: attempt), index).adjusts { add(.adjust, index) }
        case .adjust: adjust(index)
        case .leaveSlot:
            if members[index].ticket != nil, handle(.cameToRest, index).leavesSlot {
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
            if handle(.delivery(.handlerReturned), index).settles { add(.tellSettled, index) }
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

    /// A word, which may also be told twice.
    func tell(_ step: Step, _ index: Int) {
        guard members[index].ticket != nil || members[index].ends > 0 else { return }
        add(step, index)
        if random.below(8) == 0 { add(step, index) }
    }

    // MARK: The scheduler

    /// An event, and what `Scheduler.handingOver` does after it.
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
        let next = state.next(placeLimit, now)
        state.isSuspended = isSuspended
        noteNewHolds()
        if let next {
            let index = index(of: next.operation)
            checkDispatch(index)
            add(.handOver(next), index)
        } else if defect == .handingOverNeverEnds, random.below(20) == 0 {
            state.isHandingOver = true
        }
    }

    func noteNewHolds() {
        for hold in state.queues.takeNewHolds() where defect != .aHoldIsNeverLifted {
            alarms.append((due(hold.until), .lift(hold.host.map { $0 == "a" ? 0 : $0 == "b" ? 1 : 2 })))
        }
    }

    func due(_ instant: ContinuousClock.Instant) -> Int {
        Int((now.duration(to: instant) / .milliseconds(1)).rounded(.up)) + milliseconds
    }

    private func handOver(_ dispatch: SchedulerState.Dispatch, _ index: Int) {
        if !dispatch.hasBegun, members[index].machine.isWaitingToStart {
            if startsInPlace, members[index].isPlain, members[index].unfinished == 0, queueLimit < 0, !isQueueSuspended,
                members[index].machine.phase == .pending, members[index].machine.handover == .none
            {
                let effects = handle(.start(mayBeBlocked: false), index)
                if let attempt = effects.begins { add(.begin(attempt, members[index].machine.suspension), index) }
            } else {
                handOver(index)
            }
        } else {
            resumeAttempt(.slotGiven(dispatch.slot), index)
        }
        if random.below(30) == 0 {
            // Many were started here: the rest comes on another thread.
            state.isHandingOver = false
            pumps += 1
        } else {
            takeNext()
        }
    }

    func perform(_ effects: SchedulerState.Effects, _ index: Int) {
        if let transfer = effects.leaves, defect != .aSharedTransferIsNotLeft {
            add(.leave(SchedulerWorldObjects.number(of: transfer)), index)
        }
        if effects.isRefused { add(.conclude(.end(attempt: nil)), index) }
        if effects.starts, defect != .theAbandonedAreNotStarted { add(.start, index) }
        if let slot = effects.keeps, defect != .aKeptSlotIsNotTold { add(.resumeAttempt(.slotKept(slot)), index) }
        if effects.prepares, defect != .nothingIsPrepared || random.below(3) > 0 { add(.prepare, index) }
    }

    private func performForScheduler(_ step: Step, _ index: Int) {
        guard let ticket = members[index].ticket else { return }
        switch step {
        case .arrive(let arrival):
            let effects = handingOver { state in
                let barriers = state.barriers
                if defect == .aBarrierHoldsNothingBack { state.barriers = [] }
                defer { if defect == .aBarrierHoldsNothingBack { state.barriers = barriers } }
                return state.arrived(ticket, arrival)
            }
            perform(effects, index)
        case .dependent(var word):
            if defect == .lateWordsOfDependenciesCount {
                word = Versioned(word.value, version: ticket.isDependent.version + 1)
            }
            if defect == .theEndOfDependenciesIsNotTold, !word.value { return }
            perform(
                word.value ? handingOver { $0.dependenciesTold(ticket, word) } : state.dependenciesTold(ticket, word),
                index)
        case .suspension(var word):
            if defect == .lateWordsOfSuspensionCount {
                word = Versioned(word.value, version: ticket.suspension.version + 1)
            }
            if defect == .resumingIsNotTold, !word.value.isSuspended { return }
            perform(handingOver { $0.suspensionTold(ticket, word) }, index)
        case .priority(var word):
            if defect == .lateWordsOfPriorityCount {
                word = Versioned(word.value, version: ticket.priority.version + 1)
            }
            if defect == .prioritiesAreNotTold { return }
            handingOver { $0.priorityTold(ticket, word) }
            if members[index].shared == nil { setTransferPriority(of: index) }
        case .prepare:
            if let group = members[index].group, !members[index].hasAnswer, share(group, ticket, index) { return }
            add(.prepared(members[index].machine.suspension), index)
        case .prepared(let suspension):
            let (host, intercepts) = (Self.name(members[index].host), members[index].intercepts)
            let exclusion = defect == .exclusionsAreIgnored ? nil : members[index].exclusion
            handingOver {
                _ = $0.prepared(
                    ticket, host: host, asksInterceptors: intercepts, exclusion: exclusion, suspension)
            }
        case .handOver(let dispatch): handOver(dispatch, index)
        case .abandoned: perform(state.abandoned(ticket), index)
        case .tellFinished(let isSettled):
            if defect == .theEndIsNotTold, random.below(4) == 0 { return }
            for call in handingOver({ $0.finished(ticket, isSettled: isSettled) }) { call() }
        case .tellSettled: if defect != .theLastCallbackIsNotTold { for call in state.settled(ticket) { call() } }
        case .joined:
            if ticket.status != .sharing { leave(members[index].join, index) }
        case .answer(let suspension): answer(suspension, ticket, index)
        case .leave(let join): leave(join, index)
        default: break
        }
    }

    // MARK: Shared transfers

    private func share(_ group: Int, _ ticket: Ticket, _ index: Int) -> Bool {
        guard members.count < SchedulerWorldObjects.count else { return false }
        joins += 1
        guard state.shares(ticket, SchedulerWorldObjects.key(joins), host: Self.name(members[index].host)) else {
            return false
        }
        members[index].join = joins
        if transfers[group] == nil {
            let member = Member()
            (member.shared, member.host, member.priority) = (
                group, members[index].host, Versioned(ticket.priority.value, version: 1)
            )
            members.append(member)
            transfers[group] = Transfer(operation: members.count - 1)
            enqueue(members.count - 1)
        }
        transfers[group]?.subscribers[index] = joins
        transfers[group]?.changes += 1
        setTransferPriority(of: index)
        add(.joined, index)
        return true
    }

    /// The highest priority among the subscribers, as their tickets have it.
    private func setTransferPriority(of index: Int) {
        guard let group = members[index].group, let transfer = transfers[group] else { return }
        let priorityIndex = transfer.subscribers.keys.compactMap { members[$0].ticket?.priority.value.priorityIndex }
            .min()
        guard let priorityIndex else { return }
        let shared = transfer.operation
        guard members[shared].priority.value.priorityIndex != priorityIndex else { return }
        members[shared].priority.change(to: Operation.QueuePriority(priorityIndex: priorityIndex))
        tell(.priority(members[shared].priority), shared)
    }

    private func leave(_ join: Int, _ index: Int) {
        guard let group = members[index].group, transfers[group]?.subscribers[index] == join else { return }
        transfers[group]?.subscribers[index] = nil
        if transfers[group]?.subscribers.isEmpty == true, let transfer = transfers.removeValue(forKey: group) {
            conclude(.end(attempt: nil), transfer.operation)
        } else {
            setTransferPriority(of: index)
        }
    }

    /// A shared transfer has ended.
    func endTransfer(_ group: Int, _ shared: Int) {
        guard transfers[group]?.operation == shared, let transfer = transfers.removeValue(forKey: group) else { return }
        for index in transfer.subscribers.keys.sorted() {
            if random.below(4) == 0 {
                add(.conclude(.endBeforeStart), index)
            } else {
                members[index].hasAnswer = true
                add(.answer(members[index].machine.suspension), index)
            }
        }
    }

    private func answer(_ suspension: Suspension, _ ticket: Ticket, _ index: Int) {
        if defect != .answersAreNotTold, state.answerCame(ticket, suspension) { handOver(index) }
    }

    /// Gives it to the operation queue.
    private func handOver(_ index: Int) {
        let beginning = handle(.handoverBegan, index)
        if beginning.isTaken {
            members[index].isInQueue = true
            add(.endHandover, index)
        } else if beginning.starts {
            add(.start, index)
        }
    }

    // MARK: The slot

    private func performWithSlot(_ step: Step, _ index: Int) {
        switch step {
        case .begin(let attempt, let suspension): begin(attempt, suspension, index)
        case .yield(let isIntercepted, let follow):
            if let ticket = members[index].ticket, defect != .slotsAreKeptDuringWaits {
                let isUnsent = if case .adapt = follow { true } else { false }
                handingOver { $0.yielded(ticket, isIntercepted: isIntercepted, isUnsent: isUnsent) }
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
            _ = handle(.queued, index)
            add(.requeue(members[index].machine.suspension), index)
        case .requeue(let suspension):
            let host = Self.name(members[index].host)
            guard let ticket = members[index].ticket,
                handingOver({
                    $0.requeued(ticket, host: defect == .theNextHostIsNotTold ? ticket.host : host, suspension)
                })
            else { return resumeAttempt(.slotGiven(nil), index) }
        case .awaitDescriptor:
            _ = handle(.queued, index)
            let host = Self.name(members[index].host)
            guard let ticket = members[index].ticket, handingOver({ $0.lacksDescriptor(ticket, host: host) }) else {
                return resumeAttempt(.slotGiven(nil), index)
            }
            watchShortage()
        default: break
        }
    }

    func watchShortage() {
        if let wait = state.shortage.takeWait(), defect != .aShortageNeverEnds {
            alarms.append((due(now + wait), .shortage))
        }
    }

    private func begin(_ attempt: Int, _ suspension: Suspension, _ index: Int) {
        members[index].begins += 1
        if members[index].begins > 1 { fail("\(index) begins twice") }
        if let ticket = members[index].ticket {
            if members[index].hasAnswer {
                state.beginsWithAnswer(ticket)
            } else if !state.begins(ticket, suspension), defect != .whatMayNotBeginBegins {
                pump()
                if handle(.putOff(attempt: attempt), index).isTaken { add(.queueAgain, index) }
                return
            }
            if !members[index].startedByHand, !members[index].hasAnswer, defect != .whatMayNotBeginBegins,
                ticket.status != .dispatched, !members[index].machine.hasOutcome
            {
                fail("\(index) begins without a slot")
            }
        }
        add(.launch(attempt), index)
    }
}
