import Foundation

@testable import Convoy

/// Simulates some operations, their scheduler and its surroundings without threads, in virtual time.
///
/// The scheduler's state and the operations' state machines are the real ones. The work of threads is a list of
/// ``Step``s, which are performed in a random order. Actions of owners, the operation queue, transports and clocks come
/// at random moments between them. So every report may arrive late. The seed determines the whole run.
final class SchedulerWorld {
    typealias Suspension = Versioned<OperationStateMachine.Suspension>
    typealias Event = OperationStateMachine.Event

    /// A step that a thread performs later for an operation.
    enum Step {
        case arrive(OperationState.Arrival)
        case dependent(Versioned<Bool>)
        case suspension(Suspension)
        case priority(Versioned<Operation.QueuePriority>)
        case prepare
        case awaitSlot(Suspension, hasBegun: Bool)
        case handOver(SchedulerState.Dispatch)
        case enter, endHandover, start
        case begin(Int, Suspension)
        case launch(Int)
        case makeTask(Int)
        case resumeTask(Int)
        case adjust, leaveSlot, attemptClosed
        case decide(Int)
        case decode(Int)
        case yield(Follow)
        case adapted
        case proceed(Int)
        case queueAgain
        case resumeAttempt(Event)
        case conclude(Event)
        case abandoned, finish, deliver
        case sendOff(hasHandlers: Bool, isEnd: Bool)
        case handlerReturns
        case notifyFinished(isSettled: Bool)
        case notifySettled, release
        case answer(CoalescingKey, Suspension, fails: Bool)
        case follow(Versioned<Operation.QueuePriority>?)
    }

    /// The work of an operation after it has released its slot.
    enum Follow {
        case time(Int)
        case adapt
        case intercept(Int)
    }

    enum TaskState { case none, made, running, paused, over }

    final class Member {
        var machine = OperationStateMachine()
        var queueEntry: QueueEntry?
        var priority = Versioned(Operation.QueuePriority.normal, version: 1)
        var dependencies: [(index: Int, fails: Bool)] = []
        var unfinished = 0
        var dependencyChanges: UInt32 = 0
        var host = 0
        var repeats = 0
        var intercepts = false
        /// The exclusion name, and whether the operation has sent something.
        var exclusion: String?
        var hasSent = false
        var isAdapted = false
        var isPlain = true
        /// The group of equal requests.
        var group: Int?
        var hasAnswer = false
        /// The key of the transfer, if the operation is a shared transfer.
        var shared: CoalescingKey?
        var isInQueue = false
        var isStarting = false
        var isReleased = false
        var task = TaskState.none
        var taskAttempt = 0
        var isReaderBehind = false
        /// Whether the operation waits for a delay, without a slot.
        var waitsForTime = false
        var begins = 0
        var outcomes = 0
        var ends = 0
        /// The number of pending steps of the operation.
        var pending = 0
        /// The position among the waiting operations, as the world computes it.
        var order = 0
        var queueNumber: UInt64 = 0

        /// Whether others with the same exclusion name must wait: the operation has sent something and has not ended.
        ///
        /// An operation that shares the transfer of another one sends nothing, so it excludes no others.
        var excludesOthers: Bool { hasSent && ends == 0 }

        var isDependent: Versioned<Bool> { Versioned(unfinished > 0, version: dependencyChanges &+ 1) }
    }

    let defect: Defect?
    var random: SeededGenerator
    var state: SchedulerState
    var members: [Member] = []
    var steps: [(member: Int, step: Step)] = []
    var pumps = 0
    var alarms: [(due: Int, alarm: Alarm)] = []
    var holds: [Int: Int] = [:]
    var milliseconds = 0
    var orders = 0
    /// The operation of the last step, and the one that was checked last.
    private var touched = 0
    private var checked = 0
    private var running = [0, 0, 0]
    var violation: String?
    var log: [String]?
    var drainCalls = Locked(0)
    var drainsAsked = 0

    let count: Int
    let limit: Int
    let perHost: Int
    let hosts: Int
    let queueKind: SchedulerState.QueueKind
    /// The operation queue's own limit; -1 for none.
    var queueLimit: Int
    let startsInPlace: Bool
    let pausesInPlace: Bool
    let hasBreaker: Bool
    let prioritization: RequestPrioritization
    var isQueueSuspended = false
    private static let beginning = ContinuousClock.now

    enum Alarm {
        case ring(Int)
        case lift(Int?)
    }

    init(seed: UInt64, defect: Defect? = nil, isLogged: Bool = false) {
        self.defect = defect
        if isLogged { log = [] }
        var random = SeededGenerator(seed: seed &* 0x9E37_79B9_7F4A_7C15)
        count = 1 + random.below(1 + random.below(20))
        limit = 1 + random.below(4)
        perHost = 1 + random.below(3)
        hosts = 1 + random.below(3)
        queueKind = random.below(3) > 0 ? .own : .callers
        queueLimit = random.below(2) == 0 ? -1 : 1 + random.below(4)
        startsInPlace = random.below(2) == 0
        pausesInPlace = random.below(2) == 0
        // An unused number, so that the seeds of rare defects stay valid.
        _ = random.below(4)
        hasBreaker = random.below(5) == 0
        prioritization = random.below(4) == 0 ? .lifo : .fifo
        let rates = (0..<2).map { _ in
            random.below(5) == 0
                ? RequestRate(1 + random.below(3), per: .milliseconds(1 + random.below(40)), burst: 1 + random.below(3))
                : nil
        }
        let limits = HostLimits(
            fixed: perHost + (defect == .hostLimitIsExceeded ? 1 : 0), adaptive: nil,
            breaker: hasBreaker ? BreakerPolicy(failuresInARow: 2, openTime: .milliseconds(20)) : nil, rate: rates[0])
        state = SchedulerState(
            limit: limit + (defect == .limitIsExceeded ? 1 : 0), hosts: limits, prioritization, rate: rates[1],
            retryBudget: RetryBudgetState(.unlimited), queue: queueKind)
        state.isQueueLimited = queueKind == .own && queueLimit >= 0
        self.random = random
        for _ in 0..<count { addMember() }
    }

    private func addMember() {
        let member = Member()
        member.host = random.below(hosts)
        member.repeats = random.below(3)
        member.intercepts = random.below(4) == 0
        if !member.intercepts, random.below(5) == 0 {
            member.group = random.below(2)
            member.host = min(hosts - 1, member.group ?? 0)
        }
        if random.below(5) == 0 { member.exclusion = ["x", "y"][random.below(2)] }
        member.isPlain =
            !member.intercepts && member.group == nil && member.exclusion == nil && random.below(2) == 0
        members.append(member)
    }

    var now: ContinuousClock.Instant { Self.beginning + .milliseconds(milliseconds) }

    static func name(_ host: Int) -> String { ["a", "b", "c"][host] }

    func index(of operation: AnyRequestOperation) -> Int { SchedulerWorldObjects.index(of: operation) }

    // MARK: Running

    /// Runs the world to its end; returns the first broken invariant, or nil.
    func run() -> String? {
        var left = 20 + 12 * count
        while left > 0, violation == nil {
            left -= 1
            switch random.below(10) {
            case 0..<6 where !steps.isEmpty || pumps > 0: performAny()
            case 6, 7: ownerActs()
            default: surroundingsAct()
            }
            check()
        }
        settleOwners()
        left = 4_000 * (count + 2)
        while violation == nil {
            left -= 1
            if left == 0 { fail("it never comes to rest") }
            if steps.isEmpty, pumps == 0 {
                guard surroundingsActInTheEnd() else { break }
            } else {
                performAny()
            }
            check()
        }
        if violation == nil { checkEnd() }
        return violation
    }

    private func performAny() {
        let index = random.below(steps.count + pumps)
        guard index < steps.count else {
            pumps -= 1
            return pump()
        }
        let (member, step) = steps[index]
        touched = member
        steps.swapAt(index, steps.count - 1)
        steps.removeLast()
        members[member].pending -= 1
        log?.append("\(member): \(step)")
        perform(step, member)
    }

    func add(_ step: Step, _ member: Int) {
        steps.append((member, step))
        members[member].pending += 1
    }

    func fail(_ text: String) { violation = violation ?? text }

    // MARK: Invariants

    /// Checks the invariants after each step.
    private func check() {
        for name in ["x", "y"] where members.count(where: { $0.exclusion == name && $0.excludesOthers }) > 1 {
            fail("two run that are called \(name)")
        }
        for host in 0..<3 { running[host] = 0 }
        // All entries that were queued in one step have the same position.
        orders += 1
        for member in members {
            if let queueEntry = member.queueEntry, queueEntry.status == .waiting,
                queueEntry.queueNumber != member.queueNumber
            {
                (member.order, member.queueNumber) = (orders, queueEntry.queueNumber)
            }
            guard member.task == .running else { continue }
            running[member.host] += 1
            if running[member.host] > perHost { fail("\(running) transfers run, the limit of a host is \(perHost)") }
        }
        if running[0] + running[1] + running[2] > limit { fail("\(running) transfers run, the limit is \(limit)") }
        if state.queues.running < 0 || state.queues.unstarted < 0 { fail("a count below 0") }
        // Each step checks the operation of the step and one other in turn. A broken invariant at rest persists.
        checked = (checked + 1) % members.count
        for index in [checked, touched] where members[index].pending == 0 { checkRest(of: index) }
    }

    /// Checks the queue entry of an operation without pending steps.
    private func checkRest(of index: Int) {
        let member = members[index]
        guard let queueEntry = member.queueEntry, member.ends == 0, queueEntry.index >= 0 else { return }
        let machine = member.machine
        if queueEntry.priority.value != member.priority.value {
            fail("\(index) has another priority than its queue entry")
        }
        let transfer = state.coalescer.operation(queueEntry)
        if transfer != nil, queueEntry.status != .sharing {
            fail("\(index) has left its shared transfer, which still has it")
        }
        if queueEntry.status == .sharing, transfer == nil { fail("\(index) shares a transfer that has ended") }
        if let key = member.shared, !machine.hasOutcome, state.coalescer.subscribers(key).isEmpty {
            fail("\(index) fetches for nobody")
        }
        guard !machine.hasOutcome else { return }
        if !member.isReleased, machine.phase == .pending, queueEntry.isDependent.value != (member.unfinished > 0) {
            fail("\(index) waits for \(member.unfinished) operations, and its queue entry says otherwise")
        }
        let looksLater: [QueueEntry.Status] = [.yielded, .preparing, .inQueue, .sharing]
        if queueEntry.suspension.value.isSuspended != machine.isSuspended, !looksLater.contains(queueEntry.status) {
            fail("\(index) is suspended: \(machine.isSuspended), and its queue entry says otherwise")
        }
        if member.waitsForTime, queueEntry.status == .dispatched {
            fail("\(index) waits for a time and has a slot")
        }
        if machine.isSuspended, queueEntry.status == .waiting { fail("\(index) is suspended and queued") }
    }

    /// Checks that an operation that gets a slot is the next one in order.
    func checkDispatch(_ index: Int) {
        let (member, queueEntry) = (members[index], members[index].queueEntry)
        guard let queueEntry else { return fail("a slot for an operation without queue entry") }
        if state.isSuspended || state.cancellations > 0 {
            fail("\(index) gets a slot from a scheduler that holds back")
        }
        if queueKind == .own, isQueueSuspended, !queueEntry.hasBegun {
            fail("\(index) gets a slot from a queue that is suspended")
        }
        if !queueEntry.hasBegun, queueEntry.role == .caller, queueKind == .callers {
            fail("\(index) gets a slot before its queue has started it")
        }
        if member.pending == 0, !queueEntry.hasBegun, member.unfinished > 0 {
            fail("\(index) gets a slot and waits for others")
        }
        if member.pending == 0, member.machine.isSuspended { fail("\(index) gets a slot and is suspended") }
        if let until = holds[member.host], until > milliseconds { fail("\(index) gets a slot of a host on hold") }
        if state.queues.running - (queueEntry.hasBegun ? state.queues.unstarted : 0) > limit {
            fail("\(index) gets a slot beyond the limit")
        }
        // The operation may have been queued in this step.
        let order = queueEntry.queueNumber == member.queueNumber ? member.order : orders + 1
        for other in members.indices where other != index {
            guard let waiting = members[other].queueEntry, waiting.status == .waiting, members[other].order > 0,
                members[other].host == member.host, waiting.rank == queueEntry.rank,
                waiting.queueNumber == members[other].queueNumber
            else { continue }
            let (priorityIndex, own) = (waiting.priority.value.priorityIndex, queueEntry.priority.value.priorityIndex)
            let isNewer = members[other].order > order
            let comesFirst = prioritization == .lifo && queueEntry.rank != .returning ? isNewer : !isNewer
            if priorityIndex < own || priorityIndex == own && members[other].order != order && comesFirst,
                member.order > 0
            {
                fail("\(index) gets a slot before \(other), which comes first")
            }
        }
    }

    /// Checks that every operation has ended when nothing can happen any more.
    private func checkEnd() {
        for index in members.indices where violation == nil {
            let member = members[index]
            let status = member.queueEntry.map { "\($0.status)" } ?? "no queue entry"
            if member.machine.phase != .finished { fail("\(index) is stuck: \(member.machine.phase), \(status)") }
            if member.outcomes != 1 { fail("\(index) has \(member.outcomes) outcomes") }
            if !member.machine.delivery.isOver { fail("\(index) is never over") }
            if let queueEntry = member.queueEntry, !queueEntry.isOver { fail("\(index) is never forgotten") }
        }
        let queues = state.queues
        let counts = [queues.running, queues.unstarted, state.count]
        if counts.contains(where: { $0 != 0 }) { fail("slots and queue entries left: \(counts)") }
        if !state.coalescer.isEmpty { fail("a shared transfer is left") }
        if state.isHandingOver { fail("a thread hands over for ever") }
        if drainCalls.withLock({ $0 }) != drainsAsked { fail("a drain never ends") }
    }
}

extension SeededGenerator {
    mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }
}

extension SchedulerWorld {
    /// A defect that the exploration must find: a wrong report to the state, or wrong effects.
    enum Defect: CaseIterable {
        case lateWordsOfDependenciesCount, lateWordsOfSuspensionCount, lateWordsOfPriorityCount
        case theEndOfDependenciesIsNotTold, resumingIsNotTold, prioritiesAreNotTold
        case theEndIsNotTold, theLastCallbackIsNotTold, theAbandonedAreNotTold, theAbandonedAreNotStarted
        case nothingIsPrepared, aKeptSlotIsNotTold, nothingIsHandedOverAfterAnEvent, handingOverNeverEnds
        case limitIsExceeded, hostLimitIsExceeded, suspensionOfTheManagerIsIgnored, suspensionOfTheQueueIsIgnored
        case slotsAreKeptDuringWaits, waitsAreForgotten, whatMayNotBeginBegins, theNextHostIsNotTold
        case aHoldIsLiftedEarly, aHoldIsNeverLifted
        case aSharedTransferIsNotLeft, answersAreNotTold, theQueueIsNotGivenWhatEnters
        case exclusionsAreIgnored
    }
}

/// The objects that the scheduler's state refers to, created once for all worlds.
enum SchedulerWorldObjects {
    static let count = 32

    private static let operations: [RequestOperation<Data>] = (0..<count).map {
        RequestOperation(Request<Data>.stub("\($0)"), transport: StubServer().transport)
    }
    private static let indices = Dictionary(
        uniqueKeysWithValues: operations.enumerated().map { (ObjectIdentifier($1), $0) })

    static func operation(_ index: Int) -> RequestOperation<Data> { operations[index] }
    static func index(of operation: AnyRequestOperation) -> Int { indices[ObjectIdentifier(operation)] ?? 0 }

    /// A new key, equal to the others of its group.
    static func key(of group: Int) -> CoalescingKey? {
        let request = Request<Data>.stub("shared-\(group)").coalesced()
        return (try? PreparedRequest(request.core, baseURL: nil)).flatMap { CoalescingKey(request.core, $0) }
    }
}
