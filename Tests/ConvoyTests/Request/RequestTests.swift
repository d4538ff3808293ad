import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

@Suite struct RequestTests {
    private struct Item: Codable, Equatable, Sendable {
        var number: Double
    }

    private struct Refusal: Error {}

    private static let dates = ParameterEncoding(dateEncoding: .custom { _ in throw Refusal() })
    private static let query = "the query parameters could not be encoded: "
    private static let form = "the form could not be encoded: "
    private static let json = "the JSON body could not be encoded: "

    private static let defective: [(Request<Data>, String)] = [
        (.get("ftp://stub/"), "neither http nor https"),
        (.get("file:///etc/passwd"), "neither http nor https"),
        (.get("mailto:a@stub"), "neither http nor https"),
        (.get("localhost:8080/a"), "neither http nor https"),
        (.get("javascript:alert(1)"), "neither http nor https"),
        (.get("http:///path"), "has no host"),
        (.get("http:"), "has no host"),
        (.get("https://:80/"), "has no host"),
        (.get("http://stub:65536/"), "port"),
        (.get("http://stub:99999999999999999999/"), "port"),
        (.get("http://[::1/"), "is not a URL"),
        (.get("http://ho%7Fst/"), "an invalid host"),
        (.get("http://h%20o%2F/"), "an invalid host"),
        (.get("http://stub/").header("A", "b\r\nC: d"), "CR, LF or NUL"),
        (.get("http://stub/").header("A b", "c"), "is not a token"),
        (Request(method: "A B", url: "http://stub/"), "is not a token"),
        (.get("http://stub/").maxBodyBytes(-1), "limit is negative"),
        (.get("http://stub/").idleTimeout(.zero), "idle timeout"),
        (.get("http://stub/").idleTimeout(.seconds(-1)), "idle timeout"),
    ]

    private static let unencodable: [(Request<Data>, String)] = [
        (.get("http://stub/").query(["a", "b"]), "\(query)it has no key"),
        (.get("http://stub/").query("a"), "\(query)it has no key"),
        (.get("http://stub/").query(7), "\(query)it has no key"),
        (
            .get("http://stub/").query(["a": [:] as [String: Int]], encoding: .init(emptyEncoding: .refuse)),
            "\(query)a: it is empty"
        ),
        (.post("http://stub/").form([1, 2]), "\(form)it has no key"),
        (.post("http://stub/").form(["a": ["b": [Date()]]], encoding: dates), "\(form)a.b[0]: Refusal()"),
        (.post("http://stub/").json(Item(number: .infinity), encoder: JSONEncoder()), "\(json)number: "),
        (
            .post("http://stub/").json(["user": ["scores": [1, Double.nan]]], encoder: JSONEncoder()),
            "\(json)user.scores[1]: "
        ),
        (.post("http://stub/", json: ["a": Item(number: .infinity), "b": 1]), "\(json)a.number: "),
        // The request reports its first defect.
        (.post("http://stub/").form(1).json(Item(number: .infinity)).form(["a": 1]), form),
    ]

    @Test(arguments: defective + unencodable)
    func defectiveRequestIsNeverSent(request: Request<Data>, reason: String) async throws {
        let defect = try #require(request.defect)
        #expect(defect.contains(reason))

        let server = StubServer()
        let error = try await Sending(request, over: server.transport).error()
        #expect(error.code == .invalidRequest)
        #expect(error.message.contains("nothing was sent"))
        #expect(error.message.contains(defect))
        #expect(!error.isRetryable)
        #expect(error.description.isOneLine)
        #expect(server.exchanges.count == 0)
    }

    @Test func theFirstOfSeveralDefectsIsReported() throws {
        let url = try #require(URL(string: "http://stub/file"))
        let request = Request<Data>.post("http://stub/").json(Item(number: .infinity), encoder: JSONEncoder())
        #expect(request.body(fromFile: url).defect == request.defect)
        #expect(Request<Data>.post("http://stub/").body(fromFile: url).defect?.contains("file URL") == true)
    }

    @Test func savingToAURLThatIsNotAFileURLIsRefused() async throws {
        let server = StubServer()
        let target = try #require(URL(string: "http://user:hunter2@stub/target"))
        let error = try await Sending(.get("http://stub/").saved(to: target), over: server.transport).error()
        #expect(error.code == .invalidRequest)
        #expect(error.message.contains("is not a file URL"))
        #expect(!error.description.contains("hunter2"))
        #expect(server.exchanges.count == 0)
    }

    @Test(arguments: [
        "http://stub", "https://stub/", "HTTP://STUB/", "http://stub:0/", "http://stub:65535/", "http://[::1]/",
    ])
    func absoluteURLsWithAHostAreFine(url: String) {
        #expect(Request<Data>.get(url).defect == nil)
    }

    /// No message contains the credentials of the URL, whatever is wrong with the request.
    @Test(arguments: [
        "http://user:hunter2@stub/", "http://hunter2@stub/", "http://:hunter2@stub/", "ftp://user:hunter2@stub/",
        "http://user:hunter2@stub:65536/", "//user:hunter2@stub/", "http://user:hunter2@/", "http://user:hunter2@[::1/",
        "http://user:hunter2@stub:port/", "//user:hunter2@[::1/",
    ])
    func credentialsInAURLAreNeverShown(url: String) async throws {
        let server = StubServer { $0.finish(RequestError(.connectionLost, "it broke")) }
        let request = Request<Data>.get(url)
        #expect(request.defect?.contains("hunter2") != true)
        let sending = Sending(request, over: server.transport)
        let error = try await sending.error()
        #expect(!error.description.contains("hunter2"))
        #expect(!error.localizedDescription.contains("hunter2"))
        #expect(!sending.operation.description.contains("hunter2"))
        #expect(sending.operation.request.map { "\($0)".contains("hunter2") } != true)
        let manager = server.manager()
        manager.isSuspended = true
        let queued = manager.enqueue(request)
        #expect(!manager.why(queued).contains("hunter2"))
        queued.cancel()
    }

    /// If nothing defines the output of `.get(url)`, the output is the body.
    @Test func aCallThatNamesNoOutputGivesTheBody() async throws {
        let (server, item) = (StubServer(), Item(number: 1))
        let manager = server.manager()
        let sent = try await manager.send(.get("http://stub/a"))
        #expect(sent.value == Data("ok".utf8))
        #expect(try await manager.batch(["http://stub/a"].map { .get($0) }).results[0].get().value == sent.value)
        let deleted = try await manager.send(.delete("http://stub/a")).value
        let bare = try await [manager.send(.post("http://stub/a")).value, manager.send(.put("http://stub/a")).value]
        #expect([deleted] + bare == [sent.value, sent.value, sent.value])
        let written = try await manager.send(.patch("http://stub/a", json: item)).value
        #expect(written == sent.value)
        let posted = try await manager.send(.post("http://stub/a", json: item)).value
        let put = try await manager.send(.put("http://stub/a", json: ["n": item.number])).value
        #expect([posted, put] == [written, written])
        let link = manager.operation(after: manager.enqueue(.get("http://stub/a"))) { _ in .get("http://stub/b") }
        manager.enqueue(link)
        #expect(try await link.response().value == sent.value)
        // The type `Request<Void>` ignores the body.
        let nothing: Request<Void> = .post("http://stub/a", json: item)
        #expect(try await manager.send(nothing).value == ())
        #expect(try await manager.send(Request<Void>.get("http://stub/a")).value == ())
        let methods = server.exchanges.events.map(\.request.method)
        #expect(methods == [.get, .get, .delete, .post, .put, .patch, .post, .put, .get, .get, .post, .get])
        #expect(server.exchanges.events[5].request.headerFields["Content-Type"] == "application/json")
    }

    @Test func headersSetsSeveralFields() {
        let request = Request<Data>.get("http://stub/").header("x", "0").headers(["X": "1", "Y": "2"])
        #expect(request.headerFields.values(of: "X") == ["1"])
        #expect(request.headerFields["y"] == "2")
        #expect(request.headers(["Z": "a\r\nb"]).defect != nil)
    }

    @Test func bodySetsItsContentTypeUnlessNil() {
        let request = Request<Data>.post("http://stub/")
        #expect(request.body(Data()).headerFields["Content-Type"] == "application/octet-stream")
        #expect(request.body(Data(), contentType: "a/b").headerFields["Content-Type"] == "a/b")
        #expect(
            request.header("content-type", "c/d").body(Data(), contentType: nil).headerFields["Content-Type"] == "c/d")
    }

    @Test func modifiersReturnCopies() {
        let original = Request<Data>.get("http://stub/")
        let changed = original.tagged("a", "b").tagged("b", "c").named("n").priority(.high).header("X", "1")
        #expect(changed.tags == ["a", "b", "c"])
        #expect(changed.priority == .high)
        let operation = RequestOperation(changed)
        #expect(operation.name == "n" && operation.queuePriority == .high && operation.tags == changed.tags)
        #expect(operation.description == "n (not started)")
        #expect(original.tags.isEmpty)
        #expect(original.priority == .normal)
        #expect(original.headerFields.isEmpty)
    }
}

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

@Suite struct SharedOriginTests {
    /// Each URL follows one whose origin has the same length or the same beginning.
    @Test func theLastStringIsUsedOnlyForTheSameOrigin() throws {
        let origins = [
            ("http://stub.test:99/a", "http://stub.test:99"), ("http://stub.test/b", "http://stub.test:80"),
            ("http://stub.test:80/c", "http://stub.test:80"), ("http://stub.tests/d", "http://stub.tests:80"),
            ("https://stub.test/e", "https://stub.test:443"), ("http://stub.test/f", "http://stub.test:80"),
            ("http://stub.test:8/g", "http://stub.test:8"), ("http://stub.test:80/h", "http://stub.test:80"),
            ("http://a/i", "http://a:80"), ("https://stub.test:443", "https://stub.test:443"),
        ]
        for (text, origin) in origins {
            let url = try #require(URL(string: text))
            #expect(url.sharedOrigin == origin)
        }
        #expect(URL(string: "HTTP://stub.test/")?.sharedOrigin == nil)
    }

    @Test func consecutiveURLsOfOneOriginShareAString() throws {
        let texts = ["http://a-long-name.example/1", "http://a-long-name.example/2?b", "http://another-name.example/"]
        let urls = try texts.map { try #require(URL(string: $0)) }
        // All strings live until the comparison, so that no address is used twice.
        var origins = urls.map { $0.sharedOrigin ?? "" }
        let addresses = origins.indices.map { index in
            origins[index].withUTF8 { UnsafeRawPointer($0.baseAddress) }
        }
        #expect(addresses[0] == addresses[1])
        #expect(addresses[0] != addresses[2])
    }
}
