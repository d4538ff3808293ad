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

    /// The claims and settlements that the processes have reported, by job.
    private struct Ledger {
        var claims: [String: Int] = [:]
        var settled: [String: Int] = [:]
        var refused = 0

        mutating func take(_ lines: [String]) {
            for line in lines {
                let words = line.split(separator: " ").map(String.init)
                guard words.count == 3 else { continue }
                switch (words[0], words[2]) {
                case ("claimed", _): claims[words[1], default: 0] += 1
                case ("settled", "true"): settled[words[1], default: 0] += 1
                case ("settled", _): refused += 1
                default: break
                }
            }
        }
    }

    private func fill(_ store: PostgresStore, _ count: Int) async throws {
        let url = try #require(URL(string: "http://127.0.0.1/"))
        for start in stride(from: 0, to: count, by: 10_000) {
            _ = try await store.add(
                (start..<min(count, start + 10_000)).map {
                    Job("work", JobRequest(method: .post, url: url, body: .data(Data("\($0)".utf8))), id: "job-\($0)")
                })
        }
    }

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

    @Test func tenProcessesDoEachJobOnceThoughTwoAreKilled() async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        let store = try await PostgresStore(address)
        let count = Self.jobCount
        let began = ContinuousClock.now
        try await fill(store, count)
        let filled = ContinuousClock.now
        var ledger = Ledger()
        // The first process claims 50 jobs, and is killed before it settles any. The second one is killed after 60
        // claims.
        ledger.take(await lines(of: try start(address, "50", "5", "50"), killedAt: 50))
        #expect(ledger.claims.count == 50)
        let workers = try (1..<10).map { _ in try start(address, "50", "5") }
        ledger.take(await lines(of: workers[0], killedAt: 60))
        for worker in workers.dropFirst() { ledger.take(await lines(of: worker)) }
        let done = ContinuousClock.now
        let status = try await store.status()
        #expect(status[.done] == count)
        #expect(status.unfinishedCount == 0)
        #expect(ledger.claims.count == count)
        // A killed process may have settled jobs without a report. The ledger has only its claims of those jobs.
        #expect(ledger.settled.values.allSatisfy { $0 == 1 })
        #expect(ledger.claims.values.contains { $0 > 1 })
        let again = ledger.claims.values.reduce(0) { $0 + $1 - 1 }
        print(
            "\(count) jobs: added in \(began.duration(to: filled)), done by 10 processes in \(filled.duration(to: done)),"
                + " 2 of them killed; claimed again: \(again), settlements refused: \(ledger.refused)")
    }
}
