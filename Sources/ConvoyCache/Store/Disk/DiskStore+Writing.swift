// Writes responses to the directory, and removes them.
import Convoy
import Foundation

extension DiskStore {
    func makeWriter(expectedBytes: Int64?) -> (any StoreWriter)? {
        if let expectedBytes, expectedBytes > mostEntryBytes { return nil }
        guard state.withLock({ $0.backlogBytes < Self.mostBacklogBytes }) else { return nil }
        return DiskWriter(self)
    }

    func update(_ id: Int64, of key: String, to head: StoredHead) {
        change(key) { [self] database, effects throws(DatabaseError) in
            let rows = try database.rows("SELECT head, bytes FROM entries WHERE id = ?", .integer(id)) {
                ($0.blob(0), $0.integer(1))
            }
            guard let (blob, oldBytes) = rows.first, let old = blob.flatMap({ HeadCoding.decode($0, key: key) }) else {
                return
            }
            let coded = HeadCoding.encode(head, key: key, bodyDigest: old.bodyDigest)
            // The sums wrap, because a forged row may contain any number. The transaction checks the totals at its end.
            let bytes = head.headBytes &+ head.bodyBytes
            try database.run(
                "UPDATE entries SET head = ?, bytes = ? WHERE id = ?", .blob(coded), .integer(bytes), .integer(id))
            effects.bytes &+= bytes &- oldBytes
            effects.changed?.insert(KeyHash.of(key))
            // The new head may be longer than the old head.
            if effects.bytes > capacity {
                try Self.note(takeUses(), in: database, &effects)
                try evict(to: capacity, in: database, &effects)
            }
        }
    }

    func remove(_ ids: [Int64], of key: String) {
        guard !ids.isEmpty else { return }
        change(key) { database, effects throws(DatabaseError) in
            for id in ids { try Self.delete(id, in: database, &effects) }
        }
    }

    func removeAll(key: String) {
        change(key) { database, effects throws(DatabaseError) in try Self.deleteAll(key, in: database, &effects) }
    }

    func removeAll() {
        change(nil) { database, effects throws(DatabaseError) in try Self.deleteAll(nil, in: database, &effects) }
    }

    /// Removes all entries under a key; nil means all keys.
    static func deleteAll(
        _ key: String?, in database: Database, _ effects: inout Effects
    ) throws(DatabaseError) {
        guard let key else {
            effects.removed += try database.rows("SELECT file FROM entries WHERE file IS NOT NULL") { $0.fileName(0) }
            try database.run("DELETE FROM entries")
            try database.run("DELETE FROM uses")
            (effects.bytes, effects.entries, effects.changed) = (0, 0, nil)
            return
        }
        for row in try rows(of: key, in: database) { try delete(row.id, in: database, &effects) }
    }

    /// The entries under a key, and damaged entries with the same hash, oldest entry first.
    private static func rows(
        of key: String, in database: Database
    ) throws(DatabaseError) -> [(id: Int64, head: StoredHead?)] {
        let hash = KeyHash.of(key)
        return try database.rows("SELECT id, head FROM entries WHERE hash = ? ORDER BY id", .integer(hash)) { columns in
            let stored = HeadCoding.decode(columns.blob(1) ?? Data(), key: nil)
            if let stored, stored.key != key, KeyHash.of(stored.key) == hash { return nil }
            return (columns.integer(0), stored?.key == key ? stored?.head : nil)
        }
    }

    /// The entries under a key, without a query if the key is certainly missing.
    private func rows(
        of key: String, _ hash: Int64, in database: Database, _ effects: Effects
    ) throws(DatabaseError) -> [(id: Int64, head: StoredHead?)] {
        if let version = effects.before, effects.changed?.contains(hash) == false,
            hot.withLock({ $0.find(key, hash, in: version) })?.isEmpty == true
        {
            return []
        }
        return try Self.rows(of: key, in: database)
    }

    fileprivate static func delete(_ id: Int64, in database: Database, _ effects: inout Effects) throws(DatabaseError) {
        let rows = try database.rows("SELECT file, hash, bytes FROM entries WHERE id = ?", .integer(id)) {
            (file: $0.fileName(0), hash: $0.integer(1), bytes: $0.integer(2))
        }
        try database.run("DELETE FROM uses WHERE id = ?", .integer(id))
        guard let row = rows.first else { return }
        if let file = row.file { effects.removed.append(file) }
        try database.run("DELETE FROM entries WHERE id = ?", .integer(id))
        effects.bytes &-= row.bytes
        effects.entries -= 1
        effects.changed?.insert(row.hash)
    }

    /// Stores a response after making room for it.
    ///
    /// - Parameter digest: the digest of the body; nil if this function must compute it.
    fileprivate func insert(
        _ key: String, _ head: StoredHead, _ body: Data?, _ file: String?, of writer: DiskWriter, digest: Int64?,
        replacing isReplaced: @escaping @Sendable (StoredHead) -> Bool
    ) {
        change(key, file: file, isOptional: true, bytes: body?.count ?? 0) {
            [self] database, effects throws(DatabaseError) in
            let hash = KeyHash.of(key)
            var variants = 0
            for (id, other) in try rows(of: key, hash, in: database, effects).reversed() {
                variants += 1
                guard other.map(isReplaced) ?? true || variants >= MemoryStore.mostVariants else { continue }
                try Self.delete(id, in: database, &effects)
            }
            try Self.note(takeUses(), in: database, &effects)
            let bytes = head.headBytes + head.bodyBytes
            guard bytes <= capacity else {
                if let file { effects.removed.append(file) }
                return
            }
            try evict(to: capacity - bytes, in: database, &effects)
            // The head is encoded here, because the request does not wait for this queue.
            let coded = HeadCoding.encode(head, key: key, bodyDigest: digest ?? BodyDigest.of(body ?? Data()))
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
    private func evict(to bytes: Int64, in database: Database, _ effects: inout Effects) throws(DatabaseError) {
        while effects.bytes > bytes {
            let oldest = try database.rows("SELECT id FROM uses ORDER BY used LIMIT 1") { $0.integer(0) }
            guard let id = oldest.first else { throw DatabaseError(code: DatabaseError.corrupt) }
            try Self.delete(id, in: database, &effects)
            effects.evictions += 1
        }
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
        /// The queue that writes the body to a file; nil while the body is small.
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

    /// Writes the received chunks to the file and creates it first if needed.
    ///
    /// - Thread: the queue of this writer.
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

    func commit(
        key: String, head: StoredHead, replacing isReplaced: @escaping @Sendable (StoredHead) -> Bool
    ) -> Bool {
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
            store.insert(key, head, small, nil, of: self, digest: nil, replacing: isReplaced)
            return true
        }
        let queue = state.withLock { $0.needsQueue() }
        // From now on, a lookup of the key waits for this change.
        store.beginsLater(key) {
            queue.sync { self.flush() }
            let (file, digest) = self.state.withLock { state -> (String?, Int64) in
                guard !state.hasFailed else { return (nil, 0) }
                state.isOver = true
                return (state.file, state.digest.value)
            }
            if let file { self.store.insert(key, head, nil, file, of: self, digest: digest, replacing: isReplaced) }
            self.store.endPending(key)
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

extension DiskStore {
    /// Runs work for a key on the store's queue, after the blocks that are enqueued so far.
    fileprivate func beginsLater(_ key: String, _ work: @escaping @Sendable () -> Void) {
        state.withLock { state in
            (state.changeCount, state.misses[key]) = (state.changeCount + 1, nil)
            state.pendingKeys[key, default: 0] += 1
            // The lock is held, so that blocks run in the order in which their keys become pending.
            queue.async(execute: work)
        }
    }

    fileprivate func endPending(_ key: String) {
        let over = state.withLock { state in
            state.ended(key)
            return state.takeWaiters()
        }
        for waiter in over { waiter.isOver.signal() }
    }
}
