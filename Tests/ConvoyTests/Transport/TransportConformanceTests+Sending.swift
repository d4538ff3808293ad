// Tests the target, header fields and bodies that every transport sends.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

extension TransportConformanceTests {
    private func sent<Output>(
        _ request: Request<Output>, over subject: ConformingTransport, to server: TestServer
    ) async throws -> RecordedRequest {
        server.enqueue(.status(200))
        _ = try await Sending(request, over: subject.transport).response()
        return try await server.takeRequest()
    }

    @Test(arguments: ConformingTransport.all, [0, 1, 5, 16_384, 1 << 20])
    func bodyIsSentWithItsLength(_ subject: ConformingTransport, _ byteCount: Int) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let body = Reply.pattern(range: 0..<Int64(byteCount))
        let request = try await sent(
            Request<Data>.post(server.url()).body(body, contentType: "a/b"), over: subject, to: server)
        #expect(request.method == "POST")
        #expect(request.values(of: "Content-Length") == ["\(byteCount)"])
        #expect(request.value(of: "Transfer-Encoding") == nil)
        #expect(request.value(of: "Expect") == nil)
        #expect(request.values(of: "Content-Type") == ["a/b"])
        #expect(request.isBodyComplete)
        #expect(request.body == body)
    }

    /// A caller that wants no timeout may set a very long one.
    @Test(arguments: ConformingTransport.all, [.seconds(Int64.max), .seconds(1 << 60)] as [Duration])
    func longestIdleTimeoutIsOne(_ subject: ConformingTransport, _ timeout: Duration) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        _ = try await sent(Request<Data>.get(server.url()).idleTimeout(timeout), over: subject, to: server)
    }

    @Test(arguments: ConformingTransport.all)
    func bytesSentAreCounted(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.status(200))
        let body = Reply.pattern(range: 0..<300_000)
        let response = try await Sending(Request<Data>.put(server.url()).body(body), over: subject.transport).response()
        #expect(response.transfer.upload.completedBytes == 300_000)
        #expect(response.transfer.upload.totalBytes == 300_000)
    }

    @Test(arguments: ConformingTransport.all)
    func jsonIsPut(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let request = try await sent(Request<Data>.put(server.url("/a"), json: ["ü": 1]), over: subject, to: server)
        #expect(request.method == "PUT")
        #expect(request.bodyText == #"{"ü":1}"#)
        #expect(request.value(of: "Content-Type") == "application/json")
    }

    /// Spaces and tabs around a value do not belong to it, but other white space does (RFC 9110, section 5.5).
    @Test(arguments: ConformingTransport.all, ["\u{A0}x\u{A0}", "\u{3000}x", "\u{200B}x\u{200B}", "\u{A0}"])
    func whiteSpaceOfUnicodeIsPartOfAValue(_ subject: ConformingTransport, _ value: String) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let request = try await sent(
            Request<Data>.get(server.url()).header("X-A", " \t\(value)\t "), over: subject, to: server)
        #expect(request.values(of: "X-A").map { Array($0.utf8) } == [Array(value.utf8)])
    }

    @Test(arguments: ConformingTransport.all)
    func bodyWithoutAContentTypeGetsNone(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let body = Data("x".utf8)
        let request = try await sent(
            Request<Data>.post(server.url()).body(body, contentType: nil), over: subject, to: server)
        #expect(request.value(of: "Content-Type") == nil)
        #expect(request.bodyText == "x")
    }

    /// A POST or PUT without content has a length of zero: RFC 9110, section 8.6.
    @Test(arguments: ConformingTransport.all, [HTTPMethod.post, .put])
    func postWithoutABodyHasLengthZero(_ subject: ConformingTransport, _ method: HTTPMethod) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let request = try await sent(Request<Data>(method: method, url: server.url()), over: subject, to: server)
        #expect(request.values(of: "Content-Length") == ["0"])
        #expect(request.value(of: "Transfer-Encoding") == nil)
        #expect(request.bodyByteCount == 0)
    }

    @Test(arguments: ConformingTransport.all, [HTTPMethod.delete, .options, "PURGE", "M-SEARCH", "purge"])
    func methodIsSentAsItIs(_ subject: ConformingTransport, _ method: HTTPMethod) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let request = try await sent(Request<Data>(method: method, url: server.url()), over: subject, to: server)
        #expect(request.method == method.rawValue)
        #expect(request.bodyByteCount == 0)
    }

    @Test(arguments: ConformingTransport.all)
    func deleteAndPatchCarryBodies(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        for method in [HTTPMethod.delete, .patch, "PROPFIND"] {
            let request = Request<Data>(method: method, url: server.url()).body(Data("body".utf8))
            let seen = try await sent(request, over: subject, to: server)
            #expect(seen.method == method.rawValue)
            #expect(seen.bodyText == "body")
            #expect(seen.value(of: "Content-Length") == "4")
        }
    }

    @Test(arguments: ConformingTransport.all)
    func severalValuesOfAFieldAreSentInOrder(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let request = Request<Data>.get(server.url()).addingHeader("X-A", "1").header("X-B", "2").addingHeader(
            "x-a", "3, 4")
        let seen = try await sent(request, over: subject, to: server)
        let values = seen.values(of: "X-A").flatMap { $0.split(separator: ",") }
        #expect(values.map { $0.trimmingCharacters(in: .whitespaces) } == ["1", "3", "4"])
        #expect(seen.value(of: "X-B") == "2")
    }

    @Test(arguments: ConformingTransport.all)
    func fieldsOfTheCallerWin(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let request = Request<Data>.get(server.url()).header("User-Agent", "me").header("Accept", "a/b")
            .header("Accept-Encoding", "identity").bearer("token").header("Cookie", "a=b").header("X-Empty", "")
        let seen = try await sent(request, over: subject, to: server)
        #expect(seen.values(of: "User-Agent") == ["me"])
        #expect(seen.values(of: "Accept") == ["a/b"])
        #expect(seen.values(of: "Accept-Encoding") == ["identity"])
        #expect(seen.values(of: "Authorization") == ["Bearer token"])
        #expect(seen.values(of: "Cookie") == ["a=b"])
        #expect(seen.values(of: "X-Empty") == [""])
    }

    @Test(arguments: ConformingTransport.all)
    func queryIsSentEncodedAndFragmentNotAtAll(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let url = server.url("/p%2Fq/a").absoluteString + "?x=1#fragment"
        let request = Request<Data>.get(url).query("q", "+ & = ü").query("flag", nil)
        let seen = try await sent(request, over: subject, to: server)
        #expect(seen.target == "/p%2Fq/a?x=1&q=%2B%20%26%20%3D%20%C3%BC&flag")
    }

    @Test(arguments: ConformingTransport.all)
    func cookiesAreNeitherStoredNorSentByThemselves(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .status(200, headerFields: [("Set-Cookie", "a=b; Path=/")]) }
        for _ in 0..<2 {
            _ = try await Sending(Request<Data>.get(server.url()), over: subject.transport).response()
            #expect(try await server.takeRequest().value(of: "Cookie") == nil)
        }
    }

    @Test(arguments: ConformingTransport.all)
    func answersAreNotCached(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
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
        let server = try TestServer()
        defer { server.shutDown() }
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
