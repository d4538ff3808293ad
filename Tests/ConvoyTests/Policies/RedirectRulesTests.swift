import Foundation
import Testing

@testable import Convoy

/// Tests the methods, bodies and limits of redirects, and redirects that are rejected.
@Suite struct RedirectRulesTests {
    /// The method after each status code, for each method: RFC 9110, section 15.4.
    static let methods: [(status: Int, method: HTTPMethod, expected: HTTPMethod)] = [
        (301, .get, .get), (301, .head, .head), (301, .post, .get), (301, .put, .put), (301, .patch, .patch),
        (301, .delete, .delete), (301, "PURGE", "PURGE"), (302, .get, .get), (302, .head, .head), (302, .post, .get),
        (302, .put, .put), (302, .patch, .patch), (302, .delete, .delete), (302, "post", "post"), (303, .get, .get),
        (303, .head, .head), (303, .post, .get), (303, .put, .get), (303, .patch, .get), (303, .delete, .get),
        (303, "PURGE", "GET"), (307, .get, .get), (307, .head, .head), (307, .post, .post), (307, .put, .put),
        (307, .delete, .delete), (308, .get, .get), (308, .post, .post), (308, .patch, .patch), (308, "PURGE", "PURGE"),
    ]

    @Test(arguments: methods)
    func theStatusDecidesOnMethodAndBody(status: Int, method: HTTPMethod, expected: HTTPMethod) throws {
        let body = method == .head ? nil : "hello"
        let request = try PreparedRequest.test(method, fields: ["Content-Type": "text/plain", "X": "1"], body: body)
        let next = try #require(RedirectPolicy.follow.first(.redirect(status, to: "/x"), of: request).request)
        #expect(next.method == expected)
        #expect(next.body == (method == expected ? request.body : nil))
        #expect(next.headerFields["Content-Type"] == (method == expected ? "text/plain" : nil))
        #expect(next.headerFields["X"] == "1")
        #expect(next.url.absoluteString == "http://a/x")
        #expect((next.idleTimeout, next.attemptTimeout) == (request.idleTimeout, request.attemptTimeout))
    }

    @Test(arguments: [303, 308])
    func fieldsThatDescribeABodyAreDroppedWithIt(status: Int) throws {
        let names = [
            "Content-Type", "content-length", "Content-Encoding", "Content-Language", "CONTENT-LOCATION",
            "Digest", "Content-Digest", "Repr-Digest", "Content-MD5", "Content-Range",
            "Content-Disposition", "Last-Modified", "Expect", "Trailer",
        ]
        let others = ["Accept", "Origin", "Referer", "If-None-Match", "Range", "Idempotency-Key", "Authorization"]
        let request = try PreparedRequest.test(
            .post, fields: HeaderFields((names + others).map { ($0, $0 == "content-length" ? "5" : "1") }),
            body: "hello")
        let next = try #require(RedirectPolicy.follow.first(.redirect(status, to: "/x"), of: request).request)
        #expect(next.headerFields.map(\.name) == (status == 303 ? others : names + others))
    }

    @Test func noRefererIsAdded() throws {
        let next = RedirectPolicy.follow.first(.redirect(to: "/x"), of: try .test()).request
        #expect(next?.headerFields == [:])
    }

    // MARK: The limit

    @Test(arguments: [1, 2, 5, 20, 100])
    func oneRedirectMoreThanAllowedFails(limit: Int) throws {
        var number = 0
        let (sent, last) = RedirectPolicy(maxCount: limit).run(try .test()) { _ in
            number += 1
            return .redirect(to: "/\(number)")
        }
        #expect(sent.count == limit + 1)
        #expect(last.error?.code == .tooManyRedirects)
        #expect(last.error?.response?.headerFields["Location"] == "/\(limit + 1)")
        #expect(last.error?.isRetryable == false)
    }

    @Test func theMessageListsTheHopsShortened() throws {
        var number = 0
        let start = "http://user:secret@a/" + String(repeating: "long", count: 1_000)
        let (_, last) = RedirectPolicy.follow.run(try .test(.post, start)) { _ in
            number += 1
            return .redirect(to: "/\(number)")
        }
        let message = try #require(last.error?.message)
        #expect(message.contains("POST http://a/longlong"))
        #expect(message.contains("(302), GET http://a/1 (302), GET http://a/2 (302), 15 more, GET http://a/18 (302)"))
        #expect(message.contains("to http://a/21"))
        #expect(!message.contains("secret"))
        #expect(message.utf8.count < 600)
    }

    @Test func retriesDoNotCountAsRedirects() throws {
        let request = try PreparedRequest.test()
        let retry = AttemptRecord(
            number: 1, request: request, started: .now, ended: .now, response: ResponseHead(statusCode: 503),
            next: .retry(after: .zero))
        let records = Array(repeating: retry, count: 50)
        let policy = RedirectPolicy(maxCount: 1)
        #expect(policy.next(after: .redirect(to: ""), of: request, earlier: records).isDelivery)
        #expect(policy.next(after: .redirect(to: "?q"), of: request, earlier: records).request != nil)
    }

    // MARK: Redirects that are not followed

    @Test(arguments: [
        "file:///etc/passwd", "ftp://h/x", "javascript:alert(1)", "data:text/html,hello", "mailto:a@b", "about:blank",
        "localhost:8080/x", "HTTPX://a/",
    ])
    func onlyHTTPIsFollowed(location: String) throws {
        for policy in [RedirectPolicy.follow, RedirectPolicy(allowsInsecure: true) { _ in .follow }] {
            let error = policy.first(.redirect(to: location), of: try .test()).error
            #expect(error?.code == .redirectRefused)
            #expect(error?.response?.statusCode == 302)
            #expect(error?.message.contains("only http and https") == true)
        }
    }

    @Test func aRefusalShowsNeitherCredentialsNorAllOfALongURL() throws {
        let ftp = RedirectPolicy.follow.first(.redirect(to: "ftp://user:secret@h/x"), of: try .test()).error
        #expect(ftp?.message.contains("ftp://h/x") == true && ftp?.message.contains("secret") == false)
        let data = "data:text/plain," + String(repeating: "x", count: 10_000)
        let error = try #require(RedirectPolicy.follow.first(.redirect(to: data), of: try .test()).error)
        #expect(error.message.utf8.count < 300)
    }

    @Test(arguments: ["http://a/x", "//b/x", "HTTP://a:443/", "http://a:80/x", "/x", "https://b/x"])
    func fromHTTPSToHTTPIsRefusedUnlessAllowed(location: String) throws {
        let request = try PreparedRequest.test(.get, "https://a/b")
        let step = RedirectPolicy.follow.first(.redirect(to: location), of: request)
        if location.lowercased().hasPrefix("http:") {
            #expect(step.error?.code == .redirectRefused)
            #expect(step.error?.message.contains("leads from https to http") == true)
        } else {
            #expect(step.request != nil)
        }
        #expect(RedirectPolicy(allowsInsecure: true).first(.redirect(to: location), of: request).request != nil)
    }

    @Test func redirectsFromHTTPAreFollowed() throws {
        #expect(RedirectPolicy.follow.first(.redirect(to: "http://h/"), of: try .test()).request != nil)
        #expect(RedirectPolicy.follow.first(.redirect(to: "https://h/"), of: try .test()).request != nil)
    }

    // MARK: Targets that a transport rejects

    /// If a transport rejects the URL of a redirect, the error blames the server.
    @Test func aTargetThatATransportRefusesIsBlamedOnTheServer() throws {
        let request = try PreparedRequest.test()
        let refusal = RequestError(.invalidRequest, "nothing was sent: it does not take the URL")
        let target = try #require(RedirectPolicy.follow.first(.redirect(to: "http://a$b/x"), of: request).request)
        let record = AttemptRecord.redirect(request, to: target.url, location: "http://a$b/x")
        let error = refusal.blamed(on: record, for: target)
        #expect(error.code == .redirectRefused)
        #expect(error.message == "the server redirects to http://a$b/x, and no request can go there")
        #expect(error.response?.statusCode == 302)
        #expect(refusal.blamed(on: nil, for: target).code == .invalidRequest)
        // The server sent another location; a hook replaced it, so the server is not blamed.
        let rewritten = AttemptRecord.redirect(request, to: target.url, location: "/y")
        #expect(refusal.blamed(on: rewritten, for: target).code == .invalidRequest)
        #expect(RequestError(.timedOut, "").blamed(on: record, for: target).code == .timedOut)
    }
}
