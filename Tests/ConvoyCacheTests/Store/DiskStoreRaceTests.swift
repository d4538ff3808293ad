import Convoy
import ConvoySQLite
import Foundation
import Testing

@testable import ConvoyCache

@Suite(.timeLimit(.minutes(5)))
struct DiskStoreRaceTests {
    private let directory: TemporaryDirectory
    private let store: DiskStore

    init() throws {
        directory = try TemporaryDirectory()
        store = directory.makeStore()
    }

    /// A second close could close a descriptor that another thread has just opened.
    @Test func fileOfAnotherLengthIsClosedOnce() throws {
        let path = directory.file("body").path
        try Data("cut".utf8).write(to: directory.file("body"))
        let lost = Locked(0)
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            for _ in 0..<60_000 {
                if thread.isMultiple(of: 2) {
                    _ = StoredFile(path: path, byteCount: 100)
                } else {
                    let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
                    if descriptor >= 0, close(descriptor) != 0 { lost.withLock { $0 += 1 } }
                }
            }
        }
        #expect(lost.withLock { $0 } == 0)
    }

    @Test func changeIsSeenByTheThreadThatMadeIt() throws {
        let missed = Locked(0)
        DispatchQueue.concurrentPerform(iterations: 4) { thread in
            for round in 0..<300 {
                store.put("\(thread) \(round)")
                if store.entries(for: "\(thread) \(round)").isEmpty { missed.withLock { $0 += 1 } }
            }
        }
        #expect(missed.withLock { $0 } == 0)
    }

    /// A process may empty the directory under the lock.
    ///
    /// If an index were opened without the lock, its log could be removed.
    @Test(arguments: [true, false])
    func indexIsNotOpenedUnderTheLockOfAnother(_ isThere: Bool) throws {
        let root = try TemporaryDirectory()
        var directory = CacheDirectory(path: root.file("cache").path)
        directory.make()
        if isThere { _ = try SQLiteConnection.index(in: directory, busyMilliseconds: 100, mayEmpty: true) }
        let number = directory.indexNumber
        let other = directory
        directory.mostLockWait = .zero
        try other.locked {
            let error = #expect(throws: SQLiteError.self) {
                try SQLiteConnection.index(in: directory, busyMilliseconds: 100, mayEmpty: true)
            }
            #expect(error?.code == SQLiteError.busy)
            #expect(directory.indexNumber == number)
        }
        #expect(throws: Never.self) { try SQLiteConnection.index(in: directory, busyMilliseconds: 100, mayEmpty: true) }
    }

    /// Lets the index grow no more.
    private func fillDisk() throws {
        let database = try #require(store.index.withLock { $0?.database })
        let pages = try database.number("PRAGMA page_count") ?? 0
        _ = try database.number("PRAGMA max_page_count = \(pages)")
    }

    /// The cache removes a response even if the same transaction cannot store another one.
    @Test func removalIsMadeBesideAResponseThatCannotBeStored() throws {
        store.put("a")
        #expect(store.entries(for: "a").count == 1)
        try fillDisk()
        store.queue.suspend()
        store.put("b", Data(repeating: 1, count: 30_000))
        store.removeAll(key: "a")
        store.queue.resume()
        #expect(store.entries(for: "a").isEmpty)
        #expect(store.entries(for: "b").isEmpty)
        #expect(directory.makeStore().entries(for: "a").isEmpty)
    }

    @Test func usesThatAFailedTransactionTookAreRecordedLater() throws {
        for key in ["a", "b"] { store.put(key) }
        let (first, second) = (try #require(store.entries(for: "a").first), try #require(store.entries(for: "b").first))
        store.use(second.id)
        store.use(first.id)
        try fillDisk()
        store.put("c", Data(repeating: 1, count: 30_000))
        #expect(store.entries(for: "c").isEmpty)
        #expect(store.state.withLock { $0.used.sorted { $0.value < $1.value }.map(\.key) } == [second.id, first.id])
        // A removal does not record the uses of entries. Storing the next response records them.
        store.removeAll(key: "b")
        store.put("d")
        #expect(store.counts.entryCount == 2)
        #expect(store.state.withLock { $0.used.count } == 2)
        store.state.withLock { $0.nextUses = nil }
        store.put("d")
        #expect(store.counts.entryCount == 2)
        #expect(store.state.withLock { $0.used.isEmpty })
    }

    /// Spreads the numbers of entries, so that their updates need new pages.
    private static func spread(_ number: Int) -> Int64 { Int64(number * 7919 % 5000) + 1 }

    @Test func usesThatDoNotFitOnTheDiskAreTriedOnce() throws {
        store.put("a")
        #expect(store.counts.entryCount == 1)
        let database = try #require(store.index.withLock { $0?.database })
        try store.queue.sync {
            try database.execute(
                """
                WITH RECURSIVE numbers (id) AS (SELECT 2 UNION ALL SELECT id + 1 FROM numbers WHERE id < 5000)
                INSERT INTO uses SELECT id, id FROM numbers;
                UPDATE totals SET used = 5000;
                """)
        }
        try fillDisk()
        for number in 0..<5000 { store.use(Self.spread(number)) }
        store.awaitAllChanges()
        // The failed change has put its uses back, and the store has kept the latest of them.
        let (count, used) = store.state.withLock { ($0.changeCount, $0.used) }
        #expect((DiskStore.mostUses / 2...DiskStore.mostUses).contains(used.count))
        #expect(used[Self.spread(4999)] == used.values.max())
        for number in 0..<1000 {
            store.use(Self.spread(number))
            store.awaitAllChanges()
        }
        #expect(store.state.withLock { $0.changeCount } == count)
        #expect(store.state.withLock { $0.used.count } <= DiskStore.mostUses)
    }

    @Test func usesThatAnotherProcessPreventsAreRecordedLater() throws {
        for key in ["a", "b"] { store.put(key) }
        let (first, second) = (try #require(store.entries(for: "a").first), try #require(store.entries(for: "b").first))
        let path = directory.file("cache/convoy-cache.sqlite").path
        let other = try SQLiteConnection(path)
        let database = try #require(store.index.withLock { $0?.database })
        try store.queue.sync { try database.execute("PRAGMA busy_timeout = 0") }
        try other.execute("BEGIN IMMEDIATE")
        store.use(second.id)
        store.use(first.id)
        store.close()
        store.awaitAllChanges()
        try other.execute("ROLLBACK")
        let ids = { try other.rows("SELECT id FROM uses ORDER BY used") { $0.number(0) } }
        #expect(try ids() == [first.id, second.id])
        store.close()
        store.awaitAllChanges()
        #expect(try ids() == [second.id, first.id])
    }

    /// In this test, a change waits for the lock for up to an hour, but a lookup must end within 30 seconds.
    @Test func lookupDoesNotWaitForTheLockAsLongAsAChange() throws {
        directory.fill()
        let descriptor = open(directory.file("cache/convoy-cache.lock").path, O_RDWR | O_CLOEXEC)
        #expect(flock(descriptor, LOCK_EX) == 0)
        let store = directory.makeStore(mostLockWait: .seconds(3600))
        let (found, isOver) = (Locked<Int?>(nil), DispatchSemaphore(value: 0))
        Thread.detachNewThread {
            let count = store.entries(for: "a").count
            found.withLock { $0 = count }
            isOver.signal()
        }
        #expect(isOver.wait(timeout: .now() + 30) == .success)
        #expect(found.withLock { $0 } == 0)
        // Closing releases the lock.
        close(descriptor)
        #expect(store.counts.entryCount == 1)
        #expect(store.entries(for: "a").count == 1)
    }

    /// If SQLite removed the log by its name instead, it could remove the log of a new index.
    @Test func lastConnectionEmptiesTheLog() throws {
        let root = try TemporaryDirectory()
        let directory = CacheDirectory(path: root.file("cache").path)
        let size = { try Data(contentsOf: URL(fileURLWithPath: directory.index + "-wal")).count }
        for used in 1...3 {
            let database = try SQLiteConnection.index(in: directory, busyMilliseconds: 100, mayEmpty: true).0
            try database.execute("UPDATE totals SET used = \(used)")
            #expect(try size() > 0)
            #expect(try database.rows("SELECT used FROM totals") { $0.number(0) } == [Int64(used)])
            withExtendedLifetime(database) {}
        }
        #expect(try size() == 0)
    }

    @Test func entryThatCouldNotBeRemovedIsNotUsed() throws {
        store.put("a")
        store.put("b")
        #expect(store.counts.entryCount == 2)
        // Another process locks the index for longer than a change waits.
        let other = try directory.index()
        try other.execute("BEGIN EXCLUSIVE")
        store.removeAll(key: "a")
        #expect(store.counts.entryCount == 2)
        try other.execute("ROLLBACK")
        #expect(store.entries(for: "a").isEmpty)
        #expect(store.entries(for: "b").count == 1)
        // The next change removes the response for `a`.
        store.put("c")
        #expect(store.counts.entryCount == 2)
        #expect(directory.makeStore().entries(for: "a").isEmpty)
        store.put("a")
        #expect(store.entries(for: "a").count == 1)
    }

    /// The queue is suspended, so it never makes the pending change of the key.
    @Test func lookupThatWaitsForTooLongIsAMiss() throws {
        store.put("a")
        #expect(store.entries(for: "a").count == 1)
        store.queue.suspend()
        store.put("a")
        #expect(store.entries(for: "a").isEmpty)
        store.queue.resume()
        #expect(store.counts.entryCount == 1)
        #expect(store.entries(for: "a").count == 1)
    }
}
