// Tests failures over every transport: the right code, in time, and never a success.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

extension TransportConformanceTests {
    // MARK: Connections

    @Test(arguments: ConformingTransport.all)
    func refusedConnectionIsConnectionFailed(_ subject: ConformingTransport) async throws {
        let closed = try LoopbackPort.refusing()
        let request = Request<Data>.get("http://127.0.0.1:\(closed.port)/")
        let error = try await Sending(request, over: subject.transport).error()
        #expect(error.code == .connectionFailed)
        #expect(error.isRetryable)
        #expect(error.response == nil)
        #expect(error.underlying != nil)
        #expect(error.description.isOneLine)
        withExtendedLifetime(closed) {}
    }

    /// The transport's underlying error may contain the URL.
    @Test(arguments: ConformingTransport.all)
    func failureShowsNoPasswordOfTheURL(_ subject: ConformingTransport) async throws {
        let closed = try LoopbackPort.refusing()
        let request = Request<Data>.get("http://user:hunter2@127.0.0.1:\(closed.port)/")
        let error = try await Sending(request, over: subject.transport).error()
        #expect(error.code == .connectionFailed)
        #expect(!"\(error) \(String(describing: error.underlying))".contains("hunter2"))
        withExtendedLifetime(closed) {}
    }

    /// The domain `.invalid` never has addresses: RFC 6761, section 6.4.
    @Test(arguments: ConformingTransport.all)
    func unknownHostIsConnectionFailed(_ subject: ConformingTransport) async throws {
        let error = try await Sending(Request<Data>.get("http://convoy.invalid/"), over: subject.transport).error()
        #expect(error.code == .connectionFailed)
        #expect(error.isRetryable)
    }

    @Test(arguments: ConformingTransport.all)
    func closeBeforeTheStatusIsConnectionLost(_ subject: ConformingTransport) async throws {
        try await expectLost(Reply.status(200, body: "hello").disconnecting(afterBytes: 0), subject, hasHead: false)
    }

    @Test(arguments: ConformingTransport.all)
    func resetBeforeTheStatusIsConnectionLost(_ subject: ConformingTransport) async throws {
        try await expectLost(Reply.status(200, body: "hello").resetting(afterBytes: 0), subject, hasHead: false)
    }

    @Test(arguments: ConformingTransport.all, [1_000, 100_000])
    func resetInTheBodyIsConnectionLost(_ subject: ConformingTransport, _ byteCount: Int64) async throws {
        let reply = Reply.generated(byteCount: 200_000).performing(.reset, at: .responseBody(afterBytes: byteCount))
        try await expectLost(reply, subject, hasHead: true)
    }

    @Test(arguments: ConformingTransport.all, [0, 1, 199_999])
    func bodyShortOfItsLengthIsConnectionLost(_ subject: ConformingTransport, _ byteCount: Int64) async throws {
        let reply = Reply.generated(byteCount: 200_000).performing(.close, at: .responseBody(afterBytes: byteCount))
        try await expectLost(reply, subject, hasHead: true)
    }

    @Test(arguments: ConformingTransport.all)
    func chunkedBodyWithoutItsLastChunkIsConnectionLost(_ subject: ConformingTransport) async throws {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        for body in ["", "5\r\nhello\r\n", "5\r\nhel", "5\r\nhello\r\n0"] {
            try await expectLost(.raw(head + body), subject, hasHead: true)
        }
    }

    @Test(arguments: ConformingTransport.all, [Reply.Step.reset, .close])
    func connectionLostWhileSendingIsConnectionLost(_ subject: ConformingTransport, _ step: Reply.Step) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(Reply.status(200).performing(step, at: .requestBody(afterBytes: 1_000)))
        let body = Data(count: 20_000_000)
        let error = try await Sending(Request<Data>.put(server.url()).body(body), over: subject.transport).error()
        #expect(error.code == .connectionLost, "\(error)")
        #expect(error.isRetryable)
        #expect(try await server.takeRequest().isBodyComplete == false)
    }

    /// Expects a lost connection, and a head in the error if one had arrived.
    ///
    /// Resuming and `Retry-After` need the head.
    private func expectLost(
        _ reply: Reply, _ subject: ConformingTransport, hasHead: Bool, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in reply }
        let sending = Sending(Request<Data>.get(server.url()).idleTimeout(.seconds(5)), over: subject.transport)
        let error = try await sending.error(sourceLocation: sourceLocation)
        #expect(error.code == .connectionLost, "\(error)", sourceLocation: sourceLocation)
        #expect(error.isRetryable, sourceLocation: sourceLocation)
        #expect(error.response?.statusCode == (hasHead ? 200 : nil), sourceLocation: sourceLocation)
    }

    // MARK: Responses that are not HTTP

    @Test(
        arguments: ConformingTransport.all,
        [
            "garbage\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 abc OK\r\n\r\n", "HTTP/1.1 -200 OK\r\n\r\n",
            "HTTP/4.0 200 OK\r\nContent-Length: 0\r\n\r\n", "<html>no header</html>", "\0\0\0\0\r\n\r\n",
        ])
    func malformedStatusLineIsABadResponse(_ subject: ConformingTransport, _ bytes: String) async throws {
        try await expectBad(.raw(bytes), subject)
    }

    @Test(
        arguments: ConformingTransport.all,
        [
            "zz\r\nhello\r\n0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n", "FFFFFFFFFFFFFFFFF\r\nhello\r\n0\r\n\r\n",
            "5\r\nhello0\r\n\r\n",
        ])
    func malformedChunkIsAnError(_ subject: ConformingTransport, _ body: String) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body) }
        let error = try await Sending(Request<Data>.get(server.url()), over: subject.transport).error()
        #expect([.badResponse, .connectionLost].contains(error.code), "\(error)")
    }

    @Test(arguments: ConformingTransport.all)
    func endlessHeaderIsABadResponse(_ subject: ConformingTransport) async throws {
        let line = Data("X-Endless: \(String(repeating: "a", count: 1_000))\r\n".utf8)
        let endless = Reply(steps: [.write(Data("HTTP/1.1 200 OK\r\n".utf8)), .writeRepeatedly(line, count: 1 << 30)])
        try await expectBad(endless, subject)
    }

    private func expectBad(
        _ reply: Reply, _ subject: ConformingTransport, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in reply }
        let sending = Sending(Request<Data>.get(server.url()).acceptableStatusCodes(.any), over: subject.transport)
        let error = try await sending.error(sourceLocation: sourceLocation)
        #expect(error.code == .badResponse, "\(error)", sourceLocation: sourceLocation)
        #expect(!error.isRetryable, sourceLocation: sourceLocation)
        #expect(error.description.isOneLine, sourceLocation: sourceLocation)
        try await server.connectionsClosed()
    }

    // MARK: Servers that send nothing more

    @Test(arguments: ConformingTransport.all)
    func silenceBeforeTheHeadTimesOut(_ subject: ConformingTransport) async throws {
        try await expectTimeout(Reply.status(200, body: "late").stalling(), subject, hasHead: false)
    }

    @Test(arguments: ConformingTransport.all)
    func silenceInTheBodyTimesOut(_ subject: ConformingTransport) async throws {
        try await expectTimeout(Reply.generated(byteCount: 1_000).stalling(afterBodyBytes: 10), subject, hasHead: true)
    }

    private func expectTimeout(_ reply: Reply, _ subject: ConformingTransport, hasHead: Bool) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(reply)
        let request = Request<Data>.get(server.url()).idleTimeout(.seconds(1))
        let error = try await Sending(request, over: subject.transport).error()
        #expect(error.code == .timedOut)
        #expect(error.isRetryable)
        #expect(error.response?.statusCode == (hasHead ? 200 : nil))
        try await server.connectionsClosed()
    }

    // MARK: Bodies over the limit

    @Test(arguments: ConformingTransport.all)
    func announcedBodyOverTheLimitIsNotRead(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(Reply.generated(byteCount: 1 << 40).dripping(bytesPerSecond: 10_000_000))
        let sending = Sending(Request<Data>.get(server.url()).maxBodyBytes(1_000), over: subject.transport)
        let error = try await sending.error()
        #expect(error.code == .bodyTooLarge)
        #expect(!error.isRetryable)
        #expect(sending.operation.progress.download.completedBytes == 0)
        try await server.connectionsClosed()
    }

    /// The body is paced.
    ///
    /// An unpaced one blocks URLSession on Linux, see ``KnownURLSessionFaultsTests``.
    @Test(arguments: ConformingTransport.all)
    func endlessBodyIsCutAtTheLimit(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let chunk = Data("400\r\n\(String(repeating: "a", count: 1_024))\r\n".utf8)
        let head = Data("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".utf8)
        let pace = Reply.Step.pace(bytesPerSecond: 10_000_000, pieceBytes: 100_000)
        server.enqueue(Reply(steps: [.write(head), pace, .writeRepeatedly(chunk, count: 1 << 40)]))
        let sending = Sending(Request<Data>.get(server.url()).maxBodyBytes(100_000), over: subject.transport)
        let error = try await sending.error()
        #expect(error.code == .bodyTooLarge)
        #expect(error.message.contains("100000"))
        #expect(sending.operation.progress.download.completedBytes <= 100_000)
        // The server would never stop, so the client has ended the transfer.
        try await server.connectionsClosed()
    }

    @Test(arguments: ConformingTransport.all)
    func bodyAtTheLimitIsNotOverIt(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .generated(byteCount: 1_000) }
        let request = Request<Data>.get(server.url())
        #expect(
            try await Sending(request.maxBodyBytes(1_000), over: subject.transport).response().value.count == 1_000)
        #expect(try await Sending(request.maxBodyBytes(999), over: subject.transport).error().code == .bodyTooLarge)
    }
}
