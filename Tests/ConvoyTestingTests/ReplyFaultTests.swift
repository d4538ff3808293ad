import ConvoyTesting
import Foundation
import Testing

/// A reply, a request, and what the client sees: the bytes, and how the stream ends.
struct FaultCase: Sendable, CustomTestStringConvertible {
    let reply: Reply
    let request: String
    let text: String
    let end: RawClient.StreamEnd

    var testDescription: String { "\(end): \(text)" }

    init(
        _ reply: Reply, _ text: String, _ end: RawClient.StreamEnd = .end,
        to request: String = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    ) {
        (self.reply, self.request, self.text, self.end) = (reply, request, text, end)
    }

    static let hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    private static let reply = Reply.status(200, body: "hello")
    private static let chunks = Reply.chunked(
        [Data("abc".utf8), Data(), Data("0123456789abcdef".utf8)], trailers: [("X-T", "1")]
    ).disconnectingAtEnd()

    static let all: [FaultCase] = [
        FaultCase(.raw("HTTP/1.1 200 OK\nContent-Le"), "HTTP/1.1 200 OK\nContent-Le"),
        FaultCase(
            .status(200, headerFields: [("content-length", "-5")], body: "hello").disconnectingAtEnd(),
            "HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\nhello"),
        FaultCase(
            reply.informational([100]).informational(103, headerFields: [("Link", "x")]).disconnectingAtEnd(),
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + hello),
        FaultCase(
            chunks,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                + "3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX-T: 1\r\n\r\n"),
        FaultCase(
            chunks, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc0123456789abcdef", to: "GET / HTTP/1.0\r\n\r\n"),
        FaultCase(
            Reply(steps: [.write(Data("<".utf8)), .writeRepeatedly(Data("abc".utf8), count: 4)])
                .performing(.write(Data("|".utf8)), at: .response(afterBytes: 6)).disconnecting(afterBytes: 9),
            "<abcab|cab"),
        FaultCase(reply.dripping(bytesPerSecond: 1_000, pieceBytes: 2).disconnectingAtEnd(), hello),
    ]

    /// The body is cut at the byte.
    static let cuts: [FaultCase] = [0, 1, 12, 38, 40, 43, 1_000].flatMap { (count: Int) -> [FaultCase] in
        let text = String(decoding: hello.utf8.prefix(count), as: UTF8.self)
        return [
            FaultCase(reply.disconnecting(afterBytes: Int64(count)), text),
            FaultCase(reply.resetting(afterBytes: Int64(count)), text, .reset),
        ]
    }
}

@Suite struct ReplyFaultTests {
    private let gate = Gate()
    private let server: TestServer

    init() throws { server = try TestServer() }

    @Test(arguments: FaultCase.all + FaultCase.cuts)
    func theClientSeesTheBytesAndTheEnd(_ test: FaultCase) throws {
        server.enqueue(test.reply)
        let client = try RawClient(server, sending: test.request)
        #expect(client.readToEnd() == (test.text, test.end))
    }

    @Test func resetInsideALargeBodyLosesNothingBeforeIt() throws {
        server.enqueue(.generated(byteCount: 10_000_000).resetting(afterBytes: 3_000_000))
        let client = try server.client(receiveBufferBytes: 8_192)
        let head = try client.readHead()
        let (data, end) = client.readDataToEnd()
        #expect(data == Reply.pattern(range: 0..<Int64(3_000_000 - head.utf8.count)))
        #expect(end == .reset)
    }

    @Test func rawReplyMayKeepTheConnection() throws {
        server.enqueue([.raw("one", closes: false), .raw("two")])
        let client = try server.client()
        #expect(try client.readText(3) == "one")
        client.get("/")
        #expect(client.readToEnd() == ("two", .end))
        #expect(server.connectionCount == 1)
    }

    @Test func endlessHeaderStopsWhenTheClientLeaves() async throws {
        let field = Data("X-Endless: 0123456789\r\n".utf8)
        server.enqueue(Reply(steps: [.write(Data("HTTP/1.1 200 OK\r\n".utf8)), .writeRepeatedly(field, count: .max)]))
        let client = try server.client()
        _ = try client.read(400_000)
        client.close()
        try await server.connectionsClosed()
    }

    @Test(arguments: [nil, 2] as [Int64?])
    func aStallSendsOnlyTheBytesBeforeIt(byteCount: Int64?) async throws {
        let reply = Reply.status(200, body: "hello").disconnectingAtEnd()
        server.enqueue(
            byteCount.map { reply.stalling(afterBodyBytes: $0, until: gate) } ?? reply.stalling(until: gate))
        let client = try server.client()
        try await gate.reached()
        let before = byteCount == nil ? "" : String(FaultCase.hello.dropLast(3))
        #expect(try client.readText(before.utf8.count) == before)
        #expect(!client.hasInput)
        gate.open()
        #expect(client.readToEnd() == (String(FaultCase.hello.dropFirst(before.count)), .end))
    }

    @Test func gateAfterHalfClosedReadingStillHolds() async throws {
        server.enqueue(
            .status(200, body: "hello").performing(.shutDownReading, at: .responseStart).stalling(until: gate))
        let client = try server.client()
        try await gate.reached()
        gate.open()
        #expect(client.readToEnd().text == FaultCase.hello)
    }

    @Test func aClientThatDisconnectsDuringAStallIsDetected() async throws {
        server.enqueue(.status(200).stalling(until: gate))
        let client = try server.client()
        try await gate.reached()
        client.close()
        try await server.connectionsClosed()
        #expect(!gate.isOpen)
    }

    @Test func halfCloseEndsTheStreamButStillReads() async throws {
        server.enqueue(
            .status(200, body: "hello").performing(.shutDownWriting, at: .responseEnd)
                .performing(.wait(gate), at: .responseEnd))
        let client = try server.client()
        #expect(client.readToEnd() == (FaultCase.hello, .end))
        try await gate.reached()
        #expect(server.openConnectionCount == 1)
        gate.open()
        try await server.connectionsClosed()
    }
}
