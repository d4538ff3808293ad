import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyCommand

/// Runs long chains and wide fans of requests.
@Suite struct GraphRunningTests {
    private let directory: TemporaryDirectory
    private let server: TestServer

    init() throws {
        (directory, server) = (try TemporaryDirectory(), try TestServer())
        server.respond { $0.path == "/0" ? .status(403) : .status(200) }
    }

    /// Runs requests.
    ///
    /// The closure returns the number of the request on which a request depends.
    private func run(
        _ count: Int, from first: Int, _ arguments: String..., after dependency: (Int) -> Int?
    ) async throws -> ConvoyProcess.Ending {
        let base = String(server.url("/").absoluteString.dropLast())
        let text = (first..<first + count).map { number in
            let line = dependency(number).map { "# @ref r\($0)\n" } ?? ""
            return "###\n# @name r\(number)\n\(line)GET \(base)/\(number)\n"
        }
        let file = directory.url.appending(path: "a.http")
        try Data(text.joined().utf8).write(to: file)
        return try await ConvoyProcess(["run", "--retries", "0", file.path] + arguments).ended()
    }

    /// `CONVOY_LONG=1` in the environment runs 20,000 requests.
    @Test func aFailureEndsAllOfALongChain() async throws {
        let count = LongRuns.count(5_000, long: 20_000)
        let ending = try await run(count, from: 0) { $0 > 0 ? $0 - 1 : nil }
        #expect(ending.status == 1)
        #expect(ending.output.contains("1 failed, \(count - 1) not sent; exit status 1"))
        #expect(server.recordedRequests.count == 1)
        #expect(ending.errors.contains("r1: nothing was sent: r0, which it depends on, failed\n"))
        #expect(ending.errors.contains("r\(count - 1): nothing was sent: r\(count - 2), which it depends on, failed\n"))
    }

    @Test func moreThanAreSentAheadMayWaitForOne() async throws {
        let ending = try await run(1_500, from: 1) { $0 > 1 ? 1 : nil }
        #expect(ending.status == 0, "\(ending.errors)")
        let paths = server.recordedRequests.map(\.path)
        #expect(paths.first == "/1" && Set(paths).count == 1_500 && paths.count == 1_500)
    }

    @Test func aDeadlineOfOneThatWaitsBeginsWithItsTurn() async throws {
        let ending = try await run(300, from: 1, "--deadline", "60", "--jobs", "2") { $0 > 1 ? 1 : nil }
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(server.recordedRequests.count == 300)
    }
}

/// Runs handlers of JetBrains' HTTP Client against a real server.
@Suite struct HandlersRunningTests {
    private let directory: TemporaryDirectory
    private let server: TestServer

    init() throws {
        directory = try TemporaryDirectory()
        server = try TestServer()
    }

    private func run(_ text: String, _ arguments: String...) async throws -> ConvoyProcess.Ending {
        let file = directory.url.appending(path: "a.http")
        let base = String(server.url("/").absoluteString.dropLast())
        try Data(text.replacing("BASE", with: base).utf8).write(to: file)
        return try await ConvoyProcess(["run", "--retries", "0", file.path] + arguments).ended()
    }

    private static let text = """
        ### log in
        POST BASE/login

        > {%
            client.test("Log-in", function() {
                client.assert(response.status === 201, `got ${response.status}`);
            });
            client.global.set("token", response.body.data[0].token);
            client.log("a token of", response.body.data[0].token.length);
        %}

        ### me
        GET BASE/me
        Authorization: Bearer {{token}}

        > {% client.assert(response.body.token === client.global.get("token"), "another token"); %}
        """

    @Test func aValueFromAHandlerIsSentByTheNextRequest() async throws {
        server.respond { request in
            request.path == "/login"
                ? .status(
                    201, headerFields: [("Content-Type", "application/json")], body: #"{"data":[{"token":"t0k"}]}"#)
                : .json("{\"token\": \"t0k\"}")
        }
        let ending = try await run(Self.text)
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(server.recordedRequests.map(\.path) == ["/login", "/me"])
        #expect(server.recordedRequests.last?.value(of: "Authorization") == "Bearer t0k")
        #expect(ending.output.contains("log in: a token of 3\n"))
        let events = try await run(Self.text, "--json")
        #expect(!events.output.contains("t0k") && !events.output.contains("a token of"))
    }

    @Test func aFailedTestEndsTheDependentsOfTheRequest() async throws {
        server.respond { _ in .status(403, body: "{}") }
        let ending = try await run(Self.text)
        #expect(ending.status == 1)
        let message = "test ‘Log-in’: line 6: got 403; line 8: a missing value has no ‘0’"
        #expect(ending.errors.contains("a.http:2: log in: \(message)\n"), "\(ending.errors)")
        #expect(ending.output.contains("1 failed, 1 not sent"))
        let events = try await run(Self.text, "--json")
        #expect(events.events(named: "failed").first?["code"] as? String == "checkFailed")
        #expect(events.events(named: "failed").first?["status"] as? Int == 403)
    }

    @Test func aHandlerMayExpectARefusal() async throws {
        server.respond { _ in .status(404) }
        let text =
            "GET BASE/a\n\n> {% client.assert(response.status === 404) %}\n### b\nGET BASE/b\n\n> {% client.log(1) %}\n"
        let ending = try await run(text)
        #expect(ending.status == 1)
        #expect(ending.output.contains("404  GET "))
        #expect(ending.errors.contains("b: the server answered 404"), "\(ending.errors)")
    }

    @Test func theAnswerGoesToItsFileAndIsShown() async throws {
        server.respond { _ in .json("{\"a\": 1}") }
        let text =
            "# @name a\nGET BASE/a\n\n> {% client.global.set(\"x\", response.body.a) %}\n>> a.json\n###\nGET BASE/{{x}}\n"
        let ending = try await run(text, "-o", "a=-")
        #expect(ending.status == 0, "\(ending.errors)")
        #expect(ending.output == "{\"a\": 1}")
        #expect(try String(contentsOf: directory.url.appending(path: "a.json"), encoding: .utf8) == "{\"a\": 1}")
        #expect(server.recordedRequests.map(\.path) == ["/a", "/1"])
    }

    @Test func eachRowHasItsOwnVariables() async throws {
        server.respond { .status(200, body: $0.path) }
        let rows = directory.url.appending(path: "rows.csv")
        try Data("id\n1\n2\n".utf8).write(to: rows)
        let text =
            "GET BASE/a{{id}}\n\n> {% client.global.set(\"x\", response.body.length + \"-\" + response.body) %}\n###\nPOST BASE/\n\n{{x}}\n"
        let ending = try await run(text, "--each", rows.path)
        #expect(ending.status == 0, "\(ending.errors)")
        let bodies = server.recordedRequests.filter { $0.method == "POST" }.map(\.bodyText)
        #expect(bodies.sorted() == ["3-/a1", "3-/a2"])
    }

    @Test func aTimeoutOfARequestEndsIt() async throws {
        let gate = Gate()
        defer { gate.open() }
        server.respond { _ in .status(200).stalling(until: gate) }
        let ending = try await run("# @timeout 200 ms\nGET BASE/a\n")
        #expect(ending.status == 1)
        #expect(ending.errors.contains("timed out") || ending.errors.contains("time"), "\(ending.errors)")
    }
}
