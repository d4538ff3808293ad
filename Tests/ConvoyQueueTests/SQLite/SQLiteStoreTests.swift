import Convoy
import ConvoySQLite
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests cases that only a database file has: files of other programs, full disks, crashes.
@Suite struct SQLiteStoreTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    private func sql(_ text: String, at file: URL) throws { try SQLiteConnection(file.path).execute(text) }

    @Test(arguments: [(-1_500, -1), (-1_000, -1), (-500, 0), (0, 0), (1, 1), (1_000, 1), (1_001, 2)])
    func lengthsOfTimeAreRoundedUp(microseconds: Int, milliseconds: Int64) {
        #expect(Int64(clamping: .microseconds(microseconds)) == milliseconds)
    }

    @Test(arguments: [
        ("text", QueueError.Code.foreignFile, "not an SQLite database"), ("songs", .foreignFile, "another program"),
        ("newer", .newerSchema, "99"),
    ])
    func aFileOfAnotherProgramIsNotChanged(kind: String, code: QueueError.Code, text: String) async throws {
        switch kind {
        case "text": try Data(String(repeating: "not a database\n", count: 1_000).utf8).write(to: place.file)
        case "songs": try sql("CREATE TABLE songs(name TEXT); INSERT INTO songs VALUES('a')", at: place.file)
        default:
            await (try SQLiteStore(at: place.file)).close()
            try sql("PRAGMA user_version = 99", at: place.file)
        }
        let before = try Data(contentsOf: place.file)
        let error = await failure { _ = try SQLiteStore(at: place.file) }
        #expect(error?.code == code && error?.message.contains(text) == true)
        #expect(error?.message.contains(place.file.path) == true)
        #expect(try Data(contentsOf: place.file) == before)
        if kind == "text" {
            #expect(try FileManager.default.contentsOfDirectory(atPath: place.directory.path) == ["jobs.db"])
        }
    }

    @Test func aBrokenFileIsSaid() async throws {
        let store = try SQLiteStore(at: place.file)
        _ = try await store.add((1...500).map { try Job.test("\($0)") })
        await store.close()
        let file = try FileHandle(forWritingTo: place.file)
        for page in 2..<40 {
            try file.seek(toOffset: UInt64(page * 4_096))
            try file.write(contentsOf: Data(repeating: 0xA5, count: 4_096))
        }
        try file.close()
        let error = await failure {
            let store = try SQLiteStore(at: place.file)
            _ = try await store.jobs(.all, after: 0, limit: 1_000)
        }
        #expect(error?.code == .damaged, "\(String(describing: error))")
        #expect(error?.message.contains(".recover") == true)
    }

    @Test func aMissingDirectoryIsReported() async throws {
        let file = place.directory.appending(path: "none/jobs.db")
        let error = await failure { _ = try SQLiteStore(at: file) }
        #expect(error?.code == .notPermitted && error?.message.contains(file.path) == true)
    }

    /// Root may write everywhere, so a process of another user runs this test.
    @Test(
        .enabled(
            if: geteuid() != 0 || FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv"),
            "root may write everything, and there is no setpriv"),
        arguments: [(mode_t(0o444), mode_t(0o777)), (0o666, 0o555)])
    func missingWritePermissionIsReported(file: mode_t, directory: mode_t) async throws {
        await (try SQLiteStore(at: place.file)).close()
        chmod(place.file.path, file)
        chmod(place.directory.path, directory)
        defer { chmod(place.directory.path, 0o700) }
        let before = try Data(contentsOf: place.file)
        let program = try ChildProcess.program("QueueProgram")
        let arguments = ["add", place.file.path, "http://127.0.0.1:9/", "1", "1"]
        let other = ["--reuid=65534", "--regid=65534", "--clear-groups", program.path]
        let child =
            geteuid() != 0
            ? try ChildProcess.queue(arguments)
            : try ChildProcess(URL(filePath: "/usr/bin/setpriv"), other + arguments)
        let status = await child.ended().status
        guard status < 126 else { return print("skipped: another user cannot run \(program.path)") }
        #expect(status == 1 && child.lineCount == 0)
        #expect(child.errors.contains("notPermitted: \(place.file.path)"), "\(child.errors)")
        #expect(child.errors.contains("Give this user write permission"), "\(child.errors)")
        #expect(try Data(contentsOf: place.file) == before)
    }

    /// A separate mount of the directory, which only the child process sees, is read-only.
    @Test(arguments: ["none", "closed", "open"])
    func aReadOnlyFileSystemIsReported(database: String) async throws {
        let store = database == "none" ? nil : try SQLiteStore(at: place.file)
        try await store?.add(.test("a"))
        if database == "closed" { await store?.close() }
        let script = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\" || exit 126"
        let child = try ChildProcess(
            URL(filePath: "/bin/sh"),
            [
                "-c", "exec unshare -rm sh -c '\(script)' \"$@\"", "sh", place.directory.path,
                try ChildProcess.program("QueueProgram").path, "add", place.file.path, "http://127.0.0.1:9/", "1", "1",
            ])
        let status = await child.ended().status
        guard status < 126 else { return print("skipped: the directory cannot be mounted: \(child.errors)") }
        #expect(status == 1 && child.lineCount == 0)
        #expect(child.errors.contains("notPermitted: \(place.file.path)"), "\(child.errors)")
        #expect(child.errors.contains("it is on a read-only file system"), "\(child.errors)")
        await store?.close()
    }

    @Test func theLogShrinksAfterAPeak() async throws {
        let store = try SQLiteStore(at: place.file)
        let body = Data(repeating: 1, count: 60_000)
        _ = try await store.add((1...200).map { try .test("\($0)", body: body) })
        func byteCount() throws -> Int {
            try #require(FileManager.default.attributesOfItem(atPath: place.file.path + "-wal")[.size] as? Int)
        }
        #expect(try byteCount() > 12_000_000)
        for number in 1...3 { try await store.add(.test("small \(number)")) }
        #expect(try byteCount() <= 4 << 20)
    }

    /// `max_page_count` of SQLite simulates a full disk.
    @Test func aFullDiskLosesNothing() async throws {
        let store = try SQLiteStore(at: place.file)
        _ = try await store.add((1...50).map { try Job.test("\($0)") })
        await store.close()
        let worker = try SQLiteWorker(file: place.file, clock: place.clock, boot: "b")
        let pages = try worker.connection.number("PRAGMA page_count") ?? 0
        try worker.connection.execute("PRAGMA max_page_count = \(pages + 5)")
        let body = Data(repeating: 1, count: 60_000)
        var added = 50
        let error = await failure {
            for number in 51...100 {
                _ = try worker.add([.test("\(number)", body: body)])
                added += 1
            }
        }
        #expect(error?.code == .diskFull && error?.message.contains("free some space") == true)
        // The failed addition has added no job. With more space, the next addition succeeds.
        #expect(try worker.status()[.waiting] == added)
        try worker.connection.execute("PRAGMA max_page_count = 1000000")
        _ = try worker.add([.test("after", body: body)])
        #expect(try worker.status()[.waiting] == added + 1)
    }

    @Test func atMostAHundredBlockersAreNamed() async throws {
        let store = try SQLiteStore(at: place.file)
        let needed = (1...120).map { "n\($0)" }
        _ = try await store.add(needed.map { try Job.test($0) })
        _ = try await store.add([.test("g", group: "g"), .test("a", needs: needed, group: "g")])
        let blockers = try await store.blockers(of: "a")
        #expect(blockers.count == 99)
        #expect(blockers.last == JobBlocker(id: "g", state: .waiting, reason: .group))
    }

    /// Another program may remove the file whose change notifies the queues.
    @Test(.timeLimit(.minutes(1))) func aRemovedBellIsMadeAgain() async throws {
        let store = try SQLiteStore(at: place.file)
        let bell = place.file.path + "-convoy/owners/bell"
        var changes = store.changes().makeAsyncIterator()
        try FileManager.default.removeItem(atPath: bell)
        try await store.add(.test("a"))
        #expect(await changes.next() != nil)
        // The removal is a change too, and `add` returns before the file is made.
        await look { FileManager.default.fileExists(atPath: bell) }
        await store.close()
    }

    /// The second removal is seen only if the new directory is watched.
    @Test(.timeLimit(.minutes(1))) func aRemovedDirectoryIsMadeAndWatchedAgain() async throws {
        let store = try SQLiteStore(at: place.file)
        var changes = store.changes().makeAsyncIterator()
        let directory = place.file.path + "-convoy/owners"
        for _ in 1...2 {
            try FileManager.default.removeItem(atPath: directory)
            while !FileManager.default.fileExists(atPath: directory) { try #require(await changes.next() != nil) }
            // The directory exists just before it is watched. The file is in it only if this store hears the call.
            try await store.add(.test(UUID().uuidString))
            try #require(await changes.next() != nil)
        }
        await store.close()
    }

    @Test func bodiesWithoutARowAreRemovedOnceTheirOwnerHasGone() async throws {
        let store = try SQLiteStore(at: place.file, clock: place.clock)
        let body = Data(repeating: 1, count: 100_000)
        try await store.add(.test("a", body: body))
        let directory = place.file.path + "-convoy/bodies/"
        let (dead, alive) = ("dead-owner.1", "\(store.owner).99")
        for name in [dead, alive] { try body.write(to: URL(fileURLWithPath: directory + name)) }
        await (try SQLiteStore(at: place.file, clock: place.clock)).close()
        let names = try FileManager.default.contentsOfDirectory(atPath: directory)
        #expect(!names.contains(dead) && names.contains(alive) && names.count == 2)
        await store.close()
    }

    @Test func theOwnerOfAClosedDatabaseIsGoneAtOnce() async throws {
        let other = try SQLiteStore(at: place.file, clock: place.clock)
        do {
            // The connection and the lock are closed, but the lease stays in the file, as after a kill.
            let worker = try SQLiteWorker(file: place.file, clock: place.clock, boot: Boot.name ?? "")
            _ = try worker.add([.test("a")])
            #expect(try worker.exchange([], ClaimRequest(limit: 1, lease: .seconds(1_000))).jobs.count == 1)
            #expect(try await other.claim().isEmpty)
        }
        #expect(try await other.claim().ids == ["a"])
    }

    /// Another program may remove the file whose lock shows that its owner is alive.
    @Test(arguments: ["-convoy/owners", "-convoy"]) func anOwnerWithoutItsFileKeepsItsJobs(removed: String) throws {
        let first = try SQLiteWorker(file: place.file, clock: place.clock, boot: "one")
        _ = try first.add([.test("a")])
        let claimed = try first.exchange([], ClaimRequest(limit: 1, lease: .seconds(9))).jobs
        try FileManager.default.removeItem(atPath: place.file.path + removed)
        let second = try SQLiteWorker(file: place.file, clock: place.clock, boot: "one")
        #expect(try second.exchange([], ClaimRequest(limit: 1, lease: .seconds(9))).jobs.isEmpty)
        // The first owner is found by its file again.
        #expect(try first.renew(claimed.map(\.claim), .seconds(1_000)).isEmpty)
        #expect(second.owners.all.contains(first.owners.name) && !second.owners.isGone(first.owners.name))
        try first.close()
        #expect(try second.exchange([], ClaimRequest(limit: 1, lease: .seconds(9))).jobs.count == 1)
    }

    @Test func aStoreThatCannotBeOpenedLeavesNoLockFile() async throws {
        let first = try SQLiteStore(at: place.file)
        await first.close()
        #expect(await failure { try await first.add(.test("a")) }?.code == .closed)
        try sql("DROP TABLE owner", at: place.file)
        let error = await failure { _ = try SQLiteStore(at: place.file) }
        #expect(error != nil)
        let names = try FileManager.default.contentsOfDirectory(atPath: place.file.path + "-convoy/owners")
        #expect(!names.contains { $0.hasPrefix("owner-") }, "\(names)")
    }

    @Test func theStoresTimeContinuesAfterAReboot() async throws {
        let first = try SQLiteWorker(file: place.file, clock: place.clock, boot: "one")
        _ = try first.add([.test("a"), .test("b")])
        let claimed = try first.exchange([], ClaimRequest(limit: 1, lease: .seconds(1_000))).jobs
        let settlement = Settlement(claimed[0].claim, .retry(after: .seconds(100)))
        _ = try first.exchange([settlement], ClaimRequest(limit: 1, lease: .seconds(1_000)))
        place.clock.advance(by: .seconds(40))
        let before = first.time.now
        try first.close()
        // The calendar changes by years between the two boots. The back-off continues unchanged.
        place.clock.setCalendar(forward: -1e8)
        let second = try SQLiteWorker(file: place.file, clock: place.clock, boot: "two")
        #expect(second.time.now >= before && second.time.now < before + 1_000)
        let request = ClaimRequest(limit: 5, lease: .seconds(1_000))
        #expect(try second.exchange([], request).jobs.map(\.job.id) == ["b"])
        place.clock.advance(by: .seconds(60))
        #expect(try second.exchange([], request).jobs.map(\.job.id) == ["a"])
    }

    @Test func aBootEndsEveryLease() async throws {
        let first = try SQLiteWorker(file: place.file, clock: place.clock, boot: "one")
        _ = try first.add([.test("a")])
        _ = try first.exchange([], ClaimRequest(limit: 1, lease: .seconds(1_000_000)))
        let second = try SQLiteWorker(file: place.file, clock: place.clock, boot: "two")
        #expect(try second.exchange([], ClaimRequest(limit: 1, lease: .seconds(9))).jobs.count == 1)
        try? first.close()
    }

    /// The second job expired while it was blocked.
    @Test func deadLettersOfAGroupGoInTheirOrderAgain() async throws {
        let store = try SQLiteStore(at: place.file, clock: place.clock)
        _ = try await store.add([.test("a", group: "g"), .test("b", group: "g", expires: place.clock.date + 10)])
        let first = try #require(try await store.claim().first)
        place.clock.advance(by: .seconds(20))
        #expect(try await store.claim().isEmpty)
        #expect(try await store.settle(first, .dead("no")))
        #expect(try await store.states() == ["a": .dead, "b": .dead])
        #expect(try await store.retry(.all) == 2)
        #expect(try await store.claim().ids == ["a"])
        #expect(try await store.state("b") == .blocked)
    }
}
