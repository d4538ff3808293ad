import Foundation
import Testing

@testable import Convoy

@Suite struct PreparedRequestTests {
    private func url(_ request: Request<Data>, base: String? = nil) throws -> String {
        try PreparedRequest(request.core, baseURL: base.flatMap { URL(string: $0) }).url.absoluteString
    }

    // MARK: Resolving (RFC 3986, section 5)

    @Test(
        arguments: [
            ("users/1", "http://stub/api/", "http://stub/api/users/1"),
            ("users/1", "http://stub/api", "http://stub/api/users/1"),
            ("./users/1", "http://stub/api?key=1#part", "http://stub/api/users/1?key=1"),
            ("users/1", "http://stub", "http://stub/users/1"),
            ("users/1", "http://stub/%C3%BC%2F", "http://stub/%C3%BC%2F/users/1"),
            ("/users", "http://stub/api", "http://stub/users"),
            ("../users", "http://stub/api/v1", "http://stub/api/users"),
            ("/users", "http://stub/api/", "http://stub/users"), ("../b", "http://stub/a/c/", "http://stub/a/b"),
            ("?q=1", "http://stub/a/b", "http://stub/a/b/?q=1"), ("//other/b", "http://stub/a", "http://other/b"),
            // An empty reference is the base itself (RFC 3986, section 5.2.2).
            ("", "http://stub/a/b", "http://stub/a/b"), ("", "http://stub/a/", "http://stub/a/"),
            ("", "http://stub", "http://stub"), ("", "http://stub/a?key=1#part", "http://stub/a?key=1"),
            ("http://other/b", "http://stub/a/", "http://other/b"), ("users:1", "http://stub/a/", nil),
            ("a", "ftp://stub/", nil), ("a", "stub/", nil),
        ] as [(String, String, String?)])
    func relativeURLIsResolvedAgainstTheBase(given: String, base: String, expected: String?) throws {
        if let expected {
            #expect(try url(.get(given), base: base) == expected)
        } else {
            let error = #expect(throws: RequestError.self) { try url(.get(given), base: base) }
            #expect(error?.code == .invalidRequest)
        }
    }

    @Test func queryItemsFollowTheQueryOfTheBaseItself() throws {
        #expect(try url(.get("").query("a", "b"), base: "http://stub/a?key=1") == "http://stub/a?key=1&a=b")
    }

    /// A first segment with a colon is read as a scheme (RFC 3986, section 4.2).
    @Test(arguments: [
        ("documents:commit", "./documents:commit"), ("users:1/keys", "./users:1/keys"), ("a:b?c=d", "./a:b?c=d"),
        ("ftp://stub/x", nil), ("file:/x", nil),
    ])
    func aColonInTheFirstSegmentIsExplained(given: String, advice: String?) throws {
        let error = #expect(throws: RequestError.self) { try url(.get(given), base: "http://stub/v1") }
        #expect(error?.code == .invalidRequest)
        #expect(error?.message.contains("write ./") == (advice != nil))
        guard let advice else { return }
        #expect(error?.message.contains("write \(advice)") == true)
        #expect(try url(.get(advice), base: "http://stub/v1") == "http://stub/v1/\(given)")
    }

    @Test(arguments: ["users/1", "/users", "?q=1", "//stub/b", ""])
    func relativeURLWithoutABaseIsRefused(given: String) {
        #expect(Request<Data>.get(given).defect == nil)
        let error = #expect(throws: RequestError.self) { try url(.get(given)) }
        #expect(error?.code == .invalidRequest)
        #expect(error?.message.contains("nothing was sent") == true)
    }

    @Test func managerResolvesAgainstItsBase() async throws {
        let server = StubServer()
        let manager = RequestManager(
            configuration: .init(baseURL: URL(string: "http://stub/api"), transport: .custom(server.transport)))
        let response = try await manager.send(Request<String>.get("users/1").query("a", "b"))
        #expect(response.request.url.absoluteString == "http://stub/api/users/1?a=b")
        let base = try await manager.send(Request<String>.get(""))
        #expect(base.request.url.absoluteString == "http://stub/api")
        let error = try await Sending(Request<Data>.get("users/1"), over: server.transport).error()
        #expect(error.code == .invalidRequest)
        #expect(error.message.contains("no base URL"))
        #expect(server.exchanges.count == 2)
    }

    @Test(arguments: [
        ("http://stub/ü", "http://stub/%C3%BC"), ("http://stub/a b", "http://stub/a%20b"),
        ("http://stub/a?q=ä ö", "http://stub/a?q=%C3%A4%20%C3%B6"), ("http://stub/%C3%BC", "http://stub/%C3%BC"),
        ("http://stub/日本", "http://stub/%E6%97%A5%E6%9C%AC"),
        ("http://stub/\"<>\\^`{|}", "http://stub/%22%3C%3E%5C%5E%60%7B%7C%7D"),
        ("http://stub/a\r\nb", "http://stub/a%0D%0Ab"), ("http://stub/a%20b c", "http://stub/a%20b%20c"),
        ("http://stub/%41?q=ü", "http://stub/%41?q=%C3%BC"),
    ])
    func charactersThatAURLMayNotContainAreEncodedOnce(given: String, expected: String) throws {
        #expect(try url(.get(given)) == expected)
    }

    /// No raw byte of a non-ASCII host name may reach a request line.
    @Test func hostBeyondASCIIIsEncodedOrRefused() throws {
        let request = Request<Data>.get("http://bücher.example/")
        guard request.defect == nil else { return }
        #expect(try url(request).utf8.allSatisfy { (0x21...0x7E).contains($0) })
    }

    @Test(
        arguments: [
            ("q", "a", "q=a"), ("q", "", "q="), ("q", nil, "q"),
            ("q", "a+b", "q=a%2Bb"), ("q", "a&b", "q=a%26b"), ("q", "a=b", "q=a%3Db"), ("q", "a b", "q=a%20b"),
            ("q", "ü", "q=%C3%BC"), ("q", "100%", "q=100%25"), ("q", "%20", "q=%2520"), ("q", "#?/", "q=%23%3F%2F"),
            ("q", "a;b:c@d,e", "q=a%3Bb%3Ac%40d%2Ce"), ("q", "\r\n\0", "q=%0D%0A%00"), ("q", "-._~", "q=-._~"),
            ("a b&", "c", "a%20b%26=c"), ("ü", "1", "%C3%BC=1"), ("items[]", "1", "items%5B%5D=1"),
        ] as [(String, String?, String)])
    func queryItemIsPercentEncoded(name: String, value: String?, expected: String) throws {
        #expect(try url(.get("http://stub/p").query(name, value)) == "http://stub/p?\(expected)")
    }

    @Test(arguments: [
        ("http://stub/p", "http://stub/p?a=1&a=2&b"), ("http://stub", "http://stub?a=1&a=2&b"),
        ("http://stub/p?x=%20y+z", "http://stub/p?x=%20y+z&a=1&a=2&b"), ("http://stub/p?", "http://stub/p?a=1&a=2&b"),
        ("http://stub/p#f", "http://stub/p?a=1&a=2&b#f"), ("http://stub:81/p%2Fq", "http://stub:81/p%2Fq?a=1&a=2&b"),
        ("http://user@stub/p", "http://user@stub/p?a=1&a=2&b"),
    ])
    func queryItemsFollowThoseOfTheURL(given: String, expected: String) throws {
        let request = Request<Data>.get(given).query("a", "1").query([
            .init(name: "a", value: "2"), .init(name: "b", value: nil),
        ])
        #expect(try url(request) == expected)
    }

    @Test func describesItselfByMethodAndURL() throws {
        let core = Request<Data>.get("http://user:hunter2@stub:81/p?q=1").core
        #expect(try PreparedRequest(core, baseURL: nil).description == "GET http://stub:81/p?q=1")
    }

    @Test(arguments: [
        ("http://Stub/a", "http://stub:80"), ("HTTP://stub:80", "http://stub:80"),
        ("https://stub/", "https://stub:443"),
        ("http://stub:443/", "http://stub:443"), ("https://user:hunter2@stub:8443/", "https://stub:8443"),
    ])
    func hostKeyIsSchemeHostAndPort(url: String, key: String) throws {
        #expect(try PreparedRequest(Request<Data>.get(url).core, baseURL: nil).hostKey == key)
    }
}
