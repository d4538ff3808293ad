import ConvoyTesting
import Foundation
import Testing

/// Runs the examples of the documentation with a raw client in place of the reader's client.
@Suite struct DocumentationTests {
    @Test func testServerExample() async throws {
        let server = try TestServer()
        server.enqueue(.status(200, body: "first"))
        server.enqueue(.status(200, body: "second").resetting(afterBytes: 30))
        server.route("/file") { _ in .resource(generatedByteCount: 10_000_000, etag: "\"v1\"") }
        try RawClient(server).get("/a", "Range: bytes=100-")
        let request = try await server.takeRequest()
        server.shutDown()
        #expect(request.method == "GET")
        #expect(request.value(of: "range") == "bytes=100-")
        #expect(request.connectionNumber == 1)
    }

    @Test func replyExample() throws {
        let plain = Reply.status(200, headerFields: [("ETag", "\"1\"")], body: "hello")
        let cut = plain.disconnecting(afterBytes: 20)
        let slow = Reply.generated(byteCount: 1_000_000).dripping(bytesPerSecond: 50_000)
        let anything = Reply(steps: [.write(Data("HTTP/1.1 200".utf8)), .reset])
        let server = try TestServer()
        server.enqueue([cut, anything, slow])
        var texts: [String] = []
        for _ in 0..<2 {
            let client = try server.client()
            texts.append(client.readToEnd().text)
        }
        #expect(texts == ["HTTP/1.1 200 OK\r\nETa", "HTTP/1.1 200"])
    }

    @Test func gateExample() async throws {
        let server = try TestServer()
        let gate = Gate()
        server.enqueue(.status(200, body: "late").stalling(until: gate))
        let client = try server.client()
        try await gate.reached()
        gate.open()
        #expect(try client.readResponse().body == Data("late".utf8))
    }
}
