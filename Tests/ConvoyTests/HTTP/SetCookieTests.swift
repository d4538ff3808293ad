import Foundation
import Testing

@testable import Convoy

@Suite struct SetCookieTests {
    private func parse(_ text: String) -> SetCookie? {
        SetCookie(text[...], limits: CookieJar.Limits(), now: CookieFixture.start)
    }

    @Test(arguments: [
        ("a=b", "a", "b"), (" a \t=\t b ", "a", "b"), ("a=b=c==", "a", "b=c=="), ("a=", "a", ""),
        ("a =b c; x", "a", "b c"),
        ("=b", "", "b"), ("b", "", "b"), (" b ", "", "b"), ("==b", "", "=b"), (#"a="b; c"; Path=/"#, "a", #""b"#),
        (#"a="b""#, "a", #""b""#), ("a=b,c", "a", "b,c"), ("a=b\tc", "a", "b\tc"), ("é=ü%20", "é", "ü%20"),
        ("a[0]=1", "a[0]", "1"), ("a=\u{0600} ", "a", "\u{0600}"), ("a=\u{301};\u{301}=x", "a", "\u{301}"),
        ("a=\u{a0}b\u{a0}", "a", "\u{a0}b\u{a0}"),
    ])
    func theFirstEqualsSignSeparatesNameAndValue(text: String, name: String, value: String) throws {
        let cookie = try #require(parse(text))
        #expect(cookie.name.utf8.elementsEqual(name.utf8))
        #expect(cookie.value.utf8.elementsEqual(value.utf8))
    }

    @Test(arguments: ["", "=", " = ", ";", "; Path=/", "=; Secure", "\t"])
    func aFieldWithoutNameAndValueIsNotACookie(text: String) {
        #expect(parse(text) == nil)
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
    }

    @Test func attributesOfMoreThan1024BytesArePassedOver() {
        let long = "/" + String(repeating: "x", count: 1_024)
        #expect(parse("a=b; Path=\(long.dropLast())")?.path?.utf8.count == 1_024)
        #expect(parse("a=b; Path=/short; Path=\(long)")?.path == "/short")
        #expect(parse("a=b; Path=\(long)")?.path == nil)
        #expect(parse("a=b; Domain=\(long)")?.domain == "")
    }

    @Test(arguments: [
        ("1", 1), ("0060", 60), ("34560000", 34_560_000), ("34560001", 34_560_000),
        ("99999999999999999999999999999999999999999999", 34_560_000),
        (String(repeating: "9", count: 1_024), 34_560_000),
    ])
    func maxAgeIsCappedAt400Days(text: String, seconds: TimeInterval) {
        #expect(parse("a=b; Max-Age=\(text)")?.expires == CookieFixture.start + seconds)
    }

    @Test(arguments: ["0", "-1", "-0", "000", "-99999999999999999999999999"])
    func maxAgeOfZeroOrLessIsThePast(text: String) {
        #expect(parse("a=b; Max-Age=\(text); Expires=Fri, 01 Jan 2100 00:00:00 GMT")?.expires == .distantPast)
    }

    @Test(arguments: ["", "-", "+1", "1.5", "1e3", "x", "--1", "0x10", "1 0", "１"])
    func anInvalidMaxAgeDoesNotReplaceExpires(text: String) {
        let cookie = parse("a=b; Expires=Tue, 14 Nov 2023 23:00:00 GMT; Max-Age=\(text)")
        #expect(cookie?.expires == Date(timeIntervalSince1970: 1_700_002_800))
        #expect(parse("a=b; Max-Age=\(text)")?.expires == nil)
    }

    @Test func maxAgeCountsBeforeExpiresWhicheverComesFirst() {
        let past = "Expires=Thu, 01 Jan 1970 00:00:00 GMT"
        #expect(parse("a=b; \(past); Max-Age=9")?.expires == CookieFixture.start + 9)
        #expect(parse("a=b; Max-Age=9; \(past)")?.expires == CookieFixture.start + 9)
        #expect(parse("a=b; \(past); Expires=nonsense")?.expires == Date(timeIntervalSince1970: 0))
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
