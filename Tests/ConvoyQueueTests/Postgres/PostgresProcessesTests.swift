import Convoy
import ConvoyPostgres
import ConvoyQueue
import Foundation
import Testing

/// Tests several processes that share one database.
///
/// `CONVOY_JOBS=100000` in the environment runs as many jobs as for the published measurements.
@Suite(.serialized, .enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
struct PostgresProcessesTests {
    private static let jobCount =
        ProcessInfo.processInfo.environment["CONVOY_JOBS"].flatMap(Int.init) ?? 2_000

    private func start(_ arguments: String...) throws -> ChildProcess {
        try ChildProcess(ChildProcess.program("QueueWorker"), ["postgres"] + arguments)
    }

    /// The lines that a process prints until it ends by itself, or is killed after it has claimed `end` jobs.
    private func lines(of worker: ChildProcess, killedAt end: Int? = nil) async -> [String] {
        await look(within: .seconds(900)) {
            !worker.isRunning || end.map { end in worker.lines.count { $0.hasPrefix("claimed") } >= end } ?? false
        }
        if end != nil { worker.send(SIGKILL) }
        await worker.ended()
        return worker.lines
    }

    /// The jobs of the lines that begin and end with these words.
    ///
    /// The last line of a killed process may be incomplete.
    private func jobs(_ lines: [String], _ first: String, _ last: String = "") -> [Substring] {
        lines.filter { $0.hasPrefix(first) && $0.hasSuffix(last) }.map { $0.split(separator: " ") }
            .filter { $0.count == 3 }.map { $0[1] }
    }

    @Test func tenProcessesDoEachJobOnceThoughTwoAreKilled() async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        let store = try await PostgresStore(address)
        let (count, began) = (Self.jobCount, ContinuousClock.now)
        _ = try await store.add(
            (0..<count).map { number in
                try .test("job-\(number)") { $0.request.body = .data(Data("\(number)".utf8)) }
            })
        let filled = ContinuousClock.now
        // The first process claims 50 jobs, and is killed before it settles any. The second one is killed after 60
        // claims.
        var all = await lines(of: try start(address, "50", "5", "50"), killedAt: 50)
        #expect(Set(jobs(all, "claimed")).count == 50)
        let workers = try (1..<10).map { _ in try start(address, "50", "5") }
        all += await lines(of: workers[0], killedAt: 60)
        for worker in workers.dropFirst() { all += await lines(of: worker) }
        let done = ContinuousClock.now
        let status = try await store.status()
        #expect(status[.done] == count && status.unfinishedCount == 0)
        // A killed process may have settled jobs without a report. The lines have only its claims of those jobs.
        let (claims, settled) = (jobs(all, "claimed"), jobs(all, "settled", "true"))
        #expect(Set(claims).count == count && claims.count > count && Set(settled).count == settled.count)
        print(
            "\(count) jobs: added in \(began.duration(to: filled)), done by 10 processes in \(filled.duration(to: done)),"
                + " 2 of them killed; claimed again: \(claims.count - count), settlements refused: "
                + "\(jobs(all, "settled", "false").count)")
    }
}
