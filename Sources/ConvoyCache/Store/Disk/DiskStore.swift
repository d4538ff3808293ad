// Responses in a directory: an index in SQLite, small bodies in it, larger ones in files.
import Convoy
import Foundation

/// A store in a directory, which several processes may use at once.
///
/// Changes are made in order on one queue, many in one transaction. Who looks for a key with changes under way waits for
/// them; others do not. Nothing is synced: heads and bodies have digests, and what does not fit is a miss.
final class DiskStore: CacheStore {
    /// A change, with what it leaves to be done to files when it has been committed.
    typealias Change = @Sendable (Database, inout FileChanges) throws(DatabaseError) -> Void

    struct FileChanges {
        var named: [String] = []
        var removed: [String] = []
    }

    struct QueuedChange: Sendable {
        /// Nil for one of all keys.
        let key: String?
        /// A body that is removed when the change fails.
        let file: String?
        /// Whether nothing is wrong when it is not made.
        let isOptional: Bool
        let change: Change
    }

    struct Waiter: Sendable {
        let key: String?
        let isOver = DispatchSemaphore(value: 0)
    }

    struct State {
        /// Connections that nobody uses now.
        var readers: [Database] = []
        /// Which index they are of.
        var indexNumber: UInt64 = 0
        var changes: [QueuedChange] = []
        /// Keys whose entries have to go, and could not be removed yet; nil is the key of all.
        var invalidKeys: Set<String?> = []
        /// Those who wait for changes.
        var waiters: [Waiter] = []
        /// Which index the connection for changes is of.
        var writerNumber: UInt64 = 0
        /// How many changes of a key are under way.
        var pendingKeys: [String: Int] = [:]
        var pendingForAll = 0
        var isDraining = false
        /// Entries that were used and are not noted so.
        var used: [Int64] = []
        /// How many bytes wait to be written.
        var backlogBytes = 0
        var evictions = 0
        var repairs = 0
        /// An index that was found to be damaged.
        var damaged: UInt64?
        /// Keys that were looked for, and when nothing was there.
        var misses: [String: ContinuousClock.Instant] = [:]
        /// How many changes have come, ever.
        var changeCount = 0
    }

    /// Bodies up to this size are in the index.
    static let smallBytes = 32 << 10
    /// How many bytes may wait to be written: what comes while the disk is slower is not stored.
    static let mostBacklogBytes = 64 << 20
    /// How long a lookup waits for the changes of its key: longer is a miss.
    static let mostWait = DispatchTimeInterval.seconds(2)
    /// For how long it is believed that there is still nothing: another process may have stored it.
    private static let missLifetime = Duration.seconds(1)
    private static let mostMisses = 1024
    /// How many uses are noted at a time.
    private static let usesAtOnce = 256

    let directory: CacheDirectory
    let capacity: Int64
    let mostEntryBytes: Int64
    let state = Locked(State())
    let queue = DispatchQueue(label: "convoy.cache.disk")
    /// Only used on the queue.
    let writer = Locked<Database?>(nil)

    private let knownDigest = Locked<KeyedDigest?>(nil)

    var mayBlock: Bool { true }

    /// Reads a file when it is asked for the first time: an exchange does before any transport's thread.
    var digest: KeyedDigest {
        if let known = knownDigest.withLock({ $0 }) { return known }
        let read = directory.digest
        return knownDigest.withLock { known in
            let first = known ?? read
            known = first
            return first
        }
    }

    init(directory: URL, capacity: Int64, mostEntryBytes: Int64) {
        self.directory = CacheDirectory(path: directory.path)
        (self.capacity, self.mostEntryBytes) = (capacity, min(mostEntryBytes, capacity))
        queue.async { self.sweep() }
    }

    // MARK: Reading

    /// Uses a connection for reading; nil when that fails.
    func read<Value>(_ body: (Database) throws(DatabaseError) -> Value) -> Value? {
        let number = directory.indexNumber
        let kept = state.withLock { state -> Database? in
            if state.indexNumber != number { (state.readers, state.indexNumber) = ([], number) }
            return state.readers.popLast()
        }
        do throws(DatabaseError) {
            let database: Database
            if let kept {
                database = kept
            } else {
                // An index that is not there yet has nothing to be read.
                guard number != 0 else { return nil }
                database = try Database.index(in: directory, busyMilliseconds: 200, mayEmpty: false).0
            }
            let value = try body(database)
            state.withLock { state in
                if state.indexNumber == number, state.readers.count < 8 { state.readers.append(database) }
            }
            return value
        } catch {
            if error.isDamage { reportDamage(of: number) }
            return nil
        }
    }

    func entries(for key: String) -> [StoredEntry] {
        // What may be out of date is not there.
        guard awaitChanges(key, within: Self.mostWait),
            let changeCount = state.withLock({ state -> Int? in
                state.invalidKeys.contains(key) || state.invalidKeys.contains(nil) ? nil : state.changeCount
            })
        else { return [] }
        let found = read { database throws(DatabaseError) in
            // With the body of the first, which most often is the only one.
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

    /// A row as it was found.
    private struct Found {
        var id: Int64
        var stored: (key: String, head: StoredHead, bodyDigest: Int64)?
        var body: Data?
    }

    private static func isWhole(_ body: Data, _ head: StoredHead, _ digest: Int64) -> Bool {
        body.count == head.bodyBytes && BodyDigest.of(body) == digest
    }

    /// - Parameter changeCount: that before it was looked for: what has come since may have stored it.
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
                    file: columns.text(3))
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

    /// Whether an entry is still there: its file goes behind it.
    private func exists(_ id: Int64) -> Bool {
        let rows = read { database throws(DatabaseError) in
            try database.rows("SELECT 1 FROM entries WHERE id = ?", .integer(id)) { $0.integer(0) }
        }
        return rows?.isEmpty == false
    }

    func summaries() -> [StoredSummary] {
        _ = awaitChanges(nil)
        return read { database throws(DatabaseError) in
            try database.rows("SELECT head FROM entries") { columns in
                HeadCoding.decode(columns.blob(0) ?? Data(), key: nil).map { StoredSummary(key: $0.key, head: $0.head) }
            }
        } ?? []
    }

    var counts: StoreCounts {
        _ = awaitChanges(nil)
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

    /// Takes the uses that are not noted.
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
