// Bearer tokens and their refresh.
import Foundation
import Testing

@testable import Convoy

struct BearerAuthenticatorTests {
    private struct Refused: Error {}

    private let refresh = HeldRefresh()

    /// A request that was sent with this token.
    private func sent(_ token: String) throws -> PreparedRequest {
        try .made(fields: ["Authorization": "Bearer \(token)"])
    }

    private func decision(
        _ authenticator: BearerAuthenticator, on token: String, status: Int = 401, earlier: [Int] = []
    ) async throws -> InterceptorDecision {
        try await authenticator.decide(
            after: .made(sent(token), status: status), of: .made(.made(), earlier: earlier))
    }

    private func token(of authenticator: BearerAuthenticator) async throws -> String? {
        let request = try PreparedRequest.made()
        return try await authenticator.adapt(request, for: .made(request)).authorization
    }

    @Test func tokenIsSent() async throws {
        #expect(try await token(of: refresh.authenticator(token: "t0")) == "Bearer t0")
        #expect(refresh.begun.count == 0)
    }

    @Test func firstRequestsWaitForOneToken() async throws {
        let authenticator = refresh.authenticator(token: nil)
        async let first = token(of: authenticator)
        async let second = token(of: authenticator)
        await refresh.finish(.success("t1"))
        #expect(try await [first, second] == ["Bearer t1", "Bearer t1"])
        #expect(refresh.begun.events == [.noToken])
    }

    @Test func oneRefreshServesTwoHundredRequests() async throws {
        let authenticator = refresh.authenticator(token: "t0")
        let (refused, decided) = (EventLog<Int>(), EventLog<Int>())
        let isWrong = try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<200 {
                group.addTask {
                    let request = try PreparedRequest.made("http://example.org/\(number)")
                    let context = AttemptContext.made(request)
                    let first = try await authenticator.adapt(request, for: context)
                    // All requests have received their 401 before the first decision.
                    refused.record(number)
                    await refused.wait(count: 200)
                    decided.record(number)
                    let decision = try await authenticator.decide(after: .made(first, status: 401), of: context)
                    let second = try await authenticator.adapt(request, for: .made(request, earlier: [401]))
                    return first.authorization != "Bearer t0" || decision != .retry(after: .zero)
                        || second.authorization != "Bearer t1"
                }
            }
            await decided.wait(count: 200)
            await refresh.finish(.success("t1"))
            return try await group.contains(true)
        }
        #expect(!isWrong)
        #expect(refresh.begun.count == 1)
    }

    @Test func requestsWaitWhileATokenIsRefreshed() async throws {
        let authenticator = refresh.authenticator(token: "t0")
        async let decision = decision(authenticator, on: "t0")
        await refresh.begun.wait()
        async let other = token(of: authenticator)
        await refresh.finish(.success("t1"))
        #expect(try await other == "Bearer t1")
        #expect(try await decision == .retry(after: .zero))
    }

    @Test func theRefreshFunctionReceivesTheResponse() async throws {
        let authenticator = refresh.authenticator(token: "t0")
        async let decision = authenticator.decide(
            after: .made(sent("t0"), status: 401, fields: ["WWW-Authenticate": "Bearer error=\"invalid_token\""]),
            of: .made(.made()))
        await refresh.finish(.success("t1"))
        #expect(try await decision == .retry(after: .zero))
        guard case .refused(let head)? = refresh.begun.events.first else {
            Issue.record("\(refresh.begun.events)")
            return
        }
        #expect(head.headerFields["WWW-Authenticate"] == "Bearer error=\"invalid_token\"")
    }

    @Test func freshTokenThatIsRefusedIsDelivered() async throws {
        let authenticator = refresh.authenticator(token: "t0")
        async let result = exchange(.made(), through: authenticator) { _ in .challenge("Bearer") }
        await refresh.finish(.success("t1"))
        #expect(try await result.sent == ["Bearer t0", "Bearer t1"])
        #expect(try await result.status == 401)
        #expect(refresh.begun.count == 1)
    }

    @Test func refreshThatGivesTheSameTokenEnds() async throws {
        let authenticator = refresh.authenticator(token: "t0")
        async let result = exchange(.made(), through: authenticator) { _ in .challenge("Bearer") }
        await refresh.finish(.success("t0"))
        #expect(try await result.sent == ["Bearer t0", "Bearer t0"])
        #expect(refresh.begun.count == 1)
    }

    @Test func olderTokenIsReplacedWithoutARefresh() async throws {
        let authenticator = refresh.authenticator(token: "t0")
        async let first = decision(authenticator, on: "t0")
        await refresh.finish(.success("t1"))
        #expect(try await first == .retry(after: .zero))
        #expect(try await decision(authenticator, on: "t0") == .retry(after: .zero))
        #expect(refresh.begun.count == 1)
    }

    @Test func failureOfARefreshEndsAllThatWait() async throws {
        let (asked, isOver) = (EventLog<Int>(), EventLog<Void>())
        let authenticator = BearerAuthenticator { _ in
            await isOver.wait()
            throw Refused()
        }
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<20 {
                group.addTask {
                    asked.record(number)
                    await #expect(throws: Refused.self) { try await token(of: authenticator) }
                }
            }
            await asked.wait(count: 20)
            isOver.record(())
        }
    }

    @Test func nextRefusalTriesAgainAfterAFailure() async throws {
        let authenticator = refresh.authenticator(token: "t0")
        async let first = #expect(throws: RequestError.self) { try await decision(authenticator, on: "t0") }
        await refresh.finish(.failure(RequestError(.connectionFailed, "no")))
        #expect(await first?.code == .connectionFailed)
        async let second = decision(authenticator, on: "t0")
        await refresh.finish(.success("t1"), number: 2)
        #expect(try await second == .retry(after: .zero))
        #expect(try await token(of: authenticator) == "Bearer t1")
    }

    @Test(arguments: ["", "a\r\nb", "a\u{0}"])
    func tokenThatCannotBeSentIsAFailure(token: String) async throws {
        let authenticator = BearerAuthenticator { _ in token }
        let error = await #expect(throws: RequestError.self) { try await self.token(of: authenticator) }
        #expect(error?.code == .interceptorFailed)
        #expect(error?.description.contains("a\r") == false)
    }

    @Test func cancelledWaiterGoesAtOnceAndTheRefreshGoesOn() async throws {
        let authenticator = refresh.authenticator(token: "t0")
        let waiting = Task { try await decision(authenticator, on: "t0") }
        await refresh.begun.wait()
        waiting.cancel()
        // The refresh is still running.
        await #expect(throws: CancellationError.self) { try await waiting.value }
        async let next = token(of: authenticator)
        await refresh.finish(.success("t1"))
        #expect(try await next == "Bearer t1")
        #expect(refresh.begun.count == 1)
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

    @Test func requestIsCurrentUntilItsTokenIsRefusedOrReplaced() async throws {
        let authenticator = refresh.authenticator(token: "t0")
        #expect(try authenticator.isCurrent(sent("t0")))
        async let decision = decision(authenticator, on: "t0")
        await refresh.begun.wait()
        #expect(try !authenticator.isCurrent(sent("t0")))
        await refresh.finish(.success("t1"))
        _ = try await decision
        #expect(try !authenticator.isCurrent(sent("t0")))
        #expect(try authenticator.isCurrent(sent("t1")))
        // A request without a token or with a foreign token counts as current. Otherwise the authenticator would
        // adapt it forever.
        #expect(try authenticator.isCurrent(.made()))
        #expect(try authenticator.isCurrent(sent("of somebody else")))
    }

    @Test func theCallersOwnAuthorizationIsNotChanged() async throws {
        let authenticator = refresh.authenticator(token: "t0")
        let own = try sent("mine")
        #expect(try await authenticator.adapt(own, for: .made(own)) == own)
        #expect(try await authenticator.decide(after: .made(own, status: 401), of: .made(own)) == .proceed)
        // A later interceptor replaced the field. The authenticator looks at the original request, which has the
        // caller's field.
        #expect(try await authenticator.decide(after: .made(sent("t0"), status: 401), of: .made(own)) == .proceed)
        #expect(refresh.begun.count == 0)
    }

    @Test func requestThatLeftItsOriginGetsNoTokenAndNoRefresh() async throws {
        let authenticator = refresh.authenticator(token: "t0")
        let request = try PreparedRequest.made()
        let context = AttemptContext.made(request, hasLeftOrigin: true)
        #expect(try await authenticator.adapt(request, for: context) == request)
        #expect(try await authenticator.decide(after: .made(sent("t0"), status: 401), of: context) == .proceed)
        #expect(refresh.begun.count == 0)
    }

    @Test(arguments: [200, 403, 407, 500])
    func otherStatusCodesAreIgnored(status: Int) async throws {
        #expect(try await decision(refresh.authenticator(token: "t0"), on: "t0", status: status) == .proceed)
        #expect(refresh.begun.count == 0)
    }

    @Test func attemptsWithoutAResponseAreIgnored() async throws {
        let authenticator = refresh.authenticator(token: "t0")
        let end = AttemptEnd(request: try sent("t0"), response: nil, error: RequestError(.connectionLost, "lost"))
        #expect(try await authenticator.decide(after: end, of: .made(.made())) == .proceed)
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
        var dumped = ""
        dump(authenticator, to: &dumped)
        let adapted = try await authenticator.adapt(.made(), for: .made(.made()))
        dump(adapted, to: &dumped)
        for text in [dumped, "\(authenticator)", String(reflecting: authenticator), "\(adapted.headerFields)"] {
            #expect(!text.contains("s3cret"))
        }
    }
}
