import ConvoyPostgres
import ConvoyQueue
import ConvoyTesting
import Foundation
import Testing

/// Kills processes that add and send by SIGKILL, at random moments.
///
/// The server counts requests by key.
///
/// `CONVOY_KILLS=200 CONVOY_KILL_JOBS=1000` in the environment makes the test as thorough as the published
/// measurements.
@Suite(.serialized) struct QueueKillingTests {
    private static func setting(_ name: String, default value: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap(Int.init) ?? value
    }

    @Test(arguments: [1, 2, 4])
    func nothingIsLostOrDoneTwice(processCount: Int) async throws {
        let place = try StorePlace()
        let file = place.file.path
        try await killing(processCount, on: file) { try SQLiteStore(at: place.file) }
        let bodies = try FileManager.default.contentsOfDirectory(atPath: file + "-convoy/bodies")
        #expect(bodies == [])
    }

    @Test(.enabled(if: PostgresServer.isInstalled, PostgresServer.reason), arguments: [2, 4])
    func nothingIsLostOrDoneTwiceOnPostgres(processCount: Int) async throws {
        let address = try await PostgresServer.shared().makeDatabase()
        try await killing(processCount, on: address) { try await PostgresStore(address) }
    }

    /// Instead of killing processes, the test ends all connections to the server.
    ///
    /// After half of these disturbances, the test crashes the server and starts it again.
    @Test(.enabled(if: PostgresServer.isInstalled, PostgresServer.reason))
    func nothingIsLostOrDoneTwiceWhenTheDatabaseIsKilled() async throws {
        let server = try await PostgresServer(isDurable: true)
        let address = try await server.makeDatabase()
        let half = Self.setting("CONVOY_KILLS", default: 6) / 2
        try await killing(2, on: address) { kills in
            if kills == half {
                try await server.stop()
                try await server.start()
            } else {
                try await disconnect(address)
            }
        } open: {
            try await PostgresStore(address)
        }
    }

    /// - Parameters:
    ///   - place: the database, as an argument for the program.
    ///   - disturb: called with the number of the kill in place of killing a process; nil to kill processes.
    private func killing(
        _ processCount: Int, on place: String, disturb: ((Int) async throws -> Void)? = nil,
        open: () async throws -> any Store
    ) async throws {
        let jobCount = Self.setting("CONVOY_KILL_JOBS", default: 60)
        let killCount = Self.setting("CONVOY_KILLS", default: 6)
        // The responses are slow enough that kills hit running requests.
        let server = try KeyedServer { _ in
            .status(200).performing(.pause(.milliseconds(2)), at: .response(afterBytes: 0))
        }
        let url = server.server.url("/job").absoluteString
        var (kills, added) = (0, 0)
        // Adds jobs until all are reported as committed. The first third of the kills happens during this loop.
        while added < jobCount {
            let adder = try ChildProcess.queue(["add", place, url, "1", "\(jobCount)"])
            if kills < killCount / 3 {
                let moment = Int.random(in: added...jobCount)
                await look { !adder.isRunning || adder.lineCount >= moment }
                if let disturb { try await disturb(kills) } else { adder.send(SIGKILL) }
                kills += 1
            }
            await adder.ended()
            added = max(added, adder.lineCount)
        }
        while true {
            let workers = try (1...processCount).map { _ in try ChildProcess.queue(["run", place]) }
            let isLast = kills >= killCount
            if !isLast {
                let moment = server.all.requestCount + Int.random(in: 0...max(1, jobCount / 8))
                await look { !workers[0].isRunning || server.all.requestCount >= moment }
                for worker in workers.prefix(disturb == nil ? max(1, processCount / 2) : 1) {
                    if let disturb { try await disturb(kills) } else { worker.send(SIGKILL) }
                    kills += 1
                }
            }
            for worker in workers { await worker.ended() }
            if isLast { break }
        }
        let seen = server.all
        #expect(seen.keys.count == jobCount, "\(seen.keys.count) of \(jobCount) jobs have arrived")
        #expect(seen.keys.values.allSatisfy { $0.count == 1 }, "a job was sent with two keys")
        #expect(try await open().status()[.done] == jobCount)
    }

    /// A limit of the file size simulates a full disk.
    ///
    /// The process ignores `SIGXFSZ`, so a write beyond the limit fails with `EFBIG`.
    @Test func jobsCommittedBeforeTheDiskWasFullAreStored() async throws {
        let place = try StorePlace()
        let script = "trap '' XFSZ; ulimit -f 4000; exec \"$0\" \"$@\""
        let program = try ChildProcess.program("QueueProgram").path
        let arguments = ["add", place.file.path, "http://127.0.0.1:9/", "1", "10000"]
        let limited = try ChildProcess(URL(filePath: "/bin/sh"), ["-c", script, program] + arguments)
        await limited.ended()
        let said = limited.lineCount
        #expect(said > 10 && said < 10_000)
        #expect(limited.errors.contains("diskFull: \(place.file.path)"), "\(limited.errors)")
        let store = try SQLiteStore(at: place.file)
        #expect(try await store.status()[.waiting] == said)
        try await store.add(.test("after"))
        #expect(try await store.claim(20_000).count == said + 1)
        await store.close()
    }
}
