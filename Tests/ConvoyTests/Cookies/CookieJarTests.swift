import Convoy
import Foundation
import Testing

@Suite struct CookieJarTests {
    private let fixture = CookieFixture()

    @Test func aCommaIsPartOfAValue() throws {
        try fixture.receive("note=hi, sid=evil; Path=/a", from: "http://example.com/")
        #expect(fixture.jar.cookies.map(\.name) == ["note"])
        #expect(fixture.jar.cookies.map(\.path) == ["/a"])
    }

    @Test func ofOneAnswer256CookiesAreLookedAt() throws {
        var limits = CookieJar.Limits()
        (limits.maxCookiesPerDomain, limits.maxCookieCount) = (1_000, 1_000)
        let jar = CookieFixture(limits: limits).jar
        let url = try #require(URL(string: "http://example.com/"))
        jar.store(HeaderFields((0..<300).map { ("Set-Cookie", "c\($0)=1") }), from: url)
        #expect(jar.cookies.count == 256)
    }

    @Test(arguments: ["hunter2", "very secret"])
    func noDescriptionShowsAValue(secret: String) {
        let jar = CookieJar()
        for name in ["sid", ""] {
            let cookie = Cookie(
                name: name, value: secret, domain: "example.com", isHostOnly: false, expires: .distantFuture,
                isSecure: true, isHTTPOnly: true, sameSite: "Lax")
            #expect(jar.set(cookie))
            #expect(!texts(showing: cookie, jar, [cookie], Optional(cookie) as Any).contains(secret))
        }
        #expect(jar.description == "CookieJar(2 cookies)")
        let cookie = Cookie(name: "sid", value: secret, domain: "example.com", isSecure: true)
        #expect("\(cookie)" == "sid=<redacted>; Host=example.com; Path=/; Secure")
    }

    @Test func aSavedJarIsTheSameJar() throws {
        try fixture.receive("b=1; Path=/", "a=1; Domain=example.com; Max-Age=100; HttpOnly; SameSite=Lax", "=c; Secure")
        let saved = try JSONEncoder().encode(fixture.jar.cookies)
        let other = CookieFixture()
        for cookie in try JSONDecoder().decode([Cookie].self, from: saved) { #expect(other.jar.set(cookie)) }
        #expect(other.jar.cookies == fixture.jar.cookies)
        #expect(try other.field() == "b=1; a=1; c")
        #expect(other.jar.cookies.map { $0.expires == nil } == [true, false, true])
    }

    @Test func cookiesOfOnesOwnAreSetAndRemoved() throws {
        let wide = Cookie(name: "a", value: "1", domain: ".Example.COM", isHostOnly: false, path: "/x", isSecure: true)
        #expect(fixture.jar.set(wide))
        #expect(fixture.jar.cookies.map(\.domain) == ["example.com"])
        #expect(try fixture.field("https://a.example.com/x") == "a=1")
        #expect(try fixture.field("http://a.example.com/x") == "")
        #expect(fixture.jar.set(Cookie(name: "v6", value: "1", domain: "[::1]")))
        #expect(try fixture.field("http://[::1]:80/") == "v6=1")
        var past = wide
        past.expires = CookieFixture.start
        #expect(fixture.jar.set(past))
        #expect(fixture.names == ["v6"])
    }

    @Test(arguments: [
        Cookie(name: "", value: "", domain: "example.com"), Cookie(name: "a", value: "1", domain: ""),
        Cookie(name: "a;b", value: "1", domain: "example.com"), Cookie(name: "a=b", value: "1", domain: "example.com"),
        Cookie(name: "a", value: "1; admin=1", domain: "example.com"),
        Cookie(name: "a", value: "1\r\nX: y", domain: "example.com"),
        Cookie(name: "a\0", value: "1", domain: "example.com"),
        Cookie(name: "a", value: "1", domain: "example.com", path: ""),
        Cookie(name: "a", value: "1", domain: "example.com", path: "x"),
        Cookie(name: "a", value: "1", domain: "com", isHostOnly: false),
        Cookie(name: "a", value: "1", domain: "co.uk", isHostOnly: false),
        Cookie(name: "a", value: "1", domain: "1.2.3.4", isHostOnly: false),
        Cookie(name: "a", value: "1", domain: "example.com.", isHostOnly: false),
        Cookie(name: "a", value: "1", domain: "exämple.com"),
        Cookie(name: "__Host-a", value: "1", domain: "example.com"),
        Cookie(name: "__host-a", value: "1", domain: "example.com", isHostOnly: false, isSecure: true),
        Cookie(name: "__Host-a", value: "1", domain: "example.com", path: "/x", isSecure: true),
        Cookie(name: "", value: "__Host-a=1", domain: "example.com", isSecure: true),
        Cookie(name: "__Secure-a", value: "1", domain: "example.com"),
        Cookie(name: "a", value: "1", domain: "example.com", sameSite: "none"),
        Cookie(name: "a", value: String(repeating: "x", count: 4_096), domain: "example.com"),
        Cookie(name: "a", value: "1", domain: "example.com", path: "/" + String(repeating: "x", count: 1_024)),
    ])
    func aCookieOfOnesOwnThatBreaksARuleIsRefused(cookie: Cookie) throws {
        try fixture.receive("a=old")
        #expect(!fixture.jar.set(cookie))
        #expect(fixture.jar.cookies.map(\.value) == ["old"])
    }

    @Test func removeRemovesCookiesThatMatchAPredicate() throws {
        try fixture.receive("a=1", "b=1; Domain=example.com", "c=1", from: "https://a.example.com/")
        fixture.jar.remove { !$0.isHostOnly || $0.name == "c" }
        #expect(fixture.names == ["a"])
        fixture.jar.removeAll()
        #expect(fixture.jar.cookies.isEmpty)
        #expect(try fixture.field("https://a.example.com/") == "")
    }

    /// A lock held around the predicate or the clock would hang this test.
    @Test func predicateAndClockMayUseTheJar() throws {
        let holder = Locked<CookieJar?>(nil)
        let isAsking = Locked(false)
        let jar = CookieJar(now: {
            let isFirst = isAsking.withLock { isAsking in
                defer { isAsking = true }
                return !isAsking
            }
            if isFirst { _ = holder.withLock { $0 }?.cookies }
            return CookieFixture.start
        })
        holder.withLock { $0 = jar }
        let url = try #require(URL(string: "https://example.com/"))
        for step in 0..<4 {
            isAsking.withLock { $0 = false }
            switch step {
            case 0: jar.store(["Set-Cookie": "a=1"], from: url)
            case 1: #expect(jar.cookieField(for: url) == "a=1")
            case 2: #expect(jar.set(Cookie(name: "b", value: "1", domain: "example.com")))
            default: #expect(jar.cookies.count == 2)
            }
        }
        // The predicate stores `a=2`, which replaces the selected cookie. The jar does not remove the new cookie.
        jar.remove { cookie in
            if cookie.name == "a" { jar.store(["Set-Cookie": "a=2"], from: url) }
            return true
        }
        #expect(jar.cookies.map(\.value) == ["2"])
        holder.withLock { $0 = nil }
    }

    @Test func aPredicateThatThrowsRemovesNothing() throws {
        struct Refusal: Error {}
        try fixture.receive("a=1", "b=1")
        #expect(throws: Refusal.self) {
            try fixture.jar.remove { cookie in
                if cookie.name == "b" { throw Refusal() }
                return true
            }
        }
        #expect(fixture.names == ["a", "b"])
    }

    @Test func manyThreadsMayUseOneJar() async throws {
        let jar = CookieJar()
        let urls = try (0..<8).map { try #require(URL(string: "https://h\($0 % 4).example.com/")) }
        await withTaskGroup { group in
            for (number, url) in urls.enumerated() {
                group.addTask {
                    for round in 0..<200 {
                        jar.store(["Set-Cookie": "c\(number)-\(round % 60)=1; Domain=example.com"], from: url)
                        _ = jar.cookieField(for: url)
                        if round % 50 == 0 { jar.remove { $0.name.hasPrefix("c\(number)") } }
                    }
                }
            }
        }
        #expect(jar.cookies.count <= 50)
    }
}
