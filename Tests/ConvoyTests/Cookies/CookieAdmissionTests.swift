import Foundation
import Testing

@testable import Convoy

/// Tests which cookies a jar accepts from a host, and which hosts receive them: RFC 6265bis, section 5.7.
@Suite struct CookieAdmissionTests {
    private let fixture = CookieFixture()

    /// An attribute of a cookie, the host that sends the cookie, and the hosts that later receive it.
    struct DomainCase: Sendable {
        let attribute: String
        let host: String
        let receivers: [String]

        init(_ attribute: String, from host: String, goesTo receivers: String...) {
            (self.attribute, self.host, self.receivers) = (attribute, host, receivers)
        }

        static let asked = [
            "example.com", "a.example.com", "b.a.example.com", "other.com", "badexample.com", "com", "co.uk", "x.co.uk",
            "me.github.io", "you.github.io", "github.io", "localhost", "127.0.0.1", "0.1", "[::1]", "example.com.",
            "a.example.com.",
        ]
    }

    @Test(arguments: [
        DomainCase("", from: "example.com", goesTo: "example.com"),
        DomainCase("", from: "a.example.com", goesTo: "a.example.com"),
        DomainCase(
            "Domain=example.com", from: "example.com", goesTo: "example.com", "a.example.com", "b.a.example.com"),
        DomainCase(
            "Domain=.EXAMPLE.com", from: "A.example.COM", goesTo: "example.com", "a.example.com", "b.a.example.com"),
        DomainCase("Domain=a.example.com", from: "a.example.com", goesTo: "a.example.com", "b.a.example.com"),
        DomainCase("Domain=", from: "a.example.com", goesTo: "a.example.com"),
        DomainCase("Domain=.", from: "a.example.com", goesTo: "a.example.com"),
        DomainCase("Domain=a.example.com", from: "example.com"),
        DomainCase("Domain=other.com", from: "example.com"),
        DomainCase("Domain=example.com", from: "badexample.com"),
        DomainCase("Domain=xample.com", from: "example.com"),
        DomainCase("Domain=..example.com", from: "a.example.com"),
        DomainCase("Domain=example.com.", from: "example.com"),
        DomainCase("Domain=example.com", from: "example.com."),
        DomainCase("Domain=com.", from: "example.com."),
        DomainCase("Domain=example.com.", from: "example.com.", goesTo: "example.com."),
        DomainCase("Domain=com", from: "example.com"),
        DomainCase("Domain=.com", from: "example.com"),
        DomainCase("Domain=com", from: "com", goesTo: "com"),
        DomainCase("Domain=co.uk", from: "x.co.uk"),
        DomainCase("Domain=co.uk", from: "co.uk", goesTo: "co.uk"),
        DomainCase("Domain=github.io", from: "me.github.io"),
        DomainCase("Domain=github.io", from: "github.io", goesTo: "github.io"),
        DomainCase("Domain=me.github.io", from: "me.github.io", goesTo: "me.github.io"),
        DomainCase("Domain=localhost", from: "localhost", goesTo: "localhost"),
        DomainCase("Domain=127.0.0.1", from: "127.0.0.1", goesTo: "127.0.0.1"),
        DomainCase("Domain=0.1", from: "127.0.0.1"),
        DomainCase("Domain=.0.0.1", from: "127.0.0.1"),
        DomainCase("Domain=1.0x1", from: "0x7f.1.0x1"),
        DomainCase("", from: "[::1]", goesTo: "[::1]"),
        DomainCase("Domain=::1", from: "[::1]", goesTo: "[::1]"),
        DomainCase("Domain=exämple.com", from: "example.com"),
        DomainCase("Domain=example.\u{212A}om", from: "example.kom"),
        DomainCase("Domain=example.com:443", from: "example.com"),
        DomainCase("Domain=https://example.com", from: "example.com"),
    ])
    func aCookieGoesToItsHostOrDomainOnly(example: DomainCase) throws {
        try fixture.receive("a=1; Path=/; \(example.attribute)", from: "https://\(example.host)/")
        let receivers = try DomainCase.asked.filter { try fixture.field("https://\($0)/") == "a=1" }
        #expect(receivers == example.receivers)
        #expect(fixture.jar.cookies.isEmpty == example.receivers.isEmpty)
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

    @Test func portsDoNotCount() throws {
        try fixture.receive("a=1", from: "http://localhost:8080/")
        #expect(try fixture.field("http://localhost:9090/") == "a=1")
    }
}
