import Convoy
import ConvoySQLite
import Foundation
import Testing

@testable import ConvoyCache

@Suite(.timeLimit(.minutes(5)))
struct DiskStoreTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test(arguments: [0, 1, 31, 32, 33, 32 << 10, (32 << 10) + 1, 500_000])
    func twoStoresReadEachOthersEntries(_ count: Int) throws {
        let first = directory.makeStore()
        let second = directory.makeStore()
        first.put("a", .test(1, count))
        #expect(first.read("a") == .test(1, count))
        #expect(second.read("a") == .test(1, count))
        #expect(second.entries(for: "a").first?.head == .test("a", count))
        #expect(first.counts.repairs == 0)
        second.put("a", .test(2, count + 1))
        #expect(second.read("a") == .test(2, count + 1))
        #expect(second.counts.entryCount == 1)
    }

    @Test func filesAreTheirOwnersAlone() throws {
        let store = directory.makeStore()
        store.put("a", .test(1, 100_000))
        _ = store.counts
        let root = directory.file("cache")
        let names = try FileManager.default.subpathsOfDirectory(atPath: root.path)
        #expect(names.count >= 3)
        for path in [root.path] + names.map({ root.appending(path: $0).path }) {
            var status = stat()
            #expect(stat(path, &status) == 0 && status.st_mode & 0o077 == 0, "\(path)")
        }
    }

    private func makeStore(_ place: Place, _ capacity: Int64) -> any CacheStore {
        place == .disk
            ? directory.makeStore(capacity: capacity) : MemoryStore(capacity: capacity, mostEntryBytes: capacity)
    }

    @Test(arguments: Place.allCases)
    func leastRecentlyUsedGoesAndTheBoundHolds(_ place: Place) throws {
        let capacity: Int64 = 500_000
        let store = makeStore(place, capacity)
        for number in 0..<60 {
            store.put("k\(number)", .test(number, number.isMultiple(of: 2) ? 20_000 : 50_000))
            if let first = store.entries(for: "k0").first { store.use(first.id) }
            #expect(store.counts.storedBytes <= capacity)
        }
        #expect(store.read("k0") == .test(0, 20_000))
        #expect(store.entries(for: "k1").isEmpty)
        #expect(store.read("k59") == .test(59, 50_000))
        #expect(store.counts.evictions > 0)
        if place == .disk {
            let names = try directory.names(in: "cache/convoy-cache-bodies")
            let bytes = try names.map { try Data(contentsOf: directory.file("cache/convoy-cache-bodies/" + $0)).count }
            #expect(Int64(bytes.reduce(0, +)) <= capacity)
        }
        // This response is larger than the store's limit.
        store.put("large", .test(1, 600_000))
        #expect(store.entries(for: "large").isEmpty)
    }

    @Test func commitsAtOnceReplaceEachOtherInMemory() {
        let store = MemoryStore(capacity: 1_000_000, mostEntryBytes: 1_000_000)
        DispatchQueue.concurrentPerform(iterations: 200) { number in
            store.put("key", .test(number, 10))
        }
        #expect(store.entries(for: "key").count == 1)
    }

    @Test(arguments: Place.allCases)
    func longerFieldsOfAnUpdateKeepTheBound(_ place: Place) throws {
        let capacity: Int64 = 20_000
        let store = makeStore(place, capacity)
        for key in ["a", "b", "c"] { store.put(key, .test(1, 5_000)) }
        let first = try #require(store.entries(for: "a").first)
        store.use(first.id)
        var head = first.head
        head.headerFields["X"] = String(repeating: "x", count: 8 << 10)
        store.update(first.id, to: head)
        #expect(store.counts.storedBytes <= capacity)
        #expect(store.counts.evictions == 1)
        // The response that was used last stays.
        #expect(store.entries(for: "a").first?.head == head)
        #expect(store.entries(for: "b").isEmpty)
    }

    /// The index has another version, or is no database.
    @Test(arguments: [3, 4, 99, nil])
    func otherSchemaIsEmptied(_ version: Int?) throws {
        directory.fill()
        if let version {
            try directory.index().execute("PRAGMA user_version = \(version)")
        } else {
            try FileManager.default.removeItem(at: directory.file("cache"))
            let root = try directory.makeDirectory("cache")
            try Data(repeating: 7, count: 10_000).write(to: root.appending(path: "convoy-cache.sqlite"))
        }
        let store = directory.makeStore()
        #expect(store.entries(for: "a").isEmpty)
        store.put("b", .test(2, 100))
        #expect(store.read("b") == .test(2, 100) && store.counts.entryCount == 1)
        if version == nil { #expect(store.counts.repairs > 0) }
    }

    @Test func aRemovedDirectoryIsAMissAndIsCreatedAgain() throws {
        let store = directory.makeStore()
        store.put("a", .test(1, 100_000))
        #expect(store.read("a") != nil)
        try FileManager.default.removeItem(at: directory.file("cache"))
        #expect(store.read("a") == nil)
        store.put("b", .test(2, 100_000))
        #expect(store.read("b") == .test(2, 100_000))
    }

    /// Another process has found damage, and has created a new index and files with the same names.
    @Test func indexThatAnotherStoreHasReplacedIsReopened() throws {
        let first = directory.makeStore()
        first.put("a", .test(1, 100))
        #expect(first.read("a") != nil)
        first.directory.empty()
        let second = directory.makeStore()
        second.put("b", .test(2, 100))
        #expect(second.read("b") == .test(2, 100))
        #expect(first.read("b") == .test(2, 100))
        first.put("c", .test(3, 100))
        // Waits until the change is written, so that the other store finds it.
        _ = first.counts
        #expect(second.read("c") == .test(3, 100))
    }

    @Test func bodyThatCouldNotBeNamedIsRemoved() throws {
        let store = directory.makeStore()
        store.put("a", .test(1, 100))
        _ = store.counts
        // Another process locks the index for longer than a change waits.
        let other = try directory.index()
        try other.execute("BEGIN EXCLUSIVE")
        store.put("b", .test(2, 100_000))
        _ = store.counts
        try other.execute("ROLLBACK")
        #expect(store.entries(for: "b").isEmpty)
        #expect(try directory.names(in: "cache/convoy-cache-bodies").isEmpty)
    }

    @Test func directoryThatCannotBeMadeStoresNothing() throws {
        try Data().write(to: directory.file("cache"))
        let store = directory.makeStore()
        store.put("a", .test(1, 100_000))
        store.put("b", .test(1, 10))
        #expect(store.entries(for: "a").isEmpty)
        #expect(store.counts.entryCount == 0)
    }

    /// Damages files at random.
    ///
    /// A later read returns the stored bytes or nothing.
    ///
    /// `CONVOY_LONG=1` makes 800 damages.
    @Test func damageIsAMissAndIsMended() async throws {
        var random = SeededGenerator(seed: 7)
        var (damages, round) = (0, 0)
        while damages < LongRuns.count(80, long: 800) {
            round += 1
            let directory = try TemporaryDirectory()
            let root = directory.file("cache")
            do {
                let store = directory.makeStore()
                for number in 0..<12 {
                    store.put("k\(number)", .test(number, number.isMultiple(of: 2) ? 3_000 : 60_000))
                }
                _ = store.counts
            }
            // The store closes its index on another thread. The index is closed when SQLite has emptied the log.
            let log = root.appending(path: "convoy-cache.sqlite-wal")
            try await look { try Data(contentsOf: log).isEmpty }
            let others = ["-shm", "-wal", "-bodies", "-parts"]
            let names = try FileManager.default.subpathsOfDirectory(atPath: root.path)
                .filter { name in !others.contains { name.hasSuffix($0) } }.sorted()
            for _ in 0..<(1 + round % 3) {
                let file = root.appending(path: try #require(names.randomElement(using: &random)))
                guard var bytes = try? Data(contentsOf: file), !bytes.isEmpty,
                    let handle = try? FileHandle(forWritingTo: file)
                else { continue }
                damages += 1
                if Bool.random(using: &random) {
                    bytes = bytes.prefix(Int.random(in: 0..<bytes.count, using: &random))
                } else {
                    let index = Int.random(in: 0..<bytes.count, using: &random)
                    bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &random)
                }
                // The file is changed in place, so it keeps its inode.
                try handle.truncate(atOffset: 0)
                try handle.write(contentsOf: bytes)
                try handle.close()
            }
            let store = directory.makeStore()
            for number in 0..<12 {
                let expected: Data = .test(number, number.isMultiple(of: 2) ? 3_000 : 60_000)
                let found = store.read("k\(number)")
                #expect(found == nil || found == expected, "round \(round)")
            }
            for number in 0..<12 {
                store.put("k\(number)", .test(number + 1, 5_000))
                #expect(store.read("k\(number)") == .test(number + 1, 5_000), "round \(round)")
            }
        }
    }

    /// If the log is cut off, SQLite reports another error to open connections than for a damaged file.
    @Test func logThatIsCutBesideAnotherProcessIsMended() throws {
        let other = directory.makeStore()
        other.put("a", .test(1, 3_000))
        #expect(other.counts.entryCount == 1)
        withExtendedLifetime(other) {
            #expect(truncate(directory.file("cache/convoy-cache.sqlite-wal").path, 0) == 0)
            let store = directory.makeStore()
            store.put("a", .test(2, 5_000))
            #expect(store.read("a") == .test(2, 5_000))
            #expect(store.counts.repairs > 0)
            #expect(other.read("a") == .test(2, 5_000))
        }
    }

    @Test func digestIsXXH64() {
        let text = Data("Call me Ishmael. Some years ago--never mind how long precisely-".utf8)
        let digests = [Data(), Data("a".utf8), Data("abc".utf8), text].map { UInt64(bitPattern: BodyDigest.of($0)) }
        #expect(
            digests == [0xEF46_DB37_51D8_E999, 0xD24E_C4F1_A98C_6E5B, 0x44BC_2CF5_AD77_0999, 0x02A2_E854_70D6_FD96])
        for cut in [1, 8, 31, 32, 40] {
            var digest = BodyDigest()
            digest.update(text.prefix(cut))
            digest.update(text.dropFirst(cut))
            #expect(digest.value == BodyDigest.of(text))
        }
    }
}
