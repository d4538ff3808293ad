import Convoy
import ConvoySQLite
import Foundation

// Several processes may use the directory at once. One queue applies changes in order, many in one transaction; a
// lookup waits only for pending changes of its key, or of all keys.
// The store never calls `fsync`: heads and bodies have digests, and a digest mismatch is a cache miss.
final class DiskStore: CacheStore {
    typealias Change = @Sendable (SQLiteConnection, inout Effects) throws -> Void

    struct Effects {
        var named: [String] = []
        var removed: [String] = []
        var (bytes, entries, used) = (Int64(0), Int64(0), Int64(0))
        var evictions = 0
        var uses: [Int64: Int] = [:]
        /// The hashes of the keys that the transaction has changed; nil for all keys.
        var changed: Set<Int64>? = []
        /// The version of the index before the transaction; nil if it is unknown.
        var before: IndexVersion?
    }

    struct QueuedChange: Sendable {
        let key: String?
        let file: String?
        let isOptional: Bool
        /// Whether the change is pointless if the index does not exist.
        let needsIndex: Bool
        let bytes: Int
        let change: Change
    }

    struct Waiter: Sendable {
        let key: String
        let isOver = DispatchSemaphore(value: 0)
    }

    struct State {
        var readers: [SQLiteConnection] = []
        var indexNumber: UInt64 = 0
        var changes: [QueuedChange] = []
        /// The keys whose entries the store could not remove yet; a nil element means all keys.
        var invalidKeys: Set<String?> = []
        var waiters: [Waiter] = []
        var pendingKeys: [String: Int] = [:]
        var pendingForAll = 0
        var isDraining = false
        var isGathering = false
        var used: [Int64: Int] = [:]
        var useCount = 0
        /// The time of the oldest use that is not recorded in the index yet.
        var firstUse: ContinuousClock.Instant?
        /// When uses may be recorded again after a failure; nil means at once.
        var nextUses: ContinuousClock.Instant?
        var isRecordingUses = false
        var backlogBytes = 0
        var evictions = 0
        var repairs = 0
        var damaged: UInt64?
        var misses: [String: ContinuousClock.Instant] = [:]
        var changeCount = 0
        /// The earliest time to build the filter of keys again; nil means at once.
        var nextFilter: ContinuousClock.Instant?
        var (missCount, missesForFilter) = (0, 0)
        var awaitsFilter = false
    }

    static let smallBytes = 32 << 10
    /// A chunk that brings the total above this number ends the storing of its response.
    static let mostBacklogBytes = 64 << 20
    /// The number of queued changes at which the store no longer waits for more.
    static let mostGathered = 512
    /// After that time the lookup counts as a miss.
    static let mostWait = DispatchTimeInterval.seconds(2)
    /// The time is longer than a change waits for the lock of another process.
    static let mostWaitForAll = DispatchTimeInterval.seconds(10)
    /// After that time the lookup counts as a miss.
    static let mostReadLockWait = Duration.milliseconds(200)
    /// Short, because another process may store a response during it.
    static let missLifetime = Duration.seconds(1)
    static let mostMisses = 1024
    // An estimate: the entries that a filter can take in the time of one lookup. The store builds a filter only after
    // so many empty lookups that the filter costs no more than they did.
    static let entriesPerMiss = 1000
    /// The number of entries with uses that are not in the index yet, at which the next use records them all.
    static let mostUses = 4096
    /// The age of the oldest use that is not in the index yet, at which the next use records them all.
    static let mostUseAge = Duration.seconds(60)

    let directory: CacheDirectory
    let capacity: Int64
    let mostEntryBytes: Int64
    // Stored responses wait for others, so that one transaction writes many. A removal, an update, a lookup of a
    // waiting response, a listing of all responses, and ``mostGathered`` changes end the wait.
    let gatherTime: DispatchTimeInterval
    let state = Locked(State())
    let queue = DispatchQueue(label: "convoy.cache.disk")
    /// Only code on `queue` replaces it or uses its connection.
    let index = Locked<OpenIndex?>(nil)
    // Held while a reader opens a connection. `state` is locked under it, and never the other way round.
    private let opening = NSLock()
    let hot = Locked(HotEntries())

    let verified = VerifiedFiles()

    private let readDigest = Locked((digest: KeyedDigest?.none, waits: true))

    var mayBlock: Bool { true }

    // Reads the key file on first use, on a thread that may block. If locking the file times out, the caller gets a
    // digest with a random key, and the next call does not wait for the lock.
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

    func read<Value>(_ body: (SQLiteConnection) throws -> Value) -> Value? {
        let number = directory.indexNumber
        func kept() -> SQLiteConnection? {
            state.withLock { state in
                // The caller of `withLock` releases the outdated connections.
                let outdated = state.takeReaders(unless: number)
                return (state.readers.popLast(), outdated)
            }.0
        }
        do {
            let database: SQLiteConnection
            if let kept = kept() {
                database = kept
            } else {
                // A missing index has no entries.
                guard number != 0 else { return nil }
                var directory = directory
                directory.mostLockWait = Self.mostReadLockWait
                // One at a time, so that the directory's lock is awaited only for other processes.
                database = try opening.withLock {
                    try kept() ?? SQLiteConnection.index(in: directory, busyMilliseconds: 200, mayEmpty: false).0
                }
            }
            let value = try body(database)
            state.withLock { state in
                if state.indexNumber == number, state.readers.count < 8 { state.readers.append(database) }
            }
            return value
        } catch {
            // Reads leave an index of another schema as it is. The first change removes it.
            if SQLiteError.isDamage(error), (error as? SQLiteError)?.code != SQLiteError.otherSchema {
                reportDamage(of: number)
            }
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
        let found = read { try Self.rows(of: key, in: $0, withBody: true) }
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
        if found != nil, damaged.isEmpty, let version, index.withLock({ $0 })?.version == version {
            hot.withLock { $0.keep(key, hash, entries, in: version, since: known) }
        }
        buildFilterLater()
        return entries
    }

    private struct Found {
        var id: Int64
        var stored: (head: StoredHead, bodyDigest: Int64)?
        var body: Data?
    }

    private static func isWhole(_ body: Data, _ head: StoredHead, _ digest: Int64) -> Bool {
        body.count == head.bodyBytes && BodyDigest.of(body) == digest
    }

    func openBody(of entry: StoredEntry, key: String) -> StoredBody? {
        let id = entry.id
        let rows = read { database in
            try database.rows("SELECT hash, head, body, file FROM entries WHERE id = ?", [.integer(id)]) { columns in
                (
                    hash: columns.number(0), head: columns.blob(1) ?? Data(), body: columns.blob(2),
                    file: columns.fileName(3)
                )
            }
        }
        guard let row = rows?.first else { return nil }
        guard let (head, digest) = HeadCoding.decode(row.head), KeyHash.of(head.key) == row.hash else {
            repair([id], of: "")
            return nil
        }
        // A recreated index may use the identifier for another response.
        guard head.key == key, digest == entry.bodyDigest else { return nil }
        if let file = row.file {
            guard let stored = directory.open(file, byteCount: head.bodyBytes) else {
                // The store removes a row first and its file later. A missing file is damage only if the row exists.
                let isThere = read { try $0.number("SELECT 1 FROM entries WHERE id = ?", .integer(id)) } == 1
                if isThere { repair([id], of: key) }
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

    func heads() -> [StoredHead] {
        awaitAllChanges()
        return read { database in
            try database.rows("SELECT head FROM entries") { HeadCoding.decode($0.blob(0) ?? Data())?.head }
        } ?? []
    }

    var counts: CacheStatistics {
        awaitAllChanges()
        var counts = CacheStatistics()
        let totals = read { database in
            try database.row("SELECT bytes, entries FROM totals") { ($0.number(0), Int(clamping: $0.number(1))) }
        }
        if let totals, let totals { (counts.storedBytes, counts.entryCount) = totals }
        state.withLock { (counts.evictions, counts.repairs) = ($0.evictions, $0.repairs) }
        return counts
    }

    // MARK: Memory of the index

    /// The version of the index; nil if it is unknown or another process has replaced the index.
    var indexVersion: IndexVersion? {
        guard let index = index.withLock({ $0 }), directory.indexNumber == index.number else { return nil }
        return index.version
    }

    func entriesInMemory(for key: String) -> [StoredEntry]? {
        let isCertain = state.withLock { state in
            state.invalidKeys.isEmpty && state.pendingForAll == 0 && state.pendingKeys[key] == nil
        }
        guard isCertain, let version = indexVersion else { return nil }
        let hash = KeyHash.of(key)
        return hot.withLock { $0.find(key, hash, in: version) }
    }

    // Has no effect until lookups of missing keys have cost about as much as the filter, unless the index has fewer
    // than ``entriesPerMiss`` entries. The filter is discarded if the index changes meanwhile. On the store's queue.
    func buildFilter() {
        let began = ContinuousClock.now
        guard state.withLock({ $0.paysFilter(at: began) }), let version = indexVersion,
            hot.withLock({ $0.needsFilter || $0.version != version }),
            let database = index.withLock({ $0 })?.database,
            let count = try? database.number("SELECT entries FROM totals")
        else { return }
        let isDue = state.withLock { state in
            state.missesForFilter = Int(clamping: count) / Self.entriesPerMiss
            return state.paysFilter(at: began)
        }
        guard isDue else { return }
        var filter = KeyFilter(capacity: Int(clamping: count))
        let read: ()? = try? database.forEachRow("SELECT hash FROM entries") { row in
            filter.insert(row.number(0))
            return true
        }
        let end = ContinuousClock.now
        state.withLock { ($0.nextFilter, $0.missCount) = (end + began.duration(to: end) * 10, 0) }
        guard read != nil, indexVersion == version else { return }
        hot.withLock { [filter] in $0.use(filter, of: version) }
    }

    /// Each lookup calls this method: a process that only reads never runs `drain()`, which also builds the filter.
    func buildFilterLater() {
        guard hot.withLock({ $0.needsFilter }) else { return }
        let now = ContinuousClock.now
        let isDue = state.withLock { state in
            let isDue = !state.awaitsFilter && state.paysFilter(at: now)
            if isDue { state.awaitsFilter = true }
            return isDue
        }
        guard isDue else { return }
        queue.async {
            self.state.withLock { $0.awaitsFilter = false }
            self.buildFilter()
        }
    }

    /// The miss is not recorded if `changeCount` has grown since the lookup, because a change may have stored the key.
    func noteMiss(of key: String, _ changeCount: Int) {
        let now = ContinuousClock.now
        state.withLock { state in
            state.missCount += 1
            guard state.changeCount == changeCount else { return }
            if state.misses.count >= Self.mostMisses { state.misses = [:] }
            state.misses[key] = now
        }
    }

    func takeMiss(of key: String) -> Bool {
        if entriesInMemory(for: key)?.isEmpty == true { return true }
        guard let found = state.withLock({ $0.misses.removeValue(forKey: key) }) else { return false }
        return found.duration(to: .now) < Self.missLifetime
    }

    func use(_ id: Int64) {
        let now = ContinuousClock.now
        let isDue = state.withLock { state in
            state.useCount += 1
            state.used[id] = state.useCount
            state.limitUses()
            let first = state.firstUse ?? now
            state.firstUse = first
            let isDue = state.used.count >= Self.mostUses || first.duration(to: now) >= Self.mostUseAge
            return isDue && state.nextUses ?? now <= now
        }
        if isDue { recordUses() }
    }

    // A transaction that stores a response also records uses. This call is needed if all requests are hits.
    private func recordUses() {
        // Recording uses must not recreate a directory that was removed.
        guard directory.indexNumber != 0 else { return }
        let isNeeded = state.withLock { state in
            defer { state.isRecordingUses = state.isRecordingUses || !state.used.isEmpty }
            return !state.isRecordingUses && !state.used.isEmpty
        }
        guard isNeeded else { return }
        change("", isOptional: true, needsIndex: true) { [self] database, effects in
            try Self.note(takeUses(isDue: true), in: database, &effects)
        }
    }

    func close() {
        recordUses()
        drainNow()
    }

    /// Called inside a transaction, so that a transaction that does not begin loses no uses.
    func takeUses(isDue: Bool = false) -> [Int64: Int] {
        let now = ContinuousClock.now
        return state.withLock { state in
            guard isDue || state.nextUses ?? now <= now else { return [:] }
            if isDue { state.isRecordingUses = false }
            defer { (state.used, state.firstUse, state.nextUses) = ([:], nil, nil) }
            return state.used
        }
    }

    /// On a full disk, each transaction that records uses would also fail, so the uses wait for ``mostUseAge``.
    func returnUses(_ uses: [Int64: Int]) {
        let next = ContinuousClock.now + Self.mostUseAge
        state.withLock { state in
            guard !uses.isEmpty || state.isRecordingUses else { return }
            state.isRecordingUses = false
            state.used.merge(uses) { max($0, $1) }
            state.limitUses()
            state.nextUses = next
        }
    }

    static func note(_ used: [Int64: Int], in database: SQLiteConnection, _ effects: inout Effects) throws {
        effects.uses.merge(used) { max($0, $1) }
        for id in used.sorted(by: { $0.value < $1.value }).map(\.key) {
            effects.used += 1
            try database.run("UPDATE uses SET used = ? WHERE id = ?", .integer(effects.used), .integer(id))
        }
    }

    // MARK: Changes, many in one transaction

    // If `isOptional` is false, a failure makes the entries under the key unusable. A change that needs the index does
    // not create one.
    func change(
        _ key: String?, file: String? = nil, isOptional: Bool = false, needsIndex: Bool = false, bytes: Int = 0,
        _ change: @escaping Change
    ) {
        state.withLock { state in
            state.changeCount += 1
            if let key {
                state.pendingKeys[key, default: 0] += 1
                if !state.misses.isEmpty { state.misses[key] = nil }
            } else {
                state.pendingForAll += 1
            }
            state.backlogBytes += bytes
            state.changes.append(
                QueuedChange(
                    key: key, file: file, isOptional: isOptional, needsIndex: needsIndex, bytes: bytes, change: change))
            drainSoon(&state, isUrgent: !isOptional)
        }
    }

    // Runs `drain()` at once if urgent, otherwise after `gatherTime` for this change and later ones. The caller holds
    // the lock.
    private func drainSoon(_ state: inout State, isUrgent: Bool) {
        if isUrgent || !state.waiters.isEmpty || state.changes.count >= Self.mostGathered {
            return beginDraining(&state)
        }
        guard !state.isDraining, !state.isGathering else { return }
        state.isGathering = true
        queue.asyncAfter(deadline: .now() + gatherTime) {
            self.state.withLock { $0.isGathering = false }
            self.drainNow()
        }
    }

    /// Does not wait for more changes.
    func drainNow() { state.withLock { if !$0.changes.isEmpty { beginDraining(&$0) } } }

    /// The caller holds the lock, so that later work is enqueued after `drain()`.
    func beginDraining(_ state: inout State) {
        if !state.isDraining { queue.async { self.drain() } }
        state.isDraining = true
    }

    /// Later changes do not extend the wait.
    func awaitAllChanges() {
        guard state.withLock({ $0.isPending(nil) }) else { return }
        let isOver = DispatchSemaphore(value: 0)
        // The work that is queued now may enqueue changes. The second block runs after `drain()` has applied them.
        queue.async { [queue] in
            self.drainNow()
            queue.async { isOver.signal() }
        }
        _ = isOver.wait(timeout: .now() + Self.mostWaitForAll)
    }

    func awaitChanges(_ key: String) -> Bool {
        let waiter = Waiter(key: key)
        let isPending = state.withLock { state in
            guard state.isPending(key) else { return false }
            state.waiters.append(waiter)
            if !state.changes.isEmpty { beginDraining(&state) }
            return true
        }
        guard isPending else { return true }
        guard waiter.isOver.wait(timeout: .now() + Self.mostWait) != .success else { return true }
        state.withLock { state in state.waiters.removeAll { $0.isOver === waiter.isOver } }
        return false
    }

    /// Changes that are queued meanwhile are applied by the next call, after the other work on the queue.
    private func drain() {
        let (changes, invalidKeys, damaged) = state.withLock { state in
            defer { (state.changes, state.damaged) = ([], nil) }
            return (state.changes, state.invalidKeys, state.damaged)
        }
        if let damaged { startOver(without: damaged) }
        let lost = changes.isEmpty ? invalidKeys : perform(changes, removing: invalidKeys)
        let over = state.withLock { state in
            state.invalidKeys = lost
            for change in changes {
                state.ended(change.key)
                state.backlogBytes -= change.bytes
            }
            state.isDraining = false
            let over = state.takeWaiters()
            if state.damaged != nil {
                beginDraining(&state)
            } else if !state.changes.isEmpty {
                drainSoon(&state, isUrgent: state.changes.contains { !$0.isOptional })
            }
            return over
        }
        for waiter in over { waiter.isOver.signal() }
        if hot.withLock({ $0.needsFilter }) { buildFilter() }
    }

    // MARK: Transactions

    /// Returns the keys with possibly outdated entries, because their change failed.
    func perform(_ changes: [QueuedChange], removing invalidKeys: Set<String?>) -> Set<String?> {
        if make(changes, removing: invalidKeys) { return [] }
        // A response that cannot be stored must not prevent other entries from being removed.
        let optional = changes.filter(\.isOptional)
        for file in optional.compactMap(\.file) { directory.remove(file) }
        let needed = changes.filter { !$0.isOptional }
        if needed.isEmpty, invalidKeys.isEmpty { return [] }
        if !optional.isEmpty, make(needed, removing: invalidKeys) { return [] }
        return invalidKeys.union(needed.map(\.key))
    }

    private func make(_ changes: [QueuedChange], removing invalidKeys: Set<String?>) -> Bool {
        if invalidKeys.isEmpty, changes.allSatisfy(\.needsIndex), directory.indexNumber == 0 {
            state.withLock { $0.isRecordingUses = false }
            return true
        }
        for _ in 0..<2 {
            var effects = Effects()
            do {
                let opened = try openWriter()
                let database = opened.database
                try database.transaction {
                    // The transaction has the write lock, so no other process commits now.
                    effects.before = opened.version
                    try effects.readTotals(database)
                    for key in invalidKeys { try Self.deleteAll(key, in: database, &effects) }
                    for change in changes { try change.change(database, &effects) }
                    try effects.writeTotals(database)
                    for file in effects.removed { directory.release(file) }
                }
                let after = opened.version
                hot.withLock { [effects] in $0.advance(from: effects.before, to: after, changed: effects.changed) }
                state.withLock { [effects] in $0.evictions += effects.evictions }
                for file in effects.named { directory.settle(file) }
                for file in effects.removed { directory.remove(file) }
                return true
            } catch {
                for file in effects.removed { directory.settle(file) }
                returnUses(effects.uses)
                // If the index is damaged, it is removed and the transaction is tried once more.
                guard SQLiteError.isDamage(error) else { return false }
                startOver(without: index.withLock { $0 }?.number ?? 0)
            }
        }
        return false
    }

    // Reopens the index if another process has replaced it, and again if it was created or replaced meanwhile. Throws
    // ``SQLiteError/busy`` after four attempts.
    private func openWriter(mayEmpty: Bool = true) throws -> OpenIndex {
        if let kept = index.withLock({ $0 }), kept.number == directory.indexNumber { return kept }
        var wasEmptied = false
        for _ in 0..<4 {
            let number = directory.indexNumber
            let opened = try SQLiteConnection.index(in: directory, busyMilliseconds: 5_000, mayEmpty: mayEmpty)
            wasEmptied = wasEmptied || opened.wasEmptied
            guard number != 0, directory.indexNumber == number else { continue }
            let new = OpenIndex(opened.0, number: number)
            replaceIndex(new, repairs: wasEmptied ? 1 : 0)
            buildFilter()
            return new
        }
        throw SQLiteError(code: SQLiteError.busy)
    }

    private func replaceIndex(_ new: OpenIndex?, repairs: Int) {
        let outdated = state.withLock { state in
            state.repairs += repairs
            return state.takeReaders(unless: new?.number ?? 0)
        }
        let old = index.withLock { index in
            defer { index = new }
            return index
        }
        // Their release closes connections, so it is outside the locks.
        _ = (old, outdated)
    }

    func startOver(without number: UInt64) {
        replaceIndex(nil, repairs: 1)
        _ = try? directory.locked {
            if directory.indexNumber == number { directory.empty() }
        }
    }

    func reportDamage(of number: UInt64) {
        state.withLock { state in
            state.damaged = number
            beginDraining(&state)
        }
    }

    func repair(_ ids: [Int64], of key: String) {
        state.withLock { $0.repairs += ids.count }
        remove(ids, of: key)
    }

    func sweep() {
        guard let database = try? openWriter(mayEmpty: false).database else { return }
        directory.sweep { name in
            try? database.number("SELECT 1 FROM entries WHERE file = ?", .text(name)) == 1
        }
    }

    // MARK: Writing and removing

    func makeWriter(expectedBytes: Int64?) -> (any StoreWriter)? {
        if let expectedBytes, expectedBytes > mostEntryBytes { return nil }
        guard state.withLock({ $0.backlogBytes < Self.mostBacklogBytes }) else { return nil }
        return DiskWriter(self)
    }

    func update(_ id: Int64, to head: StoredHead) {
        change(head.key) { [self] database, effects in
            let row = try database.row("SELECT head, bytes FROM entries WHERE id = ?", .integer(id)) {
                ($0.blob(0), $0.number(1))
            }
            guard let (blob, oldBytes) = row, let old = blob.flatMap(HeadCoding.decode), old.head.key == head.key else {
                return
            }
            let coded = HeadCoding.encode(head, bodyDigest: old.bodyDigest)
            // The sums wrap, because a forged row may contain any number. The transaction checks the totals at its end.
            let bytes = head.headBytes &+ head.bodyBytes
            try database.run(
                "UPDATE entries SET head = ?, bytes = ? WHERE id = ?", .blob(coded), .integer(bytes), .integer(id))
            effects.bytes &+= bytes &- oldBytes
            effects.changed?.insert(KeyHash.of(head.key))
            // The new head may be longer than the old head.
            if effects.bytes > capacity {
                try Self.note(takeUses(), in: database, &effects)
                try evict(to: capacity, in: database, &effects)
            }
        }
    }

    func remove(_ ids: [Int64], of key: String) {
        guard !ids.isEmpty else { return }
        change(key) { database, effects in
            for id in ids { try Self.delete(id, in: database, &effects) }
        }
    }

    func removeAll(key: String) {
        change(key) { database, effects in try Self.deleteAll(key, in: database, &effects) }
    }

    func removeAll() {
        change(nil) { database, effects in try Self.deleteAll(nil, in: database, &effects) }
    }

    /// Removes all entries under a key; nil means all keys.
    static func deleteAll(
        _ key: String?, in database: SQLiteConnection, _ effects: inout Effects
    ) throws {
        guard let key else {
            effects.removed += try database.rows("SELECT file FROM entries WHERE file IS NOT NULL") { $0.fileName(0) }
            try database.run("DELETE FROM entries")
            try database.run("DELETE FROM uses")
            (effects.bytes, effects.entries, effects.changed) = (0, 0, nil)
            return
        }
        for row in try rows(of: key, in: database) { try delete(row.id, in: database, &effects) }
    }

    /// Only the first entry's body is copied, because most keys have a single entry.
    private static func rows(
        of key: String, in database: SQLiteConnection, withBody: Bool = false
    ) throws -> [Found] {
        let (hash, body) = (KeyHash.of(key), withBody ? "body" : "NULL")
        var isFirst = true
        return try database.rows("SELECT id, head, \(body) FROM entries WHERE hash = ? ORDER BY id", [.integer(hash)]) {
            columns in
            let stored = HeadCoding.decode(columns.blob(1) ?? Data())
            // Skips a row of another key with the same hash.
            if let stored, stored.head.key != key, KeyHash.of(stored.head.key) == hash { return nil }
            defer { isFirst = false }
            return Found(
                id: columns.number(0), stored: stored?.head.key == key ? stored : nil,
                body: isFirst ? columns.blob(2) : nil)
        }
    }

    private func rows(
        of key: String, _ hash: Int64, in database: SQLiteConnection, _ effects: Effects
    ) throws -> [Found] {
        if let version = effects.before, effects.changed?.contains(hash) == false,
            hot.withLock({ $0.find(key, hash, in: version) })?.isEmpty == true
        {
            return []
        }
        return try Self.rows(of: key, in: database)
    }

    static func delete(_ id: Int64, in database: SQLiteConnection, _ effects: inout Effects) throws {
        let rows = try database.rows("SELECT file, hash, bytes FROM entries WHERE id = ?", [.integer(id)]) {
            (file: $0.fileName(0), hash: $0.number(1), bytes: $0.number(2))
        }
        try database.run("DELETE FROM uses WHERE id = ?", .integer(id))
        guard let row = rows.first else { return }
        if let file = row.file { effects.removed.append(file) }
        try database.run("DELETE FROM entries WHERE id = ?", .integer(id))
        effects.bytes &-= row.bytes
        effects.entries -= 1
        effects.changed?.insert(row.hash)
    }

    /// Computes the digest of the body if it is nil.
    fileprivate func insert(
        _ head: StoredHead, _ body: Data?, _ file: String?, of writer: DiskWriter, digest: Int64?,
        replacing isReplaced: @escaping @Sendable (StoredHead) -> Bool?
    ) {
        change(head.key, file: file, isOptional: true, bytes: body?.count ?? 0) { [self] database, effects in
            let hash = KeyHash.of(head.key)
            var variants = 0
            for row in try rows(of: head.key, hash, in: database, effects).reversed() {
                variants += 1
                guard let isReplaced = row.stored.map({ isReplaced($0.head) }) ?? true else {
                    if let file { effects.removed.append(file) }
                    return
                }
                guard isReplaced || variants >= MemoryStore.mostVariants else { continue }
                try Self.delete(row.id, in: database, &effects)
            }
            try Self.note(takeUses(), in: database, &effects)
            let bytes = head.headBytes + head.bodyBytes
            guard bytes <= capacity else {
                if let file { effects.removed.append(file) }
                return
            }
            try evict(to: capacity - bytes, in: database, &effects)
            // The head is encoded here, because the request does not wait for this queue.
            let coded = HeadCoding.encode(head, bodyDigest: digest ?? BodyDigest.of(body ?? Data()))
            effects.used += 1
            // The count of uses only grows, so that no entry gets the identifier of an earlier entry.
            let id = effects.used
            try database.run(
                "INSERT INTO entries (id, hash, head, body, file, bytes) VALUES (?, ?, ?, ?, ?, ?)", .integer(id),
                .integer(hash), .blob(coded), body.map { .blob($0) } ?? .null, file.map { .text($0) } ?? .null,
                .integer(bytes))
            try database.run("INSERT INTO uses (id, used) VALUES (?, ?)", .integer(id), .integer(id))
            effects.bytes += bytes
            effects.entries += 1
            effects.changed?.insert(hash)
            // The writer's open descriptor locks the part until the store moves the file to the bodies.
            if let file { withExtendedLifetime(writer) { effects.named.append(file) } }
        }
    }

    /// Evicts the least recently used responses until at most this many bytes are stored.
    private func evict(to bytes: Int64, in database: SQLiteConnection, _ effects: inout Effects) throws {
        while effects.bytes > bytes {
            guard let id = try database.row("SELECT id FROM uses ORDER BY used LIMIT 1", make: { $0.number(0) }) else {
                throw SQLiteError(code: SQLiteError.corrupt)
            }
            try Self.delete(id, in: database, &effects)
            effects.evictions += 1
        }
    }

    func beginsLater(_ key: String, _ work: @escaping @Sendable () -> Void) {
        state.withLock { state in
            (state.changeCount, state.misses[key]) = (state.changeCount + 1, nil)
            state.pendingKeys[key, default: 0] += 1
            // The lock is held, so that blocks run in the order in which their keys become pending.
            queue.async(execute: work)
        }
    }

    func endPending(_ key: String) {
        let over = state.withLock { state in
            state.ended(key)
            return state.takeWaiters()
        }
        for waiter in over { waiter.isOver.signal() }
    }
}

extension DiskStore.State {
    // Takes no connection to the index with this inode number. The caller releases the connections outside the lock,
    // because the release closes them.
    mutating func takeReaders(unless number: UInt64) -> [SQLiteConnection] {
        guard indexNumber != number else { return [] }
        defer { (readers, indexNumber) = ([], number) }
        return readers
    }

    func isPending(_ key: String?) -> Bool {
        guard let key else { return isDraining || pendingForAll > 0 || !pendingKeys.isEmpty }
        return pendingForAll > 0 || pendingKeys[key] != nil
    }

    mutating func ended(_ key: String?) {
        guard let key else {
            pendingForAll -= 1
            return
        }
        let left = (pendingKeys[key] ?? 1) - 1
        pendingKeys[key] = left > 0 ? left : nil
    }

    mutating func takeWaiters() -> [DiskStore.Waiter] {
        let all = waiters
        waiters = all.filter { isPending($0.key) }
        return all.filter { !isPending($0.key) }
    }

    func paysFilter(at now: ContinuousClock.Instant) -> Bool {
        nextFilter ?? now <= now && missCount >= missesForFilter
    }

    /// If there are more than ``DiskStore/mostUses`` uses, keeps only the latest half of that number.
    mutating func limitUses() {
        guard used.count > DiskStore.mostUses else { return }
        let order = used.values.sorted()
        let least = order[order.count - DiskStore.mostUses / 2]
        used = used.filter { $0.value >= least }
    }
}

extension DiskStore.Effects {
    fileprivate mutating func readTotals(_ database: SQLiteConnection) throws {
        let totals = try database.row("SELECT bytes, entries, used FROM totals") {
            ($0.number(0), $0.number(1), $0.number(2))
        }
        guard let totals else { throw SQLiteError(code: SQLiteError.corrupt) }
        (bytes, entries, used) = totals
        try checkTotals()
    }

    /// Throws for impossible totals, so that forged values never overflow a sum.
    private func checkTotals() throws {
        let isPossible = [bytes, entries, used].allSatisfy { 0...1 << 48 ~= $0 }
        guard isPossible else { throw SQLiteError(code: SQLiteError.corrupt) }
    }

    fileprivate func writeTotals(_ database: SQLiteConnection) throws {
        try checkTotals()
        try database.run(
            "UPDATE totals SET bytes = ?, entries = ?, used = ?", .integer(bytes), .integer(entries), .integer(used))
    }
}

/// Receives one body, in memory while it is small and then in a file.
private final class DiskWriter: StoreWriter {
    private struct State {
        var pieces: [Data] = []
        var bytes: Int64 = 0
        var digest = BodyDigest()
        var isOver = false
        var file: String?
        var descriptor: Int32 = -1
        var hasFailed = false
        var queue: DispatchQueue?

        mutating func needsQueue() -> DispatchQueue {
            let queue = queue ?? DispatchQueue(label: "convoy.cache.body")
            self.queue = queue
            return queue
        }
    }

    private let store: DiskStore
    private let state = Locked(State())
    init(_ store: DiskStore) { self.store = store }

    deinit {
        let (descriptor, file, isOver) = state.withLock { ($0.descriptor, $0.file, $0.isOver) }
        if descriptor >= 0 { close(descriptor) }
        if let file, !isOver { unlink(store.directory.part(file)) }
    }

    func write(_ data: Data) -> Bool {
        let (isTaken, queue) = state.withLock { state -> (Bool, DispatchQueue?) in
            guard !state.isOver, !state.hasFailed, state.bytes + Int64(data.count) <= store.mostEntryBytes else {
                return (false, nil)
            }
            state.bytes += Int64(data.count)
            state.pieces.append(data)
            return (true, state.bytes > DiskStore.smallBytes ? state.needsQueue() : nil)
        }
        guard isTaken else { return false }
        guard let queue else { return true }
        let isWithin = store.state.withLock { store in
            store.backlogBytes += data.count
            return store.backlogBytes <= DiskStore.mostBacklogBytes
        }
        queue.async {
            self.flush()
            self.store.state.withLock { $0.backlogBytes -= data.count }
        }
        return isWithin
    }

    /// On the queue of this writer.
    private func flush() {
        let (pieces, made) = state.withLock { state -> ([Data], Int32) in
            defer { state.pieces = [] }
            return (state.hasFailed || state.isOver ? [] : state.pieces, state.descriptor)
        }
        guard !pieces.isEmpty else { return }
        var descriptor = made
        if descriptor < 0 {
            let name = UUID().uuidString
            descriptor = store.directory.makePart(name)
            guard descriptor >= 0 else { return state.withLock { $0.hasFailed = true } }
            state.withLock { [descriptor] state in (state.descriptor, state.file) = (descriptor, name) }
        }
        for piece in pieces {
            guard Self.write(piece, to: descriptor) else { return state.withLock { $0.hasFailed = true } }
            state.withLock { $0.digest.update(piece) }
        }
    }

    private static func write(_ data: Data, to descriptor: Int32) -> Bool {
        data.withUnsafeBytes { bytes in
            var index = 0
            while index < bytes.count {
                let count = Foundation.write(descriptor, bytes.baseAddress?.advanced(by: index), bytes.count - index)
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return false }
                index += count
            }
            return true
        }
    }

    func commit(_ head: StoredHead, replacing isReplaced: @escaping @Sendable (StoredHead) -> Bool?) -> Bool {
        let small = state.withLock { state -> Data?? in
            guard !state.isOver, !state.hasFailed else { return .some(nil) }
            guard state.bytes <= DiskStore.smallBytes else { return nil }
            state.isOver = true
            // Most small bodies have one piece, which is not copied.
            if state.pieces.count == 1, let piece = state.pieces.first { return .some(piece) }
            return .some(state.pieces.reduce(into: Data(capacity: Int(state.bytes))) { $0.append($1) })
        }
        if let small {
            guard let small else { return false }
            store.insert(head, small, nil, of: self, digest: nil, replacing: isReplaced)
            return true
        }
        let queue = state.withLock { $0.needsQueue() }
        // From now on, a lookup of the key waits for this change.
        store.beginsLater(head.key) {
            queue.sync { self.flush() }
            let (file, digest) = self.state.withLock { state -> (String?, Int64) in
                guard !state.hasFailed else { return (nil, 0) }
                state.isOver = true
                return (state.file, state.digest.value)
            }
            if let file { self.store.insert(head, nil, file, of: self, digest: digest, replacing: isReplaced) }
            self.store.endPending(head.key)
        }
        return true
    }

    func discard() {
        let queue = state.withLock { state in
            if state.queue == nil { state.hasFailed = true }
            return state.queue
        }
        // The writer fails after its pending writes. The deinitializer then removes the file.
        queue?.async { self.state.withLock { $0.hasFailed = true } }
    }
}
