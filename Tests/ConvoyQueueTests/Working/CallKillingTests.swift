import ConvoyQueue
import ConvoyTesting
import Foundation
import Testing

/// Kills an adding and a sending process by SIGKILL directly before and after each call that changes a file.
///
/// With `CONVOY_KILLS` in the environment it kills at every call, otherwise at a sample.
@Suite(.serialized, .enabled(if: DiskRecorder.isUsable, DiskRecorder.reason)) struct CallKillingTests {
    private static let jobCount = 10
    private static let isThorough = ProcessInfo.processInfo.environment["CONVOY_KILLS"] != nil

    /// The moments for ``DiskRecorder/environment(killedAt:)``, given the number of calls.
    private func moments(of callCount: Int) -> [Int] {
        let all = 2..<(2 * callCount + 2)
        return Self.isThorough ? Array(all) : Array(all.shuffled().prefix(8))
    }

    @Test func jobsAddedBeforeAKillAreStoredOnce() async throws {
        let recorder = try DiskRecorder()
        let arguments = ["add", recorder.file.path, "http://127.0.0.1:9/", "1", "\(Self.jobCount)"]
        await (try ChildProcess.queue(arguments, environment: recorder.environment())).ended()
        let calls = try recorder.callCount()
        #expect(calls > Self.jobCount)
        var kills = 0
        for moment in moments(of: calls) {
            try recorder.clear()
            let killed = try ChildProcess.queue(arguments, environment: recorder.environment(killedAt: moment))
            if await killed.ended().status == SIGKILL { kills += 1 }
            let before = try await keys(at: recorder.file)
            #expect(Set(killed.lines).isSubset(of: before.keys), "moment \(moment)")
            // The program does not know what was committed, so it adds all jobs again.
            await (try ChildProcess.queue(arguments)).ended()
            let after = try await keys(at: recorder.file)
            #expect(after.count == Self.jobCount && after.merging(before) { $1 } == after, "moment \(moment)")
            let bodies = try FileManager.default.contentsOfDirectory(atPath: recorder.file.path + "-convoy/bodies")
            #expect(bodies.count == Self.jobCount / 10, "moment \(moment): \(bodies)")
        }
        #expect(kills > 0)
    }

    @Test func aKillNeitherLosesNorRepeatsASentJob() async throws {
        let recorder = try DiskRecorder()
        let server = try KeyedServer()
        let (file, url) = (recorder.file.path, server.server.url("/job").absoluteString)
        await (try ChildProcess.queue(["add", file, url, "1", "\(Self.jobCount)"])).ended()
        let keys = try await keys(at: recorder.file)
        let template = recorder.root.appendingPathExtension("template")
        try FileManager.default.copyItem(at: recorder.root, to: template)
        await (try ChildProcess.queue(["run", file], environment: recorder.environment())).ended()
        let calls = try recorder.callCount()
        var kills = 0
        for moment in moments(of: calls) {
            try FileManager.default.removeItem(at: recorder.root)
            try FileManager.default.copyItem(at: template, to: recorder.root)
            server.forget()
            let killed = try ChildProcess.queue(["run", file], environment: recorder.environment(killedAt: moment))
            if await killed.ended().status == SIGKILL { kills += 1 }
            await (try ChildProcess.queue(["run", file])).ended()
            let seen = server.all
            #expect(seen.keys == keys.mapValues { [$0] }, "moment \(moment)")
            let store = try SQLiteStore(at: recorder.file)
            #expect(try await store.status()[.done] == Self.jobCount, "moment \(moment)")
            await store.close()
            let bodies = try FileManager.default.contentsOfDirectory(atPath: file + "-convoy/bodies")
            #expect(bodies == [], "moment \(moment)")
        }
        #expect(kills > 0)
    }

    @Test(arguments: [EIO, ENOSPC])
    func aCallThatFailsLosesNothing(number: Int32) async throws {
        let recorder = try DiskRecorder()
        let arguments = ["add", recorder.file.path, "http://127.0.0.1:9/", "1", "\(Self.jobCount)"]
        await (try ChildProcess.queue(arguments, environment: recorder.environment())).ended()
        let calls = try recorder.callCount()
        var failures = 0
        let chosen = Self.isThorough ? Array(1...calls) : Array((1...calls).shuffled().prefix(8))
        for call in chosen {
            try recorder.clear()
            let failing = try ChildProcess.queue(
                arguments, environment: recorder.environment(failingAt: call, with: number))
            if await failing.ended().status != 0 {
                failures += 1
                // The error names a file of the queue.
                #expect(failing.errors.contains(recorder.root.path), "call \(call): \(failing.errors)")
            }
            let again = try ChildProcess.queue(arguments)
            #expect(await again.ended().status == 0, "call \(call): \(again.errors)")
            let store = try SQLiteStore(at: recorder.file)
            let jobs = try await store.claim()
            #expect(jobs.count == Self.jobCount, "call \(call)")
            for job in jobs {
                guard case .file(let body)? = job.job.request.body else { continue }
                #expect((try? Data(contentsOf: body))?.count ?? 0 > 65_536, "call \(call): \(job.job.id)")
            }
            await store.close()
        }
        #expect(failures > 0)
    }

    /// The idempotency keys of the jobs in a database.
    private func keys(at file: URL) async throws -> [String: String] {
        let store = try SQLiteStore(at: file)
        let records = try await store.jobs(.all, after: 0, limit: 1_000)
        await store.close()
        return Dictionary(uniqueKeysWithValues: records.map { ($0.job.id, $0.job.idempotencyKey) })
    }
}
