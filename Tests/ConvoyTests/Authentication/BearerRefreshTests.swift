// Tests one refresh for many requests, through managers, over stubs and real transports.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(3))) struct BearerRefreshTests {
    private let refresh = HeldRefresh()
    private let tokens = TokenServer(good: "t1")

    private func manager(
        over subject: ConformingTransport, _ limit: Int = 200, _ authenticator: BearerAuthenticator? = nil
    ) -> RequestManager {
        subject.manager(limit, interceptors: [authenticator ?? refresh.authenticator(token: "t0")])
    }

    /// A server that accepts the current token and delays each 401 until the gate opens.
    private func server(refusingAt gate: Gate? = nil) throws -> TestServer {
        let server = try TestServer()
        server.respond { [tokens] request in
            let status = tokens.status(of: request)
            let reply = Reply.status(status, headerFields: [("WWW-Authenticate", "Bearer")], body: request.path)
            guard status == 401, let gate else { return reply }
            return reply.stalling(until: gate)
        }
        return server
    }

    // MARK: Two hundred requests at once

    /// The server reads all requests before the client receives the first 401.
    ///
    /// No request is sent again until the refresh has ended.
    @Test(arguments: ConformingTransport.all)
    func twoHundredRefusedRequestsMakeOneRefresh(_ subject: ConformingTransport) async throws {
        let gate = Gate()
        let server = try server(refusingAt: gate)
        defer { server.shutDown() }
        let manager = manager(over: subject)
        let operations = (0..<200).map { manager.enqueue(Request<String>.get(server.url("/\($0)"))) }
        try await gate.reached(count: 200, within: .seconds(40))
        gate.open()
        await refresh.begun.wait()
        await manager.allAreIntercepted(operations)
        tokens.noteRefreshed()
        await refresh.finish(.success("t1"))
        for (number, operation) in operations.enumerated() {
            #expect(try await operation.response().value == "/\(number)")
        }
        #expect(refresh.begun.count == 1)
        #expect(tokens.tokens.count == 200)
        #expect(tokens.tokens.values.allSatisfy { $0 == ["t0", "t1"] })
        #expect(tokens.countAfterRefresh(of: "t0") == 0)
    }

    /// A request with the old token may arrive after the refresh has ended.
    ///
    /// The server rejects such a request, and the client sends it again.
    @Test(arguments: ConformingTransport.all)
    func refreshThatEndsAtOnceIsTheOnlyOne(_ subject: ConformingTransport) async throws {
        let server = try server()
        defer { server.shutDown() }
        let count = EventLog<Void>()
        let authenticator = BearerAuthenticator(token: "t0") { [tokens] _ in
            count.record(())
            tokens.noteRefreshed()
            return "t1"
        }
        let manager = manager(over: subject, 16, authenticator)
        let results = await manager.results(of: (0..<200).map { .get(server.url("/\($0)")) })
        #expect(results.count { (try? $0.get()) != nil } == 200)
        #expect(count.count == 1)
        // Each request is sent at most twice, and never again with the old token.
        #expect(tokens.tokens.values.allSatisfy { $0 == ["t0", "t1"] || $0 == ["t1"] })
        // Later requests are not sent with the old token.
        let refusals = tokens.count(of: "t0")
        let later = await manager.results(of: (200..<250).map { .get(server.url("/\($0)")) })
        #expect(later.count { (try? $0.get()) != nil } == 50)
        #expect(tokens.count(of: "t0") == refusals)
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
        tokens.noteRefreshed()
        await refresh.finish(.success("t1"))
        for operation in operations + late { _ = try await operation.response() }
        #expect(refresh.begun.count == 1)
        #expect(tokens.countAfterRefresh(of: "t0") == 0)
        #expect(tokens.count(of: "t1") == 300)
        #expect((16...17).contains(tokens.tokens.values.count { $0 == ["t0", "t1"] }))
        #expect(tokens.tokens.values.allSatisfy { $0 == ["t0", "t1"] || $0 == ["t1"] })
    }

    // MARK: The refresh's own request

    /// The manager has one slot.
    ///
    /// The request for the token uses the slot while all other requests wait for the token.
    @Test(arguments: ConformingTransport.all)
    func refreshThroughTheSameManagerGetsTheOnlySlot(_ subject: ConformingTransport) async throws {
        let server = try server()
        defer { server.shutDown() }
        server.route("/token") { request in
            #expect(request.value(of: "Authorization") == nil)
            return .status(200, body: "t1")
        }
        let box = Locked<RequestManager?>(nil)
        let authenticator = BearerAuthenticator(token: "t0") { _ in
            let manager = try #require(box.withLock { $0 })
            return try await manager.send(Request<String>.post(server.url("/token")).withoutInterceptors()).value
        }
        let manager = manager(over: subject, 1, authenticator)
        box.withLock { $0 = manager }
        let results = await manager.results(of: (0..<40).map { .get(server.url("/\($0)")) })
        box.withLock { $0 = nil }
        #expect(results.count { (try? $0.get()) != nil } == 40)
        #expect(server.paths.count { $0 == "/token" } == 1)
    }

    /// The request for the token overtakes the requests that wait for the token.
    @Test func refreshPassesACrowd() async throws {
        let server = StubServer { [tokens] exchange in
            let isToken = exchange.request.url.path == "/token"
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
}
