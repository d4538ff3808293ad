// Tests responses over every transport. The other files of this name test sending, failures and cancelling.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests every real transport with a real server on loopback, one server for each test.
@Suite(.timeLimit(.minutes(5))) struct TransportConformanceTests {
    @Test(arguments: ConformingTransport.all)
    func answerHasStatusFieldsAndBody(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
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
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .status(200, headerFields: [("X-A", "1")], body: "hello") }
        for _ in 0..<2 {
            let response = try await Sending(Request<Void>.head(server.url()), over: subject.transport).response()
            #expect(response.statusCode == 200)
            #expect(response.headerFields["X-A"] == "1")
            #expect(response.headerFields["Content-Length"] == "5")
            #expect(response.transfer.download.completedBytes == 0)
        }
        #expect(try await server.takeRequest().method == "HEAD")
    }

    /// The length of a response to HEAD belongs to a body that is not sent.
    @Test(arguments: ConformingTransport.all)
    func headOfAHugeResourceIsNotTooLarge(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.status(200, headerFields: [("Content-Length", "1099511627776")]))
        let response = try await Sending(Request<Void>.head(server.url()), over: subject.transport).response()
        #expect(response.headerFields["Content-Length"] == "1099511627776")
    }

    @Test(arguments: ConformingTransport.all, [204, 304, 205])
    func answerWithoutABodyIsComplete(_ subject: ConformingTransport, _ statusCode: Int) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .status(statusCode, headerFields: [("ETag", "\"1\"")]) }
        for _ in 0..<2 {
            let request = Request<Data>.get(server.url()).acceptableStatusCodes(.any)
            let response = try await Sending(request, over: subject.transport).response()
            #expect(response.statusCode == statusCode)
            #expect(response.value.isEmpty)
            #expect(response.headerFields["ETag"] == "\"1\"")
        }
    }

    @Test(arguments: ConformingTransport.all)
    func emptyBodyIsABody(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue([.status(200), .chunked([])])
        for _ in 0..<2 {
            let response = try await Sending(Request<Data>.get(server.url()), over: subject.transport).response()
            #expect(response.value.isEmpty)
        }
    }

    @Test(arguments: ConformingTransport.all, [1 << 20, 20 << 20] as [Int64])
    func largeBodyArrivesWholeAndInOrder(_ subject: ConformingTransport, _ byteCount: Int64) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.generated(byteCount: byteCount))
        let response = try await Sending(Request<Data>.get(server.url()), over: subject.transport).response()
        #expect(response.transfer.download.completedBytes == byteCount)
        #expect(response.transfer.download.totalBytes == byteCount)
        #expect(response.value == Reply.pattern(range: 0..<byteCount))
    }

    @Test(arguments: ConformingTransport.all)
    func chunkedBodyIsJoined(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.chunked([Data("hel".utf8), Data("lo".utf8), Data(" world".utf8)]))
        let response = try await Sending(Request<Data>.get(server.url()), over: subject.transport).response()
        #expect(response.value == Data("hello world".utf8))
        #expect(response.head.expectedBytes == nil)
    }

    @Test(arguments: ConformingTransport.all)
    func manySmallChunksAreJoined(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        let body = Reply.pattern(range: 0..<10_000)
        server.enqueue(.chunked(body.map { Data([$0]) }))
        let response = try await Sending(Request<Data>.get(server.url()), over: subject.transport).response()
        #expect(response.value == body)
    }

    /// The body ends with the connection: RFC 9112, section 6.3, case 8.
    @Test(arguments: ConformingTransport.all)
    func bodyUntilTheConnectionEndsIsComplete(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.raw("HTTP/1.1 200 OK\r\n\r\nuntil the end"))
        let response = try await Sending(Request<String>.get(server.url()), over: subject.transport).response()
        #expect(response.value == "until the end")
        #expect(response.head.expectedBytes == nil)
    }

    @Test(arguments: ConformingTransport.all)
    func bytesAfterTheBodyAreNotDelivered(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(
            .status(200, headerFields: [("Content-Length", "5")], body: "hello, and more").disconnectingAtEnd())
        let response = try await Sending(Request<String>.get(server.url()), over: subject.transport).response()
        #expect(response.value == "hello")
    }

    @Test(arguments: ConformingTransport.all)
    func encodedBodyArrivesDecoded(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .status(200, headerFields: [("Content-Encoding", "gzip")], body: Self.zipped) }
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

    /// The text "abc", a thousand times.
    private static let zipped =
        Data(base64Encoded: "H4sIAAAAAAACA+3CQREAAAwCoKxq/w6rsQcc6aKqqv5+C0W5K7gLAAA=") ?? Data()

    @Test(arguments: ConformingTransport.all)
    func severalValuesOfAFieldArriveInOrder(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.status(200, headerFields: [("X-A", "1"), ("X-B", "2"), ("X-A", "3")]))
        let response = try await Sending(Request<Data>.get(server.url()), over: subject.transport).response()
        #expect(response.headerFields["X-A"] == "1, 3")
        #expect(response.headerFields["X-B"] == "2")
    }

    @Test(arguments: ConformingTransport.all, [301, 302, 303, 307, 308])
    func redirectIsAnAnswer(_ subject: ConformingTransport, _ statusCode: Int) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
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
            endProcessIfStuck(after: 10)
            let transport = try ConformingTransport.named(name)
            let server = try TestServer()
            defer { server.shutDown() }
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
        let server = try TestServer()
        defer { server.shutDown() }
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
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(
            Reply.status(200, body: "final").informational(103, headerFields: [("Link", "</a>")]).informational([
                100, 102, 103,
            ]))
        let response = try await Sending(Request<String>.get(server.url()), over: subject.transport).response()
        #expect(response.statusCode == 200)
        #expect(response.value == "final")
        #expect(response.transfer.download.completedBytes == 5)
    }

    @Test(arguments: ConformingTransport.all)
    func manyRequestsAtOnceAreAllAnswered(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { .status(200, body: $0.path) }
        let sendings = (0..<100).map { Sending(Request<String>.get(server.url("/\($0)")), over: subject.transport) }
        for (number, sending) in sendings.enumerated() {
            #expect(try await sending.response().value == "/\(number)")
        }
        #expect(server.requestCount == 100)
    }
}
