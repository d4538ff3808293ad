import ConvoyTesting
import Foundation
import Testing

@Suite struct ReplyResourceTests {
    private func get(_ reply: Reply, _ fields: String, method: String = "GET") throws -> RawClient.Response {
        let server = try TestServer()
        server.enqueue(reply.closingConnection())
        let client = try RawClient(server, sending: "\(method) / HTTP/1.1\r\nHost: a\r\n\(fields)\r\n")
        let head = try client.readHead()
        return RawClient.Response(head: head, body: client.readDataToEnd().data)
    }

    private func resource(etag: String? = "\"v1\"") -> Reply {
        .resource(Data("0123456789".utf8), etag: etag, lastModified: "Sun, 06 Nov 1994 08:49:37 GMT")
    }

    /// A range, the Content-Range of the response, and its body; without a Content-Range it is the whole.
    @Test(
        arguments: [
            ("bytes=2-4", "2-4/10", "234"), ("bytes=7-", "7-9/10", "789"), ("bytes=-3", "7-9/10", "789"),
            ("bytes=8-99999999999999999999", "8-9/10", "89"), ("bytes=-100", "0-9/10", "0123456789"),
            ("Bytes=0-0", "0-0/10", "0"), ("bytes=10-", "*/10", ""), ("bytes=99999999999999999999-", "*/10", ""),
            ("bytes=-0", "*/10", ""), ("bytes=4-2", nil, "0123456789"), ("bytes=a-b", nil, "0123456789"),
            ("lines=1-2", nil, "0123456789"), ("bytes=0-1,3-4", nil, "0123456789"), ("bytes", nil, "0123456789"),
            ("bytes=-", nil, "0123456789"), ("bytes=+1-2", nil, "0123456789"),
        ] as [(String, String?, String)])
    func rangeIsAnswered(range: String, expected: String?, body: String) throws {
        let response = try get(resource(), "Range: \(range)\r\n")
        let status = expected == nil ? "200 OK" : body.isEmpty ? "416 Range Not Satisfiable" : "206 Partial Content"
        #expect(response.statusLine == "HTTP/1.1 \(status)")
        if let expected { #expect(response.head.contains("\r\nContent-Range: bytes \(expected)\r\n")) }
        #expect(response.head.contains("\r\nContent-Length: \(body.count)\r\n"))
        #expect(response.body == Data(body.utf8))
    }

    /// A weak entity tag never matches.
    @Test(arguments: [
        ("\"v1\"", "\"v1\"", 206), ("\"v1\"", "\"v2\"", 200), ("\"v1\"", "W/\"v1\"", 200),
        ("W/\"v1\"", "W/\"v1\"", 200), ("\"v1\"", "Sun, 06 Nov 1994 08:49:37 GMT", 206),
        ("\"v1\"", "Sun, 06 Nov 1994 08:49:38 GMT", 200),
    ])
    func ifRangeDecides(etag: String, validator: String, statusCode: Int) throws {
        let response = try get(resource(etag: etag), "Range: bytes=5-\r\nIf-Range: \(validator)\r\n")
        #expect(response.statusLine.hasPrefix("HTTP/1.1 \(statusCode) "))
        #expect(response.body == Data((statusCode == 206 ? "56789" : "0123456789").utf8))
    }

    @Test func headIgnoresRangeAndHasNoBody() throws {
        let response = try get(resource(), "Range: bytes=5-\r\n", method: "HEAD")
        #expect(response.statusLine == "HTTP/1.1 200 OK")
        #expect(response.head.contains("\r\nContent-Length: 10\r\n"))
        #expect(response.body.isEmpty)
    }

    @Test func generatedRangeHasThePatternOfItsOffsets() throws {
        let reply = Reply.resource(generatedByteCount: 1 << 40, etag: "\"big\"")
        let start: Int64 = (1 << 39) + 3
        let response = try get(reply, "Range: bytes=\(start)-\(start + 199_999)\r\n")
        #expect(response.statusLine == "HTTP/1.1 206 Partial Content")
        #expect(response.body == Reply.pattern(range: start..<(start + 200_000)))
    }

    @Test func generatedBodyIsThePattern() throws {
        let response = try get(.generated(byteCount: 1_000_003), "")
        #expect(response.body == Reply.pattern(range: 0..<1_000_003))
        #expect(response.body[999_999] == Reply.patternByte(at: 999_999))
    }

    @Test func patternDoesNotDependOnWhereItIsCut() {
        let whole = Reply.pattern(range: 0..<100)
        // Negative offsets are ignored.
        #expect(Reply.pattern(range: -5..<3) == whole[..<3] && Reply.pattern(range: -5 ..< -2).isEmpty)
        for cut in [1, 7, 8, 9, 63, 99] as [Int64] {
            var parts: Data = Reply.pattern(range: 0..<cut)
            parts.append(Reply.pattern(range: cut..<100))
            #expect(parts == whole)
        }
        #expect(whole.enumerated().allSatisfy { $1 == Reply.patternByte(at: Int64($0)) })
        let pieces: [Data] = (0..<12).map { (piece: Int) -> Data in whole[8 * piece..<8 * piece + 8] }
        #expect(Set(pieces).count == 12)
    }
}
