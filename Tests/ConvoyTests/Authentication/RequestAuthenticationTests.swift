// Tests credentials that a request sends without a challenge.
import Foundation
import Testing

@testable import Convoy

@Suite struct RequestAuthenticationTests {
    private let url = "http://example.org/"

    /// The examples of RFC 7617, sections 2 and 2.1; a decomposed name, which is sent in NFC; an empty name.
    @Test(arguments: [
        ("Aladdin", "open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
        ("test", "123\u{A3}", "Basic dGVzdDoxMjPCow=="), ("e\u{301}", "", "Basic w6k6"), ("", "a:b", "Basic OmE6Yg=="),
    ])
    func credentialsAreSetAsTheFieldsValue(user: String, password: String, expected: String) {
        let request = Request<Data>.get(url).basicAuthentication(user: user, password: password)
        #expect(request.headerFields.values(of: "Authorization") == [expected])
        #expect(request.defect == nil)
    }

    @Test(arguments: [
        ("a:b", "s3cret"), ("a\r\nb", "s3cret"), ("a\u{0}", "s3cret"), ("a\u{85}", "s3cret"), ("a", "s3cret\n"),
        ("a", "s3cret\u{7F}"),
    ])
    func invalidCredentialsMakeTheRequestInvalid(user: String, password: String) async throws {
        let server = StubServer()
        let request = Request<Data>.get(url).basicAuthentication(user: user, password: password)
        #expect(!request.headerFields.contains("Authorization"))
        let error = await server.manager().error(of: request)
        #expect(error?.code == .invalidRequest)
        #expect(server.exchanges.count == 0)
        for text in [request.defect ?? "", "\(error.map(String.init(describing:)) ?? "")"] {
            #expect(text.contains("user name contains") || text.contains("password contains"))
            #expect(!text.contains("s3cret") && !text.contains(user.debugDescription))
        }
    }

    @Test func lastOneSetsTheField() {
        let request = Request<Data>.get(url).bearer("t").basicAuthentication(user: "a", password: "b")
        #expect(request.headerFields.values(of: "Authorization") == ["Basic YTpi"])
        #expect(request.bearer("u").headerFields.values(of: "Authorization") == ["Bearer u"])
        #expect(request.header("Authorization", nil).headerFields.isEmpty)
    }

    /// The challenges of a 401, the credentials that the request sends, and the reason in the error.
    @Test(
        arguments: [
            ([#"Basic realm="staff""#], nil, ["no credentials", #"Basic for the realm "staff""#]),
            (
                [#"Digest realm="d", nonce="n""#, #"Basic realm="b""#], nil,
                ["no credentials", "Digest", "or Basic for"]
            ),
            (["Bearer"], nil, ["no credentials", "Bearer"]),
            (["Negotiate", "NTLM"], nil, ["no support", "Negotiate or NTLM"]),
            ([#"AWS4-HMAC-SHA256 realm="x""#], nil, ["no support", "AWS4-HMAC-SHA256"]),
            (
                [#"Digest realm="d", nonce="n", algorithm=SHA3-512"#], nil,
                ["Digest", #"the algorithm "SHA3-512""#]
            ),
            ([], nil, ["no WWW-Authenticate"]),
            (
                [#"Basic realm="staff""#], "Basic YTpiY2RlZmc=",
                ["rejected", #"the Basic credentials for the realm "staff""#]
            ),
            (
                [#"Digest realm="d", nonce="n", stale=true"#], #"Digest username="u", realm="d", nonce="m""#,
                ["nonce", "expired"]
            ),
            (
                [#"Digest realm="d", nonce="n""#], "Basic YTpiY2RlZmc=",
                ["rejected the Basic credentials", "Digest"]
            ),
            (
                [#"Bearer error="invalid_token", error_description="The token expired""#], "Bearer tokentoken",
                ["rejected the Bearer credentials", "invalid_token", "The token expired"]
            ),
            (
                [#"Bearer error="no tokentoken here""#], "Bearer tokentoken",
                ["rejected the Bearer credentials", "no <redacted> here"]
            ),
            ([], "Bearer tokentoken", ["rejected", "no WWW-Authenticate"]),
            (["Basic"], "tokentoken", ["rejected the credentials", "Basic"]),
            (["Basic realm=\"a\u{1B}[2Jb\""], nil, ["no credentials"]),
        ] as [([String], String?, [String])])
    func a401SaysWhyItStands(challenges: [String], sent: String?, reasons: [String]) async throws {
        let server = StubServer { exchange in
            exchange.answer(401, headerFields: HeaderFields(challenges.map { ("WWW-Authenticate", $0) }))
        }
        let request = Request<Data>.get(url).header("Authorization", sent)
        let error = await server.manager().error(of: request)
        let message = error?.message ?? ""
        #expect(error?.code == .unacceptableStatus)
        #expect(message.hasPrefix("the server answered 401; "), "\(message)")
        for words in reasons { #expect(message.contains(words), "\(message)") }
        for secret in ["tokentoken", "YTpiY2RlZmc", "bcdefg"] { #expect(!message.contains(secret), "\(message)") }
        #expect(error?.description.isOneLine == true)
        // A request that accepts the status gets the response.
        #expect(try await server.manager().send(request.acceptableStatusCodes(.any)).statusCode == 401)
    }

    /// The reason is that of the last attempt, which carried the credentials of the authenticator.
    @Test func a401AfterAChallengeSaysThatThePasswordWasRejected() async throws {
        let server = StubServer { $0.answer(401, headerFields: ["WWW-Authenticate": #"Basic realm="staff""#]) }
        let manager = server.manager { [authenticator = try PasswordAuthenticator(user: "a", password: "bcdefg")] in
            $0.interceptors = [authenticator]
        }
        let error = await manager.error(of: Request<Data>.get(url))
        #expect(server.exchanges.count == 2)
        #expect(error?.message.contains(#"rejected the Basic credentials for the realm "staff""#) == true)
    }

    @Test func noDescriptionShowsThePassword() async throws {
        let server = StubServer { $0.answer(403) }
        let request = Request<Data>.get(url).basicAuthentication(user: "Mufasa", password: "s3cret")
        let operation = server.manager().enqueue(request)
        let error = await #expect(throws: RequestError.self) { try await operation.response() }
        let prepared = try #require(server.exchanges.events.first?.request)
        #expect(prepared.authorization == "Basic TXVmYXNhOnMzY3JldA==")
        let shown = texts(showing: request, request.headerFields, prepared, error as Any, operation, [operation])
        #expect(!shown.contains("s3cret") && !shown.contains("TXVmYXNh"))
    }

    @Test(arguments: ConformingTransport.all)
    func credentialsAreSentUnaskedAndARefusalStands(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        server.respond { .status($0.path == "/in" ? 200 : 401, headerFields: [("WWW-Authenticate", "Basic realm=r")]) }
        let others: [any RequestInterceptor] = [
            BearerAuthenticator(token: "t0") { _ in "t1" }, try PasswordAuthenticator(user: "x", password: "y"),
        ]
        let manager = subject.manager(interceptors: others)
        try await manager.send(Request<Data>.get(server.url("/in")).basicAuthentication(user: "a", password: "b"))
        let refused = Request<Data>.get(server.url("/out")).basicAuthentication(user: "a", password: "b")
        let error = await manager.error(of: refused)
        #expect(error?.response?.statusCode == 401)
        #expect(server.received("Authorization") == ["Basic YTpi", "Basic YTpi"])
    }
}
