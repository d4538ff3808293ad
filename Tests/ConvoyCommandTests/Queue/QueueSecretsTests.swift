import ConvoyTesting
import Foundation
import Testing

/// Tests which secrets a queue stores and prints, both those of jobs and those of `run`.
@Suite struct QueueSecretsTests {
    private let directory: TemporaryDirectory
    private let servers: [TestServer]

    init() throws {
        directory = try TemporaryDirectory()
        let servers = [try TestServer(), try TestServer()]
        self.servers = servers
        for (index, server) in servers.enumerated() {
            let other = "127.0.0.1:\(servers[1 - index].port)"
            server.respond { SecretMixture.answer($0, other) }
        }
    }

    private func queue(_ verb: String, _ arguments: [String]) async throws -> ConvoyProcess.Ending {
        try await ConvoyProcess(
            ["queue", verb, "--db", directory.url.appending(path: "jobs.db").path] + arguments
        ).ended()
    }

    @Test(arguments: [
        ["-H", "X-Api-Key: hUnT3r.1.key."], ["-H", "Authorization: Bearer hUnT3r.1.key."], ["-b", "sid=hUnT3r.1.key."],
        ["-u", "me:hUnT3r.1.key."], ["me:hUnT3r.1.url.@h/x"], ["http://me:hUnT3r.1.url.@h/x"],
        ["http://me:hUnT3r.1.url.@/x"], ["http://me:hUnT3r.1.url.@256.256.256.256/x"],
    ])
    func secretsOfJobsAreRefusedUnsaid(arguments: [String]) async throws {
        let ending = try await queue("add", arguments + ["http://127.0.0.1/"])
        #expect(ending.status != 0)
        SecretMixture.expectNone(in: ending.output + ending.errors, "what was said")
    }

    @Test(arguments: [["--json"], ["-v"], []])
    func secretsOfARunAreInNothingThatIsSaidOrKept(arguments: [String]) async throws {
        var random = SystemRandomNumberGenerator()
        let list = (1...max(10, SecretSearchRunningTests.count / 2)).map { number in
            let words = [
                "there", "busy", "denied", "none", "cut", "here/there", "elsewhere302/none", "elsewhere307/there",
            ]
            let path = words[number % words.count]
            // The queue stores the query. Its output contains only the names in the query.
            let query = Bool.random(using: &random) ? "?access_token=hUnT3r.\(number).query." : ""
            return "http://127.0.0.1:\(servers[0].port)/\(path)\(query)"
        }
        let file = directory.url.appending(path: "list")
        try Data(list.joined(separator: "\n").utf8).write(to: file)
        let added = try await queue("add", ["-i", file.path])
        #expect(added.status == 0)
        let har = directory.url.appending(path: "a.har")
        let run = try await queue(
            "run",
            arguments + [
                "--retries", "0", "-j", "32", "--per-host", "32", "--har", har.path, "-H", "X-Api-Key: hUnT3r.0.key.",
                "-b", "sid=hUnT3r.0.sent.", "-u", "me:hUnT3r.0.password.",
            ])
        #expect(run.status == 1, "\(run.errors.prefix(500))")
        for text in [run.output, run.errors, added.output + added.errors] {
            SecretMixture.expectNone(in: text, "what was said")
        }
        SecretMixture.expectNone(in: try String(contentsOf: har, encoding: .utf8), "the archive")
        for verb in [["list"], ["list", "--json"], ["status"], ["status", "--json"]] {
            let told = try await queue(verb[0], Array(verb.dropFirst()))
            #expect(told.status == 0 && !told.output.isEmpty)
            SecretMixture.expectNone(in: told.output + told.errors, verb.joined(separator: " "))
        }
        for name in try directory.names().filter({ $0.hasPrefix("jobs.db") }) {
            guard let data = try? Data(contentsOf: directory.url.appending(path: name)) else { continue }
            let kept = String(decoding: data, as: UTF8.self)
            #expect(!kept.contains("hUnT3r.0.key.") && !kept.contains("hUnT3r.0.sent.") && !kept.contains("aFVuVDNy"))
        }
        // `run` sends its secrets only to the servers of jobs, not to the targets of redirects.
        #expect(servers[0].recordedRequests.allSatisfy { $0.value(of: "X-Api-Key") == "hUnT3r.0.key." })
        #expect(servers[1].requestCount > 0)
        for request in servers[1].recordedRequests {
            #expect(["X-Api-Key", "Authorization", "Cookie"].allSatisfy { request.value(of: $0) == nil })
        }
    }
}
