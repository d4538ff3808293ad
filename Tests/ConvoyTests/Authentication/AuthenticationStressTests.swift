// Many requests with random cancellations; the tests also run under the thread sanitizer.
import Foundation
import Testing

@testable import Convoy

@Suite struct AuthenticationStressTests {
    /// Cancels a random operation with every third call.
    private final class Canceller: Sendable {
        private let state: Locked<(random: SeededGenerator, calls: Int, operations: [AnyRequestOperation])>

        init(seed: Int) { state = Locked((SeededGenerator(seed: UInt64(seed)), 0, [])) }

        func take(_ operations: [AnyRequestOperation]) { state.withLock { $0.operations = operations } }

        func turn() {
            state.withLock { state -> AnyRequestOperation? in
                state.calls += 1
                guard state.calls.isMultiple(of: 3) else { return nil }
                return state.operations.randomElement(using: &state.random)
            }?.cancel()
        }
    }

    /// Expects one outcome for each request: a success, a cancellation, or a permitted refusal.
    private func check(
        _ manager: RequestManager, _ canceller: Canceller, _ requests: [Request<Data>]
    ) async -> (succeeded: Int, cancelled: Int, refused: Int) {
        let outcomes = EventLog<RequestOperation<Data>.Result>()
        manager.isSuspended = true
        let operations = requests.map { request in manager.enqueue(request) { outcomes.record($0) } }
        canceller.take(operations)
        manager.isSuspended = false
        await outcomes.wait(count: requests.count, within: .seconds(120))
        await manager.drain()
        canceller.take([])
        #expect(outcomes.count == requests.count)
        let results = outcomes.events
        let succeeded = results.count { $0.code == nil }
        let cancelled = results.count { $0.code == .cancelled }
        let refused = results.count { ($0.failure as? RequestError)?.response?.statusCode == 401 }
        #expect(succeeded + cancelled + refused == requests.count)
        return (succeeded, cancelled, refused)
    }

    /// The server revokes the token repeatedly.
    ///
    /// Refreshes never overlap, and there is at most one refresh more than tokens.
    @Test(arguments: ConformingTransport.all, 1...LongRuns.count(1, long: 3))
    func tokensThatComeAndGoUnderCancellation(_ subject: ConformingTransport, seed: Int) async throws {
        let server = try TestServer()
        let canceller = Canceller(seed: seed)
        let (good, refreshes) = (Locked((number: 1, left: 30)), Locked((running: 0, most: 0, count: 0)))
        server.respond { request in
            canceller.turn()
            let isGood = good.withLock { good in
                guard request.value(of: "Authorization") == "Bearer t\(good.number)" else { return false }
                good.left -= 1
                if good.left == 0 { good = (good.number + 1, 30) }
                return true
            }
            return isGood ? .cookies("n=\(request.path.dropFirst())") : .status(401)
        }
        let check = LeakCheck()
        do {
            let authenticator = check.watch(
                BearerAuthenticator { _ in
                    refreshes.withLock { $0 = ($0.running + 1, max($0.most, $0.running + 1), $0.count + 1) }
                    defer { refreshes.withLock { $0.running -= 1 } }
                    canceller.turn()
                    await Task.yield()
                    return "t\(good.withLock { $0.number })"
                })
            let manager = subject.manager(24, interceptors: [authenticator], cookies: CookieJar())
            let counts = await self.check(manager, canceller, (0..<200).map { .get(server.url("/\($0)")) })
            #expect(counts.succeeded > 0 && counts.cancelled > 0)
        }
        #expect(refreshes.withLock { $0.most } == 1)
        #expect(refreshes.withLock { $0.count } <= good.withLock { $0.number } + 1)
        await check.expectAllGone()
    }

    @Test(arguments: ConformingTransport.all, 1...2)
    func digestUnderCancellation(_ subject: ConformingTransport, seed: Int) async throws {
        let (server, digest) = (try TestServer(), DigestServer(.init(usesPerNonce: 20, saysNextNonce: seed == 2)))
        let canceller = Canceller(seed: seed)
        server.respond { request in
            canceller.turn()
            return Reply(digest.answer(to: request))
        }
        let authenticator = try PasswordAuthenticator(user: "Mufasa", password: "Circle of Life")
        let manager = subject.manager(24, interceptors: [authenticator])
        let counts = await check(manager, canceller, (0..<200).map { .get(server.url("/\($0)")) })
        #expect(counts.succeeded > 0 && counts.cancelled > 0)
        #expect(counts.refused == 0)
        #expect(digest.accepted >= counts.succeeded)
    }

    /// A stub without a network reaches more interleavings in less time.
    @Test(arguments: 1...10)
    func waitersThatLeaveAtRandom(seed: Int) async throws {
        let canceller = Canceller(seed: seed)
        let refreshes = EventLog<Void>()
        let server = StubServer { exchange in
            canceller.turn()
            let isGood = exchange.request.authorization == "Bearer t1"
            exchange.answer(isGood ? 200 : 401)
        }
        let authenticator = BearerAuthenticator(token: "t0") { _ in
            refreshes.record(())
            for _ in 0..<60 { canceller.turn() }
            return "t1"
        }
        let manager = server.manager(16, configure: { $0.interceptors = [authenticator] })
        let counts = await check(manager, canceller, (0..<200).map { .stub("\($0)") })
        #expect(refreshes.count == 1)
        #expect(counts.refused == 0)
        #expect(counts.succeeded > 0 && counts.cancelled > 0)
    }
}
