import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct AttemptTests {
    @Test func eventsOfAnEarlierAttemptAreDropped() async {
        let (server, operation) = StubServer.held(pausesInPlace: false).withOperation()
        operation.start()
        let first = await server.exchanges.wait()[0]
        first.respond(ResponseHead(statusCode: 200))
        first.send(Data("old".utf8))
        operation.suspend()
        operation.resume()
        let second = await server.exchanges.wait(count: 2)[1]
        #expect(operation.attempt == 2)
        // A response that arrives again starts the body afresh.
        second.respond(ResponseHead(statusCode: 200))
        second.send(Data("first".utf8))
        second.respond(ResponseHead(statusCode: 201))
        second.send(Data("ne".utf8))
        first.send(Data("late".utf8))
        // A late head would begin the body afresh.
        first.respond(ResponseHead(statusCode: 500))
        first.finish()
        second.send(Data("w".utf8))
        second.finish()
        let response = try? await operation.response()
        #expect(response?.value == Data("new".utf8))
        #expect(response?.statusCode == 201)
        #expect(response?.transfer.download.completedBytes == 3)
    }

    /// A transport that releases its client late retains no closure of the caller.
    @Test func aRetainedTransportClientHoldsNoClosureOfTheCaller() async {
        final class Captured: Sendable {}
        let (check, server) = (LeakCheck(), StubServer.held())
        let clients = Locked<[any TransportClient]>([])
        let transport = HookedTransport(server.transport) { _, client in
            clients.withLock { $0.append(client) }
        }
        let operation = {
            let captured = check.watch(Captured())
            let request = Request<Int>(url: "http://stub/a") { _, _ in
                _ = captured
                return 1
            }
            return RequestOperation(request, transport: transport)
        }()
        operation.start()
        await server.exchanges.wait(count: 1)
        operation.cancel()
        #expect(await operation.resultCode() == .cancelled)
        await check.expectAllGone()
        #expect(clients.withLock(\.count) == 1)
    }
}
