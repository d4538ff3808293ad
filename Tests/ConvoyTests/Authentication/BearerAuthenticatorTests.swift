// Bearer tokens: the rules of their refresh, their lifetime, and tokens that the caller sets.
import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(3))) struct BearerAuthenticatorTests {
    private let refresh = HeldRefresh()
    private let authenticator: BearerAuthenticator

    init() { authenticator = refresh.authenticator(token: "t0") }

    /// A request that was sent with this token.
    private func sent(_ token: String) throws -> PreparedRequest {
        try .made(fields: ["Authorization": "Bearer \(token)"])
    }

    private func decision(
        _ authenticator: BearerAuthenticator, on token: String, status: Int = 401
    ) async throws -> InterceptorDecision {
        try await authenticator.decide(after: .made(sent(token), status: status), of: .made(.made()))
    }

    private func token(of authenticator: BearerAuthenticator) async throws -> String? {
        let request = try PreparedRequest.made()
        return try await authenticator.adapt(request, for: .made(request)).authorization
    }

    @Test func refreshThatGivesTheSameTokenEnds() async throws {
        async let result = exchange(.made(), through: authenticator) { _ in .challenge("Bearer") }
        await refresh.finish(.success("t0"))
        #expect(try await result.sent == ["Bearer t0", "Bearer t0"])
        #expect(refresh.begun.count == 1)
    }

    @Test(arguments: ["", "a\r\nb", "a\u{0}"])
    func tokenThatCannotBeSentIsAFailure(token: String) async throws {
        let authenticator = BearerAuthenticator { _ in token }
        let error = await #expect(throws: RequestError.self) { try await self.token(of: authenticator) }
        #expect(error?.code == .interceptorFailed)
        #expect(error?.description.contains("a\r") == false)
    }

    @Test func taskCancelledBeforeHandBeginsNoRefresh() async throws {
        let authenticator = refresh.authenticator(token: nil)
        let isCancelled = EventLog<Void>()
        let waiting = Task {
            await isCancelled.wait()
            return try await token(of: authenticator)
        }
        waiting.cancel()
        isCancelled.record(())
        await #expect(throws: CancellationError.self) { try await waiting.value }
        #expect(refresh.begun.count == 0)
    }

    @Test func theCallersOwnAuthorizationIsNotChanged() async throws {
        let own = try sent("mine")
        #expect(try await authenticator.adapt(own, for: .made(own)) == own)
        #expect(try await authenticator.decide(after: .made(own, status: 401), of: .made(own)) == .proceed)
        // A later interceptor replaced the field. The authenticator looks at the original request, which has the
        // caller's field.
        #expect(try await authenticator.decide(after: .made(sent("t0"), status: 401), of: .made(own)) == .proceed)
        #expect(refresh.begun.count == 0)
    }

    @Test(arguments: [200, 403, 407, 500])
    func otherStatusCodesAreIgnored(status: Int) async throws {
        #expect(try await decision(authenticator, on: "t0", status: status) == .proceed)
        let lost = AttemptEnd(request: try sent("t0"), response: nil, error: RequestError(.connectionLost, "lost"))
        #expect(try await authenticator.decide(after: lost, of: .made(.made())) == .proceed)
        #expect(refresh.begun.count == 0)
    }

    @Test(arguments: [
        ("http://example.org/a", true), ("HTTP://EXAMPLE.org:80/b", true), ("https://example.org/a", false),
        ("http://example.org:8080/a", false), ("http://example.com/a", false),
    ])
    func onlyTheGivenOriginsGetTheToken(url: String, isMeant: Bool) async throws {
        let origins = [try #require(URL(string: "http://example.org/"))]
        let authenticator = try BearerAuthenticator(token: "t0", origins: origins) { _ in "t1" }
        let (sent, _) = try await exchange(.made(url), through: authenticator) { _ in .challenge("Bearer") }
        #expect(sent.first == (isMeant ? "Bearer t0" : String?.none))
        #expect(sent.count == (isMeant ? 2 : 1))
    }

    @Test func anInvalidOriginIsReportedAtOnce() throws {
        let origins = [try #require(URL(string: "http://example.org/")), URL(fileURLWithPath: "/")]
        let error = #expect(throws: RequestError.self) {
            try BearerAuthenticator(token: "t0", origins: origins) { _ in "t1" }
        }
        #expect(error?.code == .invalidRequest)
        #expect(error?.message.contains("file:///") == true)
    }

    @Test func taskThatOutlivesTheRefreshGetsTokens() async throws {
        let itself = Locked<BearerAuthenticator?>(nil)
        let late = EventLog<String?>()
        let isOver = EventLog<Void>()
        let authenticator = BearerAuthenticator(token: "t0") { _ in
            let authenticator = try #require(itself.withLock { $0 })
            Task {
                await isOver.wait()
                late.record(try await token(of: authenticator))
            }
            return "t1"
        }
        itself.withLock { $0 = authenticator }
        _ = try await decision(authenticator, on: "t0")
        isOver.record(())
        #expect(await late.wait() == ["Bearer t1"])
        itself.withLock { $0 = nil }
    }

    @Test func descriptionsShowNoToken() async throws {
        let authenticator = BearerAuthenticator(token: "s3cret") { _ in "s3cret" }
        let token = BearerAuthenticator.Token("s3cret", lifetime: .seconds(60))
        let adapted = try await authenticator.adapt(.made(), for: .made(.made()))
        #expect(!texts(showing: authenticator, token, adapted, adapted.headerFields).contains("s3cret"))
    }

    private func manager(_ server: StubServer, _ authenticator: BearerAuthenticator) -> RequestManager {
        server.manager(200, perHost: 200, configure: { $0.interceptors = [authenticator] })
    }

    private func code(of operation: RequestOperation<Data>) async -> RequestError.Code? {
        do throws(RequestError) { _ = try await operation.response() } catch { return error.code }
        return nil
    }

    /// An authenticator whose refreshes return tokens with increasing numbers.
    private func counting(_ count: EventLog<Void>, _ limits: RefreshLimits = RefreshLimits()) -> BearerAuthenticator {
        BearerAuthenticator(token: "t0", limits: limits) { _ in
            count.record(())
            return "t\(count.count)"
        }
    }

    @Test func twoHundredRequestsGetThroughWithTokensOfFiftyUses() async {
        let (uses, refused) = (Locked<[String: Int]>([:]), EventLog<StubExchange>())
        let server = StubServer { exchange in
            let count = uses.withLock { uses in
                uses[exchange.token, default: 0] += 1
                return uses[exchange.token] ?? 0
            }
            if count <= 50 { exchange.answer(200) } else { refused.record(exchange) }
        }
        let (count, finished) = (EventLog<Void>(), EventLog<RequestError.Code?>())
        let manager = manager(server, counting(count))
        for number in 0..<200 {
            let operation = manager.enqueue(Request.stub("\(number)"))
            Task { finished.record(await code(of: operation)) }
        }
        var answered = 0
        for round in 1...3 {
            await finished.wait(count: 50 * round)
            let held = await refused.wait(count: answered + 200 - 50 * round)
            for exchange in held[answered...] { exchange.answer(401) }
            answered = held.count
        }
        #expect(await finished.wait(count: 200).allSatisfy { $0 == nil })
        #expect(count.count == 3)
    }

    /// The server accepts each token for one request only.
    @Test func refreshesEndAfterTheLimit() async {
        let used = Locked<Set<String>>([])
        let server = StubServer { exchange in
            exchange.answer(used.withLock { $0.insert(exchange.token).inserted } ? 200 : 401)
        }
        let count = EventLog<Void>()
        let manager = manager(server, counting(count, RefreshLimits(maxRefreshes: 2)))
        var codes: [RequestError.Code?] = []
        for _ in 0..<5 { codes.append(await code(of: manager.enqueue(Request.stub("a")))) }
        #expect(codes == [nil, nil, nil, .unacceptableStatus, .unacceptableStatus])
        #expect(count.count == 2)
    }

    @Test func theLimitIsOfAWindow() {
        let begin = ContinuousClock.now
        let limits = RefreshLimits(maxRefreshes: 1, window: .seconds(30))
        var state = TokenState(token: .init("t0"), limits: limits, now: begin)
        #expect(state.verdict(on: "Bearer t0", refusals: 0, now: begin) == .refused(token: "t0"))
        state.noteRefresh(at: begin)
        #expect(state.verdict(on: "Bearer t0", refusals: 0, now: begin + .seconds(29)) == .stands)
        #expect(state.verdict(on: "Bearer t0", refusals: 0, now: begin + .seconds(30)) == .refused(token: "t0"))
        state.noteAccepted("Bearer t0")
        #expect(state.verdict(on: "Bearer t0", refusals: 1, now: begin + .seconds(30)) == .stands)
    }

    @Test func aTokenIsReplacedBeforeItsEnd() async throws {
        let now = Locked(ContinuousClock.now)
        let (reasons, number) = (EventLog<BearerAuthenticator.RefreshReason>(), Locked(0))
        let authenticator = BearerAuthenticator(
            token: .init("t0", lifetime: .seconds(60)), origins: nil, limits: RefreshLimits(margin: .seconds(10)),
            now: { now.withLock { $0 } },
            refresh: { reason in
                reasons.record(reason)
                // The lifetime is less than twice the margin, so the token is used for half of its lifetime.
                return .init("t\(number.countUp())", lifetime: .seconds(6))
            })
        let server = StubServer()
        let manager = manager(server, authenticator)
        for step in [0, 49, 1, 2, 1] {
            now.withLock { $0 += .seconds(step) }
            _ = try await manager.send(Request.stub("a"))
        }
        #expect(server.exchanges.events.map(\.token) == ["t0", "t0", "t1", "t1", "t2"])
        #expect(reasons.events == [.expiring, .expiring])
    }

    @Test func aTokenThatIsSetEndsTheWait() async throws {
        let server = StubServer { $0.answer($0.token == "t0" ? 401 : 200) }
        let operation = manager(server, authenticator).enqueue(Request.stub("a"))
        await refresh.begun.wait()
        authenticator.setToken("mine")
        _ = try await operation.response()
        // The result of the running refresh is discarded.
        await refresh.finish(.success("late"))
        _ = try await manager(server, authenticator).send(Request.stub("b"))
        #expect(server.exchanges.events.map(\.token) == ["t0", "mine", "mine"])
    }

    @Test func aRemovedTokenFailsWaitingRequestsAndIsNotSentAgain() async throws {
        let server = StubServer { $0.answer($0.token == "t0" ? 401 : 200) }
        let operation = manager(server, authenticator).enqueue(Request.stub("a"))
        await refresh.begun.wait()
        authenticator.setToken(nil)
        #expect(await code(of: operation) == .interceptorFailed)
        async let next = manager(server, authenticator).send(Request.stub("b"))
        await refresh.begun.wait(count: 2)
        #expect(refresh.begun.events.last == .noToken)
        await refresh.finish(.success("late"))
        await refresh.finish(.success("next"), number: 2)
        _ = try await next
        #expect(server.exchanges.events.map(\.token) == ["t0", "next"])
    }

    /// The new token may belong to another user, so the request is not sent again with it.
    @Test func aRefusedRequestIsNotSentAgainWithATokenThatWasSetMeanwhile() async throws {
        let server = StubServer.held()
        let authenticator = refresh.authenticator(token: "ada's")
        let operation = manager(server, authenticator).enqueue(Request.stub("a"))
        let exchange = await server.exchanges.wait()[0]
        authenticator.setToken("bob's")
        exchange.answer(401)
        #expect(await code(of: operation) == .unacceptableStatus)
        #expect(server.exchanges.count == 1 && refresh.begun.count == 0)
    }
}

extension StubExchange {
    fileprivate var token: String { String(request.authorization?.dropFirst("Bearer ".count) ?? "") }
}
