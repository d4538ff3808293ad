import Convoy
import Foundation
import Testing

/// Tests how cookies are stored, replaced and removed.
@Suite struct CookieStoreTests {
    private let fixture = CookieFixture()

    private func limits(perDomain: Int = 50, count: Int = 3_000) -> CookieJar.Limits {
        var limits = CookieJar.Limits()
        (limits.maxCookiesPerDomain, limits.maxCookieCount) = (perDomain, count)
        return limits
    }

    @Test func longerPathsComeFirstThenOlderCookies() throws {
        try fixture.receive("c=1; Path=/", "b=1; Path=/x/y", "a=1; Path=/", "d=1; Path=/x; Domain=example.com")
        try fixture.receive("b=2; Path=/x/y", "c=2; Path=/")
        #expect(try fixture.field("https://example.com/x/y/z") == "b=2; d=1; c=2; a=1")
        #expect(fixture.names == ["c", "b", "a", "d"])
    }

    @Test func aReplacementKeepsThePlaceOfTheFirst() throws {
        try fixture.receive("a=1", "b=1")
        fixture.advance(by: 100)
        try fixture.receive("a=2; Secure; HttpOnly; Max-Age=50")
        #expect(try fixture.field() == "a=2; b=1")
        #expect(fixture.jar.cookies.first?.isHTTPOnly == true)
        // A cookie that had expired counts as a new one.
        fixture.advance(by: 50)
        try fixture.receive("a=3")
        #expect(try fixture.field() == "b=1; a=3")
    }

    @Test func cookiesDifferByNameDomainPathAndScope() throws {
        try fixture.receive(
            "a=1", "A=2", "a=3; Path=/x", "a=4; Domain=example.com", "é=5", "e\u{301}=6", "=7", "8", "a=9")
        #expect(fixture.jar.cookies.map(\.value) == ["9", "2", "3", "4", "5", "6", "8"])
    }

    @Test func cookiesEndWhenTheirTimeIsOver() throws {
        try fixture.receive("a=1; Max-Age=10", "b=1; Expires=Tue, 14 Nov 2023 22:13:40 GMT", "c=1")
        fixture.advance(by: 9.5)
        #expect(try fixture.field() == "a=1; b=1; c=1")
        fixture.advance(by: 0.5)
        #expect(fixture.names == ["b", "c"])
        #expect(try fixture.field() == "b=1; c=1")
        fixture.advance(by: 10)
        #expect(try fixture.field() == "c=1")
        fixture.advance(by: 1e9)
        #expect(try fixture.field() == "c=1")
    }

    @Test(arguments: [
        "Max-Age=0", "Max-Age=-1", "Expires=Thu, 01 Jan 1970 00:00:00 GMT", "Max-Age=-99999999999999999999",
    ])
    func aPastEndRemovesACookie(attribute: String) throws {
        try fixture.receive("a=1", "b=1")
        try fixture.receive("a=; \(attribute); Path=/other")
        #expect(fixture.names == ["a", "b"])
        try fixture.receive("a=; \(attribute)")
        #expect(fixture.names == ["b"])
    }

    @Test func noCookieLivesLongerThan400Days() throws {
        try fixture.receive("a=1; Expires=Fri, 31 Dec 9999 23:59:59 GMT", "b=1; Max-Age=99999999999999999999")
        fixture.jar.set(Cookie(name: "c", value: "1", domain: "example.com", expires: .distantFuture))
        #expect(fixture.jar.cookies.allSatisfy { $0.expires == CookieFixture.start + 400 * 86_400 })
        fixture.advance(by: 400 * 86_400)
        #expect(fixture.jar.cookies.isEmpty)
    }

    @Test func aClockThatGoesBackDoesNoHarm() throws {
        let fixture = CookieFixture(limits: limits(perDomain: 2))
        try fixture.receive("a=1; Max-Age=10")
        fixture.advance(by: -1e6)
        try fixture.receive("b=1", "c=1")
        #expect(fixture.names == ["b", "c"])
    }

    @Test func sixtyCookiesOf4kBLeaveTheLastFifty() throws {
        let value = String(repeating: "x", count: 4_092)
        try fixture.receive((0..<60).map { "c\(10 + $0)=\(value)" })
        #expect(fixture.names == (10..<60).map { "c\(10 + $0)" })
        #expect(try fixture.field().utf8.count == 50 * 4_096 + 49 * 2)
        // The jar rejects a cookie that exceeds the limit by one byte.
        try fixture.receive("more=\(value)")
        #expect(fixture.jar.cookies.count == 50)
    }

    @Test func ofADomainThatIsFullThoseGoThatAreNotSecureThenThoseUsedLongestAgo() throws {
        let fixture = CookieFixture(limits: limits(perDomain: 3))
        try fixture.receive("s1=1; Secure", "a=1; Path=/a", "b=1; Path=/b", from: "https://example.com/")
        _ = try fixture.field("https://example.com/a")
        try fixture.receive("s2=1; Secure")
        #expect(fixture.names == ["s1", "a", "s2"])
        try fixture.receive("s3=1; Secure")
        #expect(fixture.names == ["s1", "s2", "s3"])
        // The domain is full of Secure cookies, so the jar does not keep a cookie that is not Secure.
        try fixture.receive("c=1")
        #expect(fixture.names == ["s1", "s2", "s3"])
        try fixture.receive("s1=2; Secure")
        try fixture.receive("s4=1; Secure")
        #expect(fixture.names == ["s1", "s3", "s4"])
    }

    @Test func expiredCookiesGoBeforeOthers() throws {
        let fixture = CookieFixture(limits: limits(perDomain: 2))
        try fixture.receive("s=1; Secure; Max-Age=5", "a=1")
        fixture.advance(by: 5)
        try fixture.receive("b=1")
        #expect(fixture.names == ["a", "b"])
    }

    @Test func domainsHaveTheirOwnLimits() throws {
        let fixture = CookieFixture(limits: limits(perDomain: 2))
        try fixture.receive("a=1", "b=1", "c=1", "d=1; Domain=example.com", from: "https://a.example.com/")
        try fixture.receive("e=1", "f=1", "g=1", from: "https://b.example.com/")
        #expect(fixture.names == ["b", "c", "d", "f", "g"])
    }

    @Test func aFullJarLosesTheTenthUsedLongestAgo() throws {
        let fixture = CookieFixture(limits: limits(count: 100))
        for number in 0..<100 { try fixture.receive("a=1", from: "https://h\(number).com/") }
        #expect(fixture.jar.cookies.count == 100)
        for number in 0..<5 { #expect(try fixture.field("https://h\(number).com/") == "a=1") }
        try fixture.receive("a=1", from: "https://new.com/")
        let domains = Set(fixture.jar.cookies.map(\.domain))
        #expect(domains.count == 90)
        #expect(domains.isSuperset(of: (0..<5).map { "h\($0).com" } + (16..<100).map { "h\($0).com" } + ["new.com"]))
    }

    @Test func aFullJarRemovesExpiredCookiesFirst() throws {
        let fixture = CookieFixture(limits: limits(count: 100))
        for number in 0..<100 {
            try fixture.receive("a=1" + (number == 50 ? "; Max-Age=5" : ""), from: "https://h\(number).com/")
        }
        fixture.advance(by: 5)
        try fixture.receive("a=1", from: "https://new.com/")
        #expect(fixture.jar.cookies.count == 100)
    }

    @Test(arguments: [(0, 10), (10, 0), (-1, 10), (10, -1), (Int.min, Int.min), (1, 1), (.max, .max)])
    func oddLimitsHold(perDomain: Int, count: Int) throws {
        let fixture = CookieFixture(limits: limits(perDomain: perDomain, count: count))
        for number in 0..<20 { try fixture.receive("a\(number)=1") }
        #expect(fixture.jar.cookies.count == max(0, min(perDomain, count, 20)))
        var none = CookieJar.Limits()
        (none.maxCookieBytes, none.maxAttributeBytes) = (.min, .min)
        let closed = CookieFixture(limits: none)
        try closed.receive("a=1")
        #expect(closed.jar.cookies.isEmpty)
    }
}
