// Tests which servers receive no cookies, over real transports.
import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct CookieSeparationTests {
    /// Without a jar, no transport keeps cookies or sends those of the platform's storage.
    @Test(arguments: ConformingTransport.all)
    func withoutAJarNoTransportKeepsCookies(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.route("/a") { _ in .status(302, headerFields: [("Location", "/b"), ("Set-Cookie", "a=1; Path=/")]) }
        server.respond { _ in .cookies("b=1; Path=/", "c=1; Path=/; Max-Age=1000") }
        let manager = subject.manager()
        for path in ["/a", "/b"] { try await manager.send(Request<Data>.get(server.url(path))) }
        try await subject.manager().send(Request<Data>.get(server.url("/c")))
        #expect(server.paths == ["/a", "/b", "/b", "/c"])
        #expect(server.received("Cookie") == [nil, nil, nil, nil])
    }

    @Test(arguments: ConformingTransport.all)
    func managersWithJarsOfTheirOwnShareNoCookies(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { .cookies("who=\($0.path.dropFirst())") }
        let managers = [subject.manager(cookies: CookieJar()), subject.manager(cookies: CookieJar())]
        // The managers share connections, so alternating requests would reveal cookies sent by the wrong manager.
        for _ in 1...2 {
            for (number, manager) in managers.enumerated() {
                try await manager.send(Request<Data>.get(server.url("/\(number)")))
            }
        }
        #expect(server.received("Cookie") == [nil, nil, "who=0", "who=1"])
    }

    @Test(arguments: ConformingTransport.all)
    func managersWithOneJarShareIt(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .cookies("a=1") }
        let jar = CookieJar()
        for manager in [subject.manager(cookies: jar), subject.manager(cookies: jar)] {
            try await manager.send(Request<Data>.get(server.url()))
        }
        #expect(server.received("Cookie") == [nil, "a=1"])
    }

    @Test(arguments: ConformingTransport.all)
    func secureCookiesAreNeitherStoredNorSentOverHTTP(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { _ in .cookies("theirs=1; Secure", "__Host-x=1; Path=/; Secure", "open=1") }
        let jar = CookieJar()
        #expect(jar.set(Cookie(name: "ours", value: "1", domain: "127.0.0.1", isSecure: true)))
        let manager = subject.manager(cookies: jar)
        for _ in 1...2 { try await manager.send(Request<Data>.get(server.url())) }
        #expect(server.received("Cookie") == [nil, "open=1"])
        #expect(jar.cookies.map(\.name) == ["ours", "open"])
    }

    #if os(Linux)
        @Test func secureCookiesAreSentOverHTTPS() async throws {
            let server = try await TLSServer(try Certificates.shared.server)
            defer { server.shutDown() }
            var options = ConnectionOptions()
            options.trust = .certificates(in: try Certificates.shared.authority.certificate)
            let jar = CookieJar()
            #expect(jar.set(Cookie(name: "ours", value: "1", domain: "127.0.0.1", isSecure: true)))
            let subject = ConformingTransport(name: "libcurl", transport: try CurlTransport(options))
            try await subject.manager(cookies: jar).send(Request<Data>.get(server.url()))
            #expect(server.heads.first?.contains("Cookie: ours=1\r\n") == true)
        }
    #endif

    /// Cookies ignore the port (RFC 6265bis, section 8.5), but not the host.
    @Test(arguments: ConformingTransport.all)
    func cookiesAreNotSentToAnotherHostAfterARedirect(_ subject: ConformingTransport) async throws {
        let (server, other) = (try TestServer(), try TestServer())
        defer {
            server.shutDown()
            other.shutDown()
        }
        server.route("/a") { _ in
            .status(302, headerFields: [("Location", "\(other.url("/b"))"), ("Set-Cookie", "a=1; Path=/")])
        }
        other.route("/b") { _ in .redirect(to: "http://localhost:\(other.port)/c") }
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
