import Foundation
import Testing

@testable import Convoy

/// Tests that no server can make a jar trap, exceed its limits, or send a field that breaks a request.
@Suite(.serialized) struct CookieRobustnessTests {
    private static let pieces = [
        "a", "b", "sid", "__Host-", "__secure-", "=", "=", "=", ";", ";", "; ", ",", ", ", " ", "\t", "\"", "/", "/x",
        ".", "..", "Path=", "Path=/", "Domain=", "Domain=example.com", "Domain=.a.example.com", "Domain=com", "Secure",
        "HttpOnly", "SameSite=None", "Max-Age=", "-", "0", "9", "99999999999999999999", "Expires=",
        "Wed, 21 Oct 2099 07:28:00 GMT", "Thu, 01-Jan-70 00:00:00 GMT", "31 Feb 2024", "25:61:61", ":", "\r", "\n",
        "\r\n", "\0", "\u{7F}", "\u{1B}", "é", "e\u{301}", "\u{301}", "\u{0600}", "👩‍👩‍👧", "\u{FEFF}", "\u{2028}",
        "\u{FFFD}", "%00", "%0d%0a", "\u{85}",
    ]
    private static let hosts = [
        "example.com", "a.example.com", "b.a.example.com", "EXAMPLE.com.", "co.uk", "x.co.uk", "com", "127.0.0.1",
        "[::1]", "localhost", "bücher.example", "ex%2Fample.com", String(repeating: "a.", count: 300) + "example.com",
        "..", "a..com", ".com", "0x7f.1",
    ]
    private static let paths = [
        "", "/", "/x", "/x/", "/x/y?z=1", "//", "/%2F/", "/é/b", "?q", "/" + String(repeating: "y/", count: 800),
    ]

    private static func makeText(_ random: inout SeededGenerator) -> String {
        var text = ""
        for _ in 0..<Int.random(in: 0...14, using: &random) {
            switch Int.random(in: 0..<40, using: &random) {
            case 0: text += String(repeating: "x", count: Int.random(in: 0...5_000, using: &random))
            case 1:
                let bytes = (0..<8).map { _ in UInt8.random(in: 0...255, using: &random) }
                text += String(decoding: bytes, as: UTF8.self)
            default: text += pieces.randomElement(using: &random) ?? ""
            }
        }
        return text
    }

    private static func makeURL(_ random: inout SeededGenerator) -> URL? {
        let scheme = ["http", "https", "HTTPS", "ftp"].randomElement(using: &random) ?? ""
        return URL(
            string:
                "\(scheme)://\(hosts.randomElement(using: &random) ?? "")\(paths.randomElement(using: &random) ?? "")")
    }

    @Test(arguments: 1...LongRuns.count(2, long: 8))
    func garbageNeverTrapsNorGetsOut(seed: Int) throws {
        var random = SeededGenerator(seed: UInt64(seed))
        var limits = CookieJar.Limits()
        (limits.maxCookiesPerDomain, limits.maxCookieCount) = (7, 30)
        let fixture = CookieFixture(limits: limits)
        var sent = 0
        for _ in 0..<1_000 {
            if let url = Self.makeURL(&random) {
                let texts = (0..<Int.random(in: 0...4, using: &random)).map { _ in Self.makeText(&random) }
                fixture.jar.store(HeaderFields(texts.map { ("Set-Cookie", $0) }), from: url)
            }
            if Int.random(in: 0..<20, using: &random) == 0 {
                fixture.advance(by: .random(in: -1_000...2e7, using: &random))
                let cookie = Cookie(
                    name: Self.makeText(&random), value: Self.makeText(&random),
                    domain: Self.hosts.randomElement(using: &random) ?? "", isHostOnly: .random(using: &random),
                    path: Self.makeText(&random), isSecure: .random(using: &random), sameSite: Self.makeText(&random))
                _ = fixture.jar.set(cookie)
            }
            guard let url = Self.makeURL(&random), let field = fixture.jar.cookieField(for: url) else { continue }
            sent += 1
            #expect(!field.isEmpty)
            #expect(!field.utf8.contains { ($0 < 0x20 && $0 != 0x09) || $0 == 0x7F }, "\(field.debugDescription)")
            #expect(url.scheme != "ftp")
            Self.checkRules(fixture.jar.cookies, limits: limits, now: fixture.clock.withLock { $0 })
        }
        // Without sent cookies the test would prove nothing.
        #expect(sent > 50)
    }

    /// Checks the rules that always hold for a jar.
    private static func checkRules(_ cookies: [Cookie], limits: CookieJar.Limits, now: Date) {
        #expect(cookies.count <= limits.maxCookieCount)
        let counts = Dictionary(grouping: cookies, by: \.domain).values.map(\.count)
        #expect(counts.max() ?? 0 <= limits.maxCookiesPerDomain)
        let broken = cookies.filter { cookie in
            cookie.name.utf8.count + cookie.value.utf8.count > 4_096 || cookie.pair.isEmpty
                || cookie.path.utf8.count > 1_024 || cookie.domain.utf8.count > 1_024
                || cookie.path.utf8.first != UInt8(ascii: "/") || cookie.isExpired(at: now)
                || !(cookie.isHostOnly || CookieDomain.mayBeShared(cookie.domain)) || !cookie.keepsPromiseOfPrefix
        }
        #expect(broken.isEmpty)
    }

    @Test func aSiteWithManyHostsLeavesOthersTheirs() throws {
        var limits = CookieJar.Limits()
        limits.maxCookieCount = 300
        let fixture = CookieFixture(limits: limits)
        try fixture.receive("s=1; Secure", from: "https://h0.example.com/")
        for number in 0..<400 { try fixture.receive("a=1", "b=1", from: "http://h\(number).example.com/") }
        #expect(fixture.jar.cookies.count <= 300)
        #expect(try fixture.field("http://h399.example.com/") == "a=1; b=1")
        #expect(try fixture.field("http://h0.example.com/") == "")
    }
}
