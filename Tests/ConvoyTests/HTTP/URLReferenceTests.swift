import Foundation
import Testing

@testable import Convoy

@Suite struct URLReferenceTests {
    private func resolve(_ reference: String, _ base: String = "http://a/b/c/d;p?q") -> String {
        URLReference(reference).resolved(against: URLReference(base)).text
    }

    /// A user name and password end at the last at sign of the first part, even if that part is not a valid authority.
    @Test(arguments: [
        ("https://ada:pw@example.com/x", "https://example.com/x"), ("ada:pw@example.com/x", "example.com/x"),
        ("http:/ada:pw@h", "http:/h"), ("http:ada:pw@h", "http:h"), ("http:///ada:pw@h/@x", "http:///h/@x"),
        ("//ada@h/x", "//h/x"), (#"http:\\ada:pw@h"#, #"http:\\h"#), ("http://a@b@c?q=d@e", "http://c?q=d@e"),
        ("https://h/@scope/x", "https://h/@scope/x"), ("https://h?q=a@b", "https://h?q=a@b"),
        ("file:///tmp/a@b", "file:///tmp/a@b"), ("", ""), ("@", ""), ("https://h/x", "https://h/x"),
    ])
    func userNamesAndPasswordsAreCut(text: String, shown: String) {
        #expect(text.withoutUserInfo == shown)
        if let url = URL(string: text) { #expect(!url.redactedString.contains("pw")) }
        #expect(HeaderFields.Field(name: "Location", value: text).description == "Location: \(shown)")
    }

    /// JSON:API, Rails and PHP use brackets, which Foundation rejects in a URL that also has escapes.
    @Test(arguments: [
        ("http://h/?page[size]=10&q=a%20b", "http://h/?page%5Bsize%5D=10&q=a%20b"),
        ("http://h/?page[size]=10", "http://h/?page%5Bsize%5D=10"),
        ("http://[::1]:80/a[1]/%41?b[]=c#d[0]", "http://[::1]:80/a%5B1%5D/%41?b%5B%5D=c#d%5B0%5D"),
        ("/x?f[a]=%41 b", "/x?f%5Ba%5D=%41%20b"), ("http://h/100%?a[]", "http://h/100%25?a%5B%5D"),
    ])
    func bracketsAfterTheHostAreEncoded(text: String, url: String) {
        #expect(text.requestURL?.absoluteString == url)
    }

    /// The examples of RFC 3986, section 5.4.1.
    @Test(arguments: [
        ("g:h", "g:h"), ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"), ("//g", "http://g"), ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q#s"), ("g#s", "http://a/b/c/g#s"), ("g?y#s", "http://a/b/c/g?y#s"),
        (";x", "http://a/b/c/;x"), ("g;x", "http://a/b/c/g;x"), ("g;x?y#s", "http://a/b/c/g;x?y#s"),
        ("", "http://a/b/c/d;p?q"), (".", "http://a/b/c/"), ("./", "http://a/b/c/"), ("..", "http://a/b/"),
        ("../", "http://a/b/"), ("../g", "http://a/b/g"), ("../..", "http://a/"), ("../../", "http://a/"),
        ("../../g", "http://a/g"),
        // The examples of RFC 3986, section 5.4.2, with the strict result of the last one.
        ("../../../g", "http://a/g"), ("../../../../g", "http://a/g"), ("/./g", "http://a/g"), ("/../g", "http://a/g"),
        ("g.", "http://a/b/c/g."), (".g", "http://a/b/c/.g"), ("g..", "http://a/b/c/g.."), ("..g", "http://a/b/c/..g"),
        ("./../g", "http://a/b/g"), ("./g/.", "http://a/b/c/g/"), ("g/./h", "http://a/b/c/g/h"),
        ("g/../h", "http://a/b/c/h"), ("g;x=1/./y", "http://a/b/c/g;x=1/y"), ("g;x=1/../y", "http://a/b/c/y"),
        ("g?y/./x", "http://a/b/c/g?y/./x"), ("g?y/../x", "http://a/b/c/g?y/../x"), ("g#s/./x", "http://a/b/c/g#s/./x"),
        ("g#s/../x", "http://a/b/c/g#s/../x"), ("http:g", "http:g"), ("http://x/a/../b", "http://x/b"),
        ("http://x/a/./b/..", "http://x/a/"), ("//g/../h", "http://g/h"), ("//g/a/b/../../..", "http://g/"),
        ("http://x/..", "http://x/"), ("http://x/.", "http://x/"), ("http://x", "http://x"),
        ("http://x?q/../r", "http://x?q/../r"), ("/a//../b", "http://a/a/b"), ("/a///b", "http://a/a///b"),
        ("//..", "http://.."), ("/...", "http://a/..."), ("/%2e%2e/g", "http://a/%2e%2e/g"),
    ])
    func referencesAreResolvedAsTheRFCSays(reference: String, expected: String) {
        #expect(resolve(reference) == expected)
    }

    @Test(arguments: [
        ("g", "http://a", "http://a/g"), ("?y", "http://a", "http://a?y"), ("../g", "http://a", "http://a/g"),
        ("g", "http://u:p@a:1/b/", "http://u:p@a:1/b/g"), ("//g", "https://a/b", "https://g"),
        ("", "http://a/b?q#f", "http://a/b?q"), ("?", "http://a/b?q", "http://a/b?"),
        ("#", "http://a/b?q", "http://a/b?q#"),
        ("a:b", "http://a/", "a:b"), ("1a:b", "http://a/", "http://a/1a:b"), (":b", "http://a/", "http://a/:b"),
    ])
    func basesOfEveryShapeAreResolvedAgainst(reference: String, base: String, expected: String) {
        #expect(resolve(reference, base) == expected)
    }

    @Test(arguments: [
        ("http://u:p@h:1/a", "http://h:1/a"), ("//u@h", "//h"), ("http://u%40x@h/a@b", "http://h/a@b"),
        ("http://a@b@h/", "http://h/"), ("http://h/u@h", "http://h/u@h"), ("u@h", "u@h"), ("http://@h/", "http://h/"),
    ])
    func userInfoIsRemovedOnlyFromTheAuthority(given: String, expected: String) {
        var reference = URLReference(given)
        reference.dropUserInfo()
        #expect(reference.text == expected)
    }

    @Test func longPathsAreResolvedInLinearTime() {
        let path = String(repeating: "a/../", count: 100_000)
        #expect(resolve("/" + path + "b") == "http://a/b")
        #expect(resolve("/" + String(repeating: "../", count: 100_000)) == "http://a/")
    }
}

/// Compares the scheme, host and port that are parsed from a URL's bytes with those of Foundation.
@Suite struct OriginTests {
    @Test(arguments: [
        "http://example.com", "http://example.com/", "http://example.com/a:1?b@c#d", "http://example.com?q",
        "http://e#f", "http://example.com:80/", "http://example.com:8080", "http://example.com:443/a",
        "https://example.com:443", "https://example.com:65535/", "https://127.0.0.1:18481/1k",
        "http://a-b.c-d.example./", "http://example.com:0/", "http://example.com:080/", "http://example.com:65536/",
        "http://example.com:99999/", "http://example.com:123456/", "http://example.com:/", "http://[::1]:8080/a",
        "http://user:secret@example.com/", "http://user@example.com:81/", "http://exa%20mple.com/",
        "http://exa%2Fmple.com/", "http://", "http:///a", "http:a", "http://ex_ample.com/",
    ])
    func bytesAndFoundationAgree(text: String) throws {
        let url = try #require(URL(string: text))
        // For a scheme in upper case, the library calls Foundation.
        let other = try #require(URL(string: "HT" + text.dropFirst(2)))
        switch (url.origin, other.origin) {
        case (.success(let mine), .success(let its)): #expect(mine == its)
        case (.failure, .failure): break
        default: Issue.record("\(url.origin) is not \(other.origin)")
        }
    }
}

@Suite struct WebLinkTests {
    private static func links(_ values: String...) -> [String] {
        var fields = HeaderFields()
        for value in values { fields.add("Link", value) }
        return fields.links.map { "\($0.reference) \($0.relations.joined(separator: "+"))" }
    }

    @Test(arguments: [
        ("<https://a/b?x=1,2>; rel=\"next\"", ["https://a/b?x=1,2 next"]),
        ("</a>; rel=next, </b>; rel=\"prev last\"", ["/a next", "/b prev+last"]),
        ("</a>;REL = NEXT ; title=\"a, b; c\\\"d\"; rel=prev,</b>;rel=x", ["/a next", "/b x"]),
        ("<>; rel=self", [" self"]), ("</a>", ["/a "]), ("< /a >;rel=\"\"", ["/a "]),
        ("</a>; title*=UTF-8''x; rel=next", ["/a next"]), ("</a>;;; rel=next", ["/a next"]),
        ("nonsense, \"a,<b>\", </c>; rel=next", ["/c next"]), ("</a", []), ("</a>; rel=\"next", ["/a "]), ("", []),
        (",,, ,", []), ("</a> junk; rel=next, </b>; rel=next", ["/a ", "/b next"]),
    ])
    func aFieldIsReadAsTheStandardSays(value: String, links: [String]) {
        #expect(Self.links(value) == links)
    }

    @Test func fieldsOfOneNameAreOneList() {
        #expect(Self.links("</a>; rel=prev", "</b>; rel=next") == ["/a prev", "/b next"])
    }

    @Test func aLinkIsResolvedAgainstTheURLThatAnswered() {
        func next(_ value: String, at url: String? = "https://host/a/b?c") -> String? {
            ResponseHead(statusCode: 200, headerFields: ["Link": value], url: url.flatMap { URL(string: $0) })
                .link("Next")?.absoluteString
        }
        #expect(next("<d>; rel=next") == "https://host/a/d")
        #expect(next("<?c=2>; rel=\"other next\"") == "https://host/a/b?c=2")
        #expect(next("<//other/x y>; rel=next") == "https://other/x%20y")
        #expect(next("</1>; rel=next; anchor=\"/elsewhere\", </2>; rel=next, </3>; rel=next") == "https://host/2")
        #expect(next("</a>; rel=prev") == nil)
        #expect(next("</\(String(repeating: "a", count: 20_000))>; rel=next") == nil)
        #expect(next("<https://x/y>; rel=next", at: nil) == "https://x/y")
    }
}
