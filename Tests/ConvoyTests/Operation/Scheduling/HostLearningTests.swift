import Convoy
import Foundation
import Testing

@Suite struct HostLearningTests {
    private func manager(
        _ server: StubServer, _ clock: VirtualClock, limits: AdaptiveLimits? = nil, breaker: BreakerPolicy? = nil
    ) -> RequestManager {
        server.manager(100, perHost: 100, clock: clock) { configuration in
            configuration.hostLimits = limits
            configuration.breaker = breaker
        }
    }

    @Test func aHostBeginsWithTheInitialLimitAndGrows() async {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = manager(server, clock, limits: AdaptiveLimits(initial: 4))
        for index in 0..<40 { manager.enqueue(Request.stub("\(index)")) }
        await server.exchanges.wait(count: 4)
        #expect(server.exchanges.count == 4)
        for index in 0..<4 {
            clock.advance(by: .milliseconds(10))
            server.exchanges.events[index].answer(200)
        }
        // A round trip without a sign of overload at most doubles the limit.
        await look { server.exchanges.count > 8 }
        #expect((9...12).contains(server.exchanges.count))
        await manager.cancelAndDrain()
    }

    @Test func aHostThatRefusesGetsLess() async {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = manager(server, clock, limits: AdaptiveLimits(initial: 8))
        for index in 0..<40 { manager.enqueue(Request.stub("\(index)")) }
        let first = await server.exchanges.wait(count: 8)
        clock.advance(by: .milliseconds(10))
        for exchange in first.prefix(2) { exchange.answer(429) }
        await look { manager.operations.count == 38 }
        // Two slots became free, but the lower limit removed one of them.
        await look { server.exchanges.count > 8 }
        #expect(server.exchanges.count == 9)
        #expect(manager.operations.last.map { manager.why($0).contains("8 were too many") } == true)
        await manager.cancelAndDrain()
    }

    @Test func aFailingHostIsHeldAndProbedByOneRequest() async throws {
        let clock = VirtualClock()
        let isWell = Locked(false)
        let server = StubServer { exchange in
            if exchange.request.url.host() == "well" || isWell.withLock({ $0 }) { return exchange.answer(200) }
            exchange.finish(RequestError(.connectionFailed, "refused"))
        }
        let manager = manager(server, clock, breaker: BreakerPolicy(failuresInARow: 3, openTime: .seconds(5)))
        for _ in 0..<3 { _ = try? await manager.send(Request.stub("a", host: "ill")) }
        let waiting = (0..<10).map { manager.enqueue(Request.stub("\($0)", host: "ill")) }
        try await manager.send(Request.stub("b", host: "well"))
        #expect(manager.why(waiting[0]).contains("failed 3 times in a row; the next test is in 5.0 s"))
        #expect(server.exchanges.count == 4)
        // One request tests the host and fails, so the breaker's open time doubles.
        clock.advance(by: .seconds(5))
        _ = try? await waiting[0].response()
        #expect(server.exchanges.count == 5)
        clock.advance(by: .milliseconds(9_999))
        #expect(server.exchanges.count == 5)
        isWell.withLock { $0 = true }
        clock.advance(by: .milliseconds(1))
        for operation in waiting.dropFirst() { _ = try await operation.response() }
        #expect(server.exchanges.count == 14)
    }

    @Test func aCancelledProbeLeavesTheProbeToTheNextRequest() async throws {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = manager(server, clock, breaker: BreakerPolicy(failuresInARow: 1, openTime: .seconds(5)))
        let first = manager.enqueue(Request.stub("a"))
        await server.exchanges.wait()[0].answer(500)
        _ = try? await first.response()
        let (second, third) = (manager.enqueue(Request.stub("b")), manager.enqueue(Request.stub("c")))
        #expect(server.exchanges.count == 1)
        clock.advance(by: .seconds(5))
        await server.exchanges.wait(count: 2)
        second.cancel()
        await server.exchanges.wait(count: 3)[2].answer(200)
        _ = try await third.response()
    }

    @Test func aMissingPageIsNotAFailureOfItsHost() async throws {
        let (server, clock) = (StubServer { $0.answer(404) }, VirtualClock())
        let manager = manager(server, clock, breaker: BreakerPolicy(failuresInARow: 1))
        for _ in 0..<5 { _ = try? await manager.send(Request.stub("a")) }
        #expect(server.exchanges.count == 5)
    }

    @Test func aRequestThatWouldMissItsDeadlineAtABrokenHostFailsAtOnce() async {
        let (server, clock) = (StubServer { $0.answer(500) }, VirtualClock())
        let manager = manager(server, clock, breaker: BreakerPolicy(failuresInARow: 1, openTime: .seconds(5)))
        _ = try? await manager.send(Request.stub("a"))
        let operation = manager.enqueue(Request.stub("b").deadline(.seconds(4)))
        #expect(await operation.resultCode() == .deadlineExceeded)
        #expect(server.exchanges.count == 1)
    }

    /// A request that ends at its own deadline without a response counts as a failure of the host.
    @Test func aHostThatDoesNotAnswerBeforeTheDeadlineHasFailed() async {
        let (server, clock) = (StubServer.held(), VirtualClock())
        let manager = manager(server, clock, breaker: BreakerPolicy(failuresInARow: 1, openTime: .seconds(5)))
        let first = manager.enqueue(Request.stub("a").deadline(.seconds(2)))
        await server.exchanges.wait()
        clock.advance(by: .seconds(2))
        #expect(await first.resultCode() == .deadlineExceeded)
        let second = manager.enqueue(Request.stub("b"))
        #expect(manager.why(second).contains("on hold"))
        second.cancel()
        await manager.drain()
        #expect(server.exchanges.count == 1)
    }
}
