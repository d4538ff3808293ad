import Foundation
import Testing

@Suite final class VerboseRunningTests: CommandTests {
    @Test func theRequestIsPrintedBeforeItsResponse() async throws {
        server.respond { $0.path == "/a" ? .redirect(to: "/b?sig=s3cret&page=2") : .status(200, body: "x") }
        let ending = try await convoy(
            "--no-config", "-v", "-s", "-H", "X-Trace: 17", "-H", "X-Api-Key: s3cret", "-b", "s=s3cret",
            url("/a?access_token=s3cret&q=1"), prints: "^x$", errors: "!s3cret")
        let redacted = "%3Credacted%3E"
        let lines = ending.errors.split(separator: "\n").filter { !$0.hasPrefix("1 < Date") }.map(String.init)
        let expected = [
            "1 * attempt 1: \(base)/a?access_token=\(redacted)&q=1",
            "1 > GET \(base)/a?access_token=\(redacted)&q=1", "1 > Host: 127.0.0.1:\(server.port)",
            "1 > User-Agent: Convoy", "1 > X-Trace: 17", "1 > X-Api-Key: <redacted>", "1 > Cookie: <redacted>",
            "1 < 302",
            "1 * redirected to \(base)/b?sig=\(redacted)&page=2",
            "1 > GET \(base)/b?sig=\(redacted)&page=2", "1 < 200",
        ]
        // The lines must be in this order; other lines may be between them.
        var rest = lines[...]
        for line in expected {
            let place = rest.firstIndex(of: line)
            #expect(place != nil, "\(line) in \(lines)")
            if let place { rest = rest[(place + 1)...] }
        }
        // The printed request is the request that the server received.
        let request = try await server.takeRequest()
        #expect(request.value(of: "User-Agent") == "Convoy" && request.value(of: "Host") == "127.0.0.1:\(server.port)")
    }

    @Test func aFailedConnectionIsNoReusedConnection() async throws {
        let closed = try TestServer()
        let url = closed.url("/a").absoluteString
        closed.shutDown()
        try await convoy(
            "--no-config", "-v", "--retries=0", "--discard", "-w", "%{num_connects}", url, status: 1, prints: "^0",
            errors: ["no connection, complete after", "!reused connection", "!HTTP/,"])
    }

    @Test func aFailedCheckOfARunIsNoDecodingFailure() async throws {
        server.respond { _ in .status(200, body: "hello") }
        try await run("# @expect body contains x\nGET BASE/a\n")(
            "-v", status: 1,
            errors: ["* failed: expected body contains x, but found ‘hello’\n", "!could not be decoded"])
    }

    @Test(arguments: [[], ["--json"], ["-v"]])
    func aSecretOfAQueryIsShownNowhere(options: [String]) async throws {
        server.respond { $0.path == "/a" ? .redirect(to: "/b?stripe_key_live=s3cret") : .status(404) }
        let ending = try await fetch(options, url("/a?token=s3cret"), status: 1)
        #expect((ending.output + ending.errors).contains("/a?token=%3Credacted%3E"))
        #expect(!(ending.output + ending.errors).contains("s3cret"))
    }
}
