import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

/// Tests redirects that operations follow, over a stub and over real transports.
@Suite struct RedirectFollowingTests {
    private static func redirect(_ statusCode: Int = 302, to location: String) -> @Sendable (StubExchange) -> Void {
        { exchange in
            guard exchange.request.url.path == "/a" else { return exchange.answer(200, body: Data("there".utf8)) }
            exchange.answer(statusCode, headerFields: ["Location": location], body: Data("moved".utf8))
        }
    }

    /// The server may respond differently the next time, as in test 3032 of curl.
    @Test(arguments: [1, 2, 3, 20])
    func aServerMayRedirectToTheSamePlaceUntilItIsReady(count: Int) async throws {
        let asked = Locked(0)
        let server = StubServer { exchange in
            let number = asked.withLock { asked in
                asked += 1
                return asked
            }
            guard number <= count else { return exchange.answer(200, body: Data("there".utf8)) }
            exchange.answer(302, headerFields: ["Location": "/a"])
        }
        let response = try await server.manager().send(Request.stub("a"))
        #expect(response.value == Data("there".utf8))
        #expect(server.exchanges.count == count + 1)
    }

    @Test(
        arguments: [
            (nil, "no Location"), ("", "Location is empty"), ("http://", "host"), ("http://h:99999/", "port"),
            ("/" + String(repeating: "x", count: 16 << 10), "16385 bytes"), ("/x, /y", "several"),
            ("http://ho%7Fst/", "host"),
        ] as [(String?, String)])
    func aLocationThatLeadsNowhereIsNamedInTheError(location: String?, words: String) async throws {
        let server = StubServer { exchange in
            exchange.answer(302, headerFields: location.map { ["Location": $0] } ?? [:], body: Data("moved".utf8))
        }
        let error = await #expect(throws: RequestError.self) { try await server.manager().send(Request.stub("a")) }
        #expect(error?.code == .unacceptableStatus)
        #expect(error?.message.contains(words) == true, "\(error?.message ?? "")")
        #expect((error?.message.utf8.count ?? 0) < 300)
        #expect(error?.body == Data("moved".utf8))
        #expect(server.exchanges.count == 1)
        // With `.never` the caller forbids all redirects, so the error does not explain the `Location`.
        let plain = await #expect(throws: RequestError.self) {
            try await server.manager().send(Request.stub("a").redirects(.never))
        }
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
            let error = await #expect(throws: RequestError.self) {
                try await server.manager().send(request.acceptableStatusCodes(.any))
            }
            #expect(error?.code == .connectionLost)
        }
    }

    @Test func withoutAPolicyTheRedirectIsTheAnswer() async throws {
        let server = StubServer(answer: Self.redirect(to: "/b"))
        let response = try await server.manager().send(Request.stub("a").acceptableStatusCodes(.any).redirects(.never))
        #expect(response.statusCode == 302)
        #expect(server.paths == ["/a"])
    }

    @Test func aRequestMayAcceptEverythingAndStillBeRedirected() async throws {
        let server = StubServer(answer: Self.redirect(to: "/b"))
        let response = try await server.manager().send(Request.stub("a").acceptableStatusCodes(.any))
        #expect(response.value == Data("there".utf8))
    }

    @Test func theHookRunsOnTheExecutorAndMayRefuse() async {
        let server = StubServer(answer: Self.redirect(to: "http://other/b"))
        let policy = RedirectPolicy { hop in hop.to.url.host() == "stub" ? .follow : .refuse }
        let error = await #expect(throws: RequestError.self) {
            try await server.manager().send(Request.stub("a").redirects(policy))
        }
        #expect(error?.code == .redirectRefused)
        #expect(server.exchanges.count == 1)
    }

    @Test func theHookMayRewrite() async throws {
        let server = StubServer(answer: Self.redirect(to: "/b"))
        let policy = RedirectPolicy { hop in
            var next = hop.to
            next.headerFields["X-Hop"] = "\(hop.count)"
            return .rewrite(next)
        }
        let response = try await server.manager().send(Request.stub("a").redirects(policy))
        #expect(response.request.headerFields["X-Hop"] == "1")
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

    @Test func cancellingBetweenTwoHopsSendsNoMore() async {
        let server = StubServer(answer: Self.redirect(to: "/b"))
        let operation = RequestOperation(
            Request.stub("a").redirects(RedirectPolicy { _ in .follow }), transport: server.transport)
        let hook = Locked<@Sendable () -> Void>({})
        let policy = RedirectPolicy { _ in
            hook.withLock { $0 }()
            return .follow
        }
        let cancelled = RequestOperation(Request.stub("a").redirects(policy), transport: server.transport)
        hook.withLock { $0 = { [weak cancelled] in cancelled?.cancel() } }
        cancelled.start()
        await #expect(throws: RequestError.self) { try await cancelled.response() }
        #expect(server.paths == ["/a"])
        operation.start()
        _ = try? await operation.response()
        #expect(server.paths == ["/a", "/a", "/b"])
    }

    // MARK: Secrets

    /// Redirects to other origins, after different numbers of hops.
    static let ways: [(String, hops: [String])] = {
        let elsewhere = [
            "port": "http://stub:8080", "host": "http://other", "scheme": "https://stub:80",
            "subdomain": "http://a.stub",
        ]
        return elsewhere.sorted { $0.key < $1.key }.flatMap { name, origin in
            [1, 2, 5].map { count in
                // The earlier hops stay at the origin, the last hop leaves the origin, and a further hop returns.
                (
                    "\(name), hop \(count)",
                    (1..<count).map { "http://stub/hop\($0)" } + ["\(origin)/left", "http://stub/back"]
                )
            }
        }
    }()

    @Test(arguments: ways, ["Authorization", "Cookie", "Proxy-Authorization", "X-Marked"])
    func noSecretFollowsToAnotherOrigin(way: (String, hops: [String]), name: String) async throws {
        let hops = way.hops
        let server = StubServer { exchange in
            let index = Int(exchange.request.headerFields["X-Plain"] ?? "").flatMap { _ in
                hops.firstIndex { exchange.request.url.absoluteString == $0 }
            }
            let next = (index ?? -1) + 1
            if next < hops.count {
                exchange.answer(307, headerFields: ["Location": hops[next]])
            } else {
                exchange.answer(200)
            }
        }
        let manager = server.manager(configure: { configuration in
            configuration.redirects.allowsInsecure = true
            // The interceptor adds a credential to every request, for any server.
            configuration.interceptors = [
                Interceptor(adapting: { request, _ in
                    var request = request
                    request.headerFields.add("X-Added", "hunter3", isSecret: true)
                    return request
                })
            ]
        })
        let request = Request<Data>.get("http://stub/start").secretHeader(name, "hunter2").header("X-Plain", "1")
        try await manager.send(request)
        let sent = server.exchanges.events.map(\.request)
        #expect(sent.map(\.url.absoluteString) == ["http://stub/start"] + hops)
        for (index, request) in sent.enumerated() {
            let isBeforeLeaving = index < hops.count - 1
            #expect(request.headerFields.contains(name) == isBeforeLeaving, "\(request.url)")
            #expect(request.headerFields.contains("X-Added") == isBeforeLeaving, "\(request.url)")
            #expect(request.headerFields["X-Plain"] == "1")
        }
    }

    // MARK: On the wire

    /// The transports that report a head before the body is complete, which URLSession on Linux does not.
    private static let honest = ConformingTransport.all.filter { $0.name != "URLSession" }

    /// The redirect is followed, although its body is damaged.
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

    @Test(arguments: [RequestError.Code.connectionLost, .badResponse])
    func whateverCutsTheBodyOfARedirectItIsFollowed(code: RequestError.Code) async throws {
        let server = StubServer { exchange in
            guard exchange.request.url.path == "/a" else { return exchange.answer(200, body: Data("there".utf8)) }
            exchange.respond(ResponseHead(statusCode: 302, headerFields: ["Location": "/b"], url: exchange.request.url))
            exchange.send(Data("half".utf8))
            exchange.finish(RequestError(code, "cut"))
        }
        let response = try await server.manager().send(Request.stub("a"))
        #expect(response.value == Data("there".utf8))
        #expect(response.attempts.map(\.failure) == [code, nil])
        #expect(response.redirects == [URL(string: "http://stub/b")])
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
