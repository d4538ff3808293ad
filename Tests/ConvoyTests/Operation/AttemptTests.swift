// Rule 5: attempts are numbered, and what comes for an old one is dropped.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct AttemptTests {
    @Test func whatArrivesForAnAttemptThatIsOverIsDropped() async {
        let server = StubServer.held(pausesInPlace: false)
        let operation = RequestOperation(.stub("a"), transport: server.transport)
        operation.start()
        let first = await server.exchanges.wait()[0]
        first.respond(ResponseHead(statusCode: 200))
        first.send(Data("old".utf8))
        operation.suspend()
        operation.resume()
        let second = await server.exchanges.wait(count: 2)[1]
        #expect(operation.attempt == 2)
        second.respond(ResponseHead(statusCode: 201))
        first.send(Data("late".utf8))
        first.respond(ResponseHead(statusCode: 500))
        first.finish()
        second.send(Data("new".utf8))
        second.finish()
        let response = try? await operation.response()
        #expect(response?.value == Data("new".utf8))
        #expect(response?.statusCode == 201)
        #expect(response?.transfer.download.completedBytes == 3)
    }

    @Test func aResponseThatArrivesAgainStartsTheBodyAfresh() async throws {
        let server = StubServer.held()
        let operation = RequestOperation(.stub("a"), transport: server.transport)
        operation.start()
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 103))
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.send(Data("first".utf8))
        exchange.respond(ResponseHead(statusCode: 200))
        exchange.send(Data("again".utf8))
        exchange.finish()
        let response = try await operation.response()
        #expect(response.value == Data("again".utf8))
        #expect(response.transfer.download.completedBytes == 5)
    }
}
