import Foundation
import Testing

@testable import Convoy

@Suite struct CookieDomainTests {
    @Test(arguments: [
        ("https://Example.COM:8443/x", "example.com"), ("http://[::1]:8080/", "::1"), ("http://1.2.3.4/", "1.2.3.4"),
        ("http://bücher.example/", "xn--bcher-kva.example"), ("http://EX%41mple.com/", "example.com"),
        ("http://user:pw@h.com/", "h.com"), ("http://h.com./", "h.com."),
    ])
    func theHostOfAURLIsInLowerCaseAndASCII(url: String, host: String) throws {
        #expect(CookieDomain.host(of: try #require(URL(string: url))) == host)
    }

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
        ("example.com", "example.com", true), ("a.example.com", "example.com", true),
        ("a.b.example.com", "example.com", true), ("badexample.com", "example.com", false),
        ("example.com", "a.example.com", false), ("example.com", "xample.com", false),
        ("a.example.com", ".example.com", false),
        ("1.2.3.4", "1.2.3.4", true), ("1.2.3.4", "3.4", false), ("::1", "1", false),
        ("fe80::1%25.a.com", "a.com", false),
        ("example.com.", "example.com", false), ("0x7f.1.0x1", "1.0x1", false), ("example.org", "example.com", false),
    ])
    func aHostMatchesItselfAndTheDomainsAboveIt(host: String, domain: String, isMatch: Bool) {
        #expect(CookieDomain.matches(host, domain) == isMatch)
    }

    @Test(arguments: [
        ("localhost", true), ("a.b", true), ("1.2.3.4", false), ("127.1", false), ("0x7f000001", false), ("::1", false),
        ("1.2.3.4.", false), ("4.com", true), ("1.2.3.4x", true), ("", false), (".", false), ("a.0x", false),
        ("a.0xg", true),
    ])
    func addressesAreNotHostNames(host: String, isName: Bool) {
        #expect(CookieDomain.isHostName(host) == isName)
    }

    @Test(arguments: [
        ("example.com", true), ("a.example.co.uk", true), ("com", false), ("localhost", false), ("co.uk", false),
        ("github.io", false), ("me.github.io", true), ("com.", false), ("example.com.", false), (".com", false),
        ("a..com", false), ("1.2.3.4", false), ("::1", false), ("", false), (".", false), ("example.co.jp", true),
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

    @Test func onlyTheDomainsOfTheSiteAreLookedUp() {
        #expect(CookieDomain.domains(of: "a.b.example.com") == ["a.b.example.com", "b.example.com", "example.com"])
        #expect(CookieDomain.domains(of: "example.co.uk") == ["example.co.uk"])
        #expect(CookieDomain.domains(of: "1.2.3.4") == ["1.2.3.4"])
        #expect(CookieDomain.domains(of: "a.1.2.3.4") == ["a.1.2.3.4"])
    }

    /// A name cannot have 300 labels.
    ///
    /// Such a host has no parent domains and needs one look-up.
    @Test func aHostOf300LabelsIsOneDomain() throws {
        let host = String(repeating: "a.", count: 300) + "example.com"
        #expect(CookieDomain.domains(of: host) == [host])
        #expect(!CookieDomain.matches(host, "example.com"))
        let longest = String(repeating: "a.", count: 121) + "example.com"
        #expect(longest.utf8.count == 253)
        #expect(CookieDomain.domains(of: longest).count == 122)
        let fixture = CookieFixture()
        try fixture.receive("own=1", "shared=1; Domain=example.com", from: "https://\(host)/")
        try fixture.receive("above=1; Domain=example.com")
        #expect(try fixture.field("https://\(host)/") == "own=1")
        #expect(try fixture.field("https://\(longest)/") == "above=1")
    }

    @Test(arguments: [
        ("", "/"), ("/", "/"), ("/a", "/"), ("/a/", "/a"), ("/a/b", "/a"), ("/a/b/", "/a/b"), ("a/b", "/"), ("//", "/"),
        ("/a%2Fb/c", "/a%2Fb"),
    ])
    func theDefaultPathEndsBeforeTheLastSlash(path: String, expected: String) {
        #expect(CookiePath.standard(for: path) == expected)
    }

    @Test(arguments: [
        ("/", "/", true), ("/a", "/", true), ("/a", "/a", true), ("/a/b", "/a", true), ("/a/b", "/a/", true),
        ("/ab", "/a", false), ("/", "/a", false), ("/a", "/a/", false), ("/A", "/a", false), ("/a/b/c", "/a/b", true),
        ("/e\u{301}/x", "/e", false), ("/e\u{301}", "/\u{e9}", false),
    ])
    func aPathMatchesItselfAndThoseAboveIt(path: String, cookiePath: String, isMatch: Bool) {
        #expect(CookiePath.matches(path, cookiePath) == isMatch)
    }
}
