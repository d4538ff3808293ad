import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Tests the contract of `Transport` without an operation, with the real transports and the stub.
@Suite(.timeLimit(.minutes(5))) struct TransportContractTests {
    private static let stub = ConformingTransport(
        name: "stub",
        transport: StubTransport { exchange in
            if exchange.request.url.path == "/hello" { exchange.answer(200, body: Data("hello".utf8)) }
            if exchange.request.url.path == "/body" { exchange.respond(ResponseHead(statusCode: 200)) }
        })
    static let all = ConformingTransport.all + [stub]

    private func makeServer() throws -> TestServer {
        let server = try TestServer()
        server.route("/hello") { _ in .status(200, body: "hello") }
        server.route("/body") { _ in Reply.status(200, body: "hello").stalling(afterBodyBytes: 0) }
        server.route("/head") { _ in Reply.status(200, body: "hello").stalling() }
        return server
    }

    private func makeTask(_ subject: ConformingTransport, _ url: URL, _ client: RecordingClient) throws
        -> URLSessionTask
    {
        let request = try PreparedRequest(Request<Data>.get(url).core, baseURL: nil)
        return try subject.transport.makeTask(for: request, client: client)
    }

    @Test(arguments: all)
    func headThenBodyThenEnd(_ subject: ConformingTransport) async throws {
        let server = try makeServer()
        defer { server.shutDown() }
        let client = RecordingClient()
        let task = try makeTask(subject, server.url("/hello"), client)
        #expect(task.state == .suspended)
        #expect(client.calls.count == 0)
        task.resume()
        #expect(await client.calls.wait(count: 3) == [.head(200), .data(Data("hello".utf8)), .end(nil)])
    }

    @Test(arguments: all, ["/head", "/body"])
    func cancelEndsOnceAndLast(_ subject: ConformingTransport, _ path: String) async throws {
        let server = try makeServer()
        defer { server.shutDown() }
        let client = RecordingClient()
        let task = try makeTask(subject, server.url(path), client)
        task.resume()
        if path == "/body" { await client.calls.wait() }
        task.cancel()
        task.cancel()
        await client.calls.wait(count: path == "/body" ? 2 : 1)
        task.resume()
        try await server.connectionsClosed()
        #expect(client.calls.events.last == .end(.cancelled))
        #expect(client.calls.events.count { if case .end = $0 { true } else { false } } == 1)
    }

    @Test(arguments: all)
    func cancelledBeforeResumeIsNeverSent(_ subject: ConformingTransport) async throws {
        let server = try makeServer()
        defer { server.shutDown() }
        let client = RecordingClient()
        let task = try makeTask(subject, server.url("/hello"), client)
        task.cancel()
        task.resume()
        // Further events of the first task would precede the response to a later request on loopback.
        let later = RecordingClient()
        let other = try makeTask(subject, server.url("/hello"), later)
        other.resume()
        await later.calls.wait(count: 3)
        #expect(client.calls.events.allSatisfy { $0 == .end(.cancelled) })
        #expect(server.requestCount == (subject.name == "stub" ? 0 : 1))
    }
}
