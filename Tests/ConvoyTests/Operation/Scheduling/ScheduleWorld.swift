import Foundation

@testable import Convoy

/// A schedule and a few operations, with everything around them: code outside the lock, operation queues, tasks.
///
/// The work of outside code is kept in a list, so that a test can perform it in any order.
struct ScheduleWorld {
    struct Setting: Sendable, CustomStringConvertible {
        var queue: Schedule.QueueKind
        var limit = 1
        var hosts = ["a", "a", "b"]
        var name: String?
        var isShared = false
        var dependencies: [(from: Int, to: Int)] = []
        var events: [Event]

        var description: String {
            "\(queue), limit \(limit), hosts \(hosts), \(name ?? "no name")\(isShared ? ", shared" : "")"
        }
    }

    enum Event: Hashable, Sendable {
        case enqueue(Int)
        case start(Int)
        case cancel(Int)
        case suspend(Int)
        case resume(Int)
        case raise(Int)
        case depend(Int, on: Int)
        case suspendManager
        case resumeManager
        /// Outside code does what it has to do.
        case perform(Work)
        /// The attempt ends: with a response, or so that another follows.
        case succeed(Int)
        case retry(Int)
    }

    enum Work: Hashable, Sendable {
        case prepare(Int)
        /// The operation is in an operation queue, which starts it when it is ready.
        case queued(Int)
        case begin(Int)
        case launch(Int)
        case adjust(Int)
        case close(Int)
        /// The time of the next attempt.
        case wake(Int)
        case finish(Int)
        /// The attempt has ended, and another follows.
        case decide(Int)
        /// The body is complete, and is decoded.
        case complete(Int)
        case answer
    }

    /// A mistake that the checks must find.
    enum Defect: CaseIterable, Sendable {
        case endKeepsSlot, cancelStaysInLine, lastDependencyIsForgotten, launchIsLost, waitKeepsSlot
        case suspendedIsLaunched, closeIsLost, nameIsKept, slotIsGivenTwice, wakeIsLost
    }

    let setting: Setting
    var defect: Defect?
    private(set) var schedule: Schedule
    private(set) var works: [Work] = []
    private(set) var fault: String?
    private let operations: [RequestOperation<Data>]
    private var edges: [(from: Int, to: Int)] = []
    private var (finishes, launches): ([Int], [Int])
    private var cancelledBeforeSending: Set<Int> = []
    private var transfer: RequestOperation<Data>?
    private var key: CoalescingKey?

    init(_ setting: Setting, _ scheduler: Scheduler, defect: Defect? = nil) {
        (self.setting, self.defect) = (setting, defect)
        schedule = Schedule(limit: setting.limit, hosts: HostLimits(fixed: 1), queue: setting.queue)
        (finishes, launches) = (Array(repeating: 0, count: 3), Array(repeating: 0, count: 3))
        operations = setting.hosts.map { host in
            var request = Request<Data>.get("http://\(host)/")
            if let name = setting.name { request = request.mutuallyExclusive(name) }
            if setting.isShared { request = request.coalesced() }
            let operation = RequestOperation<Data>(requestPlan: TypedRequestPlan(request), scheduler: scheduler)
            operation.record.prepared = try? request.core.prepared(.standard)
            return operation
        }
    }

    func phase(of index: Int) -> OperationRecord.Phase { operations[index].record.phase }

    private func index(_ operation: AnyRequestOperation) -> Int? { operations.firstIndex { $0 === operation } }

    // MARK: What may happen

    var events: [Event] {
        var events = setting.events.filter(isPossible)
        for work in Set(works) {
            guard case .queued(let index) = work else {
                events.append(.perform(work))
                continue
            }
            let record = (isBlocked: operations[index].record.isBlocked, schedule.isSuspended)
            if !record.isBlocked, !(record.1 && setting.queue == .own) { events.append(.perform(work)) }
        }
        for index in operations.indices where mayEnd(index) { events += [.succeed(index), .retry(index)] }
        return events
    }

    private func isMoving(_ index: Int) -> Bool {
        operations[index].record.phase == .running && operations[index].record.taskPhase == .running
    }

    /// A transfer may also end, or fail, while it is paused.
    private func mayEnd(_ index: Int) -> Bool {
        operations[index].record.currentAttempt != nil && operations[index].record.taskPhase.isMade
    }

    private func isPossible(_ event: Event) -> Bool {
        switch event {
        case .enqueue(let index): !operations[index].record.isEnqueued && !operations[index].record.isFinished
        case .start(let index): operations[index].record.isPending && operations[index].record.unfinished == 0
        case .cancel(let index): !operations[index].record.hasOutcome
        case .suspend(let index): !operations[index].record.isSuspended && !operations[index].record.hasOutcome
        case .resume(let index): operations[index].record.isSuspended
        case .raise(let index): operations[index].record.priority == .normal
        case .depend(let from, let to):
            operations[from].record.isPending && !operations[to].record.isReleased
                && !edges.contains { $0.from == from || $0.from == to && $0.to == from }
        case .suspendManager: !schedule.isSuspended
        case .resumeManager: schedule.isSuspended
        case .succeed(let index): mayEnd(index)
        case .retry(let index): mayEnd(index) && operations[index].record.attempt < 3
        case .perform(let work): works.contains(work)
        }
    }

    // MARK: Events

    mutating func handle(_ event: Event) {
        switch event {
        case .enqueue(let index):
            let arrival = schedule.arrive(operations[index], as: .caller, CompactInstant(.now))
            perform(arrival?.step, index)
        case .start(let index): start(index)
        case .cancel(let index): conclude(index)
        case .suspend(let index), .resume(let index):
            let (isSuspended, wasMoving) = (event == .suspend(index), isMoving(index))
            let change = schedule.setSuspended(
                isSuspended, operations[index], by: .owner, pausesInPlace: index != 1, .now)
            // Without a transport there is no task, but the attempt ends all the same.
            if wasMoving, operations[index].record.taskPhase == .launching { works.append(.close(index)) }
            perform(change?.step, index)
        case .raise(let index): schedule.setPriority(.high, of: operations[index])
        case .depend(let from, let to):
            edges.append((from, to))
            operations[from].record.unfinished += 1
            schedule.block(operations[from])
        case .suspendManager: schedule.isSuspended = true
        case .resumeManager: schedule.isSuspended = false
        case .succeed(let index):
            let attempt = Int(operations[index].record.attempt)
            if schedule.bodyComplete(operations[index], attempt, commits: false) { works.append(.complete(index)) }
        case .retry(let index):
            let attempt = Int(operations[index].record.attempt)
            if schedule.attemptEnded(operations[index], attempt) { works.append(.decide(index)) }
        case .perform(let work):
            works.remove(at: works.firstIndex(of: work) ?? 0)
            perform(work)
        }
        startNext()
        check()
    }

    private mutating func perform(_ work: Work) {
        switch work {
        case .prepare(let index):
            let operation = operations[index]
            if setting.isShared, operation.record.followUp?.sharedAnswer == nil, share(operation) { return }
            perform(schedule.prepared(operation), index)
        case .queued(let index), .begin(let index): start(index)
        case .launch(let index): launch(index)
        case .adjust(let index):
            let operation = operations[index]
            _ = operation.record.adjust(isPaused: false)
            schedule.rest(operation)
        case .close(let index):
            if defect != .closeIsLost { perform(schedule.attemptClosed(operations[index]), index) }
        case .wake(let index):
            if defect != .wakeIsLost { perform(schedule.returned(operations[index]), index) }
        case .finish(let index): finish(index)
        case .decide(let index):
            if operations[index].record.repeats(Int(operations[index].record.attempt)) {
                if defect != .waitKeepsSlot { schedule.queues.release(operations[index]) }
                works.append(.wake(index))
            }
        case .complete(let index): conclude(index, isAnswer: true)
        case .answer:
            guard let transfer, let key else { return }
            self.transfer = nil
            for (operation, key) in schedule.coalescer.end(transfer, key) {
                guard let index = index(operation), let request = operation.record.prepared else { continue }
                let exchange = Exchange(
                    request: request, head: ResponseHead(statusCode: 200), timings: Timings(),
                    transfer: TransferProgress(), metrics: nil, earlierAttempts: [])
                let answer = Response(value: Data(), exchange: exchange)
                perform(schedule.answerCame(operation, of: key, answer, TransferProgress()), index)
            }
        }
    }

    private mutating func share(_ operation: RequestOperation<Data>) -> Bool {
        guard let core = operation.record.requestPlan?.core, let request = operation.record.prepared,
            let key = CoalescingKey(core, request)
        else { return false }
        let new = RequestOperation<Data>(
            requestPlan: TypedRequestPlan(Request<Data>.get("http://shared/")), scheduler: operation.scheduler)
        guard let (shared, isNew) = schedule.share(operation, key, new: new) else { return false }
        if isNew {
            (transfer, self.key) = (shared, key)
            works.append(.answer)
        }
        return true
    }

    private mutating func perform(_ step: Schedule.Step?, _ index: Int) {
        switch step {
        case nil, .begin: break
        case .prepare: works.append(.prepare(index))
        case .enter: works.append(.queued(index))
        case .start, .startElsewhere: works.append(.begin(index))
        case .launch, .send: if defect != .launchIsLost { works.append(.launch(index)) }
        case .adjust: works.append(.adjust(index))
        case .finish: works.append(.finish(index))
        case .refuseStart: fault = "\(index) is started while it waits for a dependency"
        case .refuse, .fail: fault = "\(index) is refused"
        }
    }

    private mutating func startNext() {
        while true {
            let next = schedule.next(.now)
            if !next.abandoned.isEmpty {
                works.removeAll { $0 == .answer }
                transfer = nil
            }
            guard let (operation, step) = next.step, let index = index(operation) else { return }
            perform(step, index)
            if defect == .slotIsGivenTwice, case .enter? = step { works.append(.launch(index)) }
        }
    }

    private mutating func start(_ index: Int) {
        perform(schedule.start(operations[index], CompactInstant(.now), hasAnswer: false).step, index)
    }

    private mutating func launch(_ index: Int) {
        let operation = operations[index]
        if operation.record.followUp?.sharedAnswer != nil {
            guard let attempt = operation.record.currentAttempt else { return }
            _ = schedule.bodyComplete(operation, attempt, commits: false)
            return conclude(index, isAnswer: true)
        }
        if defect == .slotIsGivenTwice, operation.record.phase == .handedOver {
            (operation.record.phase, operation.record.taskPhase, operation.record.attempt) = (.running, .launching, 1)
        }
        guard let attempt = operation.record.currentAttempt else { return }
        guard
            operation.record.launch(attempt, pausesInPlace: false, CompactInstant(.now)) != nil
                || defect == .suspendedIsLaunched
        else {
            return schedule.rest(operation)
        }
        launches[index] += 1
        if cancelledBeforeSending.contains(index) { fault = "\(index) is sent although it was cancelled" }
        if operation.record.isSuspended { fault = "\(index) is sent although it is suspended" }
        operation.record.taskPhase = .running
    }

    private mutating func conclude(_ index: Int, isAnswer: Bool = false) {
        let operation = operations[index]
        let phase = operation.record.phase
        guard operation.record.end(isAnswer ? Int(operation.record.attempt) : nil, onlyBeforeStart: false) else {
            return
        }
        if launches[index] == 0 { cancelledBeforeSending.insert(index) }
        operation.record.outcome = AnyOutcome(error: isAnswer ? nil : RequestError(.cancelled, "cancelled"))
        if defect == .cancelStaysInLine, phase == .waiting(.slot) { return works.append(.finish(index)) }
        let isInNoQueue = schedule.concluded(operation, in: phase)
        if operation.record.phase == .finishing(wasExecuting: true) {
            works.append(.finish(index))
        } else if isInNoQueue {
            operation.record.phase = .finishing(wasExecuting: false)
            works.append(.finish(index))
        }
    }

    private mutating func finish(_ index: Int) {
        let operation = operations[index]
        if defect == .cancelStaysInLine, operation.record.phase == .ended {
            operation.record.phase = .finishing(wasExecuting: false)
        }
        guard case .finishing = operation.record.phase else {
            fault = "\(index) finishes in \(operation.record.phase)"
            return
        }
        (operation.record.phase, operation.record.isReleased) = (.finished, true)
        finishes[index] += 1
        if defect == .nameIsKept { operation.record.exclusion = nil }
        if defect != .endKeepsSlot { schedule.finished(operation) }
        _ = schedule.remove(operation)
        for edge in edges where edge.to == index && !operations[edge.from].record.isReleased {
            operations[edge.from].record.unfinished -= 1
            if defect != .lastDependencyIsForgotten, operations[edge.from].record.unfinished == 0 {
                perform(schedule.unblock(operations[edge.from]), edge.from)
            }
        }
    }

    // MARK: Checks

    private mutating func check() {
        let slots = operations.filter { $0.record.hasSlot }
        let begun = slots.filter { $0.record.hasBegun }
        if schedule.queues.running != slots.count { fault = "\(schedule.queues.running) slots are counted" }
        if schedule.queues.unstarted != slots.count - begun.count { fault = "unstarted slots are counted wrongly" }
        if begun.count > setting.limit { fault = "\(begun.count) run" }
        for host in Set(setting.hosts) {
            let running = begun.count { $0.record.nextHost.hasPrefix(host) }
            if running > 1 { fault = "\(running) run at \(host)" }
        }
        for (index, operation) in operations.enumerated() {
            if finishes[index] > 1 { fault = "\(index) finished twice" }
            let isAnswered = operation.record.followUp?.sharedAnswer != nil
            if isMoving(index), !operation.record.hasSlot, !isAnswered { fault = "\(index) moves bytes without a slot" }
            if operation.record.hasSlot {
                switch operation.record.phase {
                case .created, .blocked, .waiting, .finished:
                    fault = "\(index) has a slot in \(operation.record.phase)"
                case .preparing, .handedOver, .running, .deciding, .completing, .ended, .finishing: break
                }
            }
        }
        if setting.name != nil, operations.count(where: { $0.record.hasSent && !$0.record.isFinished }) > 1 {
            fault = "two have the name"
        }
    }

    /// Lets everything that waits go on until nothing is left to do; the fault if an operation has not finished then.
    mutating func drain() -> String? {
        defect = nil
        for index in operations.indices {
            if !operations[index].record.isEnqueued, operations[index].record.isWaitingToStart {
                handle(.enqueue(index))
            }
        }
        for _ in 0..<200 where fault == nil {
            if schedule.isSuspended { handle(.resumeManager) }
            for index in operations.indices
            where operations[index].record.isSuspended && !operations[index].record.hasOutcome {
                handle(.resume(index))
            }
            let next = events.first {
                if case .perform = $0 { true } else if case .succeed = $0 { true } else { false }
            }
            guard let next else { break }
            handle(next)
        }
        if let fault { return fault }
        for (index, operation) in operations.enumerated() where !operation.record.isFinished {
            return "\(index) waits for nothing in \(operation.record.phase)"
        }
        return schedule.count == 0 && schedule.queues.running == 0 ? nil : "something is left"
    }

    /// Equal for worlds in which the same can happen.
    var fingerprint: String {
        let order = operations.indices.sorted { operations[$0].record.order < operations[$1].record.order }
        let records = operations.indices.map { index -> String in
            let operation = operations[index]
            let facts = [
                operation.record.isSuspended, operation.record.hasSlot, operation.record.hasSent,
                operation.record.hasHadSlot, operation.record.isEnqueued, operation.record.hasOutcome,
                operation.record.followUp?.sharedAnswer != nil, operation.record.sharedTransfer != nil,
                operation.record.priority == .high, operation.record.exclusion?.holder === operation,
            ]
            return "\(operation.record.phase) \(operation.record.taskPhase) \(operation.record.attempt) "
                + "\(operation.record.unfinished) " + facts.map { $0 ? "1" : "0" }.joined()
        }
        return records.joined(separator: ";")
            + "\(order)\(works.map { "\($0)" }.sorted())\(schedule.isSuspended)\(edges)"
    }
}
