// Tests one refresh for many requests, how it ends for them, and which servers get its token.
import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(3))) struct BearerRefreshTests {
    private let refresh = HeldRefresh()
    private let tokens = TokenServer(good: "t1")
    private let gate = Gate()
    private let server: TestServer

    /// Accepts the current token and delays each 401 until the gate opens.
    init() throws {
        server = try TestServer()
        server.respond { [tokens, gate] request in
            let status = tokens.status(of: request)
            let reply = Reply.status(status, headerFields: [("WWW-Authenticate", "Bearer")], body: request.path)
            return status == 401 ? reply.stalling(until: gate) : reply
        }
    }

    private func manager(
        over subject: ConformingTransport, _ limit: Int = 200, _ authenticator: BearerAuthenticator? = nil
    ) -> RequestManager {
        subject.manager(limit, interceptors: [authenticator ?? refresh.authenticator(token: "t0")])
    }

    /// The server reads all requests before the client receives the first 401.
    ///
    /// No request is sent again until the refresh has ended.
    @Test(arguments: ConformingTransport.all)
    func twoHundredRefusedRequestsMakeOneRefresh(_ subject: ConformingTransport) async throws {
        let manager = manager(over: subject)
        let operations = (0..<200).map { manager.enqueue(Request<String>.get(server.url("/\($0)"))) }
        try await gate.reached(count: 200, within: .seconds(40))
        gate.open()
        await refresh.begun.wait()
        await manager.allAreIntercepted(operations)
        await refresh.finish(.success("t1"))
        for (number, operation) in operations.enumerated() {
            #expect(try await operation.response().value == "/\(number)")
        }
        #expect(refresh.begun.count == 1)
        guard case .refused(let head)? = refresh.begun.events.first else { throw RequestError(.badResponse, "no 401") }
        #expect(head.headerFields["WWW-Authenticate"] == "Bearer")
        #expect(tokens.tokens.count == 200)
        #expect(tokens.tokens.values.allSatisfy { $0 == ["t0", "t1"] })
    }

    /// Once the refresh has begun, no request is sent with the old token.
    ///
    /// This includes requests with the old token that wait for a slot. A stub without a network makes the order exact.
    @Test func nobodyInLineIsSentWithATokenThatIsBeingReplaced() async throws {
        let held = Locked<[StubExchange]?>([])
        let arrivals = EventLog<Void>()
        let server = StubServer { [tokens] exchange in
            let isGood = tokens.status(of: exchange) == 200
            if isGood { return exchange.answer(200) }
            let isHeld = held.withLock { held in
                held?.append(exchange)
                return held != nil
            }
            arrivals.record(())
            if !isHeld { exchange.answer(401) }
        }
        let manager = server.manager(16, configure: { $0.interceptors = [refresh.authenticator(token: "t0")] })
        let operations = (0..<200).map { manager.enqueue(Request.stub("\($0)")) }
        await arrivals.wait(count: 16)
        // The 401 frees a slot. Another request may get that slot before the refresh begins.
        held.withLock { $0?.removeFirst() }?.answer(401)
        await refresh.begun.wait()
        let rest = held.withLock { held in
            defer { held = nil }
            return held ?? []
        }
        for exchange in rest { exchange.answer(401) }
        await manager.allAreIntercepted(operations)
        #expect((16...17).contains(tokens.count(of: "t0")))
        // These requests are enqueued during the refresh, so they never get the old token.
        let late = (200..<300).map { manager.enqueue(Request.stub("\($0)")) }
        await manager.allAreIntercepted(late)
        let refused = tokens.count(of: "t0")
        await refresh.finish(.success("t1"))
        for operation in operations + late { _ = try await operation.response() }
        #expect(refresh.begun.count == 1)
        #expect(tokens.count(of: "t0") == refused)
        #expect(tokens.count(of: "t1") == 300)
        #expect((16...17).contains(tokens.tokens.values.count { $0 == ["t0", "t1"] }))
        #expect(tokens.tokens.values.allSatisfy { $0 == ["t0", "t1"] || $0 == ["t1"] })
    }

    @Test func refreshPassesACrowd() async throws {
        let server = StubServer { [tokens] exchange in
            let isToken = exchange.request.url.path == "/token"
            if isToken { #expect(exchange.request.authorization == nil) }
            exchange.answer(isToken ? 200 : tokens.status(of: exchange), body: Data("t1".utf8))
        }
        let box = Locked<RequestManager?>(nil)
        let gate = Turnstile()
        let authenticator = BearerAuthenticator { _ in
            await gate.pass()
            let manager = try #require(box.withLock { $0 })
            let response = try await manager.send(Request.stub("token").withoutInterceptors())
            return String(decoding: response.value, as: UTF8.self)
        }
        let manager = server.manager(1, configure: { $0.interceptors = [authenticator] })
        box.withLock { $0 = manager }
        let operations = (0..<400).map { manager.enqueue(Request.stub("\($0)")) }
        await gate.arrivals.wait()
        await manager.allAreIntercepted(operations)
        gate.open()
        for operation in operations { _ = try await operation.response() }
        box.withLock { $0 = nil }
        #expect(server.paths.count { $0 == "/token" } == 1)
        #expect(tokens.count(of: "t1") == 400)
    }

    /// A request that starts to wait after the failure starts another refresh, which fails too.
    @Test(arguments: ConformingTransport.all)
    func failedRefreshEndsAllWithItsErrorAndTheNextTriesAgain(_ subject: ConformingTransport) async throws {
        gate.open()
        let (begun, turnstile, isDown) = (EventLog<Void>(), Turnstile(), Locked(true))
        // Each request that joins late may start a refresh of its own, so that five of them reach the usual limit.
        let limits = RefreshLimits(maxRefreshes: 100)
        let authenticator = BearerAuthenticator(token: "t0", limits: limits) { _ in
            begun.record(())
            await turnstile.pass()
            guard isDown.withLock({ $0 }) else { return "t1" }
            throw RequestError(.connectionFailed, "no tokens today")
        }
        let manager = manager(over: subject, 32, authenticator)
        let operations = (0..<20).map { manager.enqueue(Request<Data>.get(server.url("/\($0)"))) }
        await begun.wait()
        await manager.allAreIntercepted(operations)
        turnstile.open()
        for (number, operation) in operations.enumerated() {
            let error = await #expect(throws: RequestError.self) { try await operation.response() }
            #expect(error?.code == .connectionFailed)
            // Each error names its own request, not the request that started the refresh.
            #expect(error?.description.contains("no tokens today") == true)
            #expect(error?.description.contains("/\(number)") == true)
        }
        #expect(tokens.count(of: "t1") == 0)
        isDown.withLock { $0 = false }
        let count = begun.count
        let next = try await manager.send(Request<String>.get(server.url("/next")))
        #expect(next.value == "/next")
        #expect(tokens.tokens["/next"] == ["t0", "t1"])
        #expect(begun.count == count + 1)
    }

    @Test(arguments: ConformingTransport.all)
    func refreshOutlivesAllWhoWaitedForIt(_ subject: ConformingTransport) async throws {
        gate.open()
        let manager = manager(over: subject)
        let operations = (0..<10).map { manager.enqueue(Request<Data>.get(server.url("/\($0)"))) }
        await refresh.begun.wait()
        await manager.allAreIntercepted(operations)
        manager.cancelAll()
        await manager.drain()
        #expect(operations.allSatisfy { $0.error?.code == .cancelled })
        // The next request waits for the same refresh.
        let next = manager.enqueue(Request<String>.get(server.url("/next")))
        await manager.allAreIntercepted([next])
        await refresh.finish(.success("t1"))
        #expect(try await next.response().value == "/next")
        #expect(tokens.tokens["/next"] == ["t1"])
        #expect(tokens.count(of: "t1") == 1)
        #expect(refresh.begun.count == 1)
    }

    @Test(arguments: ConformingTransport.all)
    func refusalOfAFreshTokenIsTheOutcome(_ subject: ConformingTransport) async throws {
        tokens.accept("of somebody else")
        let manager = manager(over: subject)
        let operations = (0..<10).map { manager.enqueue(Request<Data>.get(server.url("/\($0)"))) }
        try await gate.reached(count: 10, within: .seconds(40))
        gate.open()
        await refresh.finish(.success("t1"))
        for (number, operation) in operations.enumerated() {
            let error = await #expect(throws: RequestError.self) { try await operation.response() }
            #expect(error?.response?.statusCode == 401)
            #expect(error?.body == Data("/\(number)".utf8))
        }
        #expect(tokens.tokens.values.allSatisfy { $0 == ["t0", "t1"] })
        #expect(refresh.begun.count == 1)
    }

    @Test(arguments: ConformingTransport.all, [200, 401])
    func freshTokenStaysWithItsOrigin(_ subject: ConformingTransport, status: Int) async throws {
        let other = try TestServer()
        gate.open()
        other.respond { _ in .status(status, headerFields: [("WWW-Authenticate", "Bearer")]) }
        for (path, target) in [("/away", "/b"), ("/b", "\(other.url("/x"))")] {
            server.route(path) { [tokens] request in
                tokens.status(of: request) == 200 ? .redirect(to: target) : .status(401)
            }
        }
        let operation = manager(over: subject).enqueue(
            Request<Data>.get(server.url("/away")).acceptableStatusCodes(.any))
        await refresh.finish(.success("t1"))
        #expect(try await operation.response().statusCode == status)
        #expect(tokens.tokens == ["/away": ["t0", "t1"], "/b": ["t1"]])
        #expect(other.received("Authorization") == [nil])
        #expect(refresh.begun.count == 1)
    }
}
