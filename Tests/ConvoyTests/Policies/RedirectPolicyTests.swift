import ConvoyTesting
import Foundation
import Testing

@testable import Convoy

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
        #expect(next.headerFields == (method == expected ? request.headerFields : ["X": "1"]))
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

    /// `RedirectFaultTests` have other limits and circles.
    @Test func theMessageOfTooManyListsTheHopsShortened() throws {
        let start = "http://user:secret@a/" + String(repeating: "long", count: 1_000)
        let earlier = try (0..<20).map { number in
            let url = number == 0 ? start : "http://a/\(number)"
            return AttemptRecord.redirect(
                try .test(number == 0 ? .post : .get, url), to: try #require(URL(string: "http://a/\(number + 1)")))
        }
        let last = try PreparedRequest.test(.get, "http://a/20")
        func error(_ earlier: ArraySlice<AttemptRecord>) -> RequestError? {
            RedirectPolicy.follow.next(after: .redirect(to: "/21"), of: last, earlier: Array(earlier)).error
        }
        #expect(error(earlier.dropFirst()) == nil)
        let tooMany = try #require(error(earlier[...]))
        #expect(tooMany.code == .tooManyRedirects && !tooMany.isRetryable)
        #expect(tooMany.response?.headerFields["Location"] == "/21")
        let message = tooMany.message
        #expect(message.contains("POST http://a/longlong"))
        #expect(message.contains("(302), GET http://a/1 (302), GET http://a/2 (302), 15 more, GET http://a/18 (302)"))
        #expect(message.contains("to http://a/21"))
        #expect(!message.contains("secret") && message.utf8.count < 600)
    }

    @Test func aRefusalShowsNeitherCredentialsNorAllOfALongURL() throws {
        let location = "ftp://user:secret@h/x" + String(repeating: "x", count: 10_000)
        let error = try #require(RedirectPolicy.follow.first(.redirect(to: location), of: try .test()).error)
        #expect(error.code == .redirectRefused && error.message.contains("only http and https"))
        #expect(error.message.contains("ftp://h/x") && !error.message.contains("secret"))
        #expect(error.message.utf8.count < 300)
    }

    @Test(arguments: ["http://a/x", "//b/x", "HTTP://a:443/", "http://a:80/x", "/x", "https://b/x"])
    func fromHTTPSToHTTPIsRefusedUnlessAllowed(location: String) throws {
        let request = try PreparedRequest.test(.get, "https://a/b")
        let step = RedirectPolicy.follow.first(.redirect(to: location), of: request)
        let isRefused = location.lowercased().hasPrefix("http:")
        #expect(step.error?.code == (isRefused ? .redirectRefused : nil))
        #expect(step.error?.message.contains("leads from https to http") != false && (step.request != nil) != isRefused)
        #expect(RedirectPolicy(allowsInsecure: true).first(.redirect(to: location), of: request).request != nil)
    }

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

@Suite struct RedirectTargetTests {
    private func target(_ locations: String..., from url: String = "http://a/b/c/d;p?q") throws -> String? {
        var head = ResponseHead(statusCode: 302)
        for location in locations { head.headerFields.add("location", location) }
        let request = try PreparedRequest.test(.get, url)
        return (try? RedirectTarget(head, of: request))?.url.absoluteString
    }

    @Test(arguments: 100...599)
    func onlyFiveStatusCodesLeadAnywhere(statusCode: Int) throws {
        let leads = RedirectPolicy.follow.leads(.redirect(statusCode, to: "/x"), of: try .test())
        #expect(leads == [301, 302, 303, 307, 308].contains(statusCode))
    }

    @Test func withoutAPolicyNothingLeadsAnywhere() throws {
        #expect(!RedirectPolicy.never.leads(.redirect(to: "/x"), of: try .test()))
        #expect(RedirectPolicy.never.first(.redirect(to: "/x"), of: try .test()).isDelivery)
        #expect(RedirectPolicy(maxCount: .min).first(.redirect(to: "/x"), of: try .test()).isDelivery)
    }

    @Test(
        arguments: [
            ("/x", "http://a/x"), ("?y", "http://a/b/c/d;p?y"), ("//h/x", "http://h/x"), ("../x", "http://a/b/x"),
            (" \t/x\t ", "http://a/x"), ("/ü", "http://a/%C3%BC"), ("/a b", "http://a/a%20b"),
            ("/a%20b%zz", "http://a/a%20b%25zz"), ("/<script>", "http://a/%3Cscript%3E"),
            ("a\tb", "http://a/b/c/a%09b"),
            ("http://bücher.example/", "http://xn--bcher-kva.example/"), ("HTTP://H/x", "HTTP://H/x"),
            ("http://h/a/../b", "http://h/b"), ("//h/../b", "http://h/b"), ("http://h:80/", "http://h:80/"),
            ("http://[::1]:8080/x", "http://[::1]:8080/x"), ("file:///etc/passwd", "file:///etc/passwd"),
            ("javascript:alert(1)", "javascript:alert(1)"), ("", nil), (" ", nil), ("http://", nil), ("http:///x", nil),
            ("http:x", nil), ("//", nil), ("///x", nil), ("http://h:99999/", nil), ("http://h:abc/", nil),
            ("http://h:99999999999999999999/", nil), ("http://[::1", nil), ("http://ex ample/", nil), ("1a:b", nil),
            ("http://a\\@evil/", nil), ("http://0x7f.1/", "http://127.0.0.1/"), ("http://256.256.256.256/", nil),
            ("/x, /y", nil), ("http://h/x, http://h/y", nil), ("x, HTTPS://h/", nil), ("/x, /x", "http://a/x"),
            ("http://ho%7Fst/", nil), ("http://h%20o/", nil), ("http://h%2Fo/", nil), ("http://h%00/", nil),
            ("http://h%25o/", nil), ("http://%61/x", "http://a/x"), ("http://h%C3%BC/", "http://xn--h-eha/"),
            ("http://h%FF/", nil), ("http://[fe80::1%25eth0]/", "http://[fe80::1%25eth0]/"),
        ] as [(String, String?)])
    func locationsAreResolvedOrUnusable(location: String, expected: String?) throws {
        #expect(try target(location) == expected)
        let head = ResponseHead.redirect(to: location)
        #expect(RedirectPolicy.follow.leads(head, of: try .test()) == (expected != nil))
        #expect(RedirectPolicy.follow.first(head, of: try .test()).isDelivery == (expected == nil))
    }

    @Test func thereMustBeOneLocationOfAtMost16KiB() throws {
        #expect(try target() == nil)
        #expect(try target("/x", "/y") == nil)
        #expect(try target("/x", "") == nil)
        #expect(try target("/x", "/x ") == "http://a/x")
        #expect(try target("/x", "/x, /x") == "http://a/x")
        let path = "/" + String(repeating: "x", count: (16 << 10) - 1)
        #expect(try target(path) == "http://a" + path)
        #expect(try target(path + "x") == nil)
        #expect(try target("/" + String(repeating: "ü", count: 8 << 10)) == nil)
        #expect(try target(String(repeating: "/, ", count: 20_000)) == nil)
    }

    /// The fragment of the target, or else that of the request: RFC 9110, section 10.2.2.
    @Test(arguments: [
        ("http://a/b#f", "/x", "http://a/x#f"), ("http://a/b#f", "/x#g", "http://a/x#g"),
        ("http://a/b#f", "/x#", "http://a/x#"), ("http://a/b#f", "http://h/", "http://h/#f"),
        ("http://a/b", "/x", "http://a/x"),
        ("http://u:p@a/b", "/x", "http://u:p@a/x"), ("http://u:p@a/b", "?y", "http://u:p@a/b?y"),
        ("http://u:p@a/b", "http://a/x", "http://a/x"), ("http://u:p@a/b", "//a/x", "http://a/x"),
        ("http://u:p@a/b", "http://h/x", "http://h/x"), ("http://a/b", "http://u:p@h/x", "http://h/x"),
        ("http://a/b", "//u:p@a:81/x", "http://a:81/x"), ("http://a/b", "https://u:p@a/x", "https://a/x"),
        ("http://a/b", "http://u:p@A:80/x", "http://u:p@A:80/x"),
        ("http://a/b", "http://a@b@evil/", "http://evil/"),
    ])
    func theFragmentIsInheritedAndUserInfoStaysWithinItsOrigin(
        from: String, location: String, expected: String
    ) throws {
        #expect(try target(location, from: from) == expected)
    }

    @Test func garbageNeitherTrapsNorLeadsAwayFromTheWeb() throws {
        var generator = SeededGenerator(seed: 7)
        let pieces = [
            "http", "https", "file", ":", "/", "//", "@", "?", "#", "%", "%2", "%zz", "[", "]", "[::1]", ".", "..", "a",
            "ü", " ", "\t", "\u{0}", "\r\n", "\\", ",", ", ", ":80", ":-1", ":99999", "\u{202E}", "🚚", "\"", "<", "{",
            "e\u{301}", "/\u{301}", "@\u{301}", "#\u{301}",
        ]
        let request = try PreparedRequest.test(.post, "https://u:p@a/b#f", fields: ["Cookie": "a"], body: "x")
        let policy = RedirectPolicy(maxCount: 5, allowsInsecure: true)
        var followed = 0
        for _ in 0..<LongRuns.count(1_000, long: 5_000) {
            let location = (0..<Int.random(in: 0...9, using: &generator)).compactMap { _ in
                pieces.randomElement(using: &generator)
            }.joined()
            let head = ResponseHead.redirect([301, 307, 303].randomElement(using: &generator) ?? 0, to: location)
            let step = policy.first(head, of: request)
            #expect(step.isDelivery != policy.leads(head, of: request))
            guard let next = step.request else {
                if let error = step.error { #expect(error.code == .redirectRefused, "\(location.debugDescription)") }
                continue
            }
            followed += 1
            #expect(["http", "https"].contains(next.url.scheme?.lowercased()))
            let leaves = next.hostKey != request.hostKey
            #expect(step.leavesOrigin == leaves)
            #expect(next.headerFields.contains("Cookie") != leaves)
            if leaves { #expect(next.url.user() == nil && next.url.password() == nil, "\(next.url.absoluteString)") }
        }
        #expect(followed > LongRuns.count(50, long: 500))
    }
}

@Suite struct RedirectHookTests {
    private func rewriting(_ change: @escaping @Sendable (inout PreparedRequest) -> Void) -> RedirectPolicy {
        RedirectPolicy { hop in
            var next = hop.to
            change(&next)
            return .rewrite(next)
        }
    }

    private func url(_ text: String) throws -> URL { try #require(URL(string: text)) }

    @Test func theHookSeesTheHopAsItWouldBeSent() throws {
        let request = try PreparedRequest.test(.post, fields: ["Cookie": "a"], body: "x")
        let seen = Locked<[Redirect]>([])
        let policy = RedirectPolicy { hop in
            seen.withLock { $0.append(hop) }
            return .follow
        }
        let earlier = AttemptRecord.redirect(request, to: request.url)
        let step = policy.next(after: .redirect(to: "//b/x"), of: request, earlier: [earlier])
        let hop = try #require(seen.withLock { $0 }.first)
        #expect(hop.count == 2)
        #expect(hop.response.statusCode == 302)
        #expect(hop.from == request)
        #expect(hop.to == step.request)
        #expect((hop.to.method, hop.to.body, hop.to.headerFields) == (.get, nil, [:]))
    }

    @Test func theHookIsNotCalledForRefusedRedirects() throws {
        let policy = RedirectPolicy(maxCount: 1) { hop in
            Issue.record("asked about \(hop.to)")
            return .follow
        }
        let request = try PreparedRequest.test(.get, "https://a/")
        let earlier = AttemptRecord.redirect(request, to: request.url)
        _ = policy.leads(.redirect(to: "/x"), of: request)
        #expect(policy.first(.redirect(to: "http://a/"), of: request).error?.code == .redirectRefused)
        #expect(policy.first(.redirect(to: "file:/x"), of: request).error?.code == .redirectRefused)
        #expect(policy.first(.redirect(304, to: "/x"), of: request).isDelivery)
        let tooMany = policy.next(after: .redirect(to: "/x"), of: request, earlier: [earlier])
        #expect(tooMany.error?.code == .tooManyRedirects)
    }

    @Test func aRefusalIsAnErrorAndARewrittenRequestIsSentInstead() throws {
        let error = RedirectPolicy { _ in .refuse }.first(.redirect(307, to: "/x"), of: try .test()).error
        #expect(error?.code == .redirectRefused)
        #expect(error?.response?.statusCode == 307)
        #expect(error?.message == "onRedirect refused the redirect to http://a/x")
        let target = try url("http://a/other")
        let policy = rewriting { ($0.url, $0.headerFields["Authorization"]) = (target, "new") }
        let step = policy.first(.redirect(to: "/x"), of: try .test())
        #expect(step.request?.url == target)
        #expect(step.request?.headerFields["Authorization"] == "new")
        #expect(step.leavesOrigin == false)
    }

    @Test(arguments: ["http://b/", "http://evil/", "http://u:p@evil/", "https://b/", "http://b:81/", "http://a/"])
    func secretsForTheProposedOriginReachNoOther(text: String) throws {
        let target = try url(text)
        let policy = rewriting {
            $0.headerFields.add("Authorization", "for b")
            $0.headerFields.add("X-Key", "for b", isSecret: true)
            $0.headerFields.add("Host", "b")
            $0.headerFields.add("X-Plain", "1")
            $0.url = target
        }
        let step = policy.first(.redirect(to: "http://b/x"), of: try .test(fields: ["Authorization": "for a"]))
        let names = text == "http://b/" ? ["Authorization", "X-Key", "Host", "X-Plain"] : ["X-Plain"]
        #expect(step.request?.headerFields.map(\.name) == names)
        #expect(step.request?.headerFields.map(\.value).contains("for a") == false)
        #expect(step.request?.url.user() == nil)
        #expect(step.leavesOrigin == (text != "http://a/"))
    }

    @Test func rewrittenRequestsAreCheckedAgain() throws {
        let (file, insecure) = (try url("file:///etc/passwd"), try url("http://a/x"))
        let rows: [(RequestError.Code, @Sendable (inout PreparedRequest) -> Void)] = [
            (.invalidRequest, { $0.url = file }), (.redirectRefused, { $0.url = insecure }),
            (.invalidRequest, { $0.headerFields["X"] = "a\r\nb" }), (.invalidRequest, { $0.method = "A B" }),
        ]
        for (code, change) in rows {
            let error = rewriting(change).first(.redirect(to: "/x"), of: try .test(.get, "https://a/b")).error
            #expect(error?.code == code)
            #expect(error?.response?.statusCode == 302)
        }
    }
}

@Suite struct RedirectSecretsTests {
    static let elsewhere = [
        "http://a:81/x", "http://b/x", "https://a/x", "//b/x", "http://a.example/x", "http://sub.a/x", "http://a./x",
        "https://a:80/x", "//u:p@b/x", "http://user@b/x",
    ]
    static let here = ["/x", "?y", "//a/x", "http://a/x", "http://A:80/x", "HTTP://a/x", "../..", "http://u:p@a/x"]

    private func request(_ name: String) throws -> PreparedRequest {
        var fields: HeaderFields = ["Accept": "text/plain", "Origin": "http://a"]
        fields.add(name, "hunter2", isSecret: name == "X-Own")
        fields.add(name, "hunter3", isSecret: name == "X-Own")
        return try .test(.post, "http://a/b", fields: fields, body: "x")
    }

    /// The names of the later fields indicate a secret, although the caller has not marked them.
    @Test(
        arguments: [
            "Authorization", "Cookie", "Proxy-Authorization", "X-Own", "AUTHORIZATION", "cookie", "X-Api-Key", "apikey",
            "Api-Key", "X-Auth-Token", "Private-Token", "Ocp-Apim-Subscription-Key", "X-Amz-Security-Token",
            "X-Goog-Api-Key", "X-Vault-Token", "X-CSRF-Token", "X-Client-Secret", "X-Password", "X-Session-Id",
            "X-Signature",
        ], elsewhere)
    func secretsAreNotSentToAnotherOrigin(name: String, location: String) throws {
        for status in [301, 302, 303, 307, 308] {
            let step = RedirectPolicy.follow.first(.redirect(status, to: location), of: try request(name))
            let next = try #require(step.request)
            #expect(step.leavesOrigin == true)
            #expect(next.headerFields.map(\.name) == ["Accept", "Origin"])
            #expect(next.url.user() == nil && next.url.password() == nil)
        }
    }

    @Test(arguments: ["X-Trace-Id", "Idempotency-Key", "Range", "Sec-WebSocket-Key", "X-Page-Size"])
    func otherFieldsFollow(name: String) throws {
        let request = try PreparedRequest.test(.get, "http://a/b", fields: [name: "1"])
        #expect(
            RedirectPolicy.follow.first(.redirect(to: "http://b/x"), of: request).request?.headerFields[name] == "1")
    }

    /// Fields of the manager's defaults and of its interceptors are dropped too.
    @Test func fieldsNamedAsSecretsOfAManagerAreNotSentToAnotherOrigin() async throws {
        let server = StubServer { exchange in
            guard exchange.request.url.host() == "a" else { return exchange.answer(200) }
            exchange.answer(302, headerFields: ["Location": "http://b/"])
        }
        let manager = server.manager {
            $0.headerFields = ["X-Api-Key": "k"]
            $0.interceptors = [Interceptor.adding("X-Auth-Token", "t")]
            $0.baseURL = URL(string: "http://a/")
        }
        try await manager.send(Request.get("x"))
        try await manager.send(Request.get("http://b/"))
        let names = server.exchanges.events.map { $0.request.headerFields.map(\.name) }
        #expect(names == [["X-Api-Key", "X-Auth-Token"], [], ["X-Api-Key", "X-Auth-Token"]])
    }

    @Test(arguments: ["Authorization", "Cookie", "Proxy-Authorization", "X-Own", "X-Auth-Token"], here)
    func withinTheOriginEverythingIsSentAgain(name: String, location: String) throws {
        let request = try request(name)
        let step = RedirectPolicy.follow.first(.redirect(307, to: location), of: request)
        #expect(step.leavesOrigin == false)
        #expect(step.request?.headerFields == request.headerFields)
        #expect((step.request?.headerFields.filter(\.isSecret).count == 2) == (name != "X-Auth-Token"))
    }

    @Test(arguments: [("http://b/x", false), ("http://a:81/x", false), ("https://a/x", false), ("/x", true)])
    func theHostFieldIsForItsAuthorityOnly(location: String, stays: Bool) throws {
        let request = try PreparedRequest.test(.get, "http://a/b", fields: ["host": "virtual"])
        let next = RedirectPolicy.follow.first(.redirect(to: location), of: request).request
        #expect(next?.headerFields["Host"] == (stays ? "virtual" : nil))
    }

    @Test func theOriginIsThatOfTheURLWhateverWasNotedBefore() throws {
        // An operation sets the URL that interceptors chose, but leaves `hostKey` unchanged.
        var request = try request("Authorization")
        request.url = try #require(URL(string: "http://elsewhere/b"))
        #expect(request.hostKey == "http://a:80")
        let back = RedirectPolicy.follow.first(.redirect(to: "http://a/x"), of: request)
        #expect(back.leavesOrigin == true && back.request?.headerFields.contains("Authorization") == false)
        let stays = RedirectPolicy.follow.first(.redirect(to: "/x"), of: request)
        #expect(stays.leavesOrigin == false && stays.request?.headerFields.contains("Authorization") == true)
    }
}

extension PreparedRequest {
    /// A request as it would be sent, without an operation.
    static func test(
        _ method: HTTPMethod = .get, _ url: String = "http://a/b/c/d;p?q", fields: HeaderFields = [:],
        body: String? = nil
    ) throws -> PreparedRequest {
        var request = try PreparedRequest(Request<Data>.get(url).core, baseURL: nil)
        request.method = method
        request.headerFields = fields
        request.body = body.map { .data(Data($0.utf8)) }
        return request
    }
}

extension ResponseHead {
    static func redirect(_ statusCode: Int = 302, to location: String) -> ResponseHead {
        ResponseHead(statusCode: statusCode, headerFields: ["Location": location])
    }
}

extension RedirectStep {
    /// The request that follows the redirect; nil if there is none.
    var request: PreparedRequest? { if case .follow(let request, _) = self { request } else { nil } }
    var leavesOrigin: Bool? { if case .follow(_, let leavesOrigin) = self { leavesOrigin } else { nil } }
    var error: RequestError? { if case .fail(let error) = self { error } else { nil } }
    var isDelivery: Bool { if case .stands = self { true } else { false } }
}

extension RedirectPolicy {
    func first(_ head: ResponseHead, of request: PreparedRequest) -> RedirectStep {
        next(after: head, of: request, earlier: [])
    }
}

extension AttemptRecord {
    static func redirect(
        _ request: PreparedRequest, to url: URL, location: String? = nil
    ) -> AttemptRecord {
        AttemptRecord(
            number: 1, request: request, started: .now, ended: .now,
            response: .redirect(to: location ?? url.absoluteString), next: .redirect(to: url))
    }
}
