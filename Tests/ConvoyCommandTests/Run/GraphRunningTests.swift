import Foundation
import Testing

@Suite final class GraphRunningTests: CommandTests {
    override init() throws {
        try super.init()
        server.respond { $0.path == "/0" ? .status(403) : .status(200) }
    }

    /// Runs requests; the closure returns the number of the request on which a request depends.
    private func run(
        _ count: Int, from first: Int, _ arguments: String..., status: Int32 = 0, after dependency: (Int) -> Int?
    ) async throws -> ConvoyProcess.Ending {
        let text = (first..<first + count).map { number in
            let line = dependency(number).map { "# @ref r\($0)\n" } ?? ""
            return "###\n# @name r\(number)\n\(line)GET BASE/\(number)\n"
        }
        return try await run(text.joined())(arguments, status: status)
    }

    /// `CONVOY_LONG=1` in the environment runs 20,000 requests.
    @Test func aFailureEndsAllOfALongChain() async throws {
        let count = LongRuns.count(5_000, long: 20_000)
        let ending = try await run(count, from: 0, status: 1) { $0 > 0 ? $0 - 1 : nil }
        #expect(ending.output.contains("1 failed, \(count - 1) not sent; exit status 1"))
        #expect(server.recordedRequests.count == 1)
        #expect(ending.errors.contains("r1: nothing was sent: r0, which it depends on, failed\n"))
        #expect(ending.errors.contains("r\(count - 1): nothing was sent: r\(count - 2), which it depends on, failed\n"))
    }

    @Test func moreThanAreSentAheadMayWaitForOne() async throws {
        _ = try await run(1_500, from: 1, "--deadline", "60", "--jobs", "8") { $0 > 1 ? 1 : nil }
        let paths = server.recordedRequests.map(\.path)
        #expect(paths.first == "/1" && Set(paths).count == 1_500 && paths.count == 1_500)
    }
}

@Suite final class HandlersRunningTests: CommandTests {
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
        try await run(Self.text)(prints: "log in: a token of 3\n")
        #expect(server.recordedRequests.map(\.path) == ["/login", "/me"])
        #expect(server.recordedRequests.last?.value(of: "Authorization") == "Bearer t0k")
        try await run(Self.text)("--json", prints: ["!t0k", "!a token of"])
    }

    @Test func aFailedTestEndsTheDependentsOfTheRequest() async throws {
        server.respond { _ in .status(403, body: "{}") }
        let message = "test ‘Log-in’: line 6: got 403; line 8: a missing value has no ‘0’"
        try await run(Self.text)(status: 1, prints: "1 failed, 1 not sent", errors: "a.http:2: log in: \(message)\n")
        let failed = try await run(Self.text)("--json", status: nil).events(named: "failed").first
        #expect(failed?["code"] as? String == "checkFailed" && failed?["status"] as? Int == 403)
    }

    @Test func aHandlerMayExpectARefusal() async throws {
        server.respond { _ in .status(404) }
        let first = "GET BASE/a\n\n> {% client.assert(response.status === 404) %}\n"
        try await run(first + "### b\nGET BASE/b\n\n> {% client.log(1) %}\n")(
            status: 1, prints: "404  GET ", errors: "b: the server answered 404")
    }

    @Test func eachRowHasItsOwnVariables() async throws {
        server.respond { .status(200, body: $0.path) }
        let script = "client.global.set(\"x\", response.body.length + \"-\" + response.body)"
        let text = "GET BASE/a{{id}}\n\n> {% \(script) %}\n###\nPOST BASE/\n\n{{x}}\n"
        try await run(text)("--each", write("id\n1\n2\n", to: "rows.csv"))
        let bodies = server.recordedRequests.filter { $0.method == "POST" }.map(\.bodyText)
        #expect(bodies.sorted() == ["3-/a1", "3-/a2"])
    }

    @Test func aTimeoutOfARequestEndsIt() async throws {
        let gate = Gate()
        defer { gate.open() }
        server.respond { _ in .status(200).stalling(until: gate) }
        let ending = try await run("# @timeout 200 ms\nGET BASE/a\n")(status: 1)
        #expect(ending.errors.contains("timed out") || ending.errors.contains("time"), "\(ending.errors)")
    }
}
