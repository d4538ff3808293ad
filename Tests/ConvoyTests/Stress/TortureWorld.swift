import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// The settings that one seed determines: those of the manager and the behaviour of its servers.
struct TorturePlan: Sendable {
    let seed: Int
    let threads: Int
    let limit: Int
    let perHost: Int
    /// The limit of the queue: nil for the manager's own queue, -1 for no limit.
    let queueLimit: Int?
    let pausesInPlace: Bool
    let hasBarriers: Bool
    /// Whether dependencies of enqueued operations are added and removed.
    ///
    /// With barriers the test changes no dependencies, because a queue could then wait for its own barrier.
    let changesDependencies: Bool
    /// Whether nothing is cancelled, suspended or started by hand, so that the limits bound the concurrent exchanges.
    let isCalm: Bool
    let intercepts: Bool
    let shutsDown: Bool

    /// The usual number of seeds, or as many as `CONVOY_TORTURE` says.
    ///
    /// `CONVOY_TORTURE_SEED` is the first one, so that a single seed can be repeated.
    static func seeds(_ count: Int) -> Range<Int> {
        func number(_ name: String) -> Int? { ProcessInfo.processInfo.environment[name].flatMap { Int($0) } }
        let first = number("CONVOY_TORTURE_SEED") ?? 0
        return first..<first + max(1, number("CONVOY_TORTURE") ?? count)
    }

    init(seed: Int) {
        self.seed = seed
        var random = SeededGenerator(seed: UInt64(seed) &+ 0x70_72_74)
        threads = Int.random(in: 2...5, using: &random)
        limit = Int.random(in: 1...6, using: &random)
        perHost = Int.random(in: 1...4, using: &random)
        queueLimit = [nil, nil, -1, 1, 2, 3, 4][Int.random(in: 0..<7, using: &random)]
        pausesInPlace = Int.random(in: 0..<4, using: &random) > 0
        hasBarriers = Int.random(in: 0..<3, using: &random) == 0
        changesDependencies = !hasBarriers
        isCalm = Int.random(in: 0..<4, using: &random) == 0
        intercepts = Int.random(in: 0..<3, using: &random) == 0
        shutsDown = !isCalm && Int.random(in: 0..<12, using: &random) == 0
    }

    var label: String {
        "seed \(seed): \(threads) threads, \(limit) slots, \(perHost) a host, queue \(queueLimit.map { "\($0)" } ?? "own")"
            + ", in place \(pausesInPlace), barriers \(hasBarriers), calm \(isCalm), interceptors \(intercepts)"
    }

    func configuration(_ transport: TransportChoice, _ monitor: any EventMonitor)
        -> RequestManager.Configuration
    {
        var configuration = RequestManager.Configuration(
            maxConcurrentOperationCount: limit, maxConcurrentPerHost: perHost, transport: transport,
            monitors: [monitor])
        configuration.retries = RetryPolicy(baseDelay: .milliseconds(1))
        configuration.retryBudget = .unlimited
        if intercepts { configuration.interceptors = [TortureInterceptor()] }
        return configuration
    }

    /// The response for a path; it depends on the path and on the number of earlier requests.
    func answer(to path: String, time: Int) -> TortureAnswer {
        var random = SeededGenerator(seed: path.utf8.reduce(UInt64(seed)) { $0 &* 31 &+ UInt64($1) })
        let isLate = Bool.random(using: &random)
        return switch Int.random(in: 0..<10, using: &random) {
        case 0 where time == 1: TortureAnswer(statusCode: 503, isLate: isLate)
        case 1 where time == 1: TortureAnswer(statusCode: 0, isLate: isLate)
        case 2 where !path.hasSuffix("/r"): TortureAnswer(statusCode: 302, isLate: isLate)
        case 3: TortureAnswer(statusCode: 404, isLate: isLate)
        case 4: TortureAnswer(statusCode: 200, isLate: false)
        default: TortureAnswer(statusCode: 200, isLate: true)
        }
    }
}

struct TortureAnswer: Sendable {
    /// The status code; 0 for a lost connection.
    let statusCode: Int
    let isLate: Bool
}

/// Yields in each call, and asks for a second attempt for paths that end in 3.
struct TortureInterceptor: RequestInterceptor {
    func adapt(_ request: PreparedRequest, for attempt: AttemptContext) async throws -> PreparedRequest {
        await Task.yield()
        return request
    }

    func decide(after end: AttemptEnd, of attempt: AttemptContext) async throws -> InterceptorDecision {
        await Task.yield()
        return attempt.number == 1 && end.request.url.path.hasSuffix("3") ? .retry(after: .zero) : .proceed
    }
}

/// An operation of the test, and the calls of its handlers.
final class TortureMember: Sendable {
    let operation: RequestOperation<Data>
    let calls = Locked<[Int]>([])
    let ends = Locked(0)
    let observation = Locked<StateObservation?>(nil)
    let wasStartedByHand: Bool

    init(_ operation: RequestOperation<Data>, isObserved: Bool = false, startsByHand: Bool = false) {
        (self.operation, wasStartedByHand) = (operation, startsByHand)
        addHandler()
        // An observed operation takes another path through the queue.
        guard isObserved else { return }
        observation.withLock { [ends] observation in
            observation = operation.observe(\.isFinished) { operation, _ in
                if operation.isFinished { ends.withLock { $0 += 1 } }
            }
        }
    }

    func addHandler() {
        let index = calls.withLock { calls in
            calls.append(0)
            return calls.count - 1
        }
        operation.onFinish { [calls] _ in calls.withLock { $0[index] += 1 } }
    }

    /// Whether the exchange of this operation counts as running.
    var isMoving: Bool {
        operation.result == nil && !operation.isSuspended && !wasStartedByHand
    }
}

/// Records all events, and the faults among them.
final class TortureMonitor: EventMonitor {
    private let state = Locked((ended: Set<String>(), faults: [String]()))
    var faults: [String] { state.withLock { $0.faults } }
    var endedCount: Int { state.withLock { $0.ended.count } }

    func operation(_ operation: AnyRequestOperation, did event: RequestEvent) {
        // Only members have a name, unlike the operations of batches.
        guard let name = operation.name else { return }
        state.withLock { state in
            if state.ended.contains(name) { state.faults.append("\(name): \(event) after the end") }
            if case .finished = event { state.ended.insert(name) }
        }
    }
}

/// A stub that responds to requests and counts the running exchanges.
final class TortureStub: Sendable {
    private struct State {
        var members: [String: TortureMember] = [:]
        var asked: [String: Int] = [:]
        /// The counted exchanges: with a plan, those of members.
        var running: [Int: (exchange: StubExchange, member: TortureMember?)] = [:]
        var lastNumber = 0
        var faults: [String] = []
    }

    private let state = Locked(State())
    private let plan: TorturePlan?
    /// The maximum numbers of exchanges that may run, under any limit that the test sets.
    private let limits: (all: Int, host: Int)

    /// - Parameter plan: the responses; nil for a 200 to every request.
    init(_ plan: TorturePlan? = nil, limits: (all: Int, host: Int)) { (self.plan, self.limits) = (plan, limits) }

    /// The exceeded limits: of slots, of a host, or of a name that excludes others.
    var faults: [String] { state.withLock { $0.faults } }

    func know(_ member: TortureMember, as name: String) { state.withLock { $0.members[name] = member } }

    func forget() { state.withLock { ($0.members, $0.running) = ([:], [:]) } }

    var transport: StubTransport {
        StubTransport(pausesInPlace: plan?.pausesInPlace ?? true) { [self] exchange in handle(exchange) }
    }

    private func handle(_ exchange: StubExchange) {
        let path = exchange.request.url.path
        let (number, time, isCounted) = state.withLock { state in
            state.asked[path, default: 0] += 1
            state.lastNumber += 1
            let member = state.members[path.split(separator: "/").first.map(String.init) ?? ""]
            let isCounted = plan == nil || member != nil
            if isCounted { state.running[state.lastNumber] = (exchange, member) }
            return (state.lastNumber, state.asked[path] ?? 0, isCounted)
        }
        if isCounted { check() }
        let answer =
            plan?.answer(to: path, time: time) ?? TortureAnswer(statusCode: 200, isLate: !number.isMultiple(of: 3))
        guard answer.isLate else { return tell(answer, exchange, number) }
        DispatchQueue.global().async { self.tell(answer, exchange, number) }
    }

    private func tell(_ answer: TortureAnswer, _ exchange: StubExchange, _ number: Int) {
        let fields: HeaderFields =
            answer.statusCode == 302 ? ["Location": "http://h2\(exchange.request.url.path)/r"] : [:]
        if answer.statusCode != 0 {
            exchange.respond(
                ResponseHead(
                    statusCode: answer.statusCode, headerFields: fields, url: exchange.request.url, expectedBytes: 8))
            exchange.send(Data(count: 8))
        }
        // The exchange is removed before its end is reported, because other operations may start in that call.
        state.withLock { $0.running[number] = nil }
        exchange.finish(answer.statusCode == 0 ? RequestError(.connectionLost, "lost") : nil)
    }

    /// Checks the limits.
    ///
    /// The state of a member may change at any time, so two snapshots are taken. A member that is in both ran during the
    /// whole time between them.
    private func check() {
        var running = moving()
        if plan != nil, !excess(of: running).isEmpty {
            let second = moving()
            running = running.filter { second[$0.key] != nil }
        }
        let found = excess(of: running)
        if !found.isEmpty { state.withLock { $0.faults += found } }
    }

    private func excess(of running: [Int: StubExchange]) -> [String] {
        let most = Dictionary(grouping: running.values) { $0.request.url.host() ?? "" }.values.map(\.count).max() ?? 0
        let exclusive = running.values.count { $0.request.url.path == "/exclusive" }
        return [("slots", running.count, limits.all), ("host", most, limits.host), ("name", exclusive, 1)]
            .compactMap { name, count, limit in count > limit ? "\(name): \(count)" : nil }
    }

    private func moving() -> [Int: StubExchange] {
        state.withLock { $0.running }.filter { _, flight in
            !flight.exchange.isCancelled && !flight.exchange.isSuspended && flight.member?.isMoving != false
        }.mapValues(\.exchange)
    }
}

/// Runs threads over a manager to the end of all its operations; returns false if an operation is stuck.
///
/// - Parameters:
///   - letGo: resumes what waits for its owner.
///   - end: waits for everything else.
func runThreads(
    _ threads: Int, on manager: RequestManager, _ label: String, queues: [OperationQueue] = [],
    work: @escaping @Sendable (Int) -> Void, letGo: () -> Void, end: @escaping @Sendable () async -> Void
) async -> Bool {
    await withTaskGroup(of: Void.self) { group in
        for thread in 0..<threads { group.addTask { await offPool { work(thread) } } }
    }
    letGo()
    let ends = EventLog<Void>()
    let ending = Task {
        await end()
        await manager.drain()
        ends.record(())
    }
    await ends.wait()
    guard ends.count == 1 else {
        let left = manager.operations.map { "\($0): \(manager.why($0))" }
        let waits = ["): waits for http", "): waits for a slot", "): waits for a place", "): waits for: ", "shares"]
        let telling = left.filter { line in !waits.contains { line.contains($0) } }.prefix(12)
        let queued = queues.map { $0.operations.map(\.description).prefix(4).joined(separator: ", ") }
        let some: String = telling.joined(separator: "\n")
        Issue.record("stuck: \(label)\n\(left.count) left: \(some)\nqueues: \(queued)")
        ending.cancel()
        return false
    }
    #expect(manager.leftovers == [0, 0, 0], "slots and queue entries left, \(label)")
    return true
}

extension RequestManager {
    /// A manager with a queue that has a limit, or with its own queue.
    convenience init(queueLimit: Int?, configuration: Configuration) {
        guard let queueLimit else {
            self.init(configuration: configuration)
            return
        }
        let queue = OperationQueue()
        queue.maxConcurrentOperationCount = queueLimit
        self.init(queue: queue, configuration: configuration)
    }

    /// The numbers of occupied slots, of slots without a started operation and of queue entries.
    var leftovers: [Int] { scheduler.schedule.withLock { [$0.queues.running, $0.queues.unstarted, $0.count] } }
}
