import ConvoyTesting
import Foundation
import Testing

/// Tests which fields `convoy run` sends to a server that a response chose, not the file.
@Suite struct RunSecretsTests {
    private let directory: TemporaryDirectory
    private let server: TestServer
    /// A server on another port, which is therefore another origin.
    private let other: TestServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try TestServer()
        other = try TestServer()
        other.respond { _ in .status(200, body: "taken") }
    }

    private func run(_ text: String) async throws -> ConvoyProcess.Ending {
        let file = directory.url.appending(path: "a.http")
        let base = String(server.url("/").absoluteString.dropLast())
        try Data(text.replacing("BASE", with: base).utf8).write(to: file)
        return try await ConvoyProcess(["run", "--retries", "0", file.path]).ended()
    }

    @Test func anAnswerThatNamesTheHostGetsNoSecret() async throws {
        let host = "127.0.0.1:\(other.port)"
        server.respond { _ in .json("{\"host\": \"\(host)\"}") }
        let first = "@h = {{a.response.body.$.host}}\n# @name a\nGET BASE/a\n###\n"
        for request in ["GET http://{{a.response.body.$.host}}/x\n", "GET /x\nHost: {{h}}\n", "GET http://{{h}}/x\n"] {
            let ending = try await run(first + request + "Authorization: Bearer s3cret\n")
            #expect(ending.status == 1)
            #expect(ending.errors.contains("leads to another server, ‘http://\(host)’"), "\(ending.errors)")
            #expect(ending.errors.contains("the field Authorization"))
            #expect(!(ending.output + ending.errors).contains("s3cret"))
        }
        #expect(other.requestCount == 0)
        #expect(try await run(first + "GET http://{{h}}/x\nAccept: text/plain\n").status == 0)
        #expect(other.requestCount == 1)
    }

    @Test func fieldsThatMayBeKeysAreNotSentAfterARedirect() async throws {
        let target = other.url("/b").absoluteString
        server.respond { _ in .redirect(to: target, statusCode: 307) }
        let ending = try await run(
            "PUT BASE/a\nX-Api-Key: s3cret\nX-Auth-Token: s3cret\nPrivate-Token: s3cret\nAuthorization: Basic a s3cret\n"
                + "Content-Type: text/plain\nAccept: text/plain\n\nbody\n")
        #expect(ending.status == 0, "\(ending.errors)")
        let (sent, followed) = (try await server.takeRequest(), try await other.takeRequest())
        for name in ["X-Api-Key", "X-Auth-Token", "Private-Token", "Authorization"] {
            #expect(sent.value(of: name) != nil)
            #expect(followed.value(of: name) == nil, "\(name)")
        }
        #expect(followed.value(of: "Accept") == "text/plain")
        #expect(followed.value(of: "Content-Type") == "text/plain")
        #expect(followed.bodyText == "body")
    }

    @Test func aValueOfAnAnswerIsOnePartOfAPath() async throws {
        server.respond { _ in .json(#"{"id": "../admin?x=1", "page": "a=1&b=2"}"#) }
        let ending = try await run(
            "# @name a\nGET BASE/a\n###\nGET BASE/users/{{a.response.body.$.id}}/x?q={{a.response.body.$.page}}"
                + "&{{&a.response.body.$.page}}")
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(server.recordedRequests.last?.target == "/users/..%2Fadmin%3Fx%3D1/x?q=a%3D1%26b%3D2&a=1&b=2")
    }
}
