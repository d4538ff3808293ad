import ConvoyTesting
import Foundation
import Testing

@Suite struct RequestReadingTests {
    private let gate = Gate()
    private let server: TestServer

    init() throws { server = try TestServer() }

    @Test func requestIsRecordedAsSent() async throws {
        server.enqueue(.status(204))
        let client = try RawClient(server)
        let text =
            "PUT /a%20b?x=1&y HTTP/1.1\r\nHost: h\r\nX-One:  1 \r\nx-one: 2\r\nX-Empty:\r\n"
            + "Content-Length: 5\r\n\r\n"
        client.send(text + "hello")
        let request = try await server.takeRequest()
        #expect(request.method == "PUT" && request.target == "/a%20b?x=1&y")
        #expect(request.path == "/a%20b" && request.query == "x=1&y")
        #expect(request.headerFields.map(\.name) == ["Host", "X-One", "x-one", "X-Empty", "Content-Length"])
        #expect(request.values(of: "x-one") == ["1", "2"])
        #expect(["X-ONE", "x-empty", "none"].map(request.value(of:)) == ["1", "", nil])
        #expect(request.headerBytes == Data(text.utf8))
        #expect(request.bodyText == "hello")
        #expect(request.bodyDigest == RecordedRequest.digest(of: "hello".utf8))
        #expect(request.isBodyComplete && !request.isBodyCut)
    }

    @Test func chunkedBodyIsDecodedHoweverItArrives() async throws {
        server.respond { .status(200, body: $0.body) }
        let client = try RawClient(server)
        let text =
            "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
            + "3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-Sum: 7\r\n\r\n"
        for byte in text.utf8 { client.send(Data([byte])) }
        #expect(try client.readResponse().body == Data("abc0123456789".utf8))
        let request = try await server.takeRequest()
        #expect(request.trailerFields.map(\.name) == ["X-Sum"])
        #expect(request.bodyByteCount == 13)
        client.get("/again")
        _ = try client.readResponse()
        #expect(server.connectionCount == 1)
    }

    @Test func bodyBeyondTheLimitIsCountedAndDigested() async throws {
        let server = try TestServer(bodyLimitBytes: 1_000)
        server.enqueue(.status(204))
        let body = Reply.pattern(range: 0..<300_000)
        let client = try RawClient(server, sending: "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 300000\r\n\r\n")
        client.send(body)
        let request = try await server.takeRequest()
        #expect(request.body == body.prefix(1_000))
        #expect(request.bodyByteCount == 300_000)
        #expect(request.isBodyCut && request.isBodyComplete)
        #expect(request.bodyDigest == RecordedRequest.digest(of: body))
    }

    /// A request, or the fields after the host of a POST.
    @Test(arguments: [
        "GET /\r\nHost: a\r\n\r\n", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\nHost: a\n\n", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "Host: b\r\n\r\n", " folded\r\n\r\n", "no colon\r\n\r\n", "X: \0\r\n\r\n",
        "Content-Length: -1\r\n\r\n", "Content-Length: 99999999999999999999\r\n\r\n",
        "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding: gzip\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
        "X: long\r\n\r\n",
    ])
    func malformedRequestGets400Or431AndTheEnd(text: String) throws {
        server.respond { _ in .status(200) }
        let start = text.hasPrefix("G") ? "" : "POST / HTTP/1.1\r\nHost: a\r\n"
        let long = String(repeating: "x", count: 70_000)
        let client = try RawClient(server, sending: start + text.replacingOccurrences(of: "long", with: long))
        client.endWriting()
        let (answer, end) = client.readToEnd()
        #expect(answer.hasPrefix("HTTP/1.1 " + (text.contains("long") ? "431 " : "400 Bad Request\r\n")))
        #expect(end == .end)
        #expect(server.rejectedRequestCount == 1)
    }

    private static let expecting = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"

    @Test func expectIsAnsweredWith100() throws {
        server.respond { .status(200, body: $0.body) }
        let client = try RawClient(server, sending: Self.expecting)
        #expect(try client.readHead() == "HTTP/1.1 100 Continue\r\n\r\n")
        client.send("hello")
        #expect(try client.readResponse().body == Data("hello".utf8))
    }

    @Test(arguments: [true, false])
    func continueCanBeWithheld(byReply: Bool) throws {
        let server = try TestServer(answersContinue: byReply)
        let reply = Reply.status(200, body: "done")
        server.enqueue(byReply ? reply.withholdingContinue() : reply)
        let client = try RawClient(server, sending: Self.expecting)
        client.send("hello")
        #expect(try client.readResponse().statusLine == "HTTP/1.1 200 OK")
    }

    @Test func replyMayComeBeforeTheBodyIsRead() async throws {
        server.respond(at: .head) { _ in .status(413).ignoringRequestBody() }
        let client = try RawClient(server, sending: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
        client.send(Data(count: 200_000))
        #expect(try client.readResponse().statusLine == "HTTP/1.1 413 Content Too Large")
        client.close()
        let request = try await server.takeRequest()
        #expect(!request.isBodyComplete && request.bodyByteCount == 0)
        try await server.connectionsClosed()
    }

    @Test func uploadCanBeResetInTheMiddle() async throws {
        server.enqueue(Reply.status(200).performing(.reset, at: .requestBody(afterBytes: 10)))
        let client = try RawClient(
            server, sending: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n0123456789")
        #expect(client.readToEnd() == ("", .reset))
        let request = try await server.takeRequest()
        #expect(request.bodyText == "0123456789")
        #expect(!request.isBodyComplete)
    }

    @Test func requestStartComesBeforeTheBodyIsRead() async throws {
        server.enqueue(Reply.status(204).performing(.wait(gate), at: .requestStart))
        let client = try RawClient(server, sending: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n")
        try await gate.reached()
        #expect(server.requestCount == 0)
        gate.open()
        client.send("ab")
        #expect(try await server.takeRequest().bodyText == "ab")
    }

    @Test func bodyThatBreaksOffIsRecordedAsIncomplete() async throws {
        let client = try RawClient(server, sending: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\nabc")
        client.close()
        let request = try await server.takeRequest()
        #expect(request.bodyText == "abc" && !request.isBodyComplete)
    }
}
