import ConvoyTesting
import Foundation
import Testing

/// Tests each fault as a client sees it: the bytes, and how the stream ends.
@Suite struct ReplyFaultTests {
    static let hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

    private func exchange(_ reply: Reply, _ request: String = "GET / HTTP/1.1\r\nHost: a\r\n\r\n") throws
        -> (text: String, end: RawClient.StreamEnd)
    {
        let server = try TestServer()
        server.enqueue(reply)
        let client = try RawClient(server)
        client.send(request)
        return client.readToEnd()
    }

    @Test(arguments: [0, 1, 12, 38, 40, 43, 1_000])
    func disconnectCutsAtTheByte(count: Int) throws {
        let (text, end) = try exchange(.status(200, body: "hello").disconnecting(afterBytes: Int64(count)))
        #expect(text == String(Self.hello.utf8.prefix(count))!)
        #expect(end == .end)
    }

    @Test(arguments: [0, 1, 12, 38, 40, 43, 1_000])
    func resetComesAfterTheBytes(count: Int) throws {
        let (text, end) = try exchange(.status(200, body: "hello").resetting(afterBytes: Int64(count)))
        #expect(text == String(Self.hello.utf8.prefix(count))!)
        #expect(end == .reset)
    }

    @Test func resetInsideALargeBodyLosesNothingBeforeIt() throws {
        let server = try TestServer()
        server.enqueue(.generated(byteCount: 10_000_000).resetting(afterBytes: 3_000_000))
        let client = try RawClient(server, receiveBufferBytes: 8_192)
        client.get("/")
        let head = try client.readHead()
        let (data, end) = client.readDataToEnd()
        #expect(data == Reply.pattern(range: 0..<Int64(3_000_000 - head.utf8.count)))
        #expect(end == .reset)
    }

    @Test func rawBytesGoOutAsTheyAre() throws {
        let bytes = "HTTP/1.1 200 OK\nContent-Le"
        #expect(try exchange(.raw(bytes)) == (bytes, .end))
    }

    @Test func rawReplyMayKeepTheConnection() throws {
        let server = try TestServer()
        server.enqueue([.raw("one", closes: false), .raw("two")])
        let client = try RawClient(server)
        client.get("/")
        #expect(try client.readText(3) == "one")
        client.get("/")
        #expect(client.readToEnd() == ("two", .end))
        #expect(server.connectionCount == 1)
    }

    @Test func wrongContentLengthIsKept() throws {
        let reply = Reply.status(200, headerFields: [("content-length", "-5")], body: "hello").disconnectingAtEnd()
        #expect(try exchange(reply) == ("HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\nhello", .end))
    }

    @Test func informationalResponsesComeFirst() throws {
        let reply = Reply.status(200, body: "hello").informational([100])
            .informational(103, headerFields: [("Link", "x")]).disconnectingAtEnd()
        let expected = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + Self.hello
        #expect(try exchange(reply) == (expected, .end))
    }

    @Test func chunkedBodyHasChunksAndTrailers() throws {
        let reply = Reply.chunked([Data("abc".utf8), Data(), Data("0123456789abcdef".utf8)], trailers: [("X-T", "1")])
            .disconnectingAtEnd()
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        let body = "3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX-T: 1\r\n\r\n"
        #expect(try exchange(reply) == (head + body, .end))
        let old = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc0123456789abcdef"
        #expect(try exchange(reply, "GET / HTTP/1.0\r\n\r\n") == (old, .end))
    }

    @Test func repeatedBytesAreCutAtTheByte() throws {
        let reply = Reply(steps: [.write(Data("<".utf8)), .writeRepeatedly(Data("abc".utf8), count: 4)])
            .performing(.write(Data("|".utf8)), at: .response(afterBytes: 6)).disconnecting(afterBytes: 9)
        #expect(try exchange(reply) == ("<abcab|cab", .end))
    }

    @Test func endlessHeaderStopsWhenTheClientLeaves() async throws {
        let server = try TestServer()
        let field = Data("X-Endless: 0123456789\r\n".utf8)
        server.enqueue(Reply(steps: [.write(Data("HTTP/1.1 200 OK\r\n".utf8)), .writeRepeatedly(field, count: .max)]))
        let client = try RawClient(server)
        client.get("/")
        _ = try client.read(400_000)
        client.close()
        try await server.connectionsClosed()
    }

    @Test func drippedBytesAreWholeAndHeadIsAtOnce() throws {
        let reply = Reply.status(200, body: "hello").dripping(bytesPerSecond: 1_000, pieceBytes: 2).disconnectingAtEnd()
        #expect(try exchange(reply) == (Self.hello, .end))
    }

    @Test func stallBeforeTheHeadSendsNothingUntilTheGateOpens() async throws {
        let server = try TestServer()
        let gate = Gate()
        server.enqueue(.status(200, body: "hello").stalling(until: gate).disconnectingAtEnd())
        let client = try RawClient(server)
        client.get("/")
        try await gate.reached()
        #expect(!client.hasInput)
        gate.open()
        #expect(client.readToEnd() == (Self.hello, .end))
    }

    @Test func aStallInTheBodySendsTheBytesBeforeIt() async throws {
        let server = try TestServer()
        let gate = Gate()
        server.enqueue(.status(200, body: "hello").stalling(afterBodyBytes: 2, until: gate).disconnectingAtEnd())
        let client = try RawClient(server)
        client.get("/")
        try await gate.reached()
        #expect(try client.readHead() == "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
        #expect(try client.readText(2) == "he")
        #expect(!client.hasInput)
        gate.open()
        #expect(client.readToEnd() == ("llo", .end))
    }

    @Test func aClientThatDisconnectsDuringAStallIsDetected() async throws {
        let server = try TestServer()
        let gate = Gate()
        server.enqueue(.status(200).stalling(until: gate))
        let client = try RawClient(server)
        client.get("/")
        try await gate.reached()
        client.close()
        try await server.connectionsClosed()
        #expect(!gate.isOpen)
    }

    @Test func halfCloseEndsTheStreamButStillReads() async throws {
        let server = try TestServer()
        let gate = Gate()
        server.enqueue(
            .status(200, body: "hello").performing(.shutDownWriting, at: .responseEnd)
                .performing(.wait(gate), at: .responseEnd))
        let client = try RawClient(server)
        client.get("/")
        #expect(client.readToEnd() == (Self.hello, .end))
        try await gate.reached()
        #expect(server.openConnectionCount == 1)
        gate.open()
        try await server.connectionsClosed()
    }

    @Test func gateAfterHalfClosedReadingStillHolds() async throws {
        let server = try TestServer()
        let gate = Gate()
        server.enqueue(
            .status(200, body: "hello").performing(.shutDownReading, at: .responseStart).stalling(until: gate))
        let client = try RawClient(server)
        client.get("/")
        try await gate.reached()
        gate.open()
        #expect(client.readToEnd().text == Self.hello)
    }
}
