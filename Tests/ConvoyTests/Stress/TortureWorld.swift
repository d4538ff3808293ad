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
    /// Whether another thread delivers the response.
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
    /// The number of calls of each handler.
    let calls = Locked<[Int]>([])
    let ends = Locked(0)
    let observation = Locked<StateObservation?>(nil)
    let wasStartedByHand: Bool

    init(_ operation: RequestOperation<Data>, isObserved: Bool, startsByHand: Bool) {
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
    private struct Flight {
        let member: TortureMember
        let host: String
        let exchange: StubExchange
    }

    private struct State {
        var members: [String: TortureMember] = [:]
        var asked: [String: Int] = [:]
        var coalescer: [Int: Flight] = [:]
        var lastFlight = 0
        var faults: [String] = []
    }

    private let state = Locked(State())
    private let plan: TorturePlan
    /// The maximum numbers of exchanges that may run, under any limit that the test sets.
    private let limits: (all: Int, host: Int)

    init(_ plan: TorturePlan, limits: (all: Int, host: Int)) {
        (self.plan, self.limits) = (plan, limits)
    }

    var faults: [String] { state.withLock { $0.faults } }

    func know(_ member: TortureMember, as name: String) { state.withLock { $0.members[name] = member } }

    func forget() { state.withLock { ($0.members, $0.coalescer) = ([:], [:]) } }

    var transport: StubTransport {
        StubTransport(pausesInPlace: plan.pausesInPlace) { [self] exchange in handle(exchange) }
    }

    private func handle(_ exchange: StubExchange) {
        let path = exchange.request.url.path
        let (number, time, isKnown) = state.withLock { state in
            state.asked[path, default: 0] += 1
            state.lastFlight += 1
            let name = path.split(separator: "/").first.map(String.init) ?? ""
            let member = state.members[name]
            state.coalescer[state.lastFlight] = member.map {
                Flight(member: $0, host: exchange.request.url.host() ?? "", exchange: exchange)
            }
            return (state.lastFlight, state.asked[path] ?? 0, member != nil)
        }
        if isKnown { check() }
        let answer = plan.answer(to: path, time: time)
        guard answer.isLate else { return tell(answer, exchange, number) }
        DispatchQueue.global().async { self.tell(answer, exchange, number) }
    }

    private func tell(_ answer: TortureAnswer, _ exchange: StubExchange, _ number: Int) {
        let body = Data(count: 8)
        let fields: HeaderFields =
            answer.statusCode == 302 ? ["Location": "http://h2\(exchange.request.url.path)/r"] : [:]
        if answer.statusCode != 0 {
            exchange.respond(
                ResponseHead(
                    statusCode: answer.statusCode, headerFields: fields, url: exchange.request.url, expectedBytes: 8))
            exchange.send(body)
        }
        // The exchange is removed before its end is reported, because other operations may start in that call.
        state.withLock { $0.coalescer[number] = nil }
        exchange.finish(answer.statusCode == 0 ? RequestError(.connectionLost, "lost") : nil)
    }

    /// Checks the limits with two snapshots.
    ///
    /// An operation that is in both ran during the whole time between them.
    private func check() {
        let first = moving()
        guard
            first.count > limits.all
                || (Dictionary(grouping: first.values) { $0 }.values.map(\.count).max() ?? 0) > limits.host
        else { return }
        let second = moving()
        let both = first.filter { second[$0.key] != nil }
        let most = Dictionary(grouping: both.values) { $0 }.values.map(\.count).max() ?? 0
        if both.count > limits.all || most > limits.host {
            state.withLock { $0.faults.append("\(both.count) under way, \(most) to one host") }
        }
    }

    private func moving() -> [Int: String] {
        state.withLock { $0.coalescer }.filter { _, flight in
            !flight.exchange.isCancelled && !flight.exchange.isSuspended && flight.member.isMoving
        }.mapValues(\.host)
    }
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
    var leftovers: [Int] { scheduler.state.withLock { [$0.queues.running, $0.queues.unstarted, $0.count] } }
}
