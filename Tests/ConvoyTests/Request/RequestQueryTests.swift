import Foundation
import Testing

@testable import Convoy

/// Tests parameters in the query, for every method and output, and the query of a base URL.
@Suite struct RequestQueryTests {
    private struct Page: Encodable { let page: Int }

    private func sent<Output>(_ request: Request<Output>, base: String? = nil) throws -> String {
        let prepared = try PreparedRequest(request.core, baseURL: base.flatMap { URL(string: $0) })
        return "\(prepared.method) \(prepared.url.absoluteString)"
    }

    @Test func everyMethodAndOutputTakesParameters() throws {
        let url = "http://example.com/a"
        #expect(try sent(Request<Data>.get(url, query: Page(page: 2))) == "GET \(url)?page=2")
        #expect(try sent(Request<Void>.get(url, query: Page(page: 2))) == "GET \(url)?page=2")
        #expect(try sent(Request<Void>.delete(url, query: ["id": 5])) == "DELETE \(url)?id=5")
        #expect(try sent(Request<String>.delete(url, query: Page(page: 2))) == "DELETE \(url)?page=2")
        #expect(try sent(Request<Void>.head(url, query: Page(page: 2))) == "HEAD \(url)?page=2")
        #expect(try sent(Request<Data>.post(url, query: ["q": "a b"])) == "POST \(url)?q=a%20b")
        #expect(try sent(Request<String>.put(url, query: Page(page: 2))) == "PUT \(url)?page=2")
        #expect(try sent(Request<Void>.put(url, query: Page(page: 2))) == "PUT \(url)?page=2")
    }

    @Test func anItemMayBeANumber() throws {
        let none: Int? = nil
        let request = Request<Data>.get("http://example.com/a").query("id", 5).query("x", 1.5).query("on", true)
            .query("s", "t").query("n", nil).query("i", none)
        #expect(try sent(request) == "GET http://example.com/a?id=5&x=1.5&on=true&s=t&n&i")
    }

    @Test(arguments: [
        ("b", "http://example.com/v1/b?key=k"), ("b?x=1", "http://example.com/v1/b?key=k&x=1"),
        ("?x=1", "http://example.com/v1/?key=k&x=1"),
        ("/b#f", "http://example.com/b?key=k#f"), ("http://example.com/c", "http://example.com/c"),
        ("//other.example/c", "http://other.example/c"),
    ])
    func aBaseURLKeepsItsQuery(relative: String, whole: String) throws {
        #expect(try sent(Request<Data>.get(relative), base: "http://example.com/v1?key=k") == "GET \(whole)")
        #expect(
            try sent(Request<Data>.get("b").query("y", 2), base: "http://example.com/v1?key=k")
                == "GET http://example.com/v1/b?key=k&y=2")
    }
}
