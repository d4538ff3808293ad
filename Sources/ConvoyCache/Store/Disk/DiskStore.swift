// Stores responses in a directory: an SQLite index with small bodies, and files for larger ones.
import Convoy
import Foundation

/// A store in a directory, which several processes may use at once.
///
/// One queue applies changes in order, many in one transaction. A lookup waits only for pending changes of its key, or
/// of all keys.
///
/// The store never calls `fsync`. Heads and bodies have digests, and a digest mismatch is a cache miss.
final class DiskStore: CacheStore {
    /// The maximum size of a body in the index.
    static let smallBytes = 32 << 10
    /// The number of bytes waiting for the disk at which the store accepts no further response.
    ///
    /// A chunk that brings the total above this number ends the storing of its response.
    static let mostBacklogBytes = 64 << 20
    /// The number of queued changes at which the store no longer waits for more.
    static let mostGathered = 512
    /// How long a lookup waits for the changes of its key.
    ///
    /// After that time the lookup counts as a miss.
    static let mostWait = DispatchTimeInterval.seconds(2)
    /// How long a listing of all entries waits for changes.
    ///
    /// The time is longer than a change waits for the lock of another process.
    static let mostWaitForAll = DispatchTimeInterval.seconds(10)
    /// How long a lookup that opens a connection waits for the lock of another process.
    ///
    /// After that time the lookup counts as a miss.
    static let mostReadLockWait = Duration.milliseconds(200)
    /// How long the store reuses the result of an empty lookup.
    ///
    /// The time is short, because another process may store a response during it.
    static let missLifetime = Duration.seconds(1)
    static let mostMisses = 1024
    /// The number of entries that can be added to a filter in the time of one lookup on the disk, an estimate.
    ///
    /// The store builds a filter only after so many empty lookups that the filter costs no more than they did.
    static let entriesPerMiss = 1000
    /// The number of entries with uses that are not in the index yet, at which the next use records them all.
    static let mostUses = 4096
    /// The age of the oldest use that is not in the index yet, at which the next use records them all.
    static let mostUseAge = Duration.seconds(60)

    let directory: CacheDirectory
    let capacity: Int64
    let mostEntryBytes: Int64
    /// How long stored responses wait for others, so that one transaction writes many.
    ///
    /// A removal, an update, a lookup of a waiting response, a listing of all responses, and ``mostGathered`` changes
    /// end the wait.
    let gatherTime: DispatchTimeInterval
    let state = Locked(State())
    let queue = DispatchQueue(label: "convoy.cache.disk")
    /// The connection for changes, which only code on `queue` uses.
    let writer = Locked<Database?>(nil)
    /// Watches the version of the index that the connection for changes opened.
    let watch = Locked<IndexWatch?>(nil)
    /// Copies of the entries that were read last, and the filter of stored keys.
    let hot = Locked(HotEntries())

    /// The body files whose digests this process has checked.
    let verified = VerifiedFiles()

    private let readDigest = Locked((digest: KeyedDigest?.none, waits: true))

    var mayBlock: Bool { true }

    /// Reads the key file on first use.
    ///
    /// The cache uses this property first on a thread that may block. If locking the file times out, the caller gets a
    /// digest with a random key. The next call then does not wait for the lock.
    var digest: KeyedDigest {
        let (known, waits) = readDigest.withLock { $0 }
        if let known { return known }
        var directory = directory
        if !waits { directory.mostLockWait = .zero }
        let read = directory.digest
        return readDigest.withLock { state in
            state = (state.digest ?? read, read != nil)
            return state.digest
        } ?? KeyedDigest()
    }

    var knownDigest: KeyedDigest? { readDigest.withLock { $0.digest } }

    /// - Parameter mostLockWait: how long a change waits for the lock of another process.
    init(
        directory: URL, capacity: Int64, mostEntryBytes: Int64, gatherTime: DispatchTimeInterval = .milliseconds(10),
        mostLockWait: Duration = .seconds(2)
    ) {
        self.directory = CacheDirectory(path: directory.path, mostLockWait: mostLockWait)
        self.gatherTime = gatherTime
        (self.capacity, self.mostEntryBytes) = (capacity, min(mostEntryBytes, capacity))
        queue.async {
            self.sweep()
            self.buildFilter()
        }
    }

    // MARK: Reading

    /// Runs a query with an idle or new connection; nil if it fails.
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
                var directory = directory
                directory.mostLockWait = Self.mostReadLockWait
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
        let hash = KeyHash.of(key)
        let (known, version) = (hot.withLock { $0.version }, indexVersion)
        let found = read { database throws(DatabaseError) in
            // Only the first entry's body is copied. Most keys have a single entry.
            var isFirst = true
            return try database.rows(
                "SELECT id, head, body FROM entries WHERE hash = ? ORDER BY id", .integer(hash)
            ) { columns -> Found? in
                let stored = HeadCoding.decode(columns.blob(1) ?? Data(), key: nil)
                // Skips a row of another key with the same hash.
                if let stored, stored.key != key, KeyHash.of(stored.key) == hash { return nil }
                defer { isFirst = false }
                return Found(
                    id: columns.integer(0), stored: stored?.key == key ? stored : nil,
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
            return StoredEntry(id: row.id, head: stored.head, body: row.body, bodyDigest: stored.bodyDigest)
        }
        if !damaged.isEmpty { repair(damaged, of: key) }
        if found?.isEmpty == true { noteMiss(of: key, changeCount) }
        // Entries are kept if the version did not change during the query. Each use compares this version with the
        // index.
        if found != nil, damaged.isEmpty, let version, watch.withLock({ $0 })?.version == version {
            hot.withLock { $0.keep(key, hash, entries, in: version, since: known) }
        }
        buildFilterLater()
        return entries
    }

    /// A row that a query returned.
    private struct Found {
        var id: Int64
        var stored: (key: String, head: StoredHead, bodyDigest: Int64)?
        var body: Data?
    }

    private static func isWhole(_ body: Data, _ head: StoredHead, _ digest: Int64) -> Bool {
        body.count == head.bodyBytes && BodyDigest.of(body) == digest
    }

    func openBody(of entry: StoredEntry, key: String) -> StoredBody? {
        let id = entry.id
        let rows = read { database throws(DatabaseError) in
            try database.rows("SELECT hash, head, body, file FROM entries WHERE id = ?", .integer(id)) { columns in
                (
                    hash: columns.integer(0), head: columns.blob(1) ?? Data(), body: columns.blob(2),
                    file: columns.fileName(3)
                )
            }
        }
        guard let row = rows?.first else { return nil }
        guard let (storedKey, head, digest) = HeadCoding.decode(row.head, key: nil), KeyHash.of(storedKey) == row.hash
        else {
            repair([id], of: "")
            return nil
        }
        // A recreated index may use the identifier for another response.
        guard storedKey == key, digest == entry.bodyDigest else { return nil }
        if let file = row.file {
            guard let stored = directory.open(file, byteCount: head.bodyBytes) else {
                if exists(id) { repair([id], of: key) }
                return nil
            }
            if verified.isUnchanged(file, stored) { return .file(stored) }
            let stamp = stored.stamp
            if stored.digest == digest {
                verified.add(file, stamp)
                return .file(stored)
            }
        } else if let body = row.body, Self.isWhole(body, head, digest) {
            return .data(body)
        }
        repair([id], of: key)
        return nil
    }

    /// Whether an entry still exists.
    ///
    /// The store removes a row first and its file later. A missing file is damage only if the row exists.
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
}
