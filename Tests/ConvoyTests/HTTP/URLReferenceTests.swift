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

    @Test func partsMakeTheTextAgainWhateverItIs() {
        var generator = SeededGenerator(seed: 1)
        for _ in 0..<LongRuns.count(4_000, long: 20_000) {
            let text = String(
                (0..<Int.random(in: 0...12, using: &generator)).compactMap { _ in
                    "ab:/?#.@[]%1é".randomElement(using: &generator)
                })
            #expect(URLReference(text).text == text)
        }
    }

    @Test func longPathsAreResolvedInLinearTime() {
        let path = String(repeating: "a/../", count: 100_000)
        #expect(resolve("/" + path + "b") == "http://a/b")
        #expect(resolve("/" + String(repeating: "../", count: 100_000)) == "http://a/")
    }
}
