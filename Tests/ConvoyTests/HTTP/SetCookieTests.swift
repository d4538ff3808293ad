import Foundation
import Testing

@testable import Convoy

@Suite struct SetCookieTests {
    private func parse(_ text: String) -> SetCookie? {
        SetCookie(text[...], maxCookieBytes: 4_096, maxAttributeBytes: 1_024, now: CookieFixture.start)
    }

    @Test(arguments: [
        ("a=b", "a", "b"), (" a \t=\t b ", "a", "b"), ("a=b=c==", "a", "b=c=="), ("a=", "a", ""),
        ("a =b c; x", "a", "b c"), ("=b", "", "b"), ("b", "", "b"), (" b ", "", "b"), ("==b", "", "=b"),
        (#"a="b; c"; Path=/"#, "a", #""b"#), (#"a="b""#, "a", #""b""#), ("a=b,c", "a", "b,c"), ("a=b\tc", "a", "b\tc"),
        ("é=ü%20", "é", "ü%20"), ("a[0]=1", "a[0]", "1"), ("a=\u{0600} ", "a", "\u{0600}"),
        ("a=\u{301};\u{301}=x", "a", "\u{301}"), ("a=\u{a0}b\u{a0}", "a", "\u{a0}b\u{a0}"),
    ])
    func theFirstEqualsSignSeparatesNameAndValue(text: String, name: String, value: String) throws {
        let cookie = try #require(parse(text))
        #expect(cookie.name.utf8.elementsEqual(name.utf8))
        #expect(cookie.value.utf8.elementsEqual(value.utf8))
    }

    @Test func aFieldWithoutNameAndValueIsNotACookie() {
        for text in ["", "=", " = ", ";", "; Path=/", "=; Secure", "\t"] { #expect(parse(text) == nil) }
    }

    @Test(arguments: (0...31).map { UInt8($0) } + [127])
    func controlCharactersAreRefusedWhereverTheyStandExceptATab(byte: UInt8) {
        let control = Character(UnicodeScalar(byte))
        for text in ["a\(control)x=b", "a=b\(control)x", "a=b; Path=/\(control)x", "a=b; \(control)x", "a=b\(control)"]
        {
            #expect((parse(text) == nil) == (byte != 9), "\(text.debugDescription)")
        }
    }

    @Test func nameAndValueTogetherMayHave4096Bytes() {
        #expect(parse("ab=" + String(repeating: "x", count: 4_094)) != nil)
        #expect(parse("ab=" + String(repeating: "x", count: 4_095)) == nil)
        #expect(parse(String(repeating: "x", count: 4_097) + "=") == nil)
        #expect(parse(String(repeating: "é", count: 2_048)) != nil)
        #expect(parse(String(repeating: "é", count: 2_049)) == nil)
        #expect(parse("a=b; Comment=" + String(repeating: "x", count: 100_000))?.value == "b")
    }

    @Test func attributesAreKnownInAnyCaseAndOthersPassedOver() throws {
        let cookie = try #require(
            parse("a=b;SECURE;httponly=no; pATH = /x ;Domain=.EXAMPLE.com;;=;Priority=High; SaMeSiTe=lAX; MAX-AGE=10"))
        #expect(cookie.isSecure && cookie.isHTTPOnly)
        #expect(cookie.path == "/x")
        #expect(cookie.domain == "example.com")
        #expect(cookie.sameSite == "Lax")
        #expect(cookie.expires == CookieFixture.start + 10)
    }

    @Test func ofAnAttributeThatComesTwiceTheLastCounts() throws {
        let cookie = try #require(
            parse("a=b; Path=/x; Domain=a.com; Max-Age=1; SameSite=Lax; Path=/y; Domain=b.com; Max-Age=2; SameSite=odd")
        )
        #expect(cookie.path == "/y")
        #expect(cookie.domain == "b.com")
        #expect(cookie.expires == CookieFixture.start + 2)
        #expect(cookie.sameSite == nil)
        #expect(parse("a=b; Path=/x; Path=y")?.path == "")
        #expect(parse("a=b; Domain=a.com; Domain=")?.domain == "")
        #expect(parse("a=b; Max-Age=5; Max-Age=soon")?.expires == CookieFixture.start + 5)
        let past = "Expires=Thu, 01 Jan 1970 00:00:00 GMT"
        #expect(parse("a=b; \(past); Expires=nonsense")?.expires == Date(timeIntervalSince1970: 0))
    }

    @Test func attributesOfMoreThan1024BytesArePassedOver() {
        let long = "/" + String(repeating: "x", count: 1_024)
        #expect(parse("a=b; Path=\(long.dropLast())")?.path?.utf8.count == 1_024)
        #expect(parse("a=b; Path=/short; Path=\(long)")?.path == "/short")
        #expect(parse("a=b; Path=\(long)")?.path == nil)
        #expect(parse("a=b; Domain=\(long)")?.domain == "")
    }

    @Test(
        arguments: [
            ("1", 1), ("0060", 60), ("34560000", 34_560_000), ("34560001", 34_560_000),
            ("99999999999999999999999999999999999999999999", 34_560_000),
            (String(repeating: "9", count: 1_024), 34_560_000),
            // Zero or less is the past.
            ("0", nil), ("-1", nil), ("-0", nil), ("000", nil), ("-99999999999999999999999999", nil),
        ] as [(String, TimeInterval?)])
    func maxAgeIsCappedAt400DaysAndComesBeforeExpires(text: String, seconds: TimeInterval?) {
        let expected = seconds.map { CookieFixture.start + $0 } ?? .distantPast
        let end = "Expires=Fri, 01 Jan 2100 00:00:00 GMT"
        #expect(parse("a=b; Max-Age=\(text); \(end)")?.expires == expected)
        #expect(parse("a=b; \(end); Max-Age=\(text)")?.expires == expected)
    }

    @Test(arguments: ["", "-", "+1", "1.5", "1e3", "x", "--1", "0x10", "1 0", "１"])
    func anInvalidMaxAgeDoesNotReplaceExpires(text: String) {
        let cookie = parse("a=b; Expires=Tue, 14 Nov 2023 23:00:00 GMT; Max-Age=\(text)")
        #expect(cookie?.expires == Date(timeIntervalSince1970: 1_700_002_800))
        #expect(parse("a=b; Max-Age=\(text)")?.expires == nil)
    }

    /// URLSession joins several Set-Cookie fields into one.
    @Test(arguments: [
        ("a=1", ["a=1"]), ("a=1, b=2", ["a=1", "b=2"]), ("", [""]), (", ", [", "]), ("a=1, ", ["a=1, "]),
        (
            "a=1; Expires=Wed, 21 Oct 2015 07:28:00 GMT, b=2; Expires=Wednesday, 21-Oct-15 07:28:00 GMT; Path=/, c=3",
            [
                "a=1; Expires=Wed, 21 Oct 2015 07:28:00 GMT", "b=2; Expires=Wednesday, 21-Oct-15 07:28:00 GMT; Path=/",
                "c=3",
            ]
        ),
        ("a=1; Expires=Wed,21-Oct-2015 07:28:00 GMT, b[x]=2", ["a=1; Expires=Wed,21-Oct-2015 07:28:00 GMT", "b[x]=2"]),
        ("a=1,2, 3; Path=/, b=", ["a=1,2, 3; Path=/", "b="]), ("a=1,b=2", ["a=1,b=2"]), ("a=x, y z=2", ["a=x, y z=2"]),
        ("a=1, , b=2", ["a=1, ", "b=2"]), ("a=1, =2", ["a=1, =2"]),
        ("a=1; Secure, __Host-b=2", ["a=1; Secure", "__Host-b=2"]),
    ])
    func joinedFieldsAreSplitOnlyBetweenCookies(joined: String, texts: [String]) {
        #expect(SetCookie.apart(joined).map(String.init) == texts)
    }
}

@Suite struct CookieDateTests {
    /// Dates that servers send: in the formats of RFC 1123, RFC 850 and asctime, and in formats that no RFC defines.
    @Test(arguments: [
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
        "06 Nov 1994 8:49:37", "08:49:37 6 november 94", "Sun, 06-NOV-1994 08:49:37 UTC", "6.Nov.1994+08:49:37",
        "\tnov/6/1994@08:49:37;", "06th Nov 1994 08:49:37", "6 Novembre 1994x 8:49:37.5", "08:49:37z 06 Nov 1994AD",
        "Sun, 06 Nov 1994 08:49:37 GMT+0100", "06 08:49:37 Nov 1994 07 Dec 2000 09:00:00",
    ])
    func manySpellingsAreOneDate(text: String) {
        #expect(CookieDate.parse(text[...]) == Date(timeIntervalSince1970: 784_111_777))
    }

    /// The first number is the day, and `06` is the year.
    @Test func eachPartComesFromTheFirstTokenThatCanBeIt() {
        let date = CookieDate.parse("1 2 3 6:0:0x 06 Nov 1994 Dec 07:00:00")
        #expect(date == Date(timeIntervalSince1970: 1_162_360_800))
    }

    @Test(arguments: [
        ("1 Jan 1970 00:00:00", 0), ("1 Jan 70 0:0:0", 0), ("31 Dec 69 23:59:59", 3_155_759_999),
        ("29 Feb 2000 12:00:00", 951_825_600), ("29 Feb 2024 00:00:00", 1_709_164_800),
        ("1 Mar 2023 00:00:00", 1_677_628_800), ("31 Dec 1999 23:59:59", 946_684_799),
        ("1 Jan 00 00:00:00", 946_684_800),
        ("1 Jan 1601 00:00:00", -11_644_473_600), ("31 Dec 9999 23:59:59", 253_402_300_799),
        ("1 Jan 99 00:00:00", 915_148_800), ("19 Jan 2038 03:14:08", 2_147_483_648),
    ])
    func daysAreThoseOfTheCalendar(text: String, seconds: TimeInterval) {
        #expect(CookieDate.parse(text[...]) == Date(timeIntervalSince1970: seconds))
    }

    @Test(arguments: [
        "", " ", "garbage", "06 Nov 1994", "Nov 1994 08:49:37", "06 1994 08:49:37", "06 Nov 08:49:37",
        "0 Nov 1994 08:49:37", "32 Jan 1994 08:49:37", "31 Nov 1994 08:49:37", "29 Feb 2023 00:00:00",
        "29 Feb 1900 00:00:00", "30 Feb 2024 00:00:00", "06 Nov 1600 08:49:37", "06 Nov 100 08:49:37",
        "06 Nov 1994 24:00:00", "06 Nov 1994 08:60:00", "06 Nov 1994 08:49:60", "06 Nov 1994 99:99:99 08:49:37",
        "006 Nov 1994 08:49:37", "06 Nov 19945 08:49:37", "06 No 1994 08:49:37", "06 Nov 1994 008:49:37",
        "06 Nov 1994 08:49", "06 Nov 1994 08:49:", "06 Nov 1994 ::", "06 Nov 1994 08:49:037", "06 Nov 1994 8x:49:37",
        "99999999999999999999 Nov 1994 08:49:37", "06 Nov -1994 08:49", "06 ñov 1994 08:49:37", "06 Nov １９９４ 08:49:37",
    ])
    func anInvalidDateIsRefused(text: String) {
        #expect(CookieDate.parse(text[...]) == nil)
    }
}

@Suite struct CookieDomainTests {
    @Test(arguments: [
        "http://evil.com%2F.example.com/", "http://evil.com%00.example.com/", "http://a%20b.example.com/",
    ])
    func escapedSignsOfAHostStayEscaped(url: String) throws {
        // Some versions of Foundation reject such a URL.
        guard let parsed = URL(string: url), let host = CookieDomain.host(of: parsed) else { return }
        #expect(host.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } && !host.contains("/"))
    }

    @Test(arguments: ["file:///etc/passwd", "http:///x", "ftp://example.com/", "x", "data:,x", "http:"])
    func onlyHTTPWithAHostHasCookies(url: String) throws {
        #expect(CookieOrigin(try #require(URL(string: url))) == nil)
    }

    @Test(arguments: [
        ("example.com", true), ("a.example.co.uk", true), ("com", false), ("localhost", false), ("co.uk", false),
        ("github.io", false), ("me.github.io", true), ("com.", false), ("example.com.", false), (".com", false),
        ("a..com", false), ("1.2.3.4", false), ("::1", false), ("", false), (".", false), ("example.co.jp", true),
        // Addresses are not names of hosts.
        ("127.1", false), ("0x7f000001", false), ("1.2.3.4.", false), ("a.0x", false), ("4.com", true),
        ("1.2.3.4x", true), ("a.0xg", true),
    ])
    func aDomainWithManyOwnersIsNotShared(domain: String, isShared: Bool) {
        #expect(CookieDomain.mayBeShared(domain) == isShared)
    }

    @Test(arguments: [
        ("example.com", "example.com"), ("a.b.example.com", "example.com"), ("a.b.example.co.uk", "example.co.uk"),
        ("co.uk", "co.uk"), ("com", "com"), ("1.2.3.4", "1.2.3.4"), ("a.me.github.io", "me.github.io"), ("::1", "::1"),
        ("github.io", "github.io"),
    ])
    func theSiteIsTheRegistrableDomain(host: String, site: String) {
        #expect(PublicSuffixes.site(of: host) == site)
    }

    @Test func theTableHasSuffixesOfTwoLabelsInLowerCaseOnly() {
        #expect(PublicSuffixes.table.count > 200)
        for suffix in PublicSuffixes.table {
            #expect(suffix.split(separator: ".", omittingEmptySubsequences: false).count == 2, "\(suffix)")
            #expect(suffix.utf8.allSatisfy { $0.isASCIILetter || ".-2".utf8.contains($0) })
        }
    }

    /// A name cannot have 300 labels.
    ///
    /// Such a host has no parent domains and needs one look-up.
    @Test func aHostOf300LabelsIsOneDomain() throws {
        let host = String(repeating: "a.", count: 300) + "example.com"
        let longest = String(repeating: "a.", count: 121) + "example.com"
        #expect(longest.utf8.count == 253)
        let fixture = CookieFixture()
        try fixture.receive("own=1", "shared=1; Domain=example.com", from: "https://\(host)/")
        try fixture.receive("above=1; Domain=example.com")
        #expect(try fixture.field("https://\(host)/") == "own=1")
        #expect(try fixture.field("https://\(longest)/") == "above=1")
    }
}
