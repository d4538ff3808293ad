import Foundation
import Testing

@testable import Convoy

/// Tests which fields and bodies must not follow a redirect to another origin.
@Suite struct RedirectSecretsTests {
    static let elsewhere = [
        "http://a:81/x", "http://b/x", "https://a/x", "//b/x", "http://a.example/x", "http://sub.a/x", "http://a./x",
        "https://a:80/x", "//u:p@b/x", "http://user@b/x",
    ]
    static let here = ["/x", "?y", "//a/x", "http://a/x", "http://A:80/x", "HTTP://a/x", "../..", "http://u:p@a/x"]

    private func request(_ name: String) throws -> PreparedRequest {
        var fields: HeaderFields = ["Accept": "text/plain", "Origin": "http://a"]
        fields.add(name, "hunter2", isSecret: name == "X-API-Key")
        fields.add(name, "hunter3", isSecret: name == "X-API-Key")
        return try .test(.post, "http://a/b", fields: fields, body: "x")
    }

    @Test(
        arguments: ["Authorization", "Cookie", "Proxy-Authorization", "X-API-Key", "AUTHORIZATION", "cookie"],
        elsewhere)
    func secretsAreNotSentToAnotherOrigin(name: String, location: String) throws {
        for status in [301, 302, 303, 307, 308] {
            let step = RedirectPolicy.follow.first(.redirect(status, to: location), of: try request(name))
            let next = try #require(step.request)
            #expect(step.leavesOrigin == true)
            #expect(next.headerFields.map(\.name) == ["Accept", "Origin"])
            #expect(next.url.user() == nil && next.url.password() == nil)
        }
    }

    /// The names of these fields indicate a secret, although the caller has not marked them.
    @Test(
        arguments: [
            "X-Api-Key", "apikey", "Api-Key", "X-Auth-Token", "Private-Token", "Ocp-Apim-Subscription-Key",
            "X-Amz-Security-Token", "X-Goog-Api-Key", "X-Vault-Token", "X-CSRF-Token", "X-Client-Secret", "X-Password",
            "X-Session-Id", "X-Signature",
        ], ["http://b/x", "http://a:81/x", "https://a/x"])
    func fieldsNamedAsSecretsAreNotSentToAnotherOrigin(name: String, location: String) throws {
        let fields: HeaderFields = ["Accept": "text/plain", name: "hunter2"]
        let request = try PreparedRequest.test(.get, "http://a/b", fields: fields)
        let next = RedirectPolicy.follow.first(.redirect(to: location), of: request).request
        #expect(next?.headerFields.map(\.name) == ["Accept"])
        let stays = RedirectPolicy.follow.first(.redirect(to: "/x"), of: request).request
        #expect(stays?.headerFields == fields)
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

    @Test(arguments: ["Authorization", "Cookie", "Proxy-Authorization", "X-API-Key"], here)
    func withinTheOriginEverythingIsSentAgain(name: String, location: String) throws {
        let request = try request(name)
        let step = RedirectPolicy.follow.first(.redirect(307, to: location), of: request)
        #expect(step.leavesOrigin == false)
        #expect(step.request?.headerFields == request.headerFields)
        #expect(step.request?.headerFields.filter(\.isSecret).count == 2)
    }

    @Test func droppedSecretsAreNotSentAgain() throws {
        let locations = ["http://b/1", "http://a/2", "http://a/3"]
        var index = -1
        let (sent, _) = RedirectPolicy.follow.run(try request("Authorization")) { _ in
            index += 1
            return index < 3 ? .redirect(307, to: locations[index]) : ResponseHead(statusCode: 200)
        }
        #expect(sent.map { $0.headerFields.contains("Authorization") } == [true, false, false, false])
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
