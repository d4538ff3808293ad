import Convoy
import ConvoyTesting
import Foundation
import Testing

@Suite struct RedirectFollowingTests {
    private static func redirect(_ statusCode: Int = 302, to location: String) -> @Sendable (StubExchange) -> Void {
        { exchange in
            guard exchange.request.url.path == "/a" else { return exchange.answer(200, body: Data("there".utf8)) }
            exchange.answer(statusCode, headerFields: ["Location": location], body: Data("moved".utf8))
        }
    }

    @Test(
        arguments: [
            (nil, "no Location"), ("", "Location is empty"), ("http://", "host"), ("http://h:99999/", "port"),
            ("/" + String(repeating: "x", count: 16 << 10), "16385 bytes"), ("/x, /y", "several"),
            ("http://ho%7Fst/", "host"), ("http://[bad/cb?page=1&access_token=s3cret", "page=1"),
        ] as [(String?, String)])
    func aLocationThatLeadsNowhereIsNamedInTheError(location: String?, words: String) async throws {
        let server = StubServer { exchange in
            exchange.answer(302, headerFields: location.map { ["Location": $0] } ?? [:], body: Data("moved".utf8))
        }
        let error = await server.manager().error(of: Request.stub("a"))
        #expect(error?.code == .unacceptableStatus)
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
        #expect((error?.message.utf8.count ?? 0) < 300 && error?.message.contains("s3cret") == false)
        #expect(error?.body == Data("moved".utf8))
        #expect(server.exchanges.count == 1)
        // With `.never` the caller forbids all redirects, so the error does not explain the `Location`.
        let plain = await server.manager().error(of: Request.stub("a").redirects(.never))
        #expect(plain?.message.contains("Location") == false)
    }

    @Test func aBodyThatWasCutIsNotTheAnswerOfARedirectThatIsNotFollowed() async {
        let server = StubServer { exchange in
            exchange.respond(ResponseHead(statusCode: 302, headerFields: ["Location": "/b"], url: exchange.request.url))
            exchange.send(Data("half".utf8))
            exchange.finish(RequestError(.connectionLost, "lost"))
        }
        for request in [
            Request.stub("a").redirects(.never),
            Request.stub("a").intercepted(by: Interceptor(deciding: { _, _ in .stop })),
        ] {
            #expect(await server.manager().error(of: request.acceptableStatusCodes(.any))?.code == .connectionLost)
        }
    }

    @Test func theHookOfARequestMayRewriteRefuseAndCancel() async throws {
        let server = StubServer(answer: Self.redirect(to: "/b"))
        let operation = Locked<RequestOperation<Data>?>(nil)
        let policy = RedirectPolicy { hop in
            switch hop.from.headerFields["X"] {
            case "refuse": return .refuse
            case "cancel": operation.withLock { $0 }?.cancel()
            default: break
            }
            var next = hop.to
            next.headerFields["X-Hop"] = "\(hop.count)"
            return .rewrite(next)
        }
        let request = Request.stub("a").redirects(policy)
        #expect(try await server.manager().send(request).request.headerFields["X-Hop"] == "1")
        for (action, code) in [("refuse", RequestError.Code.redirectRefused), ("cancel", .cancelled)] {
            let made = RequestOperation(request.header("X", action), transport: server.transport)
            operation.withLock { $0 = made }
            made.start()
            #expect(await #expect(throws: RequestError.self) { try await made.response() }?.code == code)
        }
        operation.withLock { $0 = nil }
        #expect(server.paths == ["/a", "/b", "/a", "/a"])
    }

    @Test func theRestOfARedirectsBodyIsNotWaitedFor() async throws {
        let server = StubServer.held()
        let manager = server.manager()
        let operation = manager.enqueue(Request.stub("a"))
        let exchange = await server.exchanges.wait()[0]
        exchange.respond(ResponseHead(statusCode: 302, headerFields: ["Location": "/b"], url: exchange.request.url))
        for _ in 0..<70 { exchange.send(Data(count: 1_024)) }
        let next = await server.exchanges.wait(count: 2)[1]
        next.answer(200)
        _ = try await operation.response()
        await look { exchange.isCancelled }
    }

    @Test func aDownloadHoldsTheLastBodyOnly() async throws {
        let directory = try TemporaryDirectory()
        let server = StubServer(answer: Self.redirect(to: "/b"))
        let file = directory.url.appending(path: "file")
        _ = try await server.manager().send(Request.stub("a").acceptableStatusCodes(.any).saved(to: file))
        #expect(try Data(contentsOf: file) == Data("there".utf8))
        #expect(try directory.entries == ["file"])
    }

    @Test func theHopsSlotIsThatOfItsHost() async throws {
        let server = StubServer.held()
        let manager = server.manager(16, perHost: 1)
        let blocker = manager.enqueue(Request.stub("blocker", host: "other"))
        await server.exchanges.wait()
        let moved = manager.enqueue(Request.stub("a"))
        let first = await server.exchanges.wait(count: 2)[1]
        first.answer(302, headerFields: ["Location": "http://other/b"])
        let neighbour = manager.enqueue(Request.stub("c"))
        let next = await server.exchanges.wait(count: 3)[2]
        // The request has released the slot of the old host, and the new host is full.
        #expect(next.request.url.path == "/c")
        #expect(manager.why(moved).contains("http://other:80"))
        next.answer(200)
        server.exchanges.events[0].answer(200)
        await server.exchanges.wait(count: 4)[3].answer(200)
        for operation in [blocker, moved, neighbour] { _ = try await operation.response() }
    }

    /// The transports that report a head before the body is complete, which URLSession on Linux does not.
    private static let honest = ConformingTransport.all.filter { $0.name != "URLSession" }

    @Test(
        arguments: honest,
        [
            "Content-Length: 100\r\n\r\nshort", "Transfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
            "Transfer-Encoding: chunked\r\n\r\nzz\r\nshort\r\n",
        ])
    func aRedirectWhoseBodyIsCutIsFollowed(transport: ConformingTransport, rest: String) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.raw("HTTP/1.1 302 Found\r\nLocation: /b\r\n" + rest))
        server.enqueue(.status(200, body: "there"))
        let response = try await Sending(Request<String>.get(server.url("/a")), over: transport.transport).response()
        #expect(response.value == "there")
        #expect(response.attempts.first?.next == .redirect(to: server.url("/b")))
        #expect(response.attempts.first?.statusCode == 302)
    }

    /// RFC 3986 allows these host names, but libcurl rejects them.
    ///
    /// The error blames the server.
    @Test(arguments: honest, ["http://a$b/", "http://a(b)/", "http://a&b/", "http://*/"])
    func aRedirectToAHostThatCannotBeAskedIsTheServersFault(transport: ConformingTransport, location: String)
        async throws
    {
        let server = try TestServer()
        defer { server.shutDown() }
        server.enqueue(.status(302, headerFields: [("Location", location)], body: "moved"))
        let error = try await Sending(Request<String>.get(server.url("/a")), over: transport.transport).error()
        #expect(error.code == .redirectRefused, "\(error)")
        #expect(!error.message.contains("nothing was sent"))
        #expect(error.message.contains(location))
        #expect(error.attempts.first?.statusCode == 302)
    }
}
