import ConvoySQLite
import Foundation
import Testing

@testable import ConvoyQueue

/// Tests an open database whose files are moved, replaced, removed, or opened by another name.
@Suite struct SQLitePlaceTests {
    let place: StorePlace

    init() throws { place = try StorePlace() }

    private var large: Data { Data(repeating: 1, count: 100_000) }

    /// A commit to a deleted file would be lost with the process.
    @Test(arguments: [true, false])
    func aChangeOfARemovedDatabaseFails(isReplaced: Bool) async throws {
        let store = try SQLiteStore(at: place.file)
        try await store.add(.test("a"))
        let aside = place.directory.appending(path: "aside.db")
        try FileManager.default.moveItem(at: place.file, to: aside)
        if isReplaced { try Data().write(to: place.file) }
        let error = await failure { try await store.add(.test("b", body: large)) }
        #expect(error?.code == .unavailable && error?.message.contains(place.file.path) == true)
        #expect(error?.message.contains("earlier changes are in the original file: move it back") == true)
        #expect(try FileManager.default.contentsOfDirectory(atPath: place.file.path + "-convoy/bodies") == [])
        // After the file is restored, the queue continues.
        try? FileManager.default.removeItem(at: place.file)
        try FileManager.default.moveItem(at: aside, to: place.file)
        try await store.add(.test("c"))
        #expect(try await store.states() == ["a": .waiting, "c": .waiting])
    }

    @Test func rowsOfARemovedLogAreInTheDatabaseAfterItIsClosed() async throws {
        let store = try SQLiteStore(at: place.file)
        try await store.add(.test("a"))
        let log = place.file.path + "-wal"
        try FileManager.default.removeItem(atPath: log)
        let error = await failure { try await store.add(.test("b")) }
        #expect(error?.code == .unavailable && error?.message.contains(log) == true)
        #expect(error?.message.contains("close it, and open it again") == true)
        await store.close()
        let next = try SQLiteStore(at: place.file)
        try await next.add(.test("c"))
        #expect(try await next.states() == ["a": .waiting, "c": .waiting])
    }

    @Test func aRemovedDirectoryOfBodiesIsMadeAnewByTheNextOpening() async throws {
        let store = try SQLiteStore(at: place.file)
        let directory = place.file.path + "-convoy"
        try FileManager.default.removeItem(atPath: directory)
        try await store.add(.test("small"))
        let error = await failure { try await store.add(.test("large", body: large)) }
        #expect(error?.code == .unavailable && error?.message.contains(directory) == true)
        #expect(error?.message.contains("creates a new one") == true)
        await store.close()
        let next = try SQLiteStore(at: place.file)
        try await next.add(.test("large", body: large))
        #expect(try await next.states() == ["small": .waiting, "large": .waiting])
    }

    @Test func everythingRemovedIsSaid() async throws {
        let store = try SQLiteStore(at: place.file)
        try FileManager.default.removeItem(at: place.directory)
        #expect(await failure { try await store.add(.test("a")) }?.code == .unavailable)
        #expect(await failure { _ = try await store.status() }?.code == .unavailable)
    }

    /// Removing the permissions of a device such as `/dev/null` would break the machine for other users.
    @Test(arguments: ["device", "pipe", "directory"])
    func aDatabaseThatIsNotARegularFileIsRefusedAndNotChanged(kind: String) async throws {
        let path = place.file.path
        switch kind {
        case "device":
            // A node of this test's own, with the numbers of `/dev/null`. Only root may make one.
            guard mknod(path, S_IFCHR | 0o666, 0x103) == 0 else { return }
        case "pipe": try #require(mkfifo(path, 0o666) == 0)
        default: try #require(mkdir(path, 0o777) == 0)
        }
        chmod(path, 0o666)
        let error = await failure { _ = try SQLiteStore(at: place.file) }
        #expect(error?.code == .notPermitted && error?.message.contains("\(path) is not a regular file") == true)
        #expect(try permissions() == 0o666)
        #expect(try FileManager.default.contentsOfDirectory(atPath: place.directory.path) == ["jobs.db"])
    }

    private func permissions(_ suffix: String = "") throws -> Int? {
        let path = place.file.path + suffix
        return try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    }

    @Test func theFilesAreTheOwnersAlone() async throws {
        let store = try SQLiteStore(at: place.file)
        try await store.add(.test("a", body: large))
        for suffix in ["", "-wal", "-shm"] { #expect(try permissions(suffix) == 0o600, "\(suffix)") }
        #expect(try permissions("-convoy") == 0o700)
        // The store does not change permissions that the owner sets later.
        await store.close()
        chmod(place.file.path, 0o640)
        await (try SQLiteStore(at: place.file)).close()
        #expect(try permissions() == 0o640)
    }

    @Test func aFileOfTheFirstVersionIsBroughtUpToDateAndMadePrivate() async throws {
        let connection = try SQLiteConnection(place.file.path)
        try connection.execute("PRAGMA application_id = \(SQLiteSchema.applicationID); PRAGMA user_version = 1")
        try connection.execute(try #require(SQLiteSchema.migrations.first))
        try connection.execute(
            """
            INSERT INTO job(position, id, kind, state, priority, method, url, idempotency_key, added)
            VALUES(1, 'a', 'test', 0, 0, 'POST', 'http://127.0.0.1:9/', 'key', 0)
            """)
        chmod(place.file.path, 0o644)
        let store = try SQLiteStore(at: place.file)
        #expect(try permissions() == 0o600)
        let claimed = try #require(try await store.claim().first)
        #expect(claimed.job.id == "a" && claimed.lapseCount == 0 && !claimed.job.request.followsRedirectsAsGet)
        #expect(try await store.settle(claimed, .done))
    }

    /// The store resolves the link.
    ///
    /// With two names the database would have two sets of locks, and the jobs of running processes would look
    /// abandoned.
    @Test func aLinkIsTheSameDatabase() async throws {
        let link = place.directory.appending(path: "link.db")
        try FileManager.default.createSymbolicLink(at: link, withDestinationURL: place.file)
        let store = try SQLiteStore(at: place.file)
        try await store.add(.test("a"))
        #expect(try await store.claim().ids == ["a"])
        let other = try SQLiteStore(at: link)
        #expect(try await other.claim().isEmpty)
        let names = try FileManager.default.contentsOfDirectory(atPath: place.directory.path)
        #expect(names.filter { $0.hasSuffix("-convoy") } == ["jobs.db-convoy"])
        await store.close()
    }

    /// A claim replaces unreadable jobs by further ones; fewer jobs than the limit would mean that no more are ready.
    ///
    /// The test damages the rows, as an edit by hand could.
    @Test(arguments: [nil, 3]) func rowsThatCannotBeReadAreDeadLettersAndReplaced(maxPerHost: Int?) async throws {
        let store = try SQLiteStore(at: place.file)
        _ = try await store.add((1...6).map { number in try .test("\(number)", group: number < 3 ? "g" : nil) })
        try SQLiteConnection(place.file.path).run("UPDATE job SET url = 'http://[' WHERE id IN ('1', '3')")
        // With the larger limit, the store must apply that of the host.
        var request = ClaimRequest(limit: maxPerHost.map { 3 * $0 } ?? 3, lease: .seconds(60))
        request.maxPerHost = maxPerHost
        #expect(try await store.exchange([], claiming: request).jobs.ids.sorted() == ["2", "4", "5"])
        let record = try #require(try await store.job("1"))
        #expect(record.state == .dead && record.failure == "its URL in the database cannot be read")
        #expect(try await store.status()[.dead] == 2)
    }

    @Test func datesAndNumbersOfAnySizeAreAccepted() async throws {
        let store = try SQLiteStore(at: place.file, clock: place.clock)
        try await store.add(.test("old"))
        try await store.add(.test("none") { $0.notBefore = Date(timeIntervalSince1970: .nan) })
        for wait in [Duration.seconds(Int64.min), .zero] {
            let claimed = try await store.claim(.max, lease: .seconds(Int64.max))
            #expect(claimed.ids.contains("old"))
            for job in claimed { #expect(try await store.settle(job, .retry(after: wait))) }
        }
        #expect(try await store.jobs(.all, after: .max, limit: .max).isEmpty)
        #expect(try await store.jobs(.all, after: .min, limit: -1).isEmpty)
        #expect(try await store.purge(olderThan: .seconds(Int64.min)) == 0)
        #expect(try await store.renew([], for: .seconds(Int64.min)).isEmpty)
        let old = try #require(try await store.claim(1).first)
        #expect(try await store.settle(old, .retry(after: .seconds(Int64.max))))
        #expect(try await store.states().count == 2)
    }
}
