import ConvoyTesting
import Foundation
import Testing

/// Tests that no log and no report shows a secret of a request that a server or a proxy repeats.
@Suite struct RepeatedSecretsRunningTests {
    private let directory: TemporaryDirectory
    private let server: TestServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try TestServer()
    }

    /// The text of all outputs: standard output and error, the archive and the page.
    private func shown(_ arguments: [String]) async throws -> (text: String, ending: ConvoyProcess.Ending) {
        let files = ["run.har", "page.html"].map { directory.url.appending(path: $0).path }
        let ending = try await ConvoyProcess(
            ["fetch", "--no-config", "--retries=0", "--discard", "--har", files[0], "--report", files[1]] + arguments
        ).ended()
        let texts = try files.map { try String(contentsOfFile: $0, encoding: .utf8) }
        return ((texts + [ending.output, ending.errors]).joined(separator: "\n"), ending)
    }

    @Test(arguments: [[], ["--json"], ["-v"], ["-w", "%{url_effective} %{redirect_url} %{json}"]])
    func theTargetOfARedirectHidesThem(options: [String]) async throws {
        server.respond {
            $0.path == "/a" ? .redirect(to: "/s3cret1/s3cret2?page=s3cret3") : .status(200, body: "x")
        }
        let (text, ending) = try await shown(
            options + [
                "-H", "Authorization: Bearer s3cret1", "-b", "sid=s3cret2",
                server.url("/a?token=s3cret3").absoluteString,
            ])
        #expect(ending.status == 0 && server.requestCount == 2)
        let hidden = "%3Credacted%3E"
        #expect(text.contains("\(server.url("/"))\(hidden)/\(hidden)?page=\(hidden)"), "\(text)")
        #expect(!text.contains("s3cret"), "\(text)")
    }

    @Test(arguments: [[], ["--json"], ["-v"], ["-w", "%{errormsg} %{redirect_url} %{json}"]])
    func theMessageOfARefusedRedirectHidesThem(options: [String]) async throws {
        server.respond { _ in .redirect(to: "ftp://h/s3cret1?a=s3cret3") }
        let (text, ending) = try await shown(
            options + ["-H", "Authorization: Bearer s3cret1", server.url("/a?token=s3cret3").absoluteString])
        #expect(ending.status == 1)
        #expect((ending.output + ending.errors).contains("only http and https are followed"))
        #expect(!text.contains("s3cret"), "\(text)")
    }

    @Test func aFieldThatTheUserAsksForByNameIsUnchanged() async throws {
        server.respond { _ in .status(200, headerFields: [("X-Seen", "s3cret1")]) }
        let url = server.url("/a?token=s3cret1").absoluteString
        let ending = try await convoy("fetch", "--no-config", "--discard", "-s", "-w", "%header{x-seen}", url)
        #expect(ending.output == "s3cret1")
    }

    @Test(arguments: [
        ["-d", "name=ada&password=s3cret+1"], ["-F", "name=ada", "-F", "password=s3cret 1"],
        ["--json-body", #"{"name": "ada", "login": {"password": "s3cret 1"}}"#],
    ])
    func secretsOfTheBodyAreHidden(options: [String]) async throws {
        server.respond { _ in .status(401, headerFields: [("X-Seen", "s3cret 1")], body: "no login for ada, s3cret 1") }
        let (text, ending) = try await shown(options + ["--json", server.url("/a").absoluteString])
        #expect(ending.status == 1)
        #expect(text.contains("no login for ada, <redacted>"), "\(text)")
        #expect(!text.contains("s3cret 1"), "\(text)")
    }

    /// The request that receives the text has not sent the password yet.
    @Test(arguments: [["--json"], ["-v"]]) func aPasswordThatIsNotSentYetIsHidden(options: [String]) async throws {
        server.respond { _ in .status(403, headerFields: [("X-Seen", "s3cret7")], body: "no s3cret7") }
        let (text, _) = try await shown(options + ["--anyauth", "-u", "ada:s3cret7", server.url("/a").absoluteString])
        #expect(try await server.takeRequest().value(of: "Authorization") == nil)
        #expect(text.contains("X-Seen"))
        #expect(!text.contains("s3cret7"), "\(text)")
    }

    /// The server receives the request in place of a proxy.
    @Test(arguments: [[], ["--json"], ["-v"]]) func credentialsOfAProxyAreHidden(options: [String]) async throws {
        server.respond { request in
            let sent = request.value(of: "Proxy-Authorization") ?? "none"
            return .status(
                403, headerFields: [("X-Seen", sent), ("X-Word", "s3cret7"), ("Content-Type", "text/plain")],
                body: "no \(sent) s3cret7")
        }
        let proxy = "http://me:s3cret7@127.0.0.1:\(server.port)"
        let (text, ending) = try await shown(options + ["--proxy", proxy, "http://a.example/x"])
        #expect(ending.status == 1)
        #expect(try await server.takeRequest().value(of: "Proxy-Authorization") == "Basic bWU6czNjcmV0Nw==")
        #expect(text.contains("X-Seen") && text.contains("Basic <redacted>"), "\(text)")
        #expect(!text.contains("s3cret7") && !text.contains("bWU6czNjcmV0Nw"), "\(text)")
    }

    @Test(arguments: [["--json"], ["-v"]]) func cookiesOfTheJarAreHidden(options: [String]) async throws {
        server.respond { request in
            guard request.path == "/b" else {
                return .status(302, headerFields: [("Location", "/b"), ("Set-Cookie", "sid=s3cret7")])
            }
            return .status(403, headerFields: [("X-Seen", request.value(of: "Cookie") ?? "none")])
        }
        let jar = directory.url.appending(path: "jar").path
        let (text, _) = try await shown(options + ["--cookie-jar", jar, server.url("/a").absoluteString])
        #expect(server.recordedRequests.last?.value(of: "Cookie") == "sid=s3cret7")
        #expect(text.contains("X-Seen: sid=<redacted>"), "\(text)")
        #expect(!text.contains("s3cret7"), "\(text)")
    }
}
