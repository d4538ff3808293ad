import Foundation
import Testing

@testable import Convoy

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

@Suite struct StubTransportTests {
    private func makeTask(_ transport: StubTransport, _ client: RecordingClient) throws -> URLSessionTask {
        let request = try PreparedRequest(Request<Data>.get("http://stub/a").core, baseURL: nil)
        return try transport.makeTask(for: request, client: client)
    }

    @Test func handlerIsCalledOnceWhenTheTaskIsResumed() throws {
        let exchanges = EventLog<StubExchange>()
        let transport = StubTransport { exchanges.record($0) }
        let task = try makeTask(transport, RecordingClient())
        #expect(exchanges.count == 0)
        task.resume()
        task.suspend()
        task.resume()
        task.resume()
        #expect(exchanges.count == 1)
        #expect(exchanges.events[0].request.url.absoluteString == "http://stub/a")
        #expect(task.originalRequest?.url?.absoluteString == "http://stub/a")
    }

    @Test func answerIsHeadBodyAndEnd() throws {
        let client = RecordingClient()
        let transport = StubTransport { $0.answer(201, body: Data("ab".utf8)) }
        let task = try makeTask(transport, client)
        task.resume()
        #expect(client.calls.events == [.head(201), .data(Data("ab".utf8)), .end(nil)])
        #expect(task.state == .completed)
        let empty = RecordingClient()
        try makeTask(StubTransport { $0.answer(204) }, empty).resume()
        #expect(empty.calls.events == [.head(204), .end(nil)])
    }

    @Test func nothingIsReportedAfterTheEnd() throws {
        let client = RecordingClient()
        let transport = StubTransport { exchange in
            exchange.sent(totalBytes: 3)
            exchange.finish(RequestError(.timedOut, "late"))
            exchange.respond(ResponseHead(statusCode: 200))
            exchange.send(Data("x".utf8))
            exchange.finish()
        }
        try makeTask(transport, client).resume()
        #expect(client.calls.events == [.sent(3), .end(.timedOut)])
    }

    @Test func cancelIsSeenByTheExchangeAndEndsIt() throws {
        let exchanges = EventLog<StubExchange>()
        let client = RecordingClient()
        let task = try makeTask(StubTransport { exchanges.record($0) }, client)
        task.resume()
        let exchange = exchanges.events[0]
        #expect(task.state == .running && !exchange.isCancelled)
        task.cancel()
        #expect(task.state == .canceling && exchange.isCancelled)
        exchange.answer(200)
        #expect(client.calls.events == [.end(.cancelled)])
    }

    @Test func suspensionIsSeenByTheExchange() throws {
        let exchanges = EventLog<StubExchange>()
        let task = try makeTask(StubTransport { exchanges.record($0) }, RecordingClient())
        task.resume()
        let exchange = exchanges.events[0]
        #expect(!exchange.isSuspended)
        task.suspend()
        #expect(exchange.isSuspended && task.state == .suspended)
        task.resume()
        #expect(!exchange.isSuspended && task.state == .running)
        #expect(StubTransport { _ in }.pausesInPlace)
        #expect(!StubTransport(pausesInPlace: false) { _ in }.pausesInPlace)
    }

    /// Calls are serial and in order, even if they are made inside another call or by several threads.
    @Test func callsAreOneAtATime() async throws {
        final class Reentrant: TransportClient {
            let exchange = EventLog<StubExchange>()
            let log = EventLog<String>()
            func didReceive(_ head: ResponseHead) {
                log.record("head in")
                exchange.events[0].send(Data("x".utf8))
                exchange.events[0].finish()
                log.record("head out")
            }
            func didReceive(_: Data) -> Bool {
                log.record("data")
                return true
            }
            func didPause() {}
            func didSend(totalBytes _: Int64) {}
            func didFinish(_: RequestError?) { log.record("end") }
        }
        let client = Reentrant()
        let request = try PreparedRequest(Request<Data>.get("http://stub/a").core, baseURL: nil)
        let task = try StubTransport { client.exchange.record($0) }.makeTask(for: request, client: client)
        task.resume()
        client.exchange.events[0].respond(ResponseHead(statusCode: 200))
        #expect(client.log.events == ["head in", "head out", "data", "end"])
    }

    /// The example in the documentation of `StubTransport`.
    @Test func stubOfAManagerAnswersItsRequests() async throws {
        let manager = RequestManager(
            configuration: .init(
                transport: .custom(StubTransport { exchange in exchange.answer(200, body: Data("[]".utf8)) })))
        #expect(try await manager.send(Request<[Int]>.get("http://stub/")).value == [])
    }
}
