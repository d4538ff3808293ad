import Convoy
import ConvoyTesting
import Foundation
import Testing

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

    /// The attempt has ended, but an interceptor has not decided yet what follows.
    @Test func whileItsEndIsJudgedNoTimerIsSet() async throws {
        let verdict = Turnstile()
        let judge = Interceptor(deciding: { _, _ in
            await verdict.pass()
            return .proceed
        })
        let manager = server.manager(clock: clock) { configuration in
            configuration.interceptors = [judge]
            configuration.maxBytesPerSecond = 1
        }
        let operation = manager.enqueue(request.maxBytesPerSecond(1))
        let exchange = try await server.answered()
        exchange.send(Data(count: 1_000))
        exchange.finish()
        await verdict.arrivals.wait()
        #expect(!clock.advanceToNext())
        verdict.open()
        #expect(try await operation.response().value.count == 1_000)
    }

    /// Time counts from the head on, but not while the owner, a rate limit or the reader holds the body.
    @Test(arguments: ["owner", "limit", "manager's limit", "reader"]) func heldBackDoesNotCount(by hold: String)
        async throws
    {
        let manager = server.manager(clock: clock) { $0.maxBytesPerSecond = hold == "manager's limit" ? 100 : nil }
        let request = hold == "limit" ? request.maxBytesPerSecond(100) : request
        let chunks = hold == "reader" ? manager.chunks(of: request.maxBodyBytes(1_000)) : nil
        let data = chunks == nil ? manager.enqueue(request) : nil
        let operation = try #require(data as AnyRequestOperation? ?? chunks?.operation)
        await server.exchanges.wait()
        clock.advance(by: .seconds(3_600))
        let exchange = try await server.answered()
        if hold == "owner" { operation.suspend() } else { exchange.send(Data(count: chunks == nil ? 20_010 : 900)) }
        await advance(manager, .zero)
        #expect(exchange.isSuspended)
        await advance(manager, .seconds(hold.hasSuffix("limit") ? 200 : 1_000))
        #expect(operation.error == nil && operation.attempt == 1)
        operation.resume()
        if var iterator = chunks?.makeAsyncIterator() { #expect(try await iterator.next()?.count == 900) }
        await advance(manager, .zero)
        #expect(!exchange.isSuspended)
        await advance(manager, .seconds(29))
        #expect(operation.error == nil && operation.attempt == 1)
        await advance(manager, .seconds(1))
        await look { operation.isFinished }
        #expect(operation.error?.code == .timedOut)
    }

    @Test func bodiesOfRefusalsAreWatchedToo() async throws {
        let operation = server.manager(clock: clock).enqueue(request)
        await server.exchanges.wait().first?.respond(ResponseHead(statusCode: 500))
        clock.advance(by: .seconds(30))
        let error = await operation.failure()
        #expect(error?.code == .timedOut)
        #expect(error?.response?.statusCode == 500)
    }
}
