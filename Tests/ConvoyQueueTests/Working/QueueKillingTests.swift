import ConvoyTesting
import Foundation
import Testing

@testable import ConvoyQueue

/// SIGKILL at random moments of processes that add and send; the server counts by key.
///
/// `CONVOY_KILLS=200 CONVOY_KILL_JOBS=1000` in the environment makes it as thorough as the figures of the project.
@Suite(.serialized) struct QueueKillingTests {
    private static func setting(_ name: String, default value: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap(Int.init) ?? value
    }

    @Test(arguments: [1, 2, 4])
    func nothingIsLostOrDoneTwice(processCount: Int) async throws {
        let jobCount = Self.setting("CONVOY_KILL_JOBS", default: 60)
        let killCount = Self.setting("CONVOY_KILLS", default: 6)
        let place = try StorePlace()
        // Slow enough for kills to meet requests under way.
        let server = try KeyedServer { _ in
            .status(200).performing(.pause(.milliseconds(2)), at: .response(afterBytes: 0))
        }
        let file = place.file.path
        let url = server.server.url("/job").absoluteString
        var (kills, added) = (0, 0)
        // What was said to be committed is what must arrive.
        while added < jobCount {
            let adder = try QueueProcess(["add", file, url, "1", "\(jobCount)"])
            if kills < killCount / 3 {
                let moment = Int.random(in: added...jobCount)
                await turns { adder.isOver || adder.lineCount >= moment }
                adder.kill()
                kills += 1
            }
            await adder.ended()
            added = max(added, adder.lineCount)
        }
        while true {
            let workers = try (1...processCount).map { _ in try QueueProcess(["run", file]) }
            let isLast = kills >= killCount
            if !isLast {
                let moment = server.all.requestCount + Int.random(in: 0...max(1, jobCount / 8))
                await turns { workers[0].isOver || server.all.requestCount >= moment }
                for worker in workers.prefix(max(1, processCount / 2)) {
                    worker.kill()
                    kills += 1
                }
            }
            for worker in workers { await worker.ended() }
            if isLast { break }
        }
        let seen = server.all
        #expect(seen.keys.count == jobCount, "\(seen.keys.count) of \(jobCount) jobs have arrived")
        #expect(seen.keys.values.allSatisfy { $0.count == 1 }, "a job was sent with two keys")
        let store = try SQLiteStore(at: place.file)
        #expect(try await store.status()[.done] == jobCount)
        let bodies = try FileManager.default.contentsOfDirectory(atPath: file + "-convoy/bodies")
        #expect(bodies == [])
        await store.close()
        print("\(processCount) process(es): \(kills) kills, \(jobCount) jobs, \(seen.requestCount) requests")
    }

    /// Looks once a millisecond, for a while.
    private func turns(until isTrue: () -> Bool) async {
        let end = ContinuousClock.now + .seconds(60)
        while !isTrue(), .now < end {
            await withCheckedContinuation { continuation in
                DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(1)) { continuation.resume() }
            }
        }
    }
}

/// The program of these tests as a child process.
private final class QueueProcess {
    private static let boundSeconds = 120.0

    private let process = Process()
    private let endings: AsyncStream<Void>
    private let file: URL

    init(_ arguments: [String]) throws {
        let (endings, end) = AsyncStream.makeStream(of: Void.self)
        self.endings = endings
        file = FileManager.default.temporaryDirectory.appending(path: "convoy-queue-output-\(UUID().uuidString)")
        try Data().write(to: file)
        process.executableURL = try Self.executable()
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.merging(["SWIFT_BACKTRACE": "enable=no"]) { $1 }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = try FileHandle(forWritingTo: file)
        process.terminationHandler = { _ in end.finish() }
        try process.run()
    }

    deinit {
        if process.isRunning { kill() }
        try? FileManager.default.removeItem(at: file)
    }

    var isOver: Bool { !process.isRunning }
    var lineCount: Int { (try? Data(contentsOf: file))?.count { $0 == 0x0A } ?? 0 }

    func kill() { Foundation.kill(process.processIdentifier, SIGKILL) }

    func ended() async {
        let identifier = process.processIdentifier
        let bound = DispatchWorkItem {
            Issue.record("a process took too long")
            Foundation.kill(identifier, SIGKILL)
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + Self.boundSeconds, execute: bound)
        for await _ in endings {}
        bound.cancel()
    }

    /// It lies beside the test bundle, or some directories above what runs it.
    private static func executable() throws -> URL {
        var directory = URL(filePath: CommandLine.arguments[0]).absoluteURL
        while directory.path != "/" {
            directory.deleteLastPathComponent()
            let candidate = directory.appending(path: "QueueProgram", directoryHint: .notDirectory)
            if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate }
        }
        throw CocoaError(.fileNoSuchFile)
    }
}
