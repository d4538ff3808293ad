import Foundation
import Testing

@testable import Convoy

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

    /// Parsing of any text ends, and results in no more links than there are brackets.
    @Test func mutatedFieldsAreReadToTheirEnd() {
        var random = SeededGenerator(seed: 8288)
        let pieces = ["<", ">", ";", ",", "\"", "\\", "=", " ", "rel", "next", "/a", "*", "\u{0}", "é"]
        for _ in 0..<2_000 {
            let text = (0..<Int.random(in: 0..<40, using: &random))
                .map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
            #expect(Self.links(text).count <= text.count(where: { $0 == "<" }))
        }
    }
}
