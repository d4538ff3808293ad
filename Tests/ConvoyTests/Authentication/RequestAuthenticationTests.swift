// Tests credentials that a request sends without a challenge.
import ConvoyTesting
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
        let error = await #expect(throws: RequestError.self) { try await server.manager().send(request) }
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

    @Test func noDescriptionShowsThePassword() async throws {
        let server = StubServer { $0.answer(403) }
        let request = Request<Data>.get(url).basicAuthentication(user: "Mufasa", password: "s3cret")
        let operation = server.manager().enqueue(request)
        let error = await #expect(throws: RequestError.self) { try await operation.response() }
        let prepared = try #require(server.exchanges.events.first?.request)
        #expect(prepared.authorization == "Basic TXVmYXNhOnMzY3JldA==")
        for value: Any in [request, request.headerFields, prepared, error as Any, operation, [operation]] {
            var dumped = ""
            dump(value, to: &dumped)
            for text in [dumped, "\(value)", String(reflecting: value)] {
                #expect(!text.contains("s3cret") && !text.contains("TXVmYXNh"))
            }
        }
    }

    /// A 401 is the outcome: no authenticator tries another password.
    @Test(arguments: ConformingTransport.all)
    func credentialsAreSentUnaskedAndARefusalStands(_ subject: ConformingTransport) async throws {
        let server = try TestServer()
        defer { server.shutDown() }
        server.respond { .status($0.path == "/in" ? 200 : 401, headerFields: [("WWW-Authenticate", "Basic realm=r")]) }
        let others: [any RequestInterceptor] = [
            BearerAuthenticator(token: "t0") { _ in "t1" }, try PasswordAuthenticator(user: "x", password: "y"),
        ]
        let manager = subject.manager(interceptors: others)
        try await manager.send(Request<Data>.get(server.url("/in")).basicAuthentication(user: "a", password: "b"))
        let refused = Request<Data>.get(server.url("/out")).basicAuthentication(user: "a", password: "b")
        let error = await #expect(throws: RequestError.self) { try await manager.send(refused) }
        #expect(error?.response?.statusCode == 401)
        #expect(server.received("Authorization") == ["Basic YTpi", "Basic YTpi"])
    }

    @Test(arguments: ConformingTransport.all)
    func credentialsFollowRedirectsWithinTheirOriginOnly(_ subject: ConformingTransport) async throws {
        let (server, other) = (try TestServer(), try TestServer())
        defer {
            server.shutDown()
            other.shutDown()
        }
        server.route("/a") { _ in .redirect(to: "/b") }
        server.route("/b") { _ in .redirect(to: "\(other.url("/c"))") }
        // After a redirect back to the first server, the credentials are still omitted.
        other.route("/c") { _ in .redirect(to: "\(server.url("/d"))") }
        server.route("/d") { _ in .status(200) }
        let request = Request<Data>.get(server.url("/a")).basicAuthentication(user: "a", password: "b")
        try await subject.manager().send(request)
        #expect(server.received("Authorization") == ["Basic YTpi", "Basic YTpi", nil])
        #expect(other.received("Authorization") == [nil])
    }
}
