import ConvoyTesting
import Foundation
import Testing

/// Tests redirects and the fields that they must drop.
@Suite struct RedirectRunningTests {
    private let directory: TemporaryDirectory
    private let server: TestServer
    /// A server on another port, which is therefore another origin.
    private let other: TestServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try TestServer()
        other = try TestServer()
        other.respond { _ in .status(200, body: "file") }
    }

    private func fetch(_ arguments: [String]) async throws -> ConvoyProcess.Ending {
        try await ConvoyProcess(["fetch", "-o", directory.url.path] + arguments).ended()
    }

    @Test func aRedirectIsFollowedAndTheFileNamedByTheGivenURL() async throws {
        let target = other.url("/elsewhere.bin").absoluteString
        server.respond { _ in .redirect(to: target) }
        let ending = try await fetch([server.url("/given.zip").absoluteString])
        #expect(ending.status == 0)
        #expect(ending.errors == "")
        #expect(try directory.names() == ["given.zip"])
        #expect(try Data(contentsOf: directory.url.appending(path: "given.zip")) == Data("file".utf8))
    }

    @Test func jsonReportsRedirectsWhichAreNotCountedAsAttempts() async throws {
        let target = other.url("/b?c=d").absoluteString
        server.route("/a") { _ in .redirect(to: "/b", statusCode: 308) }
        server.route("/b") { _ in .redirect(to: target.replacing("http://", with: "http://user:secret@")) }
        other.enqueue(.status(503))
        let given = server.url("/a").absoluteString
        let ending = try await fetch(["--json", given.replacing("http://", with: "http://user:secret@")])
        #expect(ending.status == 0)
        let names = ["started", "redirect", "redirect", "retry", "finished", "summary"]
        #expect(ending.steps == names)
        let redirects = ending.events(named: "redirect")
        #expect(redirects.allSatisfy { Set($0.keys) == ["event", "index", "url", "status", "location"] })
        #expect(redirects.allSatisfy { $0["url"] as? String == given })
        #expect(redirects.map { $0["location"] as? String } == [server.url("/b").absoluteString, target])
        #expect(redirects.map { $0["status"] as? Int } == [308, 302])
        #expect(ending.events(named: "retry").first?["attempt"] as? Int == 1)
        #expect(ending.events(named: "finished").first?["attempts"] as? Int == 2)
        #expect(!ending.output.contains("secret"))
    }

    @Test func keysStayWithTheOriginThatTheyWereGivenFor() async throws {
        let target = other.url("/b").absoluteString
        server.route("/a") { _ in .redirect(to: "/same") }
        server.route("/same") { _ in .redirect(to: target) }
        let secrets = ["Authorization", "Cookie", "X-Api-Key", "Private-Token"]
        let others = ["Accept", "User-Agent"]
        let fields = (secrets + others).flatMap { ["--header", "\($0): given"] } + ["--header=private-token: again"]
        let ending = try await fetch(fields + [server.url("/a").absoluteString])
        #expect(ending.status == 0)
        for _ in 0..<2 {
            let request = try await server.takeRequest()
            #expect(secrets.dropLast().allSatisfy { request.value(of: $0) == "given" })
            #expect(request.values(of: "Private-Token").joined(separator: ", ") == "given, again")
            #expect(others.allSatisfy { request.value(of: $0) == "given" })
        }
        let request = try await other.takeRequest()
        #expect(secrets.allSatisfy { request.value(of: $0) == nil })
        #expect(others.allSatisfy { request.value(of: $0) == "given" })
    }

    @Test func moreThanTwentyRedirectsAreTooMany() async throws {
        server.respond { request in
            .redirect(to: "/\((request.path.dropFirst().split(separator: "/").first.flatMap { Int($0) } ?? 0) + 1)")
        }
        let ending = try await fetch(["--json", server.url("/0").absoluteString])
        #expect(ending.status == 1)
        #expect(server.requestCount == 21)
        #expect(ending.events(named: "redirect").count == 20)
        let failed = try #require(ending.events(named: "failed").first)
        #expect(failed["code"] as? String == "tooManyRedirects")
        #expect(failed["attempts"] as? Int == 1)
    }
}
