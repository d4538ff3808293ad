import ConvoyTesting
import Foundation
import Testing

/// Ends `convoy queue run` repeatedly by SIGTERM, while each request takes two seconds.
///
/// `CONVOY_TERMS=20` in the environment sets the number of runs that are ended.
@Suite(.enabled(if: ProcessInfo.processInfo.environment["CONVOY_TERMS"] != nil))
struct QueueDeploymentTests {
    private let directory: TemporaryDirectory
    private let server: TestServer

    init() throws {
        (directory, server) = (try TemporaryDirectory(), try TestServer())
        server.respond { _ in .status(200).performing(.pause(.seconds(2)), at: .response(afterBytes: 0)) }
    }

    private func queue(_ verb: String, _ database: String, _ arguments: String...) async throws -> ConvoyProcess.Ending
    {
        let file = directory.url.appending(path: database).path
        return try await ConvoyProcess(["queue", verb, "--db", file] + arguments).ended()
    }

    @Test func nothingUnderWayIsSentTwice() async throws {
        let turns = ProcessInfo.processInfo.environment["CONVOY_TERMS"].flatMap(Int.init) ?? 1
        var longest = Duration.zero
        for turn in 1...turns {
            let database = "\(turn).db"
            let urls = (1...80).map { server.url("/\(turn)/\($0)").absoluteString }
            try Data(urls.joined(separator: "\n").utf8).write(to: directory.url.appending(path: "list"))
            let list = directory.url.appending(path: "list").path
            _ = try await queue("add", database, "-i", list)
            let before = server.recordedRequests.count
            let file = directory.url.appending(path: database).path
            let child = try ConvoyProcess(
                ["queue", "run", "--watch", "-j", "50", "--per-host", "50", "--db", file])
            try await server.requestsReceived(count: before + 50, within: .seconds(120))
            let began = ContinuousClock.now
            child.send(SIGTERM)
            let ending = try await child.ended()
            longest = max(longest, began.duration(to: .now))
            #expect(ending.status == 143, "\(ending.errors)")
            #expect(try await queue("run", database, "--quiet", "-j", "80", "--per-host", "80").status == 0)
            let paths = server.recordedRequests.dropFirst(before).map(\.path)
            #expect(paths.count == 80 && Set(paths).count == 80, "turn \(turn): \(paths.count)")
        }
        #expect(longest < .seconds(10))
        print("\(turns) times SIGTERM with 50 requests under way: the longest end took \(longest)")
    }
}
