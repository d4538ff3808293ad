import ConvoySQLite
import Foundation
import Testing

@testable import Convoy
@testable import ConvoyCache

/// Tests directories whose contents no store has written.
@Suite(.timeLimit(.minutes(5)))
struct ForgedStoreTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    /// Runs work on a separate thread; returns false if the work does not end.
    private static func ends(_ work: @escaping @Sendable () -> Void) -> Bool {
        let isOver = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            work()
            isOver.signal()
        }
        return isOver.wait(timeout: .now() + 30) == .success
    }

    /// The row belongs to no response, so it is the first to be evicted.
    @Test func aUseOfAnyNumberIsEvicted() throws {
        directory.fill("a", .test(7, 3_000))
        try directory.index().execute("INSERT INTO uses VALUES (1 << 62, 0)")
        let store = directory.makeStore(capacity: 5_000)
        #expect(Self.ends { store.put("b", Data(repeating: 8, count: 3_000)) })
    }

    @Test(arguments: [
        "UPDATE totals SET entries = 4611686018427387904", "UPDATE totals SET entries = -9223372036854775808",
        "UPDATE totals SET used = 9223372036854775807", "UPDATE totals SET bytes = -9223372036854775807",
        "UPDATE totals SET bytes = -1", "DELETE FROM totals", "UPDATE entries SET bytes = 9223372036854775807",
        "UPDATE entries SET bytes = -9223372036854775807", "UPDATE totals SET bytes = 9999999; DELETE FROM uses",
        "UPDATE totals SET used = 0",
    ])
    func impossibleNumbersAreDamage(_ forgery: String) throws {
        directory.fill()
        try directory.index().execute(forgery)
        let store = directory.makeStore()
        // This response replaces the first one, or gets the number of the first one.
        let key = forgery.hasSuffix("used = 0") ? "b" : "a"
        store.put(key, .test(8, 200))
        #expect(store.read(key) == .test(8, 200))
        let counts = store.counts
        #expect(counts.repairs > 0 && counts.entryCount == 1 && (200..<1000).contains(counts.storedBytes))
    }

    @Test func updateOfAnEntryWithAnImpossibleSizeIsDamage() throws {
        let store = directory.makeStore()
        store.put("a", Data(repeating: 7, count: 100))
        let entry = try #require(store.entries(for: "a").first)
        try directory.index().execute("UPDATE entries SET bytes = -9223372036854775807")
        store.update(entry.id, to: entry.head)
        #expect(store.counts.repairs > 0)
    }

    /// A new index reuses the numbers of entries.
    @Test(arguments: ["a", "b"])
    func numberOfAnotherEntryIsAMiss(_ key: String) throws {
        let store = directory.makeStore()
        store.put("a", Data(repeating: 7, count: 100_000))
        let old = try #require(store.entries(for: "a").first)
        store.removeAll()
        _ = store.counts
        try directory.index().execute("UPDATE totals SET used = 0")
        store.put(key, Data(repeating: 8, count: 100_000))
        #expect(store.entries(for: key).first?.id == old.id)
        #expect(store.openBody(of: old, key: "a") == nil)
        #expect(store.read(key) == Data(repeating: 8, count: 100_000))
        #expect(store.counts.repairs == 0)
    }

    @Test func usesMakeNoDirectory() throws {
        let store = directory.makeStore()
        store.put("a", Data(repeating: 7, count: 100))
        let entry = try #require(store.entries(for: "a").first)
        _ = store.counts
        let gate = DispatchSemaphore(value: 0)
        store.queue.async { gate.wait() }
        store.use(entry.id)
        store.close()
        let cache = directory.file("cache")
        try FileManager.default.removeItem(at: cache)
        gate.signal()
        store.awaitAllChanges()
        #expect(!FileManager.default.fileExists(atPath: cache.path))
    }

    @Test(arguments: [true, false])
    func fileOutsideTheBodiesIsNeitherServedNorRemoved(_ isRead: Bool) throws {
        let body = Data(repeating: 7, count: 100_000)
        try body.write(to: directory.file("other"))
        let store = directory.makeStore()
        store.put("a", body)
        #expect(store.read("a") == body)
        try directory.index().execute("UPDATE entries SET file = '../../other'")
        if isRead { #expect(store.read("a") == nil) }
        store.removeAll()
        #expect(store.counts.entryCount == 0)
        #expect(store.counts.repairs == (isRead ? 1 : 0))
        #expect(try Data(contentsOf: directory.file("other")) == body)
    }

    @Test(.enabled(if: geteuid() == 0, "only root can give a directory away"))
    func directoryOfAnotherUserIsNotUsed() throws {
        let key: Data
        do {
            let store = directory.makeStore()
            key = store.digest.key
            store.put("a", Data(repeating: 7, count: 10))
            #expect(store.read("a") != nil)
        }
        let path = directory.file("cache").path
        #expect(chown(path, 12_345, 12_345) == 0)
        let store = directory.makeStore()
        #expect(store.digest.key != key)
        #expect(store.read("a") == nil)
        store.put("b", Data(repeating: 7, count: 100_000))
        #expect(store.read("b") == nil)
        #expect(try FileManager.default.contentsOfDirectory(atPath: path + "/convoy-cache-parts").isEmpty)
    }

    @Test func headWithImpossibleNumbersIsDamaged() {
        func isRead(_ change: (inout StoredHead) -> Void) -> Bool {
            var head = StoredHead.test("a", 10)
            change(&head)
            return HeadCoding.decode(HeadCoding.encode(head, bodyDigest: 1)) != nil
        }
        #expect(isRead { $0.offset = .max - 10 })
        #expect(!isRead { $0.offset = .max - 9 })
        #expect(!isRead { $0.offset = -1 })
        #expect(!isRead { $0.bodyBytes = -1 })
        #expect(!isRead { $0.requestTime = .max })
        #expect(!isRead { $0.responseTime = .min })
        var head = StoredHead.test("a", 10)
        head.offset = .max - 9
        #expect(head.positions.isEmpty)
    }

    /// Opening a FIFO waits for its other end.
    @Test func fifoIsNotWaitedFor() throws {
        directory.fill("a", .test(7, 10))
        for name in ["convoy-cache.key", "convoy-cache-parts/part"] {
            #expect(mkfifo(directory.file("cache/" + name).path, 0o600) == 0)
        }
        let store = directory.makeStore()
        #expect(Self.ends { _ = store.digest })
        #expect(store.read("a") == .test(7, 10))
        #expect(Self.ends { store.put("b", Data(repeating: 8, count: 10)) })
        #expect(store.read("b") == Data(repeating: 8, count: 10))
    }

    /// Each change enqueues the next one until the test ends.
    @Test func countsDoNotWaitForLaterChanges() throws {
        let store = directory.makeStore()
        let isOver = Locked(false)
        @Sendable func again() {
            store.change("a", isOptional: true) { _, _ in if !isOver.withLock({ $0 }) { again() } }
        }
        again()
        #expect(Self.ends { _ = store.counts })
        isOver.withLock { $0 = true }
    }

    @Test func readsDoNotEmptyAnotherSchema() throws {
        directory.fill()
        try directory.index().execute("PRAGMA user_version = 99")
        let store = directory.makeStore()
        #expect(store.entries(for: "a").isEmpty)
        #expect(store.heads().isEmpty && store.counts.entryCount == 0)
        store.queue.sync {}
        #expect(try directory.index().number("SELECT count(*) FROM entries") == 1)
    }

    @Test func anAnswerInMemoryReadsNoKeyFile() throws {
        let cache = HTTPCache(directory: directory.file("cache"), capacity: 1 << 20)
        let request = try Request<Data>.get("http://host/a").core.prepared(RequestDefaults())
        let query = CacheQuery(request, nil, clock: SystemClock.shared)
        let key = directory.file("cache/convoy-cache.key").path
        var isMiss = false
        #expect(cache.answer(query, isMiss: &isMiss) { _, _, _ in true } == nil)
        #expect(!isMiss)
        #expect(!FileManager.default.fileExists(atPath: key))
        let isFound = DispatchSemaphore(value: 0)
        #expect(cache.look(query) { _ in isFound.signal() } == nil)
        #expect(isFound.wait(timeout: .now() + 30) == .success)
        #expect(FileManager.default.fileExists(atPath: key))
    }
}
