import Convoy
import Foundation
import Testing

/// Tests which cookies a jar accepts from a host, and which hosts receive them: RFC 6265bis, section 5.7.
@Suite struct CookieAdmissionTests {
    private let fixture = CookieFixture()

    private static let hosts = [
        "example.com", "a.example.com", "b.a.example.com", "other.com", "badexample.com", "com", "co.uk", "x.co.uk",
        "me.github.io", "you.github.io", "github.io", "localhost", "127.0.0.1", "0.1", "[::1]", "example.com.",
        "a.example.com.",
    ]

    /// An attribute of a cookie, the host that sends the cookie, and the hosts that later receive it.
    @Test(
        arguments: [
            ("", "example.com", "example.com"), ("", "a.example.com", "a.example.com"),
            ("Domain=example.com", "example.com", "example.com a.example.com b.a.example.com"),
            ("Domain=.EXAMPLE.com", "A.example.COM", "example.com a.example.com b.a.example.com"),
            ("Domain=a.example.com", "a.example.com", "a.example.com b.a.example.com"),
            ("Domain=", "a.example.com", "a.example.com"), ("Domain=.", "a.example.com", "a.example.com"),
            ("Domain=a.example.com", "example.com", ""), ("Domain=other.com", "example.com", ""),
            ("Domain=example.com", "badexample.com", ""), ("Domain=xample.com", "example.com", ""),
            ("Domain=..example.com", "a.example.com", ""), ("Domain=example.com.", "example.com", ""),
            ("Domain=example.com", "example.com.", ""), ("Domain=com.", "example.com.", ""),
            ("Domain=example.com.", "example.com.", "example.com."), ("Domain=com", "example.com", ""),
            ("Domain=.com", "example.com", ""), ("Domain=com", "com", "com"), ("Domain=co.uk", "x.co.uk", ""),
            ("Domain=co.uk", "co.uk", "co.uk"), ("Domain=github.io", "me.github.io", ""),
            ("Domain=github.io", "github.io", "github.io"), ("Domain=me.github.io", "me.github.io", "me.github.io"),
            ("Domain=localhost", "localhost", "localhost"), ("Domain=127.0.0.1", "127.0.0.1", "127.0.0.1"),
            ("Domain=0.1", "127.0.0.1", ""), ("Domain=.0.0.1", "127.0.0.1", ""), ("Domain=1.0x1", "0x7f.1.0x1", ""),
            ("", "[::1]", "[::1]"), ("Domain=::1", "[::1]", "[::1]"), ("Domain=exämple.com", "example.com", ""),
            ("Domain=example.\u{212A}om", "example.kom", ""), ("Domain=example.com:443", "example.com", ""),
            ("Domain=https://example.com", "example.com", ""),
        ] as [(String, String, String)])
    func aCookieGoesToItsHostOrDomainOnly(attribute: String, host: String, receivers: String) throws {
        try fixture.receive("a=1; Path=/; \(attribute)", from: "https://\(host)/")
        let receiving = try Self.hosts.filter { try fixture.field("https://\($0)/") == "a=1" }
        #expect(receiving.joined(separator: " ") == receivers)
        #expect(fixture.jar.cookies.isEmpty == receivers.isEmpty)
    }

    @Test func internationalHostsAreKnownByTheirPunycode() throws {
        try fixture.receive("a=1; Domain=xn--bcher-kva.example", from: "https://www.bücher.example/")
        #expect(try fixture.field("https://bücher.example/") == "a=1")
        #expect(try fixture.field("https://user:pw@XN--bcher-kva.Example:81/") == "a=1")
    }

    @Test func secureCookiesAreStoredAndSentOnlyOverHTTPS() throws {
        for host in ["example.com", "localhost", "127.0.0.1"] {
            try fixture.receive("a=1; Secure", from: "http://\(host)/")
            #expect(fixture.jar.cookies.isEmpty)
        }
        try fixture.receive("a=1; Secure", "b=2", from: "HTTPS://example.com/")
        #expect(try fixture.field("https://example.com/") == "a=1; b=2")
        #expect(try fixture.field("http://example.com/") == "b=2")
        #expect(try fixture.field("ftp://example.com/") == "")
    }

    @Test(arguments: [
        ("a=1; SameSite=None", "https", false), ("a=1; SameSite=none; Secure", "https", true),
        ("a=1; SameSite=None", "http", false), ("a=1; SameSite=Strict", "http", true),
        ("a=1; SameSite=odd", "http", true),
    ])
    func sameSiteNoneHasToBeSecure(text: String, scheme: String, isTaken: Bool) throws {
        try fixture.receive(text, from: "\(scheme)://example.com/")
        #expect(fixture.jar.cookies.isEmpty == !isTaken)
    }

    @Test(
        arguments: [
            ("Secure-x=1; Secure", true), ("Secure-x=1", false), ("Secure-x=1; Domain=example.com", false),
            ("Secure-x=1; Domain=example.com; Secure", true), ("Host-x=1; Secure; Path=/", true),
            ("Host-x=1; Secure; Path=", true), ("Host-x=1; Secure", false), ("Host-x=1; Path=/", false),
            ("Host-x=1; Secure; Path=/x", false), ("Host-x=1; Secure; Path=/; Domain=example.com", false),
            ("Host-x=1; Secure; Path=/; Domain=", true), ("Host-=; Secure; Path=/", true),
        ], [["__Secure", "__Host"], ["__SECURE", "__HOST"], ["__sEcUrE", "__hOsT"]])
    func aPrefixIsAPromiseInAnyCase(example: (text: String, isTaken: Bool), spellings: [String]) throws {
        let text =
            example.text.hasPrefix("Host")
            ? spellings[1] + example.text.dropFirst(4) : spellings[0] + example.text.dropFirst(6)
        try fixture.receive(text)
        #expect(fixture.jar.cookies.isEmpty != example.isTaken, "\(text)")
        // The jar rejects a cookie without a name, because a server would read its value as a name.
        try fixture.receive("=" + text)
        #expect(!fixture.names.contains(""))
        try fixture.receive("_" + text)
        #expect(fixture.names.contains { $0.hasPrefix("___") })
    }

    /// A cookie over http, and whether the jar accepts it beside a Secure cookie of `login.example.com` with the path
    /// `/login`.
    @Test(arguments: [
        ("a=evil; Path=/login", "http://login.example.com/", false),
        ("a=evil; Path=/login/en", "http://login.example.com/", false),
        ("a=evil; Path=/", "http://login.example.com/", true), ("a=evil; Path=/foo", "http://login.example.com/", true),
        ("a=evil; Path=/login; Domain=example.com", "http://www.example.com/", false),
        ("a=evil; Path=/login", "http://sub.login.example.com/", false),
        ("a=evil; Path=/login", "http://example.com/", false), ("a=evil; Path=/login", "http://www.example.com/", true),
        ("b=evil; Path=/login", "http://login.example.com/", true),
        ("A=evil; Path=/login", "http://login.example.com/", true),
        ("a=; Max-Age=0; Path=/login", "http://login.example.com/", false),
        ("a=new; Path=/login", "https://login.example.com/", true),
    ])
    func aSecureCookieIsNotOverlaidFromHTTP(text: String, url: String, isTaken: Bool) throws {
        try fixture.receive("a=good; Secure; Path=/login", from: "https://login.example.com/")
        let before = fixture.jar.cookies
        try fixture.receive(text, from: url)
        #expect((fixture.jar.cookies != before) == isTaken)
    }

    @Test func aSecureCookieThatHasExpiredProtectsNothing() throws {
        try fixture.receive("a=good; Secure; Max-Age=10")
        fixture.advance(by: 10)
        try fixture.receive("a=new", from: "http://example.com/")
        #expect(try fixture.field() == "a=new")
    }

    @Test func pathsDecideBelowWhichACookieIsSent() throws {
        try fixture.receive(
            "default=1", "root=1; Path=/", "shop=1; Path=/shop/", "odd=1; Path=shop", "e=1; Path=/e",
            from: "https://example.com/a/b?c=/d/e")
        #expect(try fixture.field("https://example.com") == "root=1")
        #expect(try fixture.field("https://example.com/a") == "default=1; odd=1; root=1")
        #expect(try fixture.field("https://example.com/a/x?y") == "default=1; odd=1; root=1")
        for path in ["/ab", "/A", "/e\u{301}"] { #expect(try fixture.field("https://example.com\(path)") == "root=1") }
        #expect(try fixture.field("https://example.com/shop/x") == "shop=1; root=1")
        #expect(try fixture.field("https://example.com/shop") == "root=1")
    }

    @Test func aDefaultPathThatIsTooLongIsRefusedAndNotShortened() throws {
        try fixture.receive(
            "a=1", "b=1; Path=/", from: "https://example.com/" + String(repeating: "x", count: 1_100) + "/y")
        #expect(fixture.names == ["b"])
    }
}
