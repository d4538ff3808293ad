import Convoy
import Foundation
import Testing

@Suite struct InterceptionTests {
    /// An interceptor may fetch a nonce or a token for each request, however many requests wait for theirs.
    @Test(arguments: [true, false], [300, LongRuns.count(1_000, long: 10_000)])
    func anInterceptorMaySendThroughItsOwnManager(testsThePath: Bool, count: Int) async {
        let server = StubServer()
        let own = Locked<RequestManager?>(nil)
        let manager = server.manager(configure: {
            $0.interceptors = [
                Interceptor(adapting: { request, _ in
                    guard request.url.path != "/nonce", let manager = own.withLock({ $0 }) else { return request }
                    let nonce = Request<Data>.stub("nonce")
                    _ = try await manager.send(testsThePath ? nonce : nonce.withoutInterceptors())
                    return request
                })
            ]
        })
        own.withLock { $0 = manager }
        let operations = (0..<count).map { manager.enqueue(Request.stub("\($0)")) }
        await look { operations.allSatisfy(\.isFinished) }
        await manager.cancelAndDrain()
        #expect(operations.allSatisfy { $0.error == nil })
        #expect(server.exchanges.count == 2 * count)
        own.withLock { $0 = nil }
    }

    /// The requests to one host wait for a token, and other hosts receive theirs.
    @Test func aStuckTokenServerDelaysNoOtherHost() async {
        let (server, gate) = (StubServer(), Turnstile())
        let manager = server.manager(configure: {
            $0.interceptors = [
                Interceptor(adapting: { request, _ in
                    if request.url.host() == "stuck" { await gate.pass() }
                    return request
                })
            ]
        })
        let stuck = (0..<1_000).map { manager.enqueue(Request.stub("\($0)", host: "stuck")) }
        let others = (0..<100).map { manager.enqueue(Request.stub("\($0)", host: "other")) }
        await look { others.allSatisfy(\.isFinished) }
        #expect(stuck.allSatisfy { !$0.isFinished })
        #expect(others.allSatisfy { $0.isFinished && $0.error == nil })
        gate.open()
        await manager.drain()
        #expect(stuck.allSatisfy { $0.error == nil })
    }

    @Test func cancelledRequestsAreNotSentWhenTheirInterceptorsReturn() async {
        let (server, gate) = (StubServer(), Turnstile())
        let waiting = Interceptor(adapting: { request, _ in
            await gate.pass()
            return request
        })
        let manager = server.manager(1, configure: { $0.interceptors = [waiting] })
        let operations = (0..<1_000).map { manager.enqueue(Request.stub("\($0)")) }
        await gate.arrivals.wait(count: 1_000)
        for operation in operations[..<600] { operation.cancel() }
        gate.open()
        await manager.drain()
        #expect(operations[..<600].allSatisfy { $0.error?.code == .cancelled })
        #expect(operations[600...].allSatisfy { $0.error == nil })
        #expect(server.exchanges.count == 400)
    }

    /// An acceptable 401 is inspected, so its body is cut off at the limit and the connection is closed.
    @Test func anAcceptable401ThatIsTooLargeToKeepEndsItsTransfer() async throws {
        let server = StubServer.held()
        let manager = server.manager(configure: { $0.interceptors = [Interceptor()] })
        let operation = manager.enqueue(Request.stub("a").acceptableStatusCodes(.any))
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 401))
        exchange.send(Data(count: 80_000))
        #expect(await operation.resultCode() == .bodyTooLarge)
        await look { exchange.isCancelled }
    }

    @Test func an401ThatJustFitsIsDelivered() async throws {
        let server = StubServer { $0.answer(401, body: Data(count: 65_536)) }
        let manager = server.manager(configure: { $0.interceptors = [Interceptor()] })
        #expect(try await manager.send(Request.stub("a").acceptableStatusCodes(.any)).value.count == 65_536)
    }
}
