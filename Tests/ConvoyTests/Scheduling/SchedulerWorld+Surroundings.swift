import Foundation

@testable import Convoy

// Performs the actions of owners, the operation queue, transports and clocks, which are possible at any time.
extension SchedulerWorld {
    func enqueue(_ index: Int) {
        guard members[index].queueEntry == nil, members[index].machine.isWaitingToStart else { return }
        let member = members[index]
        members[index].queueEntry = QueueEntry(
            SchedulerWorldObjects.operation(index), member.shared != nil ? .shared : .caller)
        let isReady = member.isPlain && member.dependencies.isEmpty && !member.machine.hasOutcome
        let arrival = OperationState.Arrival(
            host: isReady ? Self.name(member.host) : nil, priority: member.priority,
            suspension: member.machine.suspension,
            isDependent: isReady ? Versioned(false, version: 1) : member.isDependent,
            hasOutcome: member.machine.hasOutcome,
            isSettled: member.machine.delivery.isSettled)
        add(.arrive(arrival), index)
    }

    /// Registers an operation that was started before its manager knew it.
    func adopt(_ index: Int) {
        guard members[index].queueEntry == nil else { return }
        let queueEntry = QueueEntry(SchedulerWorldObjects.operation(index))
        members[index].queueEntry = queueEntry
        let arrival = OperationState.Arrival(
            priority: members[index].priority, suspension: members[index].machine.suspension,
            isDependent: members[index].isDependent, isStarted: true)
        perform(state.arrived(queueEntry, arrival), index)
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
        case 21: suspendQueue(random.below(2) == 0)
        case 22: limitQueue(random.below(2) == 0 ? -1 : 1 + random.below(4))
        default: cancelSome()
        }
    }

    private func startByHand(_ index: Int) {
        if random.below(4) == 0 { add(.start, index) }
    }

    private func suspendQueue(_ isSuspended: Bool) {
        isQueueSuspended = isSuspended
        guard queueKind == .own else { return }
        (state.isQueueSuspended, pumps) = (isSuspended, pumps + 1)
    }

    private func limitQueue(_ limit: Int) {
        queueLimit = limit
        guard queueKind == .own else { return }
        guard limit >= 0 else {
            state.isQueueLimited = false
            return
        }
        for operation in state.limitQueue() { add(.enter, index(of: operation)) }
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

    // MARK: Queue, tasks, readers and timers

    func surroundingsAct() {
        switch random.below(6) {
        case 0, 1: _ = queueStarts()
        case 2, 3: _ = taskEnds()
        case 4: _ = alarmRings()
        default: _ = readerFallsBehind()
        }
    }

    /// Performs an action of the surroundings when no step is pending; false if there is none.
    func surroundingsActInTheEnd() -> Bool {
        queueStarts() || readerCatchesUp() || taskEnds() || alarmRings()
    }

    /// Starts a ready operation of the operation queue, within its limit.
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
            // A paused task may also end: its server closes the connection, or a timeout expires.
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
        _ = handle(.taskPaused(attempt: members[index].taskAttempt), index)
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
        }
        return true
    }

    /// Resumes everything, so that every operation can end.
    func settleOwners() {
        (state.isSuspended, pumps) = (false, pumps + 1)
        suspendQueue(false)
        for index in 0..<count {
            enqueue(index)
            resume(index)
        }
    }
}
