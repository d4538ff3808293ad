import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests bodies that arrive too slowly, in virtual time.
@Suite(.timeLimit(.minutes(5))) struct MinimumSpeedTests {
    private let server = StubServer.held()
    private let clock = VirtualClock()
    private let request = Request.stub("a").minimumSpeed(bytesPerSecond: 1_000, over: .seconds(30))

    private func advance(_ manager: RequestManager, _ time: Duration) async {
        clock.advance(by: time)
        await manager.tasksAreAdjusted()
    }

    @Test func tooLittleEndsItAndSaysHowMuch() async throws {
        let manager = server.manager(clock: clock)
        let operation = manager.enqueue(request)
        let exchange = try await server.answered()
        exchange.send(Data(count: 120))
        clock.advance(by: .seconds(30))
        let error = await operation.failure()
        #expect(error?.code == .timedOut)
        #expect(error?.message == "it stalled: 120 bytes in 30.0 s, slower than the minimum of 1000 a second")
        #expect(error?.isRetryable == true)
        #expect(error?.response?.statusCode == 200)
        #expect(error?.attempts.map(\.failure) == [.timedOut])
        await manager.drain()
        await manager.tasksAreAdjusted()
        #expect(exchange.isCancelled)
        #expect(!clock.advanceToNext())
    }

    @Test func itCountsFromTheHeadOnAndStretchByStretch() async throws {
        let manager = server.manager(clock: clock)
        let operation = manager.enqueue(request)
        await server.exchanges.wait()
        clock.advance(by: .seconds(3_600))
        let exchange = try await server.answered()
        for _ in 0..<3 {
            clock.advance(by: .seconds(29))
            exchange.send(Data(count: 30_000))
            clock.advance(by: .seconds(1))
        }
        // After another response the measurement starts again.
        clock.advance(by: .seconds(20))
        exchange.respond(ResponseHead(statusCode: 200))
        clock.advance(by: .seconds(29))
        exchange.send(Data(count: 29_999))
        #expect(operation.attempt == 1 && operation.error == nil)
        clock.advance(by: .seconds(1))
        #expect(await operation.failure()?.message.contains("29999 bytes in 30.0 s") == true)
        await manager.drain()
    }

    @Test func aStalledAttemptIsRetried() async throws {
        let manager = server.manager(clock: clock) { $0.retries = RetryPolicy(baseDelay: .zero) }
        let operation = manager.enqueue(request)
        let first = try await server.answered(1)
        first.send(Data("slow".utf8))
        clock.advance(by: .seconds(30))
        let second = try await server.answered(2)
        first.send(Data("late".utf8))
        second.send(Data("fast".utf8))
        second.finish()
        let response = try await operation.response()
        #expect(response.value == Data("fast".utf8))
        #expect(response.attempts.map(\.failure) == [.timedOut, nil])
        await manager.tasksAreAdjusted()
        #expect(first.isCancelled && !second.isCancelled)
        #expect(!clock.advanceToNext())
    }

    /// The attempt has ended, but an interceptor has not decided yet what follows.
    @Test func whileItsEndIsJudgedNoTimerIsSet() async throws {
        let (asked, verdict) = (EventLog<Void>(), Gate())
        let manager = server.manager(clock: clock) { configuration in
            configuration.interceptors = [Judge(asked: asked, verdict: verdict)]
            configuration.maxBytesPerSecond = 1
        }
        let operation = manager.enqueue(request.maxBytesPerSecond(1))
        let exchange = try await server.answered()
        exchange.send(Data(count: 1_000))
        exchange.finish()
        await asked.wait()
        #expect(!clock.advanceToNext())
        verdict.open()
        #expect(try await operation.response().value.count == 1_000)
    }

    @Test func suspendedDoesNotCount() async throws {
        let manager = server.manager(clock: clock)
        let operation = manager.enqueue(request)
        _ = try await server.answered()
        await advance(manager, .seconds(10))
        operation.suspend()
        await advance(manager, .zero)
        await advance(manager, .seconds(1_000))
        operation.resume()
        await advance(manager, .zero)
        // If two threads report a change, this number shows which change is the later one.
        #expect(operation.state.withLock { $0.transfer?.runningChanges } == 2)
        await advance(manager, .seconds(19))
        #expect(operation.error == nil && operation.attempt == 1)
        await advance(manager, .seconds(1))
        #expect(await operation.failure()?.code == .timedOut)
        await manager.drain()
    }

    /// The limit is the manager's or the request's.
    @Test(arguments: [true, false])
    func heldByALimitDoesNotCount(limitIsTheManagers: Bool) async throws {
        let manager = server.manager(clock: clock) { $0.maxBytesPerSecond = limitIsTheManagers ? 100 : nil }
        let operation = manager.enqueue(limitIsTheManagers ? request : request.maxBytesPerSecond(100))
        let exchange = try await server.answered()
        exchange.send(Data(count: 20_010))
        #expect(exchange.isSuspended)
        await advance(manager, .seconds(200))
        #expect(!exchange.isSuspended)
        await advance(manager, .seconds(29))
        #expect(operation.error == nil && operation.attempt == 1)
        await advance(manager, .seconds(1))
        #expect(await operation.failure()?.message.contains("20010 bytes in 30.0 s") == true)
        await manager.drain()
    }

    @Test func heldByItsReaderDoesNotCount() async throws {
        let manager = server.manager(clock: clock)
        let chunks = manager.chunks(of: request.maxBodyBytes(1_000))
        let exchange = try await server.answered()
        exchange.send(Data(count: 900))
        #expect(exchange.isSuspended)
        await advance(manager, .seconds(1_000))
        #expect(chunks.operation.error == nil && chunks.operation.attempt == 1)
        var iterator = chunks.makeAsyncIterator()
        #expect(try await iterator.next()?.count == 900)
        await advance(manager, .zero)
        #expect(!exchange.isSuspended)
        await advance(manager, .seconds(30))
        #expect(await chunks.operation.failure()?.code == .timedOut)
        await manager.drain()
    }

    @Test func bodiesOfRefusalsAreWatchedToo() async throws {
        let operation = server.manager(clock: clock).enqueue(request)
        await server.exchanges.wait().first?.respond(ResponseHead(statusCode: 500))
        clock.advance(by: .seconds(30))
        let error = await operation.failure()
        #expect(error?.code == .timedOut)
        #expect(error?.response?.statusCode == 500)
    }

    @Test(arguments: [(0, 1), (-1, 1), (1, 0), (1, -1)] as [(Int64, Int64)])
    func noSpeedAndNoTimeAreDefects(bytes: Int64, seconds: Int64) async {
        let request = Request.stub("a").minimumSpeed(bytesPerSecond: bytes, over: .seconds(seconds))
        let error = await server.manager(clock: clock).enqueue(request).failure()
        #expect(error?.code == .invalidRequest)
        #expect(error?.message.contains("minimum speed") == true)
    }
}

/// Decides about the end of an attempt when the gate opens.
private struct Judge: RequestInterceptor {
    let asked: EventLog<Void>
    let verdict: Gate

    func decide(after _: AttemptEnd, of _: AttemptContext) async throws -> InterceptorDecision {
        asked.record(())
        try await verdict.opened(within: .seconds(60))
        return .proceed
    }
}
