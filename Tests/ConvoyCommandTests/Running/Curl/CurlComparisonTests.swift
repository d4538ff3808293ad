import Foundation
import Testing

/// Compares the effect of options that curl also has with their effect in curl.
@Suite(.enabled(if: ConvoyProcess.curl != nil, "curl is not installed"))
final class CurlComparisonTests: CommandTests {
    override init() throws {
        try super.init()
        for name in ["ours", "curls"] { _ = try directory.makeDirectory(name) }
        server.respond { _ in .resource(Data("0123456789".utf8), etag: "\"v1\"", headerFields: [("X-A", "b")]) }
    }

    /// Runs both programs with the same arguments.
    ///
    /// Each program runs in its own directory, with `variables` and without other variables for proxies.
    private func both(
        _ arguments: [String], curls curlArguments: [String]? = nil, variables: [String: String?] = [:]
    ) async throws -> (ours: ConvoyProcess.Ending, curls: ConvoyProcess.Ending) {
        let names = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"]
        let variables = Dictionary(names.map { ($0, nil) }) { $1 }.merging(variables) { $1 }
        let first = ["--no-config", "--retries=0"] + arguments
        let second = ["-q", "-sS"] + (curlArguments ?? arguments)
        return (
            try await ConvoyProcess(program: nil, first, in: directory.file("ours"), variables: variables).ended(),
            try await ConvoyProcess(
                program: ConvoyProcess.curl, second, in: directory.file("curls"), variables: variables
            )
            .ended()
        )
    }

    @Test func compressedBodiesAreTheSame() async throws {
        let coded = try #require(Data(base64Encoded: "H4sIAAAAAAACA8tIzcnJ11FIzs8tKEotLk5NAQASfhl4EQAAAA=="))
        server.respond { request in
            request.value(of: "Accept-Encoding")?.contains("gzip") == true
                ? .status(200, headerFields: [("Content-Encoding", "gzip")], body: coded) : .status(200, body: "plain")
        }
        for (arguments, body) in [(["--compressed"], "hello, compressed"), ([], "plain")] {
            let endings = try await both(arguments + ["-o", "page", url("/page")])
            #expect(endings.ours.status == 0 && endings.curls.status == 0)
            #expect(try content("ours/page") == body)
            #expect(try content("curls/page") == body)
        }
    }

    @Test func limitsEndTheSame() async throws {
        for (limit, succeeds) in [("10", true), ("9", false)] {
            let rest = [limit, "-o", "page", url("/page")]
            let endings = try await both(["--max-size"] + rest, curls: ["--max-filesize"] + rest)
            #expect((endings.ours.status == 0) == succeeds && (endings.curls.status == 0) == succeeds)
        }
        server.respond { _ in .status(200, body: "x").stalling() }
        let late = try await both(["-m", "0.3", "-o", "late", url("/page")])
        #expect(late.ours.status != 0 && late.curls.status != 0)
        #expect(late.ours.errors.contains("the attempt timeout has passed"), "\(late.ours.errors)")
        // The listener accepts connections and sends nothing, so that no TLS handshake ends.
        let silent = try LoopbackPort.silent()
        let arguments = ["--connect-timeout", "0.3", "-o", "silent", "https://127.0.0.1:\(silent.port)/"]
        let unconnected = try await both(arguments)
        #expect(unconnected.ours.status != 0 && unconnected.curls.status != 0)
        #expect(unconnected.ours.errors.contains("connect timeout"), "\(unconnected.ours.errors)")
    }

    @Test func aFileThatIsNotNewerIsNotFetched() async throws {
        server.respond { request in
            request.value(of: "If-Modified-Since") == nil ? .status(200, body: "new") : .status(304)
        }
        let date = "Sat, 31 Jan 2026 12:00:00 GMT"
        let endings = try await both(["-z", date, "-o", "page", url("/page")])
        #expect(endings.ours.status == 0, "\(endings.ours.errors)")
        #expect(endings.curls.status == 0)
        #expect(try directory.names(in: "ours") == [])
        #expect(try directory.names(in: "curls") == [])
        #expect(endings.ours.output.hasPrefix("skipped page  not newer than \(date)\n"), "\(endings.ours.output)")
        #expect(endings.ours.errors == "")
        for _ in 0..<2 { #expect(try await server.takeRequest().value(of: "If-Modified-Since") == date) }
        let told = try await both(
            ["-z", date, "--json", "--save-failed", "failed", url("/page")], curls: [url("/page")])
        let skipped = told.ours.events(named: "skipped")
        #expect(skipped.count == 1 && skipped.first?["file"] == nil, "\(told.ours.output)")
        #expect(told.ours.events(named: "summary").first?["skipped"] as? Int == 1)
        #expect(try content("ours/failed") == "")
    }

    @Test func proxiesOfTheEnvironmentAreAskedTheSame() async throws {
        for name in ["http_proxy", "all_proxy"] {
            let variables: [String: String?] = [name: "http://127.0.0.1:\(server.port)"]
            let endings = try await both(["-o", "a", "http://example.invalid/a?b"], variables: variables)
            #expect(endings.ours.status == 0, "\(endings.ours.errors)")
            #expect(endings.curls.status == 0)
            for _ in 0..<2 { #expect(try await server.takeRequest().target == "http://example.invalid/a?b") }
            let past = try await both(
                ["-o", "a", url("/past")],
                variables: [name: "http://127.0.0.1:1", "no_proxy": "127.0.0.1"])
            #expect(past.ours.status == 0 && past.curls.status == 0)
            for _ in 0..<2 { #expect(try await server.takeRequest().target == "/past") }
        }
    }
}
