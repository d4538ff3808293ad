import Foundation
import Testing

@testable import Convoy

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Tests every real transport with a real server on loopback, one server for each test.
@Suite(.timeLimit(.minutes(5))) struct TransportConformanceTests {
    private let server: TestServer

    init() throws { server = try TestServer() }

    @Test(arguments: ConformingTransport.all)
    func answerHasStatusFieldsAndBody(_ subject: ConformingTransport) async throws {
        server.enqueue(.status(201, headerFields: [("X-Made", "by hand"), ("ETag", "\"1\"")], body: "hello"))
        let response = try await Sending(Request<Data>.get(server.url("/a")), over: subject.transport).response()
        #expect(response.statusCode == 201)
        #expect(response.value == Data("hello".utf8))
        #expect(response.headerFields["x-made"] == "by hand")
        #expect(response.headerFields["etag"] == "\"1\"")
        #expect(response.head.expectedBytes == 5)
        #expect(response.head.url == server.url("/a"))
        #expect(response.transfer.download.completedBytes == 5)
        let request = try await server.takeRequest()
        #expect(request.method == "GET")
        #expect(request.target == "/a")
        #expect(request.value(of: "Host") == "127.0.0.1:\(server.port)")
        #expect(request.value(of: "Content-Length") == nil)
        #expect(request.value(of: "Transfer-Encoding") == nil)
    }

    @Test(arguments: ConformingTransport.all)
    func answerToHeadHasFieldsAndNoBody(_ subject: ConformingTransport) async throws {
        server.respond { _ in .status(200, headerFields: [("X-A", "1")], body: "hello") }
        for _ in 0..<2 {
            let response = try await Sending(Request<Void>.head(server.url()), over: subject.transport).response()
            #expect(response.statusCode == 200)
            #expect(response.headerFields["X-A"] == "1")
            #expect(response.headerFields["Content-Length"] == "5")
            #expect(response.transfer.download.completedBytes == 0)
        }
        #expect(try await server.takeRequest().method == "HEAD")
        // The length of a response to HEAD belongs to a body that is not sent, so it is never too large.
        server.respond { _ in .status(200, headerFields: [("Content-Length", "1099511627776")]) }
        let huge = try await Sending(Request<Void>.head(server.url()), over: subject.transport).response()
        #expect(huge.headerFields["Content-Length"] == "1099511627776")
    }

    @Test(arguments: ConformingTransport.all, [204, 304, 205])
    func answerWithoutABodyIsComplete(_ subject: ConformingTransport, _ statusCode: Int) async throws {
        server.respond { _ in .status(statusCode, headerFields: [("ETag", "\"1\"")]) }
        for _ in 0..<2 {
            let request = Request<Data>.get(server.url()).acceptableStatusCodes(.any)
            let response = try await Sending(request, over: subject.transport).response()
            #expect(response.statusCode == statusCode)
            #expect(response.value.isEmpty)
            #expect(response.headerFields["ETag"] == "\"1\"")
        }
    }

    @Test(arguments: ConformingTransport.all, [1 << 20, 20 << 20] as [Int64])
    func largeBodyArrivesWholeAndInOrder(_ subject: ConformingTransport, _ byteCount: Int64) async throws {
        server.enqueue(.generated(byteCount: byteCount))
        let response = try await Sending(Request<Data>.get(server.url()), over: subject.transport).response()
        #expect(response.transfer.download.completedBytes == byteCount)
        #expect(response.transfer.download.totalBytes == byteCount)
        #expect(response.value == Reply.pattern(range: 0..<byteCount))
    }

    /// Responses, their bodies, and the announced lengths.
    ///
    /// A body without a length ends with the connection (RFC 9112, section 6.3, case 8), and bytes after a body with a
    /// length are not delivered.
    private static let framings: [(reply: Reply, body: Data, length: Int64?)] = [
        (.status(200), Data(), 0), (.chunked([]), Data(), nil),
        (.chunked(pattern.pieces(of: 3_334)), pattern, nil), (.chunked(pattern.pieces(of: 1)), pattern, nil),
        (.raw("HTTP/1.1 200 OK\r\n\r\nuntil the end"), Data("until the end".utf8), nil),
        (
            .status(200, headerFields: [("Content-Length", "5")], body: "hello, and more").disconnectingAtEnd(),
            Data("hello".utf8), 5
        ),
    ]
    private static let pattern = Reply.pattern(range: 0..<10_000)

    @Test(arguments: ConformingTransport.all, framings.indices)
    func bodyEndsWhereItsFramingSays(_ subject: ConformingTransport, _ index: Int) async throws {
        let (reply, body, length) = Self.framings[index]
        server.enqueue(reply)
        let response = try await Sending(Request<Data>.get(server.url()), over: subject.transport).response()
        #expect(response.value == body)
        if !body.isEmpty { #expect(response.head.expectedBytes == length) }
    }

    @Test(arguments: ConformingTransport.all)
    func encodedBodyArrivesDecoded(_ subject: ConformingTransport) async throws {
        server.respond { _ in .status(200, headerFields: [("Content-Encoding", "gzip")], body: .zipped) }
        let request = Request<String>.get(server.url())
        let response = try await Sending(request, over: subject.transport).response()
        #expect(response.value == String(repeating: "abc", count: 1_000))
        #expect(response.transfer.download.completedBytes == 3_000)
        #expect(response.transfer.download.fractionCompleted ?? 1 == 1)
        #expect(response.head.expectedBytes == nil)
        // The limit applies to decoded bytes. Only 44 bytes were sent.
        let error = try await Sending(request.maxBodyBytes(2_999), over: subject.transport).error()
        #expect(error.code == .bodyTooLarge)
    }

    @Test(arguments: ConformingTransport.all)
    func severalValuesOfAFieldArriveInOrder(_ subject: ConformingTransport) async throws {
        server.enqueue(.status(200, headerFields: [("X-A", "1"), ("X-B", "2"), ("X-A", "3")]))
        let response = try await Sending(Request<Data>.get(server.url()), over: subject.transport).response()
        #expect(response.headerFields["X-A"] == "1, 3")
        #expect(response.headerFields["X-B"] == "2")
    }

    @Test(arguments: ConformingTransport.all, [301, 302, 303, 307, 308])
    func redirectIsAnAnswer(_ subject: ConformingTransport, _ statusCode: Int) async throws {
        let target = server.url("/elsewhere").absoluteString
        server.route("/a") { _ in .status(statusCode, headerFields: [("Location", target)], body: "over there") }
        let request = Request<String>.get(server.url("/a")).acceptableStatusCodes(.any).redirects(.never)
        let response = try await Sending(request, over: subject.transport).response()
        #expect(response.statusCode == statusCode)
        #expect(response.headerFields["Location"] == target)
        #expect(response.value == "over there")
        #expect(server.requestCount == 1)
        let error = try await Sending(Request<Data>.get(server.url("/a")).redirects(.never), over: subject.transport)
            .error()
        #expect(error.code == .unacceptableStatus)
        #expect(error.body == Data("over there".utf8))
        #expect(server.requestCount == 2)
    }

    /// The test needs a child process: if URLSession's queue deadlocks, no later request gets a response.
    @Test(
        arguments: ConformingTransport.all,
        ["Basic realm=\"a\"", "Digest realm=\"a\", nonce=\"b\"", "Bearer", "Basic", ""])
    func unauthorizedIsAnAnswer(_ subject: ConformingTransport, _ challenge: String) async {
        await #expect(processExitsWith: .success) { [name = subject.name as String, challenge = challenge as String] in
            let (transport, server) = try place(name)
            server.respond { _ in .status(401, headerFields: [("WWW-Authenticate", challenge)], body: "who are you?") }
            let request = Request<String>.get(server.url()).acceptableStatusCodes(.any)
            let response = try await Sending(request, over: transport).response()
            #expect(response.statusCode == 401)
            #expect(response.value == "who are you?")
            #expect(server.requestCount == 1)
            let error = try await Sending(Request<Data>.get(server.url()), over: transport).error()
            #expect(error.code == .unacceptableStatus)
            #expect(error.body == Data("who are you?".utf8))
        }
    }

    @Test(arguments: ConformingTransport.all, [400, 404, 500, 503, 599])
    func errorStatusComesWithHeadAndBody(_ subject: ConformingTransport, _ statusCode: Int) async throws {
        server.enqueue(.status(statusCode, headerFields: [("Retry-After", "1")], body: "sorry"))
        let error = try await Sending(Request<Data>.get(server.url("/a")), over: subject.transport).error()
        #expect(error.code == .unacceptableStatus)
        #expect(error.response?.statusCode == statusCode)
        #expect(error.response?.headerFields["Retry-After"] == "1")
        #expect(error.body == Data("sorry".utf8))
        #expect(error.request == "GET \(server.url("/a"))")
    }

    @Test(arguments: ConformingTransport.all)
    func interimResponsesAreNotTheAnswer(_ subject: ConformingTransport) async throws {
        server.enqueue(
            Reply.status(200, body: "final").informational(103, headerFields: [("Link", "</a>")]).informational([
                100, 102, 103,
            ]))
        let response = try await Sending(Request<String>.get(server.url()), over: subject.transport).response()
        #expect(response.statusCode == 200)
        #expect(response.value == "final")
        #expect(response.transfer.download.completedBytes == 5)
    }
}

extension TransportConformanceTests {
    private func sent<Output>(
        _ request: Request<Output>, over subject: ConformingTransport
    ) async throws -> RecordedRequest {
        server.enqueue(.status(200))
        _ = try await Sending(request, over: subject.transport).response()
        return try await server.takeRequest()
    }

    /// A caller that wants no timeout may set a very long one.
    @Test(arguments: ConformingTransport.all, [.seconds(Int64.max), .seconds(1 << 60)] as [Duration])
    func longestIdleTimeoutIsOne(_ subject: ConformingTransport, _ timeout: Duration) async throws {
        _ = try await sent(Request<Data>.get(server.url()).idleTimeout(timeout), over: subject)
    }

    /// Spaces and tabs around a value do not belong to it, but other white space does (RFC 9110, section 5.5).
    @Test(arguments: ConformingTransport.all, ["\u{A0}x\u{A0}", "\u{3000}x", "\u{200B}x\u{200B}", "\u{A0}"])
    func whiteSpaceOfUnicodeIsPartOfAValue(_ subject: ConformingTransport, _ value: String) async throws {
        let request = try await sent(
            Request<Data>.get(server.url()).header("X-A", " \t\(value)\t "), over: subject)
        #expect(request.values(of: "X-A").map { Array($0.utf8) } == [Array(value.utf8)])
    }

    @Test(arguments: ConformingTransport.all)
    func bodyWithoutAContentTypeGetsNone(_ subject: ConformingTransport) async throws {
        let body = Data("x".utf8)
        let request = try await sent(
            Request<Data>.post(server.url()).body(body, contentType: nil), over: subject)
        #expect(request.value(of: "Content-Type") == nil)
        #expect(request.bodyText == "x")
    }

    /// A POST or PUT without content has a length of zero: RFC 9110, section 8.6.
    @Test(arguments: ConformingTransport.all, [HTTPMethod.post, .put])
    func postWithoutABodyHasLengthZero(_ subject: ConformingTransport, _ method: HTTPMethod) async throws {
        let request = try await sent(Request<Data>(method: method, url: server.url()), over: subject)
        #expect(request.values(of: "Content-Length") == ["0"])
        #expect(request.value(of: "Transfer-Encoding") == nil)
        #expect(request.bodyByteCount == 0)
    }

    @Test(arguments: ConformingTransport.all, [HTTPMethod.delete, .options, "PURGE", "M-SEARCH", "purge"])
    func methodIsSentAsItIs(_ subject: ConformingTransport, _ method: HTTPMethod) async throws {
        let request = try await sent(Request<Data>(method: method, url: server.url()), over: subject)
        #expect(request.method == method.rawValue)
        #expect(request.bodyByteCount == 0)
    }

    @Test(arguments: ConformingTransport.all)
    func deleteAndPatchCarryBodies(_ subject: ConformingTransport) async throws {
        for method in [HTTPMethod.delete, .patch, "PROPFIND"] {
            let request = Request<Data>(method: method, url: server.url()).body(Data("body".utf8))
            let seen = try await sent(request, over: subject)
            #expect(seen.method == method.rawValue)
            #expect(seen.bodyText == "body")
            #expect(seen.value(of: "Content-Length") == "4")
        }
    }

    @Test(arguments: ConformingTransport.all)
    func severalValuesOfAFieldAreSentInOrder(_ subject: ConformingTransport) async throws {
        let request = Request<Data>.get(server.url()).addingHeader("X-A", "1").header("X-B", "2").addingHeader(
            "x-a", "3, 4")
        let seen = try await sent(request, over: subject)
        let values = seen.values(of: "X-A").flatMap { $0.split(separator: ",") }
        #expect(values.map { $0.trimmingCharacters(in: .whitespaces) } == ["1", "3", "4"])
        #expect(seen.value(of: "X-B") == "2")
    }

    @Test(arguments: ConformingTransport.all)
    func fieldsOfTheCallerWin(_ subject: ConformingTransport) async throws {
        let request = Request<Data>.get(server.url()).header("User-Agent", "me").header("Accept", "a/b")
            .header("Accept-Encoding", "identity").bearer("token").header("Cookie", "a=b").header("X-Empty", "")
        let seen = try await sent(request, over: subject)
        #expect(seen.values(of: "User-Agent") == ["me"])
        #expect(seen.values(of: "Accept") == ["a/b"])
        #expect(seen.values(of: "Accept-Encoding") == ["identity"])
        #expect(seen.values(of: "Authorization") == ["Bearer token"])
        #expect(seen.values(of: "Cookie") == ["a=b"])
        #expect(seen.values(of: "X-Empty") == [""])
    }

    @Test(arguments: ConformingTransport.all)
    func queryIsSentEncodedAndFragmentNotAtAll(_ subject: ConformingTransport) async throws {
        let url = server.url("/p%2Fq/a").absoluteString + "?x=1#fragment"
        let request = Request<Data>.get(url).query("q", "+ & = ü").query("flag", nil)
        let seen = try await sent(request, over: subject)
        #expect(seen.target == "/p%2Fq/a?x=1&q=%2B%20%26%20%3D%20%C3%BC&flag")
    }

    @Test(arguments: ConformingTransport.all)
    func cookiesAreNeitherStoredNorSentByThemselves(_ subject: ConformingTransport) async throws {
        server.respond { _ in .status(200, headerFields: [("Set-Cookie", "a=b; Path=/")]) }
        for _ in 0..<2 {
            _ = try await Sending(Request<Data>.get(server.url()), over: subject.transport).response()
            #expect(try await server.takeRequest().value(of: "Cookie") == nil)
        }
    }

    @Test(arguments: ConformingTransport.all)
    func answersAreNotCached(_ subject: ConformingTransport) async throws {
        for body in ["1", "2"] {
            server.enqueue(
                .status(200, headerFields: [("Cache-Control", "max-age=3600"), ("ETag", "\"1\"")], body: body))
            let response = try await Sending(Request<String>.get(server.url()), over: subject.transport).response()
            #expect(response.value == body)
        }
        #expect(server.requestCount == 2)
    }

    /// Only the declared bytes are sent, because the server would read further bytes as the next request.
    @Test(arguments: ConformingTransport.all)
    func fileThatGrowsIsSentAsItWas(_ subject: ConformingTransport) async throws {
        let directory = try TemporaryDirectory()
        let file = directory.url.appending(path: "log")
        let body = Reply.pattern(range: 0..<12_000_000)
        try body.write(to: file)
        let gate = Gate()
        server.enqueue(Reply.status(200).performing(.wait(gate), at: .requestBody(afterBytes: 1)))
        let sending = Sending(Request<Data>.put(server.url()).body(fromFile: file), over: subject.transport)
        try await server.connectionsAccepted(count: 1)
        let end = try FileHandle(forWritingTo: file)
        try end.seekToEnd()
        try end.write(contentsOf: Data("GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n".utf8))
        try end.close()
        gate.open()
        _ = try await sending.response()
        let request = try await server.takeRequest()
        #expect(request.bodyByteCount == 12_000_000)
        #expect(request.body == body)
        #expect(server.requestCount == 1 && server.rejectedRequestCount == 0)
    }
}

extension TransportConformanceTests {
    // MARK: Connections

    @Test(arguments: ConformingTransport.all)
    func refusedConnectionIsConnectionFailed(_ subject: ConformingTransport) async throws {
        let closed = try LoopbackPort.refusing()
        let request = Request<Data>.get("http://127.0.0.1:\(closed.port)/")
        let error = try await Sending(request, over: subject.transport).error()
        error.expect(.connectionFailed, status: 0)
        #expect(error.underlying != nil)
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
        error.expect(.connectionFailed)
    }

    @Test(arguments: ConformingTransport.all, [true, false])
    func endBeforeTheStatusIsConnectionLost(_ subject: ConformingTransport, _ isReset: Bool) async throws {
        let reply = Reply.status(200, body: "hello")
        try await expectLost(
            isReset ? reply.resetting(afterBytes: 0) : reply.disconnecting(afterBytes: 0), subject, hasHead: false)
    }

    @Test(
        arguments: ConformingTransport.all,
        [(.close, 0), (.close, 1), (.close, 199_999), (.reset, 1_000), (.reset, 100_000)] as [(Reply.Step, Int64)])
    func bodyShortOfItsLengthIsConnectionLost(
        _ subject: ConformingTransport, _ end: (step: Reply.Step, byteCount: Int64)
    ) async throws {
        let moment = Reply.Moment.responseBody(afterBytes: end.byteCount)
        try await expectLost(.generated(byteCount: 200_000).performing(end.step, at: moment), subject, hasHead: true)
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
        server.enqueue(Reply.status(200).performing(step, at: .requestBody(afterBytes: 1_000)))
        let body = Data(count: 20_000_000)
        let error = try await Sending(Request<Data>.put(server.url()).body(body), over: subject.transport).error()
        error.expect(.connectionLost)
        #expect(try await server.takeRequest().isBodyComplete == false)
    }

    // Expects a lost connection, and a head in the error if one had arrived. Resuming and `Retry-After` need the head.
    private func expectLost(
        _ reply: Reply, _ subject: ConformingTransport, hasHead: Bool, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        server.respond { _ in reply }
        let sending = Sending(Request<Data>.get(server.url()).idleTimeout(.seconds(5)), over: subject.transport)
        let error = try await sending.error(sourceLocation: sourceLocation)
        error.expect(.connectionLost, status: hasHead ? 200 : 0, sourceLocation: sourceLocation)
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
        server.respond { _ in reply }
        let sending = Sending(Request<Data>.get(server.url()).acceptableStatusCodes(.any), over: subject.transport)
        let error = try await sending.error(sourceLocation: sourceLocation)
        error.expect(.badResponse, sourceLocation: sourceLocation)
        try await server.connectionsClosed()
    }

    // MARK: Servers that send nothing more

    @Test(arguments: ConformingTransport.all, [true, false])
    func silenceTimesOut(_ subject: ConformingTransport, hasHead: Bool) async throws {
        let reply = Reply.generated(byteCount: 1_000)
        server.enqueue(hasHead ? reply.stalling(afterBodyBytes: 10) : reply.stalling())
        let request = Request<Data>.get(server.url()).idleTimeout(.seconds(1))
        let error = try await Sending(request, over: subject.transport).error()
        error.expect(.timedOut, status: hasHead ? 200 : 0)
        try await server.connectionsClosed()
    }

    // MARK: Bodies over the limit

    @Test(arguments: ConformingTransport.all)
    func announcedBodyOverTheLimitIsNotRead(_ subject: ConformingTransport) async throws {
        server.enqueue(Reply.generated(byteCount: 1 << 40).dripping(bytesPerSecond: 10_000_000))
        let sending = Sending(Request<Data>.get(server.url()).maxBodyBytes(1_000), over: subject.transport)
        let error = try await sending.error()
        error.expect(.bodyTooLarge)
        #expect(sending.operation.progress.download.completedBytes == 0)
        try await server.connectionsClosed()
    }

    // The body is paced. An unpaced one blocks URLSession on Linux, see ``KnownURLSessionFaultsTests``.
    @Test(arguments: ConformingTransport.all)
    func endlessBodyIsCutAtTheLimit(_ subject: ConformingTransport) async throws {
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
}

extension TransportConformanceTests {
    @Test(arguments: ConformingTransport.all)
    func cancelBeforeStartSendsNothing(_ subject: ConformingTransport) async throws {
        let sending = Sending(Request<Data>.get(server.url()), over: subject.transport) { $0.cancel() }
        #expect(try await sending.error().code == .cancelled)
        #expect(sending.operation.isFinished)
        // If the first request had been sent, the server would have received it before this one.
        server.enqueue(.status(200))
        _ = try await Sending(Request<Data>.get(server.url("/later")), over: subject.transport).response()
        #expect(try await server.takeRequest().target == "/later")
        #expect(server.requestCount == 1)
        #expect(sending.outcomes.count == 1)
    }

    @Test(arguments: ConformingTransport.all)
    func cancelBeforeTheHeadEndsTheTransfer(_ subject: ConformingTransport) async throws {
        let gate = Gate()
        server.enqueue(Reply.status(200, body: "late").stalling(until: gate))
        let sending = Sending(Request<Data>.get(server.url()), over: subject.transport)
        try await gate.reached()
        try await expectCancelled(sending, server)
    }

    @Test(arguments: ConformingTransport.all)
    func cancelInTheBodyEndsTheTransfer(_ subject: ConformingTransport) async throws {
        server.enqueue(Reply.generated(byteCount: 1_000_000).stalling(afterBodyBytes: 300_000))
        var received: EventLog<Int64>?
        let sending = Sending(Request<Data>.get(server.url()), over: subject.transport) {
            received = $0.received(bytes: 300_000)
        }
        await received?.wait()
        try await expectCancelled(sending, server)
    }

    @Test(arguments: ConformingTransport.all)
    func cancelInTheRequestsBodyEndsTheTransfer(_ subject: ConformingTransport) async throws {
        let gate = Gate()
        server.enqueue(Reply.status(200).performing(.wait(gate), at: .requestBody(afterBytes: 1_000)))
        let body = Data(count: 20_000_000)
        let sending = Sending(Request<Data>.post(server.url()).body(body), over: subject.transport)
        try await gate.reached()
        sending.operation.cancel()
        #expect(try await sending.error().code == .cancelled)
        gate.open()
        try await server.connectionsClosed()
        #expect(sending.outcomes.count == 1)
        #expect(try await server.takeRequest().isBodyComplete == false)
    }

    private func expectCancelled(_ sending: Sending<Data>, _ server: TestServer) async throws {
        sending.operation.cancel()
        sending.operation.cancel()
        let error = try await sending.error()
        error.expect(.cancelled)
        #expect(error.request == "GET \(server.url())")
        try await server.connectionsClosed()
        sending.operation.cancel()
        #expect(sending.outcomes.count == 1)
        #expect(sending.operation.isFinished)
        #expect(sending.operation.result?.code == .cancelled)
        #expect(sending.operation.task == nil)
    }

    @Test(arguments: ConformingTransport.all)
    func cancelledTaskEndsTheTransfer(_ subject: ConformingTransport) async throws {
        let gate = Gate()
        server.enqueue(Reply.status(200).stalling(until: gate))
        let operation = RequestOperation(Request<Data>.get(server.url()), transport: subject.transport)
        let waiting = Task { () -> RequestError? in
            do throws(RequestError) {
                operation.start()
                _ = try await operation.response()
                return nil
            } catch { return error }
        }
        try await gate.reached()
        waiting.cancel()
        #expect(await waiting.value?.code == .cancelled)
        try await server.connectionsClosed()
    }

    @Test(arguments: ConformingTransport.all)
    func suspendedTransferEndsWithTheWholeBody(_ subject: ConformingTransport) async throws {
        let gate = Gate()
        server.respond { _ in Reply.generated(byteCount: 1_000_000).stalling(afterBodyBytes: 300_000, until: gate) }
        var received: EventLog<Int64>?
        let sending = Sending(Request<Data>.get(server.url()), over: subject.transport) {
            received = $0.received(bytes: 300_000)
        }
        await received?.wait()
        sending.operation.suspend()
        sending.operation.suspend()
        #expect(sending.operation.isSuspended)
        // A transport that cannot pause a transfer has ended it.
        if !subject.transport.pausesInPlace { try await server.connectionsClosed() }
        gate.open()
        sending.operation.resume()
        sending.operation.resume()
        let response = try await sending.response()
        #expect(response.value == Reply.pattern(range: 0..<1_000_000))
        #expect(response.transfer.download.completedBytes == 1_000_000)
        #expect(server.requestCount == (subject.transport.pausesInPlace ? 1 : 2))
        #expect(sending.outcomes.count == 1)
    }

    @Test(arguments: ConformingTransport.all)
    func suspendedTransferCanBeCancelled(_ subject: ConformingTransport) async throws {
        let gate = Gate()
        server.enqueue(Reply.status(200, body: "late").stalling(until: gate))
        let sending = Sending(Request<Data>.get(server.url()), over: subject.transport)
        try await gate.reached()
        sending.operation.suspend()
        try await expectCancelled(sending, server)
        sending.operation.resume()
        #expect(server.requestCount == 1)
    }

    @Test(arguments: ConformingTransport.all)
    func cancelAtAnyEventHasOneOutcome(_ subject: ConformingTransport) async throws {
        server.respond { _ in .chunked((0..<20).map { _ in Data(count: 1_000) }) }
        for count in 0..<12 {
            let events = EventLog<Void>()
            let sending = Sending(Request<Data>.get(server.url()), over: subject.transport) { operation in
                let stream = operation.events
                Task {
                    for await _ in stream {
                        if events.count == count { operation.cancel() }
                        events.record(())
                    }
                }
            }
            switch try await sending.result() {
            case .success(let response): #expect(response.value.count == 20_000)
            case .failure(let error): #expect(error.code == .cancelled)
            }
            #expect(sending.outcomes.count == 1)
        }
    }
}

// Runs each test in a separate process. A shared transport closes idle connections when other tests use other hosts,
// and then opens more connections than a single test would.
@Suite struct TransportConnectionTests {
    @Test(arguments: ConformingTransport.all)
    func sequentialRequestsUseOneConnection(_ subject: ConformingTransport) async {
        await #expect(processExitsWith: .success) { [name = subject.name as String] in
            let (transport, server) = try place(name)
            server.respond { .status(200, body: $0.path) }
            for number in 1...5 {
                let response = try await Sending(Request<String>.get(server.url("/\(number)")), over: transport)
                    .response()
                #expect(response.value == "/\(number)")
                #expect(try await server.takeRequest().numberOnConnection == number)
            }
            #expect(server.connectionCount == 1)
        }
    }

    @Test(arguments: ConformingTransport.all)
    func answersWithoutABodyLeaveTheConnectionClean(_ subject: ConformingTransport) async {
        await #expect(processExitsWith: .success) { [name = subject.name as String] in
            let (transport, server) = try place(name)
            server.enqueue([.status(204), .status(304, headerFields: [("Content-Length", "5")]), .status(200)])
            for statusCode in [204, 304, 200] {
                let request = Request<Data>.get(server.url()).acceptableStatusCodes(.any)
                #expect(try await Sending(request, over: transport).response().statusCode == statusCode)
            }
            server.respond { _ in .status(200, headerFields: [("X-A", "1")], body: "hello") }
            _ = try await Sending(Request<Void>.head(server.url()), over: transport).response()
            _ = try await Sending(Request<Data>.post(server.url()).body(Data("x".utf8)), over: transport).response()
            _ = try await Sending(Request<Data>.get(server.url()).acceptableStatusCodes(.codes([404])), over: transport)
                .error()
            #expect(try await Sending(Request<String>.get(server.url()), over: transport).response().value == "hello")
            #expect(server.requestCount == 7)
            #expect(server.connectionCount == 1)
        }
    }

    @Test(arguments: ConformingTransport.all)
    func limitPerHostOfAManagerHoldsOnTheWire(_ subject: ConformingTransport) async {
        await #expect(processExitsWith: .success) { [name = subject.name as String] in
            let (transport, server) = try place(name)
            let gate = Gate()
            server.route("/fence") { _ in .status(200) }
            server.respond { Reply.status(200, body: $0.path).stalling(until: gate) }
            let manager = RequestManager(
                configuration: .init(
                    maxConcurrentOperationCount: 32, maxConcurrentPerHost: 6, transport: .custom(transport)))
            let results = EventLog<(Int, String?)>()
            for number in 0..<300 {
                manager.enqueue(Request<String>.get(server.url("/\(number)"))) {
                    results.record((number, try? $0.get().value))
                }
            }
            try await gate.reached(count: 6)
            #expect(server.openConnectionCount == 6)
            // A seventh request would have been sent before this request.
            _ = try await Sending(Request<Data>.get(server.url("/fence")), over: transport).response()
            #expect(server.requestCount == 7)
            gate.open()
            for (number, body) in await results.wait(count: 300, within: .seconds(40)) { #expect(body == "/\(number)") }
            #expect(server.requestCount == 301)
        }
    }

    // MARK: Connections that the server has closed

    @Test(arguments: ConformingTransport.all)
    func postOverAConnectionTheServerHasClosedArrivesWholeOnce(_ subject: ConformingTransport) async {
        await #expect(processExitsWith: .success) { [name = subject.name as String] in
            let (transport, server) = try place(name)
            server.respond { _ in .status(200) }
            for _ in 1...10 {
                _ = try await Sending(Request<Data>.get(server.url()), over: transport).response()
                _ = try await server.takeRequest()
                server.disconnectAll()
                try await server.connectionsClosed()
                try await expectWholeOrRetryable(transport, server)
            }
        }
    }

    /// The server closes a reused connection without a response when the request arrives.
    @Test(arguments: ConformingTransport.all, [Reply.Moment.requestStart, .requestBody(afterBytes: 1)])
    func postMetByACloseArrivesWholeOnce(_ subject: ConformingTransport, _ moment: Reply.Moment) async {
        let isAtStart = moment == .requestStart
        await #expect(processExitsWith: .success) { [name = subject.name as String, isAtStart = isAtStart as Bool] in
            let (transport, server) = try place(name)
            let moment = isAtStart ? Reply.Moment.requestStart : .requestBody(afterBytes: 1)
            for _ in 1...10 {
                server.enqueue([.status(200), Reply.status(200).performing(.close, at: moment), .status(200)])
                _ = try await Sending(Request<Data>.get(server.url()), over: transport).response()
                _ = try await server.takeRequest()
                try await expectWholeOrRetryable(transport, server)
                // The third reply remains if the request was not sent again.
                if server.queuedReplyCount > 0 {
                    _ = try await Sending(Request<Data>.get(server.url()), over: transport).response()
                    _ = try await server.takeRequest()
                }
            }
        }
    }
}

/// The transport of this child process, and a server.
private func place(_ name: String) throws -> (any Transport, TestServer) {
    endProcessIfStuck()
    return (try ConformingTransport.named(name), try TestServer())
}

// Posts a body; after a success it has arrived complete exactly once. After a failure no complete request has arrived,
// and the error is retryable.
private func expectWholeOrRetryable(_ transport: any Transport, _ server: TestServer) async throws {
    let body = Reply.pattern(range: 0..<100_000)
    let post = Request<Data>.post(server.url("/post")).body(body).idleTimeout(.seconds(5))
    let result = try await Sending(post, over: transport).result()
    var whole: [RecordedRequest] = []
    while !server.recordedRequests.isEmpty {
        let request = try await server.takeRequest()
        if request.isBodyComplete { whole.append(request) }
    }
    switch result {
    case .success:
        #expect(whole.map(\.body) == [body])
        #expect(whole.map { $0.value(of: "Content-Length") } == ["\(body.count)"])
    case .failure(let error):
        #expect(error.isRetryable, "\(error)")
        #expect(whole.isEmpty)
    }
}

/// Tests the contract of `Transport` without an operation, with the real transports and the stub.
@Suite(.timeLimit(.minutes(5))) struct TransportContractTests {
    private static let stub = ConformingTransport(
        name: "stub",
        transport: StubTransport { exchange in
            if exchange.request.url.path == "/hello" { exchange.answer(200, body: Data("hello".utf8)) }
            if exchange.request.url.path == "/body" { exchange.respond(ResponseHead(statusCode: 200)) }
        })
    static let all = ConformingTransport.all + [stub]

    private let server: TestServer

    init() throws {
        server = try TestServer()
        server.route("/hello") { _ in .status(200, body: "hello") }
        server.route("/body") { _ in Reply.status(200, body: "hello").stalling(afterBodyBytes: 0) }
        server.route("/head") { _ in Reply.status(200, body: "hello").stalling() }
    }

    private func makeTask(
        _ subject: ConformingTransport, _ path: String, _ client: RecordingClient
    ) throws -> URLSessionTask {
        let request = try PreparedRequest(Request<Data>.get(server.url(path)).core, baseURL: nil)
        return try subject.transport.makeTask(for: request, client: client)
    }

    @Test(arguments: all)
    func headThenBodyThenEnd(_ subject: ConformingTransport) async throws {
        let client = RecordingClient()
        let task = try makeTask(subject, "/hello", client)
        #expect(task.state == .suspended)
        #expect(client.calls.count == 0)
        task.resume()
        #expect(await client.calls.wait(count: 3) == [.head(200), .data(Data("hello".utf8)), .end(nil)])
    }

    @Test(arguments: all, ["/head", "/body"])
    func cancelEndsOnceAndLast(_ subject: ConformingTransport, _ path: String) async throws {
        let client = RecordingClient()
        let task = try makeTask(subject, path, client)
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
        let client = RecordingClient()
        let task = try makeTask(subject, "/hello", client)
        task.cancel()
        task.resume()
        // Further events of the first task would precede the response to a later request on loopback.
        let later = RecordingClient()
        let other = try makeTask(subject, "/hello", later)
        other.resume()
        await later.calls.wait(count: 3)
        #expect(client.calls.events.allSatisfy { $0 == .end(.cancelled) })
        #expect(server.requestCount == (subject.name == "stub" ? 0 : 1))
    }
}
