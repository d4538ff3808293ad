// Stores responses in a directory: an SQLite index with small bodies, and files for larger ones.
import Convoy
import Foundation

/// A store in a directory, which several processes may use at once.
///
/// One queue applies changes in order, many in one transaction. A lookup waits for pending changes of its own key
/// only. The store never syncs. Heads and bodies have digests, and a mismatch is a miss.
final class DiskStore: CacheStore {
    /// A change of the database.
    ///
    /// It records the file changes to make after the commit.
    typealias Change = @Sendable (Database, inout FileChanges) throws(DatabaseError) -> Void

    struct FileChanges {
        var named: [String] = []
        var removed: [String] = []
    }

    struct QueuedChange: Sendable {
        /// The key of the change; nil for all keys.
        let key: String?
        /// A body to remove if the change fails.
        let file: String?
        /// Whether a failure is harmless.
        let isOptional: Bool
        let change: Change
    }

    struct Waiter: Sendable {
        let key: String
        let isOver = DispatchSemaphore(value: 0)
    }

    struct State {
        /// The idle connections for reading.
        var readers: [Database] = []
        /// The inode number of the index that they opened.
        var indexNumber: UInt64 = 0
        var changes: [QueuedChange] = []
        /// Keys whose entries must be removed but could not be yet; nil means all keys.
        var invalidKeys: Set<String?> = []
        /// The threads that wait for changes.
        var waiters: [Waiter] = []
        /// The inode number of the index that the connection for changes opened.
        var writerNumber: UInt64 = 0
        /// The number of pending changes of each key.
        var pendingKeys: [String: Int] = [:]
        var pendingForAll = 0
        var isDraining = false
        /// The entries whose use is not recorded in the index yet.
        var used: [Int64] = []
        /// The number of bytes that wait for the disk.
        var backlogBytes = 0
        var evictions = 0
        var repairs = 0
        /// The inode number of an index that was found to be damaged.
        var damaged: UInt64?
        /// The keys whose lookup found nothing, with the time of the lookup.
        var misses: [String: ContinuousClock.Instant] = [:]
        /// The number of changes enqueued so far.
        var changeCount = 0
    }

    /// The maximum size of a body in the index.
    static let smallBytes = 32 << 10
    /// The maximum number of bytes that wait for the disk.
    ///
    /// If the disk is slower, further responses are not stored.
    static let mostBacklogBytes = 64 << 20
    /// How long a lookup waits for the changes of its key.
    ///
    /// A longer wait is a miss.
    static let mostWait = DispatchTimeInterval.seconds(2)
    /// How long a list of all entries waits for changes; longer than a change waits for another process.
    static let mostWaitForAll = DispatchTimeInterval.seconds(10)
    /// How long an empty lookup stays valid.
    ///
    /// Another process may have stored a response since.
    private static let missLifetime = Duration.seconds(1)
    private static let mostMisses = 1024
    /// How many uses the index records at a time.
    private static let usesAtOnce = 256

    let directory: CacheDirectory
    let capacity: Int64
    let mostEntryBytes: Int64
    let state = Locked(State())
    let queue = DispatchQueue(label: "convoy.cache.disk")
    /// The connection for changes.
    ///
    /// Only the queue uses it.
    let writer = Locked<Database?>(nil)

    private let readDigest = Locked<KeyedDigest?>(nil)

    var mayBlock: Bool { true }

    /// Reads the key file on first use.
    ///
    /// An exchange does so before a transport's thread needs it.
    var digest: KeyedDigest {
        if let knownDigest { return knownDigest }
        let read = directory.digest
        return readDigest.withLock { known in
            let first = known ?? read
            known = first
            return first
        }
    }

    var knownDigest: KeyedDigest? { readDigest.withLock { $0 } }

    init(directory: URL, capacity: Int64, mostEntryBytes: Int64) {
        self.directory = CacheDirectory(path: directory.path)
        (self.capacity, self.mostEntryBytes) = (capacity, min(mostEntryBytes, capacity))
        queue.async { self.sweep() }
    }

    // MARK: Reading

    /// Reads with an idle or new connection; nil on failure.
    func read<Value>(_ body: (Database) throws(DatabaseError) -> Value) -> Value? {
        let number = directory.indexNumber
        let (kept, _) = state.withLock { state in
            // The caller of `withLock` releases the outdated connections.
            let outdated = state.takeReaders(unless: number)
            return (state.readers.popLast(), outdated)
        }
        do throws(DatabaseError) {
            let database: Database
            if let kept {
                database = kept
            } else {
                // A missing index has no entries.
                guard number != 0 else { return nil }
                database = try Database.index(in: directory, busyMilliseconds: 200, mayEmpty: false).0
            }
            let value = try body(database)
            state.withLock { state in
                if state.indexNumber == number, state.readers.count < 8 { state.readers.append(database) }
            }
            return value
        } catch {
            // Reads leave an index of another schema as it is. The first change removes it.
            if error.isDamage, error.code != DatabaseError.otherSchema { reportDamage(of: number) }
            return nil
        }
    }

    func entries(for key: String) -> [StoredEntry] {
        // Entries that may be outdated count as missing.
        guard awaitChanges(key),
            let changeCount = state.withLock({ state -> Int? in
                state.invalidKeys.contains(key) || state.invalidKeys.contains(nil) ? nil : state.changeCount
            })
        else { return [] }
        let found = read { database throws(DatabaseError) in
            // The query reads the body of the first entry too, which is most often the only one.
            var isFirst = true
            return try database.rows("SELECT id, head, body FROM entries WHERE key = ? ORDER BY id", .text(key)) {
                columns in
                defer { isFirst = false }
                return Found(
                    id: columns.integer(0), stored: HeadCoding.decode(columns.blob(1) ?? Data(), key: key),
                    body: isFirst ? columns.blob(2) : nil)
            }
        }
        var damaged: [Int64] = []
        let entries = (found ?? []).compactMap { row -> StoredEntry? in
            guard let stored = row.stored,
                row.body.map({ Self.isWhole($0, stored.head, stored.bodyDigest) }) != false
            else {
                damaged.append(row.id)
                return nil
            }
            return StoredEntry(id: row.id, head: stored.head, body: row.body)
        }
        if !damaged.isEmpty { repair(damaged, of: key) }
        if found?.isEmpty == true { noteMiss(of: key, changeCount) }
        return entries
    }

    func entriesInMemory(for key: String) -> [StoredEntry]? { nil }

    /// A row that a query returned.
    private struct Found {
        var id: Int64
        var stored: (key: String, head: StoredHead, bodyDigest: Int64)?
        var body: Data?
    }

    private static func isWhole(_ body: Data, _ head: StoredHead, _ digest: Int64) -> Bool {
        body.count == head.bodyBytes && BodyDigest.of(body) == digest
    }

    /// - Parameter changeCount: the count before the lookup. A later change may have stored the key.
    private func noteMiss(of key: String, _ changeCount: Int) {
        let now = ContinuousClock.now
        state.withLock { state in
            guard state.changeCount == changeCount else { return }
            if state.misses.count >= Self.mostMisses { state.misses = [:] }
            state.misses[key] = now
        }
    }

    func takeMiss(of key: String) -> Bool {
        guard let found = state.withLock({ $0.misses.removeValue(forKey: key) }) else { return false }
        return found.duration(to: .now) < Self.missLifetime
    }

    func openBody(of id: Int64) -> StoredBody? {
        struct Row {
            var key: String
            var head: Data
            var body: Data?
            var file: String?
        }
        let rows = read { database throws(DatabaseError) in
            try database.rows("SELECT key, head, body, file FROM entries WHERE id = ?", .integer(id)) { columns in
                Row(
                    key: columns.text(0) ?? "", head: columns.blob(1) ?? Data(), body: columns.blob(2),
                    file: columns.fileName(3))
            }
        }
        guard let row = rows?.first else { return nil }
        guard let (_, head, digest) = HeadCoding.decode(row.head, key: row.key) else {
            repair([id], of: row.key)
            return nil
        }
        if let file = row.file {
            guard let stored = directory.open(file, byteCount: head.bodyBytes) else {
                if exists(id) { repair([id], of: row.key) }
                return nil
            }
            if stored.digest == digest { return .file(stored) }
        } else if let body = row.body, Self.isWhole(body, head, digest) {
            return .data(body)
        }
        repair([id], of: row.key)
        return nil
    }

    /// Whether an entry still exists.
    ///
    /// Its file is removed after it.
    private func exists(_ id: Int64) -> Bool {
        let rows = read { database throws(DatabaseError) in
            try database.rows("SELECT 1 FROM entries WHERE id = ?", .integer(id)) { $0.integer(0) }
        }
        return rows?.isEmpty == false
    }

    func summaries() -> [StoredSummary] {
        awaitAllChanges()
        return read { database throws(DatabaseError) in
            try database.rows("SELECT head FROM entries") { columns in
                HeadCoding.decode(columns.blob(0) ?? Data(), key: nil).map { StoredSummary(key: $0.key, head: $0.head) }
            }
        } ?? []
    }

    var counts: StoreCounts {
        awaitAllChanges()
        var counts = StoreCounts()
        let totals = read { database throws(DatabaseError) in
            try database.rows("SELECT bytes, entries FROM totals") { ($0.integer(0), $0.integer(1)) }
        }
        if let (bytes, entries) = totals?.first { (counts.bytes, counts.entries) = (bytes, Int(clamping: entries)) }
        state.withLock { (counts.evictions, counts.repairs) = ($0.evictions, $0.repairs) }
        return counts
    }

    // MARK: Uses

    func use(_ id: Int64) {
        let used = state.withLock { state -> [Int64] in
            state.used.append(id)
            guard state.used.count >= Self.usesAtOnce else { return [] }
            defer { state.used = [] }
            return state.used
        }
        if !used.isEmpty {
            change("", isOptional: true) { database, _ throws(DatabaseError) in try Self.note(used, in: database) }
        }
    }

    /// Removes and returns the uses that are not recorded yet.
    func takeUses() -> [Int64] {
        state.withLock { state in
            defer { state.used = [] }
            return state.used
        }
    }

    static func note(_ used: [Int64], in database: Database) throws(DatabaseError) {
        for id in used {
            try database.run("UPDATE totals SET used = used + 1")
            try database.run("UPDATE entries SET used = (SELECT used FROM totals) WHERE id = ?", .integer(id))
        }
    }
}
