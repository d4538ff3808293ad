// Tests which cookies a manager's jar stores from responses and sends with requests, over real transports.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct CookieSendingTests {
    private let fixture = CookieFixture()

    @Test(arguments: ConformingTransport.all)
    func cookieOfARedirectIsSentWithTheNextHop(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.route("/login") { _ in
            .status(302, headerFields: [("Location", "/home"), ("Set-Cookie", "sid=31d4; Path=/; HttpOnly")])
        }
        server.route("/home") { _ in .status(200) }
        let manager = subject.manager(cookies: fixture.jar)
        try await manager.send(Request<Data>.post(server.url("/login")).body(Data("x".utf8)))
        try await manager.send(Request<Data>.get(server.url("/home")))
        #expect(server.paths == ["/login", "/home", "/home"])
        #expect(server.received("Cookie") == [nil, "sid=31d4", "sid=31d4"])
    }

    @Test(arguments: ConformingTransport.all)
    func redirectsToItselfMaySetOneCookieAfterTheOther(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
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
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in
            .cookies(
                "a=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/", "b=x,y; Path=/b",
                "c=3; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "d=4")
        }
        let manager = subject.manager(cookies: fixture.jar)
        for path in ["/", "/b/c"] { try await manager.send(Request<Data>.get(server.url(path))) }
        #expect(server.received("Cookie") == [nil, "b=x,y; a=1; d=4"])
    }

    @Test(arguments: ConformingTransport.all)
    func ownFieldIsSentAsItIs(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.route("/a") { _ in .status(302, headerFields: [("Location", "/b"), ("Set-Cookie", "a=2")]) }
        server.respond { _ in .cookies("b=1") }
        let url = server.url("/a")
        fixture.jar.store(["Set-Cookie": "a=1"], from: url)
        let manager = subject.manager(cookies: fixture.jar)
        try await manager.send(Request<Data>.get(url).header("cookie", "mine=1"))
        #expect(server.recordedRequests.map { $0.values(of: "Cookie") } == [["mine=1"], ["mine=1"]])
        // The jar still stores the cookies of the responses.
        #expect(fixture.jar.cookieField(for: url) == "a=2; b=1")
    }

    /// A `Cookie` field of an interceptor is not changed, like that of a caller.
    @Test(arguments: ConformingTransport.all)
    func fieldOfAnInterceptorIsSentAsItIs(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .cookies("a=1") }
        let manager = subject.manager(interceptors: [Interceptor.adding("Cookie", "its=1")], cookies: fixture.jar)
        for _ in 1...2 { try await manager.send(Request<Data>.get(server.url())) }
        #expect(server.recordedRequests.map { $0.values(of: "Cookie") } == [["its=1"], ["its=1"]])
    }

    @Test(arguments: ConformingTransport.all)
    func cookieEndsWhenItsAnswerSaid(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.route("/set") { _ in .cookies("a=1; Max-Age=100", "b=1; Expires=Tue, 14 Nov 2023 22:30:00 GMT", "c=1") }
        server.route("/end") { _ in .cookies("c=; Max-Age=0") }
        server.respond { _ in .status(200) }
        let manager = subject.manager(cookies: fixture.jar)
        func send(_ path: String) async throws { try await manager.send(Request<Data>.get(server.url(path))) }
        try await send("/set")
        fixture.advance(by: 99)
        try await send("/1")
        fixture.advance(by: 1)
        try await send("/2")
        try await send("/end")
        try await send("/3")
        fixture.advance(by: 1_000)
        try await send("/4")
        #expect(server.received("Cookie") == [nil, "a=1; b=1; c=1", "b=1; c=1", "b=1; c=1", "b=1", nil])
    }

    // MARK: Attempts

    @Test(arguments: ConformingTransport.all)
    func theAttemptAfterA401SendsItsCookie(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { request in
            request.value(of: "Authorization") == "Bearer t1"
                ? .status(200) : .status(401, headerFields: [("Set-Cookie", "csrf=1"), ("WWW-Authenticate", "Bearer")])
        }
        let authenticator = BearerAuthenticator(token: "t0") { _ in "t1" }
        let manager = subject.manager(interceptors: [authenticator], cookies: fixture.jar)
        try await manager.send(Request<Data>.get(server.url()))
        #expect(server.received("Cookie") == [nil, "csrf=1"])
    }

    @Test(arguments: ConformingTransport.all)
    func aRetrySendsTheCookieOfThePreviousResponse(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { request in
            switch request.value(of: "Cookie") {
            case nil: .status(503, headerFields: [("Set-Cookie", "node=1")])
            case "node=1": .status(503, headerFields: [("Set-Cookie", "node=2")])
            default: .status(200)
            }
        }
        let manager = subject.manager(cookies: fixture.jar) { configuration in
            configuration.retries = .standard
            // Retries have no delay.
            configuration.jitter = { 0 }
        }
        try await manager.send(Request<Data>.get(server.url()))
        #expect(server.received("Cookie") == [nil, "node=1", "node=2"])
    }
}
