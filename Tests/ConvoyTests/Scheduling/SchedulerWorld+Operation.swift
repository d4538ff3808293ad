import Foundation

@testable import Convoy

// Performs an operation from its start to its end, like `AnyRequestOperation`.
extension SchedulerWorld {
    func start(_ index: Int) {
        var effects = handle(.start(mayBeBlocked: !members[index].dependencies.isEmpty), index)
        if effects.looksAtGraph {
            let statuses: [QueueEntry.Status] = [.dispatched, .inQueue, .ended]
            if members[index].unfinished > 0, members[index].queueEntry.map({ statuses.contains($0.status) }) != true {
                conclude(.endBeforeStart, index)
            }
            effects = handle(.start(mayBeBlocked: false), index)
        }
        if effects.begins {
            adopt(index)
            add(.begin(1, members[index].machine.suspension), index)
        }
        if effects.finishes { add(.finish, index) }
    }

    func launch(_ attempt: Int, _ index: Int) {
        let event = Event.launch(attempt: attempt, pausesInPlace: pausesInPlace, isClaim: false)
        guard handle(event, index).isTaken else { return add(.leaveSlot, index) }
        if members[index].hasAnswer {
            if handle(.bodyComplete(attempt: attempt, commits: false), index).isTaken { add(.decode(attempt), index) }
            return
        }
        if members[index].intercepts, !members[index].isAdapted {
            guard handle(.putOff(attempt: attempt), index).isTaken else { return }
            return add(.yield(.adapt), index)
        }
        let claim = Event.launch(attempt: attempt, pausesInPlace: pausesInPlace, isClaim: true)
        add(handle(claim, index).isTaken ? .makeTask(attempt) : .leaveSlot, index)
    }

    func makeTask(_ attempt: Int, _ index: Int) {
        members[index].isAdapted = false
        let effects = handle(.taskMade(attempt: attempt, pausesInPlace: pausesInPlace), index)
        guard effects.isTaken else { return add(.leaveSlot, index) }
        if [.made, .running, .paused].contains(members[index].task) { fail("\(index) has two tasks at a time") }
        (members[index].task, members[index].taskAttempt) = (.made, attempt)
        members[index].hasSent = true
        members[index].isReaderBehind = false
        add(effects.runsTask == true ? .resumeTask(attempt) : .leaveSlot, index)
    }

    func adjust(_ index: Int) {
        guard pausesInPlace else { return }
        if let runs = handle(.adjust(isPaused: members[index].isReaderBehind), index).runsTask {
            if [.made, .running, .paused].contains(members[index].task) {
                members[index].task = runs ? .running : .paused
            }
        }
        add(.leaveSlot, index)
    }

    func resumeAttempt(_ event: Event, _ index: Int) {
        let effects = handle(event, index)
        if effects.launches != nil, members[index].waitsForTime { fail("\(index) goes on before its time") }
        if let attempt = effects.launches { add(.launch(attempt), index) }
        if effects.adjusts, pausesInPlace { add(.adjust, index) }
    }

    /// Ends the task of an operation.
    func endTask(_ index: Int) {
        members[index].task = .over
        let attempt = members[index].taskAttempt
        if handle(.attemptEnded(attempt: attempt), index).isTaken { add(.decide(attempt), index) }
    }

    func decide(_ attempt: Int, _ index: Int) {
        if let queueEntry = members[index].queueEntry, hasBreaker {
            let sample = HostSample(
                latency: .milliseconds(5), statusCode: random.below(2) == 0 ? 200 : 500, failure: nil)
            handingOver { $0.queues.record(sample, of: queueEntry, now: now) }
            noteNewHolds()
        }
        if members[index].intercepts, random.below(2) == 0 {
            add(.yield(.intercept(attempt)), index)
        } else {
            proceed(attempt, index)
        }
    }

    /// Decides what follows an attempt, like the policies.
    func proceed(_ attempt: Int, _ index: Int) {
        guard members[index].repeats > 0, handle(.repeats(attempt: attempt), index).isTaken else {
            if handle(.bodyComplete(attempt: attempt, commits: random.below(4) == 0), index).isTaken {
                add(.decode(attempt), index)
            }
            return
        }
        members[index].repeats -= 1
        members[index].task = .none
        switch random.below(4) {
        case 0:
            members[index].host = random.below(hosts)
            add(.queueAgain, index)
        case 1:
            let (host, until) = (members[index].host, milliseconds + 1 + random.below(50))
            let reason = RetryAfterReason(request: RequestSummary(text: ""), statusCode: 503)
            if state.queues.hold(Self.name(host), until: now + .milliseconds(until - milliseconds), reason) {
                holds[host] = until
                noteNewHolds()
                if defect == .aHoldIsLiftedEarly {
                    state.queues.lift(Self.name(host), now: now + .milliseconds(100))
                    pumps += 1
                }
            }
            add(.yield(.time(1 + random.below(60))), index)
        case 2: add(.queueAgain, index)
        default: add(.yield(.time(1 + random.below(60))), index)
        }
    }

    // MARK: Outcomes and handlers

    func conclude(_ event: Event, _ index: Int) {
        let effects = handle(event, index)
        if effects.finishes {
            members[index].task = .over
            add(.finish, index)
        }
        if effects.abandons {
            failDependents(of: index)
            add(.deliver, index)
            if members[index].queueEntry != nil, defect != .theAbandonedAreNotTold { add(.abandoned, index) }
        }
    }

    func finish(_ index: Int) {
        guard handle(.finished, index).isTaken else { return fail("\(index) finishes twice") }
        members[index].ends += 1
        add(.sendOff(hasHandlers: sendsHandlers(index), isEnd: true), index)
    }

    func sendsHandlers(_ index: Int) -> Bool {
        guard handle(.delivery(.begin), index).isTaken else { return false }
        _ = handle(.delivery(.handlersSent(1)), index)
        add(.handlerReturns, index)
        return true
    }

    func sendOff(_ hasHandlers: Bool, _ isEnd: Bool, _ index: Int) {
        if isEnd { _ = handle(.delivery(.endNotified), index) }
        let settles = hasHandlers && handle(.delivery(.sentOff), index).settles
        if isEnd {
            add(.notifyFinished(isSettled: members[index].machine.delivery.isSettled), index)
            add(.release, index)
        } else if settles {
            add(.notifySettled, index)
        }
    }

    // MARK: Dependencies

    private func failDependents(of index: Int) {
        for other in members.indices {
            guard members[other].dependencies.contains(where: { $0.index == index && $0.fails }) else { continue }
            add(.conclude(.endBeforeStart), other)
        }
    }

    func release(_ index: Int) {
        members[index].isReleased = true
        members[index].unfinished = 0
        for other in members.indices where members[other].dependencies.contains(where: { $0.index == index }) {
            members[other].unfinished -= members[other].isReleased ? 0 : 1
            members[other].dependencyChanges += 1
            if members[other].unfinished == 0 { tell(.dependent(members[other].isDependent), other) }
        }
        members[index].dependencies = []
        if let key = members[index].shared { endTransfer(key, index) }
    }

    func addDependency(of index: Int, on other: Int) {
        guard members[index].machine.phase == .pending, !members[other].isReleased, index != other,
            !members[index].dependencies.contains(where: { $0.index == other }), !leads(from: other, to: index)
        else { return }
        members[index].isPlain = false
        members[index].dependencies.append((other, random.below(4) == 0))
        members[index].unfinished += 1
        members[index].dependencyChanges += 1
        tell(.dependent(members[index].isDependent), index)
    }

    func removeDependency(of index: Int) {
        guard let edge = members[index].dependencies.popLast(), !members[edge.index].isReleased else { return }
        members[index].unfinished -= 1
        members[index].dependencyChanges += 1
        if members[index].unfinished == 0 { tell(.dependent(members[index].isDependent), index) }
    }

    private func leads(from index: Int, to other: Int) -> Bool {
        members[index].dependencies.contains { $0.index == other || leads(from: $0.index, to: other) }
    }
}
