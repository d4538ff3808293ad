import ConvoyTesting
import Foundation
import Testing

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
