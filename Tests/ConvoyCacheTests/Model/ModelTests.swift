import Convoy
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCache

/// Tests that cache and model agree in random histories.
///
/// `CONVOY_LONG=1` in the environment runs 3,000 histories, and `CONVOY_HISTORIES` sets another number.
@Suite(.timeLimit(.minutes(60)))
struct ModelTests {
    private static let count: Int = {
        ProcessInfo.processInfo.environment["CONVOY_HISTORIES"].flatMap(Int.init) ?? LongRuns.count(400, long: 3_000)
    }()

    @Test(arguments: 0..<4)
    func cacheAndModelAgree(_ part: Int) throws {
        for seed in 0..<Self.count / 4 {
            if let difference = try Self.difference(UInt64(part * 1_000_000 + seed)) {
                Issue.record("\(difference)")
            }
        }
    }

    /// Plays a history on the cache and on the model; returns the first difference, or nil.
    private static func difference(_ seed: UInt64) throws -> String? {
        var random = SeededGenerator(seed: seed)
        let start = 1_700_000_000
        var model = ReferenceModel(now: start)
        let player = CachePlayer(now: start)
        var steps: [String] = []
        for number in 0..<10 {
            let step = ModelStep.random(using: &random)
            steps.append("\(number): \(step)")
            let expected = model.play(number, step)
            let version = model.version(step.target)
            let found = try player.play(number, step, version: version.number, changed: version.changed)
            if found != expected {
                return "seed \(seed), step \(number): model \(expected), cache \(found)\n"
                    + steps.joined(separator: "\n")
            }
        }
        return nil
    }
}

/// A clock that only the test moves.
private final class StillClock: RequestClock {
    private let seconds: Convoy.Locked<Int>

    init(_ now: Int) { seconds = Convoy.Locked(now) }

    var now: ContinuousClock.Instant { ContinuousClock.now }
    var date: Date { Date(timeIntervalSince1970: Double(seconds.withLock { $0 })) }
    func move(by elapsed: Int) { seconds.withLock { $0 += elapsed } }
    func wake(at _: ContinuousClock.Instant, _ work: @escaping @Sendable () -> Void) -> ClockTimer { ClockTimer(work) }
}

/// Plays histories on a cache whose origin responds at once.
final class CachePlayer: Sendable {
    private let cache = HTTPCache.memory(capacity: 1 << 20)
    private let clock: StillClock
    private let stub: StubTransport
    private let network: CacheNetwork
    /// The origin's next response and the requests that it received.
    private let origin: Convoy.Locked<Origin>

    struct Origin: Sendable {
        var step: ModelStep?
        var number = 0
        var version = 0
        var changed = 0
        var now = 0
        var sent: [Bool] = []
    }

    init(now: Int) {
        let origin = Convoy.Locked(Origin())
        (self.origin, clock) = (origin, StillClock(now))
        stub = StubTransport { exchange in
            let isConditional = ["If-None-Match", "If-Modified-Since"].contains {
                exchange.request.headerFields.contains($0)
            }
            let state = origin.withLock { state in
                state.sent.append(isConditional)
                return state
            }
            state.answer(exchange)
        }
        network = CacheNetwork(ExecutionContext(transport: .custom(stub)), hasSlot: true)
    }

    func play(_ number: Int, _ step: ModelStep, version: Int, changed: Int) throws -> ModelOutcome {
        clock.move(by: step.elapsed)
        let now = Int(clock.date.timeIntervalSince1970)
        origin.withLock {
            $0 = Origin(step: step, number: number, version: version, changed: changed, now: now)
        }
        var request = Request<Data>(method: HTTPMethod(step.method), url: "http://a.test/\(step.target)")
        if let language = step.language { request = request.header("X-Language", "\(language)") }
        if let token = step.token { request = request.header("Authorization", "Bearer \(token)") }
        if let control = step.control { request = request.header("Cache-Control", control) }
        let prepared = try PreparedRequest(checking: request)
        let query = CacheQuery(prepared, nil, keepsCoding: false, clock: clock)
        let client = OutcomeClient()
        let exchange = try #require(cache.begin(query))
        let task = try exchange.makeTransfer(for: prepared, client: client, over: network)
        let sentBefore = origin.withLock { $0.sent.count }
        #expect(sentBefore == 0)
        task.resume()
        // This test does not cover refreshes in the background.
        if exchange.wantsRefresh { exchange.refreshEnded() }
        var outcome = client.outcome
        outcome.sent = origin.withLock { $0.sent }
        return outcome
    }
}

/// Records the result that a client receives.
private final class OutcomeClient: TransportClient {
    private let state = Convoy.Locked((status: Int?.none, body: Data(), hasFailed: false, ends: 0))

    var outcome: ModelOutcome {
        state.withLock { state in
            #expect(state.ends == 1)
            let body = Int(String(decoding: state.body, as: UTF8.self).prefix { $0 != " " })
            return ModelOutcome(status: state.hasFailed ? nil : state.status, body: state.hasFailed ? nil : body)
        }
    }

    func didReceive(_ head: ResponseHead) { state.withLock { ($0.status, $0.body) = (head.statusCode, Data()) } }
    func didReceive(_ data: Data) -> Bool {
        state.withLock { $0.body += data }
        return true
    }
    func didPause() {}
    func didSend(totalBytes _: Int64) {}
    func didFinish(_ error: RequestError?) {
        state.withLock { state in
            state.hasFailed = error != nil
            state.ends += 1
        }
    }
}
