import Convoy
import ConvoySQLite
import Foundation
import Testing

@testable import ConvoyCache

/// Tests which entries a store keeps in memory, and when it drops them.
@Suite(.timeLimit(.minutes(5)))
struct HotEntriesTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    /// Returns when the response is written.
    private func put(_ key: String, _ count: Int, in store: DiskStore) {
        store.put(key, Data(count: count))
        _ = store.counts
    }

    @Test func entriesAreKnownUntilAnotherStoreChangesTheIndex() throws {
        let (first, second) = (directory.makeStore(), directory.makeStore())
        put("a", 1000, in: first)
        #expect(first.entries(for: "a").count == 1)
        #expect(first.entriesInMemory(for: "a")?.first?.body?.count == 1000)
        // A change by the store itself drops no other entries from memory.
        put("b", 1000, in: first)
        #expect(first.entriesInMemory(for: "a")?.count == 1)
        #expect(first.entriesInMemory(for: "b") == nil)
        put("c", 1000, in: second)
        #expect(first.entriesInMemory(for: "a") == nil)
        #expect(first.entries(for: "a").count == 1)
        #expect(first.entriesInMemory(for: "a")?.count == 1)
        put("a", 2000, in: first)
        #expect(first.entriesInMemory(for: "a") == nil)
        #expect(first.entries(for: "a").first?.body?.count == 2000)
    }

    @Test func missingKeysAreKnownWithoutARead() throws {
        let store = directory.makeStore()
        put("a", 1000, in: store)
        let missing = (0..<1000).filter { store.entriesInMemory(for: "missing \($0)")?.isEmpty == true }
        #expect(missing.count > 980)
        #expect(store.entriesInMemory(for: "a")?.isEmpty != true)
        put("missing 1", 1000, in: store)
        #expect(store.entriesInMemory(for: "missing 1")?.isEmpty != true)
    }

    @Test func filterHasFewFalsePositives() {
        var filter = KeyFilter(capacity: 20_000)
        for number in 0..<20_000 { filter.insert(KeyHash.of("http://host/\(number)")) }
        #expect((0..<20_000).allSatisfy { filter.mayContain(KeyHash.of("http://host/\($0)")) })
        let positives = (0..<20_000).filter { filter.mayContain(KeyHash.of("http://host/new/\($0)")) }
        #expect(positives.count < 100)
        #expect(!filter.isCrowded)
        for number in 0...20_000 { filter.insert(KeyHash.of("http://other/\(number)")) }
        #expect(filter.isCrowded)
    }

    @Test func evictedEntriesAreForgotten() throws {
        let store = directory.makeStore(capacity: 20_000)
        put("a", 9_000, in: store)
        #expect(store.entries(for: "a").count == 1)
        #expect(store.entriesInMemory(for: "a")?.count == 1)
        for key in ["b", "c"] { put(key, 9_000, in: store) }
        #expect(store.counts.evictions > 0)
        #expect(store.entriesInMemory(for: "a")?.isEmpty != false)
        #expect(store.entries(for: "a").isEmpty)
    }

    private static func version(_ commitCount: UInt8) throws -> IndexVersion {
        var bytes = [UInt8](repeating: 0, count: 48)
        (bytes[8], bytes[12]) = (commitCount, 1)
        return try #require(bytes.withUnsafeBytes { $0.baseAddress.map { IndexVersion($0) } })
    }

    private static var entry: StoredEntry {
        StoredEntry(id: 1, head: .test("", 10_000), body: Data(count: 10_000))
    }

    /// The commit comes after the lookup, and before the entries that the lookup found are kept in memory.
    @Test func lateLookupKeepsWhatACommitHasAdvanced() throws {
        var hot = HotEntries()
        let (first, second, third) = (try Self.version(1), try Self.version(2), try Self.version(9))
        hot.keep("a", 1, [Self.entry], in: first, since: nil)
        let known = hot.version
        hot.advance(from: first, to: second, changed: [])
        hot.keep("b", 2, [Self.entry], in: first, since: known)
        #expect(hot.find("a", 1, in: second)?.count == 1)
        #expect(hot.find("b", 2, in: second) == nil)
        // Without a commit of this process, a different version comes from another process.
        hot.keep("c", 3, [Self.entry], in: third, since: hot.version)
        #expect(hot.find("c", 3, in: third)?.count == 1)
    }

    @Test func usesOfAStoreWithOnlyHitsAreRecordedWhenItCloses() throws {
        let capacity: Int64 = 30_000
        do {
            let store = directory.makeStore(capacity: capacity)
            for key in ["a", "b"] { put(key, 9_000, in: store) }
        }
        do {
            let store = directory.makeStore(capacity: capacity)
            store.use(try #require(store.entries(for: "a").first).id)
            store.close()
            _ = store.counts
        }
        let store = directory.makeStore(capacity: capacity)
        for key in ["c", "d"] { put(key, 9_000, in: store) }
        #expect(store.entries(for: "a").count == 1)
        #expect(store.entries(for: "b").isEmpty)
    }

    @Test func lockOfAnotherProcessIsNotAwaitedForever() throws {
        var files = CacheDirectory(path: directory.file("cache").path)
        files.make()
        files.mostLockWait = .milliseconds(1)
        let descriptor = open(files.path + "/convoy-cache.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        #expect(flock(descriptor, LOCK_EX) == 0)
        #expect(throws: SQLiteError.self) { try files.locked {} }
        #expect(files.digest == nil)
        // Closing releases the lock.
        close(descriptor)
        #expect(throws: Never.self) { try files.locked {} }
        #expect(files.digest != nil)
    }
}
