import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct RetryingTests {
    /// A server that responds with these status codes in order; 0 is a lost connection, and the last one is repeated.
    private static func answering(_ codes: [Int], headerFields: HeaderFields = [:]) -> StubServer {
        StubServer.numbered { exchange, index in
            let code = codes[min(index, codes.count - 1)]
            if code == 0 { return exchange.finish(RequestError(.connectionLost, "lost")) }
            exchange.answer(code, headerFields: code >= 400 ? headerFields : [:], body: Data("\(code)".utf8))
        }
    }

    private func manager(
        _ server: StubServer, _ clock: VirtualClock, unit: Double = 0.5, policy: RetryPolicy = .standard,
        budget: RetryBudget = .unlimited, limit: Int = 16
    ) -> RequestManager {
        server.manager(limit, clock: clock) { configuration in
            configuration.retries = policy
            configuration.retryBudget = budget
            configuration.jitter = { unit }
        }
    }

    @Test func whatIsAcceptableOrHasNoPolicyIsNotRetried() async throws {
        let server = Self.answering([503])
        await #expect(throws: RequestError.self) { try await server.manager().send(Request.stub("a")) }
        let manager = manager(server, VirtualClock())
        await #expect(throws: RequestError.self) { try await manager.send(Request.stub("a").retries(.never)) }
        try await manager.send(Request.stub("a").acceptableStatusCodes(.any))
        #expect(server.exchanges.count == 3)
    }

    @Test func aWaitingRetryHoldsNoSlot() async throws {
        let (server, clock) = (Self.answering([503, 200]), VirtualClock())
        let manager = manager(server, clock, limit: 1)
        let first = manager.enqueue(Request.stub("a"))
        await clock.armed.wait()
        _ = try await manager.enqueue(Request.stub("b")).response()
        // The timer is set before the operation records the reason of its wait, so the test waits for the reason.
        await look { manager.why(first) == "is executing, attempt 2 in 250 ms" }
        clock.advanceToNext()
        _ = try await first.response()
        #expect(server.paths == ["/a", "/b", "/a"])
    }

    @Test func aRetryPrecedesRequestsThatHaveNotBegun() async throws {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = manager(server, clock, limit: 1)
        manager.enqueue(Request.stub("a"))
        await server.exchanges.wait()[0].answer(503)
        await clock.armed.wait()
        manager.enqueue(Request.stub("b"))
        manager.enqueue(Request.stub("c"))
        let second = await server.exchanges.wait(count: 2)[1]
        clock.advanceToNext()
        await look {
            manager.operations.first.map { manager.why($0).contains("slot:") } == true
        }
        second.answer(200)
        await server.exchanges.wait(count: 3)[2].answer(200)
        await server.exchanges.wait(count: 4)[3].answer(200)
        await manager.drain()
        #expect(server.paths == ["/a", "/b", "/a", "/c"])
    }

    @Test func anOperationStartedDirectlyIsRetriedAndRetained() async throws {
        let (server, clock) = (Self.answering([503, 200]), VirtualClock())
        var configuration = RequestManager.Configuration(transport: .custom(server.transport))
        configuration.clock = clock
        configuration.retries = .standard
        let ended = EventLog<RequestError.Code?>()
        do {
            let operation = RequestOperation<Data>(
                requestPlan: TypedRequestPlan(Request.stub("a")), scheduler: Scheduler(configuration))
            operation.onFinish { ended.record($0.code) }
            operation.start()
        }
        await clock.armed.wait()
        clock.advanceToNext()
        #expect(await ended.wait() == [nil])
    }

    @Test func suspendedWhileItWaitsItIsNotSentBeforeItIsResumed() async throws {
        let (server, clock) = (Self.answering([503, 200]), VirtualClock())
        let manager = manager(server, clock)
        let operation = manager.enqueue(Request.stub("a"))
        await clock.armed.wait()
        operation.suspend()
        clock.advanceToNext()
        try await manager.send(Request.stub("b"))
        #expect(server.paths == ["/a", "/b"])
        operation.resume()
        _ = try await operation.response()
        #expect(server.paths == ["/a", "/b", "/a"])
    }

    /// A slot that becomes free on a transport's thread may go to a retry.
    ///
    /// Not every transport can create a task there.
    @Test(arguments: ConformingTransport.all)
    func retriesShareOneSlotWithOtherRequests(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let asked = Locked<[String: Int]>([:])
        server.respond { request in
            let count = asked.withLock { asked in
                asked[request.target, default: 0] += 1
                return asked[request.target] ?? 0
            }
            return .status(count == 1 ? 503 : 200)
        }
        let manager = subject.manager(1) {
            $0.retries = RetryPolicy(baseDelay: .milliseconds(1))
            $0.retryBudget = .unlimited
        }
        let results = await manager.batch((0..<100).map { Request<Data>.get(server.url("/\($0)")) }).results
        #expect(results.count { (try? $0.get())?.attempts.count == 2 } == 100)
    }

    @Test func theBudgetEndsAStorm() async {
        let (server, clock) = (Self.answering([503]), VirtualClock())
        let manager = manager(
            server, clock, budget: RetryBudget(ratio: 0.1, reserve: 5, reservePerSecond: 0), limit: 4)
        let batch = manager.batch((0..<100).map { Request.stub("\($0)") })
        async let results = batch.results
        await look {
            clock.advanceToNext()
            return server.exchanges.count >= 115 && manager.operations.isEmpty
        }
        manager.cancelAll()
        #expect(await results.count { $0.code == .unacceptableStatus } == 100)
        // The budget permits one retry for every ten requests, plus the reserve.
        #expect(server.exchanges.count == 115)
    }

    /// The next attempt's stream is created only after the failed attempt's stream has been closed.
    ///
    /// Each stream may truncate the same file. The test delays the creation of the first stream.
    @Test func theStreamOfTheNextAttemptIsMadeAfterThatOfTheLast() async throws {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let (events, gate) = (EventLog<String>(), DispatchSemaphore(value: 0))
        let request = Request.stub("a").written {
            let isFirst = events.count == 0
            events.record(isFirst ? "making the first" : "making the second")
            if isFirst {
                gate.wait()
                events.record("made the first")
            }
            return .toMemory()
        }
        let operation = manager(server, clock).enqueue(request)
        let first = await server.exchanges.wait()[0]
        first.respond(ResponseHead(statusCode: 200))
        await events.wait()
        first.finish(RequestError(.connectionLost, "lost"))
        await clock.armed.wait()
        clock.advanceToNext()
        await server.exchanges.wait(count: 2)[1].answer(200, body: Data("whole".utf8))
        // If the second stream were created at once, it would be recorded here.
        _ = await turns(within: .milliseconds(100)) { events.count > 1 }
        gate.signal()
        #expect(try await operation.response().value == Data("whole".utf8))
        #expect(events.events == ["making the first", "made the first", "making the second"])
    }

    @Test func progressBeginsAfreshWithEachTry() async throws {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let operation = manager(server, clock).enqueue(
            Request<Data>.put("http://stub/a").body(Data(count: 10)))
        let first = await server.exchanges.wait()[0]
        first.sent(totalBytes: 10)
        #expect(operation.progress.upload.completedBytes == 10)
        first.finish(RequestError(.connectionLost, "lost"))
        await clock.armed.wait()
        #expect(operation.progress.upload.completedBytes == 0)
        clock.advanceToNext()
        await server.exchanges.wait(count: 2)[1].answer(200)
        _ = try await operation.response()
    }

    @Test(arguments: [429, 503])
    func retryAfterOfOneRequestDelaysNoOther(statusCode: Int) async throws {
        let clock = VirtualClock()
        let server = StubServer { exchange in
            guard exchange.request.url.path == "/slow", clock.elapsed < .seconds(300) else {
                return exchange.answer(200)
            }
            exchange.answer(statusCode, headerFields: ["Retry-After": "300"])
        }
        let manager = manager(server, clock, unit: 0)
        let slow = manager.enqueue(Request.stub("slow"))
        await look { manager.why(slow).contains("attempt 2 in") }
        for index in 0..<50 {
            try await manager.send(Request.stub("\(index)").deadline(.seconds(60)))
        }
        #expect(clock.elapsed == .zero)
        #expect(server.exchanges.count == 51)
        #expect(manager.why(slow) == "is executing, attempt 2 in 300.0 s, as Retry-After of its \(statusCode) asked")
        clock.advance(by: .seconds(300))
        _ = try await slow.response()
        #expect(server.exchanges.count == 52)
    }

    /// After a 417, the request is sent once more without `Expect` (RFC 9110, section 10.1.1).
    ///
    /// URLSession on Linux waits for the body after a 417 to `100-continue`, until the idle timeout.
    @Test(
        arguments: ConformingTransport.all,
        [(.post, "100-continue"), (.put, "100-Continue"), (.post, "x-own")] as [(HTTPMethod, String)])
    func aRefusedExpectationIsDropped(
        subject: ConformingTransport, sent: (method: HTTPMethod, expectation: String)
    ) async throws {
        guard subject.name != "URLSession" || sent.expectation == "x-own" else { return }
        for accepts in [StatusCheck.successful, .any] {
            let server = try TestServer()
            defer { server.shutDown() }
            server.respond { $0.value(of: "Expect") == nil ? .status(200, body: "taken") : .status(417) }
            let request = Request<String>(method: sent.method, url: server.url()).body(Data("body".utf8))
                .header("Expect", sent.expectation).header("X-Own", "1").acceptableStatusCodes(accepts)
            let response = try await subject.manager().send(request)
            #expect(response.value == "taken")
            #expect(response.attempts.map(\.statusCode) == [417, 200])
            #expect(server.received("Expect").last == .some(nil))
            #expect(server.received("X-Own").allSatisfy { $0 == "1" })
        }
    }

    @Test func a417WithoutAnExpectationStands() async {
        let server = Self.answering([417])
        let request = Request<Data>.post("http://stub/a").body(Data())
        for request in [request, request.header("Expect", "100-continue")] {
            let error = await server.manager().error(of: request)
            #expect(error?.response?.statusCode == 417)
        }
        #expect(server.exchanges.events.map { $0.request.headerFields["Expect"] } == [nil, "100-continue", nil])
    }

    /// With the scope `.host`, all requests to the host wait, even if the failed one is not retried.
    ///
    /// The longest wait that is respected is 300 seconds. With the scope `.request`, no other request waits.
    @Test(
        arguments: [(.request, 30, 0), (.host, 30, 30), (.host, 86_400, 300)]
            as [(RetryPolicy.RetryAfterScope, Int, Int)])
    func retryAfterHoldsTheHostWithoutARetryToo(
        scope: RetryPolicy.RetryAfterScope, told: Int, seconds: Int
    ) async throws {
        let (server, clock) = (Self.answering([429, 200], headerFields: ["Retry-After": "\(told)"]), VirtualClock())
        var policy = RetryPolicy.never
        policy.retryAfterScope = scope
        let manager = manager(server, clock, policy: policy)
        _ = try? await manager.enqueue(Request.stub("refused")).response()
        let (next, other) = (manager.enqueue(.stub("next")), manager.enqueue(.stub("other", host: "other")))
        _ = try await other.response()
        if scope == .host {
            #expect(manager.why(next).hasPrefix("waits for http://stub:80: it is on hold for another \(seconds).0 s; "))
            #expect(manager.why(next).hasSuffix("was answered 429 with Retry-After"))
            #expect(server.paths == ["/refused", "/other"])
            clock.advanceToNext()
        }
        _ = try await next.response()
        #expect(clock.elapsed == .seconds(seconds))
    }
}

extension RetryPolicy {
    /// A policy for a server that limits all requests together.
    static let wholeHost: RetryPolicy = {
        var policy = RetryPolicy.standard
        policy.retryAfterScope = .host
        return policy
    }()
}

/// Tests random fault schedules in virtual time against a reference table.
@Suite(.serialized) struct RetryScheduleTests {
    /// The response of a server to one attempt: whether the policy retries it, the requested delay, and the status and
    /// error in the record.
    struct Fault {
        var isRetried = false
        var retryAfter = 0
        var statusCode: Int?
        var failure: RequestError.Code?

        static let all: [Fault] =
            [200, 404, 501, 301, 307].map { Fault(statusCode: $0) }
            + [408, 425, 500, 502, 503, 504].map { Fault(isRetried: true, statusCode: $0) }
            + [
                Fault(isRetried: true, retryAfter: 3, statusCode: 429),
                Fault(isRetried: true, retryAfter: 7, statusCode: 503),
                Fault(isRetried: true, failure: .connectionFailed), Fault(isRetried: true, failure: .connectionLost),
                Fault(isRetried: true, failure: .timedOut), Fault(failure: .tlsFailed), Fault(failure: .badResponse),
                Fault(statusCode: 200, failure: .bodyTooLarge),
                Fault(isRetried: true, statusCode: 200, failure: .connectionLost),
            ]

        /// Answers an exchange with this fault.
        func answer(_ exchange: StubExchange, hop: Int) {
            guard let statusCode else {
                return exchange.finish(RequestError(failure ?? .badResponse, "as scheduled"))
            }
            if failure == .connectionLost {
                exchange.respond(ResponseHead(statusCode: 200, expectedBytes: 10))
                exchange.send(Data("half".utf8))
                return exchange.finish(RequestError(.connectionLost, "as scheduled"))
            }
            let fields: HeaderFields =
                [301, 307].contains(statusCode)
                ? ["Location": "/hop\(hop)"] : retryAfter > 0 ? ["Retry-After": "\(retryAfter)"] : [:]
            exchange.answer(
                statusCode, headerFields: fields, body: Data(count: failure == .bodyTooLarge ? 1_000 : 0))
        }
    }

    struct Schedule {
        var faults: [Fault]
        var method: HTTPMethod
        var hasKey: Bool
        var maxRetries: Int
        var units: [Double]
        var deadline: Int?

        init(seed: UInt64) {
            var random = SeededGenerator(seed: seed)
            faults = (0..<12).compactMap { _ in Fault.all.randomElement(using: &random) } + [Fault(statusCode: 200)]
            // Half of the schedules begin with retried faults, so that many have several attempts.
            if Bool.random(using: &random) {
                let retried = Fault.all.filter(\.isRetried)
                for index in 0..<6 { faults[index] = retried.randomElement(using: &random) ?? faults[index] }
            }
            method = ([.get, .put, .post, .delete, .patch] as [HTTPMethod]).randomElement(using: &random) ?? .get
            hasKey = Bool.random(using: &random)
            maxRetries = Int.random(in: 0...6, using: &random)
            units = (0..<12).map { _ in Double(Int.random(in: 0...8, using: &random)) / 8 }
            deadline = Bool.random(using: &random) ? Int.random(in: 1...20, using: &random) : nil
        }
    }

    /// The expected times of requests at the server, in milliseconds since the start, and the outcome.
    static func reference(_ schedule: Schedule) -> (sentAt: [Int], statusCode: Int?, failure: RequestError.Code?) {
        let idempotent: Set<HTTPMethod> = [.get, .put, .delete]
        let mayRepeat = idempotent.contains(schedule.method) || schedule.hasKey
        var (sentAt, now, retries, method) = ([Int](), 0, 0, schedule.method)
        for fault in schedule.faults {
            sentAt.append(now)
            if fault.statusCode == 301 || fault.statusCode == 307 {
                if fault.statusCode == 301, method == .post { method = .get }
                continue
            }
            // No server has processed these, so any method is repeated.
            let isUnprocessed = fault.failure == .connectionFailed || fault.statusCode == 408
            let repeats = mayRepeat || isUnprocessed || (method == .get && schedule.method == .post)
            guard fault.isRetried, repeats, retries < schedule.maxRetries else {
                return (sentAt, fault.statusCode, fault.failure)
            }
            retries += 1
            // The delay is `Retry-After` plus full jitter. The limit of the jitter is 1 s, doubled for each retry up
            // to 8 s.
            let ceiling = min(8_000, 1_000 << (retries - 1))
            let delay = fault.retryAfter * 1_000 + Int(Double(ceiling) * schedule.units[retries - 1])
            if let deadline = schedule.deadline, now + delay >= deadline * 1_000 {
                return (sentAt, fault.statusCode, fault.failure)
            }
            now += delay
        }
        return (sentAt, nil, nil)
    }

    @Test(arguments: 0..<LongRuns.count(6, long: 20))
    func theServerReceivesTheAttemptsOfTheTable(block: Int) async {
        for seed in (block * 50)..<(block * 50 + 50) {
            let schedule = Schedule(seed: UInt64(seed))
            let clock = VirtualClock()
            let sentAt = EventLog<Int>()
            let server = StubServer { exchange in
                sentAt.record(Int((clock.elapsed.seconds * 1_000).rounded()))
                let index = sentAt.count - 1
                schedule.faults[min(index, schedule.faults.count - 1)].answer(exchange, hop: index)
            }
            let retries = Locked(0)
            let manager = server.manager(clock: clock) { configuration in
                configuration.retries = RetryPolicy(
                    maxRetries: schedule.maxRetries, baseDelay: .seconds(1), maxDelay: .seconds(8))
                configuration.retryBudget = .unlimited
                configuration.jitter = {
                    retries.withLock { retries in
                        defer { retries += 1 }
                        return schedule.units[min(retries, schedule.units.count - 1)]
                    }
                }
            }
            var request = Request<Data>(method: schedule.method, url: "http://stub/a") { body, _ in body }
                .maxBodyBytes(100).deadline(schedule.deadline.map { .seconds($0) })
            if schedule.hasKey { request = request.idempotencyKey("key") }
            let operation = manager.enqueue(request)
            // Time advances only when the operation waits for another attempt.
            await look {
                if manager.why(operation).contains(" in ") || manager.why(operation).contains("on hold") {
                    clock.advanceToNext()
                }
                return operation.result != nil
            }
            operation.cancel()
            await manager.drain()
            let expected = Self.reference(schedule)
            #expect(sentAt.events == expected.sentAt, "seed \(seed): \(schedule)")
            let attempts = (try? operation.result?.get().attempts) ?? operation.error?.attempts ?? []
            #expect(attempts.count == expected.sentAt.count, "seed \(seed)")
            #expect(attempts.last?.statusCode == expected.statusCode, "seed \(seed)")
            #expect(attempts.last?.failure == expected.failure, "seed \(seed)")
        }
    }
}
