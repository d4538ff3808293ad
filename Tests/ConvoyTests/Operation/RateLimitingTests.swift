import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite(.timeLimit(.minutes(5))) struct RateLimitingTests {
    private let server = StubServer.held()
    private let clock = VirtualClock()

    private func manager(
        _ limit: Int64? = nil, configure: (inout RequestManager.Configuration) -> Void = { _ in }
    ) -> RequestManager {
        server.manager(clock: clock) { configuration in
            configuration.maxBytesPerSecond = limit
            configure(&configuration)
        }
    }

    /// Advances the clock, and waits until the tasks that may continue are resumed.
    private func advance(_ manager: RequestManager, _ time: Duration) async {
        clock.advance(by: time)
        await manager.tasksAreAdjusted()
    }

    @Test(arguments: [true, false])
    func receivedBytesAreWaitedFor(limitIsTheManagers: Bool) async throws {
        let manager = manager(limitIsTheManagers ? 1_000 : nil)
        let operation = manager.enqueue(
            Request.stub("a").maxBytesPerSecond(limitIsTheManagers ? nil : 1_000))
        let exchange = try await server.answered()
        exchange.send(Data(count: 100))
        #expect(!exchange.isSuspended)
        exchange.send(Data(count: 500))
        #expect(exchange.isSuspended)
        await advance(manager, .milliseconds(499))
        #expect(exchange.isSuspended)
        await advance(manager, .milliseconds(1))
        #expect(!exchange.isSuspended)
        // The transport delivers more than the limit, because it had already received these bytes.
        exchange.send(Data(count: 1_000))
        exchange.send(Data(count: 1_000))
        await advance(manager, .milliseconds(1_999))
        #expect(exchange.isSuspended)
        await advance(manager, .milliseconds(1))
        #expect(!exchange.isSuspended)
        exchange.finish()
        #expect(try await operation.response().value.count == 2_600)
    }

    @Test func cancelWhileHeldEndsAtOnce() async throws {
        let manager = manager(1)
        let operation = manager.enqueue(Request.stub("a").maxBytesPerSecond(1))
        let exchange = try await server.answered()
        exchange.send(Data(count: 1_000_000))
        #expect(exchange.isSuspended)
        operation.cancel()
        await #expect(throws: RequestError.self) { try await operation.response() }
        await manager.drain()
        await manager.tasksAreAdjusted()
        #expect(exchange.isCancelled)
        // The timers of the request were cancelled with it.
        #expect(!clock.advanceToNext())
        #expect(clock.elapsed == .zero)
    }

    @Test func aChangeAtRunTimeTakesEffectAtOnce() async throws {
        let manager = manager()
        #expect(manager.maxBytesPerSecond == nil)
        let operation = manager.enqueue(Request.stub("a"))
        let exchange = try await server.answered()
        exchange.send(Data(count: 1_000_000))
        #expect(!exchange.isSuspended)
        manager.maxBytesPerSecond = 1_000
        exchange.send(Data(count: 10_100))
        await advance(manager, .seconds(9))
        #expect(exchange.isSuspended)
        manager.maxBytesPerSecond = 4_000
        await advance(manager, .milliseconds(250))
        #expect(!exchange.isSuspended)
        exchange.finish()
        #expect(try await operation.response().value.count == 1_010_100)
    }

    @Test(arguments: [(1_000, 500), (500, 1_000)] as [(Int64, Int64)])
    func ofTwoLimitsTheLowerIsFelt(managers: Int64, requests: Int64) async throws {
        let manager = manager(managers)
        let operation = manager.enqueue(Request.stub("a").maxBytesPerSecond(requests))
        let exchange = try await server.answered()
        exchange.send(Data(count: 2_050))
        await advance(manager, .milliseconds(3_999))
        #expect(exchange.isSuspended)
        await advance(manager, .milliseconds(1))
        #expect(!exchange.isSuspended)
        operation.cancel()
        await manager.drain()
    }

    @Test func partsOfOneDownloadShareItsLimit() async throws {
        let manager = manager()
        let request = Request.stub("part").maxBytesPerSecond(1_000).sharingRateLimit(on: clock)
        let operations = [manager.enqueue(request), manager.enqueue(request)]
        let exchanges = [try await server.answered(1), try await server.answered(2)]
        exchanges[0].send(Data(count: 1_100))
        exchanges[1].send(Data(count: 1_000))
        await advance(manager, .seconds(1))
        #expect(exchanges.map(\.isSuspended) == [false, true])
        await advance(manager, .seconds(1))
        #expect(exchanges.map(\.isSuspended) == [false, false])
        for operation in operations { operation.cancel() }
        await manager.drain()
        #expect(Request.stub("a").sharingRateLimit(on: clock).core.policyBox == nil)
        #expect(request.maxBytesPerSecond(nil).core.policies.sharedRateLimit == nil)
    }

    @Test func suspendedItIsNotResumedByItsLimit() async throws {
        let manager = manager(1_000)
        let operation = manager.enqueue(Request.stub("a"))
        let exchange = try await server.answered()
        exchange.send(Data(count: 1_100))
        operation.suspend()
        await advance(manager, .seconds(2))
        #expect(exchange.isSuspended)
        operation.resume()
        await advance(manager, .zero)
        #expect(!exchange.isSuspended)
        exchange.send(Data(count: 1_100))
        operation.suspend()
        operation.resume()
        await advance(manager, .milliseconds(500))
        #expect(exchange.isSuspended)
        operation.cancel()
        await manager.drain()
    }

    @Test func attemptsShareTheLimitOfTheirRequest() async throws {
        let manager = manager { $0.retries = RetryPolicy(baseDelay: .zero) }
        let operation = manager.enqueue(Request.stub("a").maxBytesPerSecond(1_000))
        let first = try await server.answered(1)
        first.send(Data(count: 2_100))
        first.finish(RequestError(.connectionLost, "lost"))
        let second = try await server.answered(2)
        second.send(Data(count: 1_000))
        await advance(manager, .milliseconds(2_999))
        #expect(second.isSuspended)
        await advance(manager, .milliseconds(1))
        #expect(!second.isSuspended)
        second.finish()
        #expect(try await operation.response().value.count == 1_000)
    }

    @Test(arguments: [true, false])
    func aTransportThatCannotBeHeldIsRefused(limitIsTheManagers: Bool) async throws {
        let server = StubServer(pausesInPlace: false)
        let manager = server.manager(clock: clock) { $0.maxBytesPerSecond = limitIsTheManagers ? 1_000 : nil }
        let request = Request.stub("a")
        let error = await manager.enqueue(limitIsTheManagers ? request : request.maxBytesPerSecond(1_000)).failure()
        #expect(error?.code == .invalidRequest)
        #expect(
            error?.message == "nothing was sent: a rate limit needs a transport that can pause; use libcurl")
        #expect(server.exchanges.count == 0)
        manager.maxBytesPerSecond = nil
        #expect(try await manager.send(request).value == Data("ok".utf8))
        manager.maxBytesPerSecond = 1
        await #expect(throws: RequestError.self) { try await manager.send(request) }
        #expect(server.exchanges.count == 1)
    }

    @Test func valuesThatAreNoLimitsAreDefects() {
        let request = Request.stub("a")
        #expect(request.deadline(.zero).defect == "the deadline is not positive")
        for limit: Int64 in [0, -1] {
            #expect(request.maxBytesPerSecond(limit).defect == "the rate limit is not positive")
            let (slow, short) = (
                request.minimumSpeed(bytesPerSecond: limit, over: .seconds(1)),
                request.minimumSpeed(bytesPerSecond: 1, over: .seconds(limit))
            )
            #expect(slow.defect == "the minimum speed is not positive")
            #expect(short.defect == "the time of the minimum speed is not positive")
        }
    }

    @Test(arguments: [0, -1, Int64.min])
    func aZeroOrNegativeRateIsNoLimitOfAManager(limit: Int64) async throws {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 200))
            exchange.send(Data(count: 1_000_000))
            #expect(!exchange.isSuspended)
            exchange.finish()
        }
        let manager = server.manager(clock: clock) { $0.maxBytesPerSecond = limit }
        #expect(manager.maxBytesPerSecond == nil)
        manager.maxBytesPerSecond = 1
        manager.maxBytesPerSecond = limit
        #expect(manager.maxBytesPerSecond == nil)
        #expect(try await manager.send(Request.stub("a")).value.count == 1_000_000)
    }
}
