import Foundation

@testable import Convoy

// What owners, the operation queue, transports and clocks may do at any time.
extension SchedulerWorld {
    func enqueue(_ index: Int) {
        guard members[index].ticket == nil, members[index].machine.isWaitingToStart else { return }
        let member = members[index]
        let ticket = Ticket(SchedulerWorldObjects.operation(index), isShared: member.shared != nil)
        members[index].ticket = ticket
        let isReady = member.isPlain && member.dependencies.isEmpty && !member.machine.hasOutcome
        let arrival = SchedulerState.Arrival(
            host: isReady ? Self.name(member.host) : nil, priority: member.priority,
            suspension: member.machine.suspension,
            isDependent: isReady ? Versioned(false, version: 1) : member.isDependent,
            hasOutcome: member.machine.hasOutcome,
            isSettled: member.machine.delivery.isSettled)
        add(.arrive(arrival), index)
    }

    func ownerActs() {
        let index = random.below(count)
        switch random.below(24) {
        case 0..<9: enqueue(index)
        case 9, 10: addDependency(of: index, on: random.below(count))
        case 11: removeDependency(of: index)
        case 12, 13: suspend(index)
        case 14, 15: resume(index)
        case 16, 17: setPriority(of: index)
        case 18: if random.below(2) == 0 { conclude(.end(attempt: nil), index) }
        case 19: startByHand(index)
        case 20: (state.isSuspended, pumps) = (random.below(2) == 0, pumps + 1)
        case 21: isQueueSuspended = random.below(2) == 0
        case 22: addBarrier()
        default: cancelSome()
        }
    }

    private func startByHand(_ index: Int) {
        guard random.below(4) == 0, members[index].ticket == nil || !hasBarriers else { return }
        members[index].startedByHand = true
        add(.start, index)
    }

    private func setPriority(of index: Int) {
        members[index].priority.change(to: Operation.QueuePriority(priorityIndex: random.below(5)))
        tell(.priority(members[index].priority), index)
    }

    private func suspend(_ index: Int) {
        let effects = handle(.suspend(pausesInPlace: pausesInPlace), index)
        if effects.endsAttempt {
            members[index].task = .over
            add(.attemptClosed, index)
        }
        followSuspension(effects, index)
    }

    private func resume(_ index: Int) { followSuspension(handle(.resume, index), index) }

    private func followSuspension(_ effects: OperationStateMachine.Effects, _ index: Int) {
        guard effects.isTaken else { return }
        tell(.suspension(members[index].machine.suspension), index)
        if let attempt = effects.launches { add(.launch(attempt), index) }
        if effects.adjusts, pausesInPlace { add(.adjust, index) }
    }

    private func cancelSome() {
        state.cancellations += 1
        for index in 0..<count where random.below(8) == 0 { conclude(.end(attempt: nil), index) }
        state.cancellations -= 1
        pumps += 1
        drainsAsked += 1
        if !state.awaitEnd({ [drainCalls] in drainCalls.withLock { $0 += 1 } }, identity: drainsAsked) {
            drainCalls.withLock { $0 += 1 }
        }
    }

    private func addBarrier() {
        // What is about to be told of dependencies comes before the barrier or behind it: both are right.
        let isBusy = steps.contains { step in if case .dependent = step.step { true } else { false } }
        guard hasBarriers, !isBusy, barriers.count < 2 else { return }
        state.barrierAdded {}
        let earlier = state.barriers.last?.barrier.earlier.map { index(of: $0) } ?? []
        let arrived = members.compactMap { $0.ticket.flatMap { $0.index >= 0 ? $0.sequence : nil } }.max() ?? 0
        for index in members.indices {
            let member = members[index]
            guard let ticket = member.ticket, ticket.index >= 0, ticket.end == .open, member.shared == nil,
                member.unfinished == 0, !ticket.isDependent.value, !earlier.contains(index)
            else { continue }
            fail("a barrier does not wait for \(index), which came before it")
        }
        barriers.append(Barrier(earlier: earlier, arrivedBefore: arrived))
    }

    /// Runs the first barrier, if what came before it has ended.
    private func runBarrier() -> Bool {
        guard let barrier = barriers.first, state.barriers.first != nil,
            defect == .aBarrierDoesNotWait || barrier.earlier.allSatisfy({ members[$0].machine.isFinished }),
            defect != .aBarrierIsNeverPassed
        else { return false }
        let earlierRun = members.indices.contains { index in
            members[index].ticket.map { $0.index >= 0 && $0.sequence <= barrier.arrivedBefore && $0.hasBegun } ?? false
                && barrier.earlier.contains(index) && !members[index].machine.isFinished
        }
        if earlierRun { fail("a barrier runs before what came before it has ended") }
        barriers.removeFirst()
        for operation in state.barrierPassed() { add(.prepare, index(of: operation)) }
        return true
    }

    // MARK: Surroundings

    func surroundingsAct() {
        switch random.below(6) {
        case 0, 1: _ = queueStarts()
        case 2, 3: _ = taskEnds()
        case 4: _ = alarmRings()
        default: _ = runBarrier() || networkChanges() || readerFallsBehind()
        }
    }

    private func networkChanges() -> Bool {
        guard hasNetworkFailures, random.below(2) == 0 else { return false }
        isOffline.toggle()
        connectivityChanges()
        return true
    }

    private func connectivityChanges() {
        let isOffline = isOffline
        handingOver { $0.connectivityChanged(isConnected: !isOffline) }
    }

    /// What is left to happen when nothing is about to; false when nothing is.
    func surroundingsActInTheEnd() -> Bool {
        queueStarts() || readerCatchesUp() || taskEnds() || runBarrier() || alarmRings()
    }

    /// The operation queue starts what is ready, as many as it may have.
    private func queueStarts() -> Bool {
        guard !isQueueSuspended else { return false }
        let executing = members.count { $0.isInQueue && $0.isStarting && $0.ends == 0 }
        guard queueLimit < 0 || executing < max(queueLimit, 1) else { return false }
        let offset = random.below(members.count)
        for step in members.indices {
            let index = (step + offset) % members.count
            let member = members[index]
            guard member.isInQueue, !member.isStarting, member.ends == 0,
                member.machine.hasOutcome && member.machine.handover == .none || member.unfinished == 0
            else { continue }
            members[index].isStarting = true
            add(.start, index)
            return true
        }
        return false
    }

    private func taskEnds() -> Bool {
        let offset = random.below(members.count)
        for step in members.indices {
            let index = (step + offset) % members.count
            // What is paused may end as well: its server closes the connection, or a time runs out.
            guard members[index].task == .running || members[index].task == .paused && !members[index].isReaderBehind
            else {
                continue
            }
            endTask(index)
            return true
        }
        return false
    }

    private func readerFallsBehind() -> Bool {
        let index = random.below(members.count)
        guard pausesInPlace, members[index].task == .running, !members[index].isReaderBehind else { return false }
        (members[index].isReaderBehind, members[index].task) = (true, .paused)
        _ = handle(.taskHeld(attempt: members[index].taskAttempt), index)
        add(.adjust, index)
        return true
    }

    private func readerCatchesUp() -> Bool {
        guard let index = members.indices.first(where: { members[$0].isReaderBehind }) else { return false }
        members[index].isReaderBehind = false
        add(.adjust, index)
        return true
    }

    private func alarmRings() -> Bool {
        guard let index = alarms.indices.min(by: { alarms[$0].due < alarms[$1].due }) else { return false }
        let (due, alarm) = alarms.remove(at: index)
        milliseconds = max(milliseconds, due)
        switch alarm {
        case .ring(let member):
            members[member].waitsForTime = false
            add(.queueAgain, member)
        case .lift(let host):
            state.queues.lift(host.map { Self.name($0) }, now: now)
            pumps += 1
        case .shortage:
            handingOver { $0.shortageTimePassed() }
            watchShortage()
        }
        return true
    }

    /// Owners want everything to end.
    func settleOwners() {
        (state.isSuspended, isQueueSuspended, pumps) = (false, false, pumps + 1)
        if isOffline, defect != .aNetworkThatComesBackIsNotTold {
            isOffline = false
            connectivityChanges()
        }
        for index in 0..<count {
            enqueue(index)
            resume(index)
        }
    }
}
