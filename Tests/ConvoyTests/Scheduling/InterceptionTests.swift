// Tests the limit of requests that interceptors handle at once, and the requests that wait for it.
import Foundation
import Testing

@testable import Convoy

@Suite struct InterceptionTests {
    private static func waiting(at gate: Turnstile) -> Interceptor {
        Interceptor(adapting: { request, _ in
            await gate.pass()
            return request
        })
    }

    /// At most 256 requests have an interceptor permit.
    ///
    /// A cancelled request passes its permit to a waiting one, so the other 400 are sent.
    @Test func cancellingThoseInFrontLetsTheOthersIn() async {
        let (server, gate) = (StubServer(), Turnstile())
        let manager = server.manager(1, configure: { $0.interceptors = [Self.waiting(at: gate)] })
        let operations = (0..<1_000).map { manager.enqueue(Request.stub("\($0)")) }
        await gate.arrivals.wait(count: 256)
        for operation in operations[..<600] { operation.cancel() }
        gate.open()
        await manager.drain()
        #expect(operations[..<600].allSatisfy { $0.error?.code == .cancelled })
        #expect(operations[600...].allSatisfy { $0.error == nil })
        #expect(server.exchanges.count == 400)
    }

    @Test func onesThatAreSuspendedOrWaitForADependencyTakeNoPlace() async throws {
        let (server, gate) = (StubServer(), Turnstile())
        let manager = server.manager(configure: { $0.interceptors = [Self.waiting(at: gate)] })
        let operations = (0..<600).map { manager.enqueue(Request.stub("\($0)")) }
        await gate.arrivals.wait(count: 256)
        for operation in operations[300..<560] { operation.suspend() }
        gate.open()
        for operation in operations[..<300] + operations[560...] { _ = try await operation.response() }
        for operation in operations[300..<560] { operation.resume() }
        await manager.drain()
        #expect(operations.allSatisfy { $0.error == nil })
    }

    /// A request that waits for a retry holds no interceptor permit.
    @Test func aBackOffHoldsNoPermit() async throws {
        let (server, clock) = (StubServer { $0.answer($0.request.url.host() == "down" ? 503 : 200) }, VirtualClock())
        let manager = server.manager(400, perHost: 400, clock: clock) { configuration in
            configuration.interceptors = [Interceptor()]
            configuration.retries = RetryPolicy(baseDelay: .seconds(100))
            configuration.retryBudget = .unlimited
            configuration.jitter = { 1 }
        }
        for index in 0..<300 { manager.enqueue(Request.stub("\(index)", host: "down")) }
        await clock.armed.wait(count: 300)
        for index in 0..<10 { try await manager.send(Request.stub("\(index)", host: "up")) }
        manager.cancelAll()
        await manager.drain()
    }

    @Test func placesComeBackWhateverEndsAnOperation() async throws {
        let (server, gate) = (StubServer(), Turnstile())
        let manager = server.manager(configure: { $0.interceptors = [Self.waiting(at: gate)] })
        for round in 0..<20 {
            let operations = (0..<64).map { manager.enqueue(Request.stub("\(round) \($0)")) }
            await offPool { DispatchQueue.concurrentPerform(iterations: 64) { operations[$0].cancel() } }
        }
        gate.open()
        await manager.drain()
        try await manager.send(Request.stub("last"))
        #expect(manager.scheduler.state.withLock { $0.interceptorLimiter.count } == 0)
    }

    /// An acceptable 401 is inspected, so its body is cut off at the limit and the connection is closed.
    @Test func anAcceptable401ThatIsTooLargeToKeepEndsItsTransfer() async throws {
        let server = StubServer.held()
        let manager = server.manager(configure: { $0.interceptors = [Interceptor()] })
        let operation = manager.enqueue(Request.stub("a").acceptableStatusCodes(.any))
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 401))
        exchange.send(Data(count: 80_000))
        let error = await #expect(throws: RequestError.self) { try await operation.response() }
        #expect(error?.code == .bodyTooLarge)
        await look { exchange.isCancelled }
    }

    @Test func an401ThatJustFitsIsDelivered() async throws {
        let server = StubServer { $0.answer(401, body: Data(count: 65_536)) }
        let manager = server.manager(configure: { $0.interceptors = [Interceptor()] })
        #expect(try await manager.send(Request.stub("a").acceptableStatusCodes(.any)).value.count == 65_536)
    }
}
