// Tests which cookies a manager's jar stores and sends, and which servers receive none, over real transports.
import Convoy
import Foundation
import Testing

@Suite struct CookieSendingTests {
    private let fixture = CookieFixture()
    private let server: TestServer

    init() throws { server = try TestServer() }

    @Test(arguments: ConformingTransport.all)
    func redirectsToItselfMaySetOneCookieAfterTheOther(_ subject: ConformingTransport) async throws {
        server.respond { request in
            let count = request.value(of: "Cookie")?.split(separator: ";").count ?? 0
            guard count < 3 else { return .status(200) }
            return .status(302, headerFields: [("Location", "/a"), ("Set-Cookie", "n\(count)=1")])
        }
        try await subject.manager(cookies: fixture.jar).send(Request<Data>.get(server.url("/a")))
        #expect(server.received("Cookie") == [nil, "n0=1", "n0=1; n1=1", "n0=1; n1=1; n2=1"])
    }

    /// URLSession joins the lines with commas, which dates also contain.
    @Test(arguments: ConformingTransport.all)
    func twoLinesOfOneAnswerAreTwoCookies(_ subject: ConformingTransport) async throws {
        server.respond { _ in
            .cookies(
                "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/", "b=x,y; Path=/b",
                "c=3; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "d=4")
        }
        let manager = subject.manager(cookies: fixture.jar)
        for path in ["/", "/b/c"] { try await manager.send(Request<Data>.get(server.url(path))) }
        #expect(server.received("Cookie") == [nil, "b=x,y; a=1; d=4"])
    }

    @Test(arguments: ConformingTransport.all, [true, false])
    func ownFieldIsSentAsItIs(_ subject: ConformingTransport, isOfCaller: Bool) async throws {
        server.route("/a") { _ in .status(302, headerFields: [("Location", "/b"), ("Set-Cookie", "a=2")]) }
        server.respond { _ in .cookies("b=1") }
        let url = server.url("/a")
        fixture.jar.store(["Set-Cookie": "a=1"], from: url)
        let interceptors = isOfCaller ? [] : [Interceptor.adding("Cookie", "mine=1")]
        let manager = subject.manager(interceptors: interceptors, cookies: fixture.jar)
        try await manager.send(Request<Data>.get(url).header("cookie", isOfCaller ? "mine=1" : nil))
        #expect(server.recordedRequests.map { $0.values(of: "Cookie") } == [["mine=1"], ["mine=1"]])
        // The jar still stores the cookies of the responses.
        #expect(fixture.jar.cookieField(for: url) == "a=2; b=1")
    }

    @Test(arguments: ConformingTransport.all)
    func anAttemptSendsTheCookieOfThePreviousResponse(_ subject: ConformingTransport) async throws {
        server.respond { request in
            switch request.value(of: "Cookie") {
            case nil: .status(401, headerFields: [("Set-Cookie", "node=1"), ("WWW-Authenticate", "Bearer")])
            case "node=1": .status(503, headerFields: [("Set-Cookie", "node=2")])
            default: .status(200)
            }
        }
        let authenticator = BearerAuthenticator(token: "t0") { _ in "t1" }
        let manager = subject.manager(interceptors: [authenticator], cookies: fixture.jar) { configuration in
            configuration.retries = .standard
            // Retries have no delay.
            configuration.jitter = { 0 }
        }
        try await manager.send(Request<Data>.get(server.url()))
        #expect(server.received("Cookie") == [nil, "node=1", "node=2"])
    }

    @Test(arguments: ConformingTransport.all)
    func withoutAJarNoTransportKeepsCookies(_ subject: ConformingTransport) async throws {
        server.route("/a") { _ in .status(302, headerFields: [("Location", "/b"), ("Set-Cookie", "a=1; Path=/")]) }
        server.respond { _ in .cookies("b=1; Path=/", "c=1; Path=/; Max-Age=1000") }
        let manager = subject.manager()
        for path in ["/a", "/b"] { try await manager.send(Request<Data>.get(server.url(path))) }
        try await subject.manager().send(Request<Data>.get(server.url("/c")))
        #expect(server.paths == ["/a", "/b", "/b", "/c"])
        #expect(server.received("Cookie") == [nil, nil, nil, nil])
    }

    @Test(arguments: ConformingTransport.all)
    func managersShareTheCookiesOfOneJarOnly(_ subject: ConformingTransport) async throws {
        server.respond { .cookies("who=\($0.path.dropFirst())") }
        let (one, other) = (CookieJar(), CookieJar())
        // The managers share connections, so alternating requests would reveal cookies sent by the wrong manager.
        for (number, jar) in [one, other, one, other].enumerated() {
            try await subject.manager(cookies: jar).send(Request<Data>.get(server.url("/\(number)")))
        }
        #expect(server.received("Cookie") == [nil, nil, "who=0", "who=1"])
    }

    @Test(arguments: ConformingTransport.all)
    func secureCookiesAreNeitherStoredNorSentOverHTTP(_ subject: ConformingTransport) async throws {
        server.respond { _ in .cookies("theirs=1; Secure", "__Host-x=1; Path=/; Secure", "open=1") }
        let jar = fixture.jar
        #expect(jar.set(Cookie(name: "ours", value: "1", domain: "127.0.0.1", isSecure: true)))
        let manager = subject.manager(cookies: jar)
        for _ in 1...2 { try await manager.send(Request<Data>.get(server.url())) }
        #expect(server.received("Cookie") == [nil, "open=1"])
        #expect(jar.cookies.map(\.name) == ["ours", "open"])
    }

    #if os(Linux)
        @Test func secureCookiesAreSentOverHTTPS() async throws {
            let server = try await TLSServer(try Certificates.shared.server)
            let jar = fixture.jar
            #expect(jar.set(Cookie(name: "ours", value: "1", domain: "127.0.0.1", isSecure: true)))
            let subject = ConformingTransport(name: "libcurl", transport: try CurlTransport.trusting())
            try await subject.manager(cookies: jar).send(Request<Data>.get(server.url()))
            #expect(server.heads.first?.contains("Cookie: ours=1\r\n") == true)
        }
    #endif

    /// Cookies ignore the port (RFC 6265bis, section 8.5), but not the host.
    @Test(arguments: ConformingTransport.all)
    func cookiesAreNotSentToAnotherHostAfterARedirect(_ subject: ConformingTransport) async throws {
        let other = try TestServer()
        let (next, last) = ("\(other.url("/b"))", "http://localhost:\(other.port)/c")
        server.route("/a") { _ in .status(302, headerFields: [("Location", next), ("Set-Cookie", "a=1; Path=/")]) }
        other.route("/b") { _ in .redirect(to: last) }
        other.respond { _ in .cookies("c=1") }
        let manager = subject.manager(cookies: CookieJar())
        try await manager.send(Request<Data>.get(server.url("/a")))
        #expect(other.received("Cookie") == ["a=1", nil])
        // The caller's field is omitted after the redirect, but the jar's cookies are sent.
        try await manager.send(Request<Data>.get(server.url("/a")).header("Cookie", "mine=1"))
        #expect(server.received("Cookie") == [nil, "mine=1"])
        #expect(other.received("Cookie") == ["a=1", nil, "a=1", "c=1"])
    }
}
