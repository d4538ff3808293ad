import ConvoySQLite
import Foundation
import Testing

@testable import ConvoyCache

/// Kills processes that use a cache with SIGKILL.
///
/// Afterwards no body is wrong, every process starts, and the capacity holds.
///
/// `CONVOY_KILLS=300` in the environment kills that many processes, and kills at each call that changes a file.
@Suite(.serialized, .timeLimit(.minutes(60))) struct KillingTests {
    private static let killCount = ProcessInfo.processInfo.environment["CONVOY_KILLS"].flatMap(Int.init)
    private static let capacity: Int64 = 2_000_000
    private static let bodyBytes: Int64 = 200_000
    private static let taskCount = 4

    private func start(_ arguments: [String], _ environment: [String: String] = [:]) throws -> ChildProcess {
        try ChildProcess(ChildProcess.program("CacheWorker"), arguments, environment: environment)
    }

    /// A seed chooses the moments within the time that the work takes.
    @Test(arguments: [1, 4])
    func killAtRandomMomentsLeavesNoWrongBody(processCount: Int) async throws {
        let directory = try TemporaryDirectory()
        let root = directory.file("cache")
        var random = SeededGenerator(seed: UInt64(processCount))
        let began = ContinuousClock.now
        try await run(root, seed: 0, count: 100)
        // On a busy machine the work takes longer. So the range of moments grows after each kill, and shrinks after
        // each process that ended by itself.
        var span = Int(began.duration(to: .now) / .microseconds(1)) * processCount
        let wanted = Self.killCount ?? 12
        var (kills, rounds) = (0, 0)
        while kills < wanted, rounds < wanted * 10 {
            rounds += 1
            let workers = try (0..<processCount).map { _ in
                let life = Int.random(in: 1...span, using: &random)
                let seed = UInt64.random(in: 0...1_000_000, using: &random)
                return try start([root.path, "\(seed)", "100", "\(Self.taskCount)", "\(life)"])
            }
            for worker in workers {
                let status = await worker.ended().status
                if status == SIGKILL {
                    (kills, span) = (kills + 1, span + span / 20)
                } else {
                    span = max(1_000, span * 4 / 5)
                    #expect(status == 0, "round \(rounds): \(worker.text)")
                }
                #expect(!worker.text.contains("wrong"), "round \(rounds): \(worker.text)")
            }
            try look(at: root, processCount: processCount)
        }
        #expect(kills >= wanted)
        let text = try await run(root, seed: 1, count: 200)
        #expect(!text.contains("hits 0 "), "\(text)")
        try look(at: root, processCount: 0)
    }

    @Test(.enabled(if: DiskRecorder.isUsable, DiskRecorder.reason))
    func killAtACallThatChangesAFileLeavesNoWrongBody() async throws {
        let killer = try DiskRecorder()
        let arguments = [killer.root.path, "3", "40", "1"]
        let counted = try start(arguments, killer.environment())
        #expect(await counted.ended().status == 0, "\(counted.text)")
        let calls = try killer.callCount()
        #expect(calls > 40)
        var random = SeededGenerator(seed: 5)
        let all = Array(2..<(2 * calls + 2))
        let moments = Self.killCount == nil ? Array(all.shuffled(using: &random).prefix(12)) : all
        var kills = 0
        for moment in moments {
            try? FileManager.default.removeItem(at: killer.root)
            let killed = try start(arguments, killer.environment(killedAt: moment))
            if await killed.ended().status == SIGKILL { kills += 1 }
            #expect(!killed.text.contains("wrong"), "moment \(moment): \(killed.text)")
            if FileManager.default.fileExists(atPath: killer.root.path) {
                try look(at: killer.root, processCount: 1)
            }
            try await run(killer.root, seed: 3, count: 40)
            try look(at: killer.root, processCount: 0)
        }
        #expect(kills > moments.count / 2)
    }

    @discardableResult
    private func run(_ root: URL, seed: Int, count: Int) async throws -> String {
        let worker = try start([root.path, "\(seed)", "\(count)", "\(Self.taskCount)"])
        #expect(await worker.ended().status == 0, "\(worker.text)")
        return worker.text
    }

    /// Expects that the totals of the index are right and that the stored bytes fit the capacity.
    ///
    /// If no process was killed, each entry that has a file finds it, and no other file exists.
    ///
    /// - Parameter processCount: the number of processes that may have been killed during a change.
    private func look(at root: URL, processCount: Int) throws {
        let directory = CacheDirectory(path: root.path)
        guard FileManager.default.fileExists(atPath: directory.index) else { return }
        let database = try SQLiteConnection(directory.index)
        guard try database.number("SELECT count(*) FROM sqlite_master") ?? 0 > 0 else { return }
        let sql = """
            SELECT bytes, entries, (SELECT coalesce(sum(bytes), 0) FROM entries), (SELECT count(*) FROM entries),
                (SELECT coalesce(sum(bytes), 0) FROM entries WHERE file IS NULL) FROM totals
            """
        let numbers = try #require(try database.row(sql) { row in (Int32(0)..<5).map { row.number($0) } })
        #expect(Array(numbers[..<2]) == Array(numbers[2..<4]))
        #expect(numbers[0] <= Self.capacity)
        var stored = numbers[4]
        for folder in [directory.bodies, directory.parts] {
            for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
                var status = stat()
                if stat(folder + "/" + name, &status) == 0 { stored += Int64(status.st_size) }
            }
        }
        #expect(stored <= Self.capacity + Int64(processCount * Self.taskCount) * Self.bodyBytes)
        if processCount == 0 {
            let named = Set(try database.rows("SELECT file FROM entries WHERE file IS NOT NULL") { $0.text(0) })
            let present = (try? FileManager.default.contentsOfDirectory(atPath: directory.bodies)) ?? []
            #expect(Set(present) == named)
            #expect((try? FileManager.default.contentsOfDirectory(atPath: directory.parts)) == [])
        }
    }
}
