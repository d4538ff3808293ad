// Tests how a refresh ends for waiting requests, and which servers get a token, over real transports.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(3))) struct BearerEndingTests {
    private let refresh = HeldRefresh()
    private let tokens = TokenServer(good: "t1")

    private func server() throws -> TestServer {
        let server = try TestServer()
        server.respond { [tokens] in .status(tokens.status(of: $0), body: $0.path) }
        return server
    }

    private func manager(over subject: ConformingTransport) -> RequestManager {
        subject.manager(32, interceptors: [refresh.authenticator(token: "t0")])
    }

    /// Enqueues `count` requests and returns when they wait for a refresh.
    private func waiting(
        _ count: Int, in manager: RequestManager, for server: TestServer
    ) async -> [RequestOperation<Data>] {
        let operations = (0..<count).map { manager.enqueue(Request<Data>.get(server.url("/\($0)"))) }
        await refresh.begun.wait()
        await manager.allAreIntercepted(operations)
        return operations
    }

    /// A request that starts to wait after the failure starts another refresh, which fails too.
    @Test(arguments: ConformingTransport.all)
    func failedRefreshEndsAllWithItsErrorAndTheNextTriesAgain(_ subject: ConformingTransport) async throws {
        let server = try server()
        defer { server.shutDown() }
        let (begun, gate, isDown) = (EventLog<Void>(), Turnstile(), Locked(true))
        // Each request that joins late may start a refresh of its own, so that five of them reach the usual limit.
        let limits = RefreshLimits(maxRefreshes: 100)
        let authenticator = BearerAuthenticator(token: "t0", limits: limits) { _ in
            begun.record(())
            await gate.pass()
            guard isDown.withLock({ $0 }) else { return "t1" }
            throw RequestError(.connectionFailed, "no tokens today")
        }
        let manager = subject.manager(32, interceptors: [authenticator])
        let operations = (0..<20).map { manager.enqueue(Request<Data>.get(server.url("/\($0)"))) }
        await begun.wait()
        await manager.allAreIntercepted(operations)
        gate.open()
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
    func oneThatIsCancelledGoesAtOnceAndTheOthersGoOn(_ subject: ConformingTransport) async throws {
        let server = try server()
        defer { server.shutDown() }
        let manager = manager(over: subject)
        let operations = await waiting(10, in: manager, for: server)
        operations[3].cancel()
        // The refresh is still running.
        let error = await #expect(throws: RequestError.self) { try await operations[3].response() }
        #expect(error?.code == .cancelled)
        await refresh.finish(.success("t1"))
        for (number, operation) in operations.enumerated() where number != 3 { _ = try await operation.response() }
        #expect(tokens.tokens["/3"].map { $0.contains("t1") } != true)
        #expect(refresh.begun.count == 1)
    }

    @Test(arguments: ConformingTransport.all)
    func refreshOutlivesAllWhoWaitedForIt(_ subject: ConformingTransport) async throws {
        let server = try server()
        defer { server.shutDown() }
        let manager = manager(over: subject)
        let operations = await waiting(10, in: manager, for: server)
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

    /// The server rejects the old token and the new one.
    ///
    /// The second 401 starts no second refresh.
    @Test(arguments: ConformingTransport.all)
    func refusalOfAFreshTokenIsTheOutcome(_ subject: ConformingTransport) async throws {
        let (server, gate) = (try TestServer(), Gate())
        defer { server.shutDown() }
        tokens.accept("of somebody else")
        server.respond { [tokens] in .status(tokens.status(of: $0), body: $0.path).stalling(until: gate) }
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

    /// After a redirect to another origin, the request is sent without the token.
    ///
    /// A 401 of that origin causes no refresh.
    @Test(arguments: ConformingTransport.all, [200, 401])
    func freshTokenStaysWithItsOrigin(_ subject: ConformingTransport, status: Int) async throws {
        let (server, other) = (try server(), try TestServer())
        defer {
            server.shutDown()
            other.shutDown()
        }
        other.respond { _ in .status(status, headerFields: [("WWW-Authenticate", "Bearer")]) }
        server.route("/away") { [tokens] request in
            tokens.status(of: request) == 200 ? .redirect(to: "\(other.url("/x"))") : .status(401)
        }
        let operation = manager(over: subject).enqueue(
            Request<Data>.get(server.url("/away")).acceptableStatusCodes(.any))
        await refresh.finish(.success("t1"))
        #expect(try await operation.response().statusCode == status)
        #expect(tokens.tokens["/away"] == ["t0", "t1"])
        #expect(other.received("Authorization") == [nil])
        #expect(refresh.begun.count == 1)
    }

    @Test(arguments: ConformingTransport.all)
    func tokenFollowsARedirectWithinItsOrigin(_ subject: ConformingTransport) async throws {
        let server = try server()
        defer { server.shutDown() }
        server.route("/a") { [tokens] request in
            tokens.status(of: request) == 200 ? .redirect(to: "/b") : .status(401)
        }
        async let response = manager(over: subject).send(Request<String>.get(server.url("/a")))
        await refresh.finish(.success("t1"))
        #expect(try await response.value == "/b")
        #expect(tokens.tokens == ["/a": ["t0", "t1"], "/b": ["t1"]])
    }
}
