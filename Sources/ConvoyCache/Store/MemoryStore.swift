import Convoy
import Foundation

/// Storing or removing one response takes O(*v*) time for *v* variants of its URL, besides evictions.
final class MemoryStore: CacheStore {
    /// Not `Sendable`, because only code under the lock uses it.
    private final class Node {
        let id: Int64
        var head: StoredHead
        let body: Data
        var bytes: Int64
        unowned(unsafe) var older: Node?
        unowned(unsafe) var newer: Node?

        init(id: Int64, head: StoredHead, body: Data, bytes: Int64) {
            (self.id, self.head, self.body, self.bytes) = (id, head, body, bytes)
        }
    }

    private struct State {
        var nodes: [Int64: Node] = [:]
        var keys: [String: [Node]] = [:]
        var oldest: Node?
        var newest: Node?
        var lastID: Int64 = 0
        var counts = CacheStatistics()

        mutating func append(_ node: Node) {
            (node.older, node.newer) = (newest, nil)
            newest?.newer = node
            newest = node
            if oldest == nil { oldest = node }
        }

        mutating func unlink(_ node: Node) {
            if let older = node.older { older.newer = node.newer } else { oldest = node.newer }
            if let newer = node.newer { newer.older = node.older } else { newest = node.older }
            (node.older, node.newer) = (nil, nil)
        }

        /// The caller releases the body outside the lock.
        mutating func remove(_ id: Int64) -> Data? {
            guard let node = nodes.removeValue(forKey: id) else { return nil }
            unlink(node)
            keys[node.head.key]?.removeAll { $0 === node }
            if keys[node.head.key]?.isEmpty == true { keys[node.head.key] = nil }
            counts.entryCount -= 1
            counts.storedBytes -= node.bytes
            return node.body
        }

        mutating func evict(to capacity: Int64) -> [Data] {
            var bodies: [Data] = []
            while counts.storedBytes > capacity, let oldest {
                if let body = remove(oldest.id) { bodies.append(body) }
                counts.evictions += 1
            }
            return bodies
        }
    }

    static let mostVariants = 32

    private let state = Locked(State())
    let capacity: Int64
    let mostEntryBytes: Int64
    let digest = KeyedDigest()
    var knownDigest: KeyedDigest? { digest }
    var mayBlock: Bool { false }

    init(capacity: Int64, mostEntryBytes: Int64) {
        (self.capacity, self.mostEntryBytes) = (capacity, min(mostEntryBytes, capacity))
    }

    func entries(for key: String) -> [StoredEntry] {
        state.withLock { state in (state.keys[key] ?? []).map { StoredEntry(id: $0.id, head: $0.head) } }
    }

    func entriesInMemory(for key: String) -> [StoredEntry]? {
        state.withLock { state in
            (state.keys[key] ?? []).map { StoredEntry(id: $0.id, head: $0.head, body: $0.body) }
        }
    }

    func takeMiss(of key: String) -> Bool { state.withLock { $0.keys[key] == nil } }

    /// Keys need not be compared, because no two entries ever have the same identifier.
    func openBody(of entry: StoredEntry, key: String) -> StoredBody? {
        state.withLock { $0.nodes[entry.id]?.body }.map { .data($0) }
    }

    func makeWriter(expectedBytes: Int64?) -> (any StoreWriter)? {
        if let expectedBytes, expectedBytes > mostEntryBytes { return nil }
        return MemoryWriter(self)
    }

    func update(_ id: Int64, to head: StoredHead) {
        let bodies = state.withLock { state -> [Data] in
            guard let node = state.nodes[id] else { return [] }
            let bytes = head.headBytes + Int64(node.body.count)
            state.counts.storedBytes += bytes - node.bytes
            (node.head, node.bytes) = (head, bytes)
            return state.evict(to: capacity)
        }
        _ = bodies
    }

    func use(_ id: Int64) {
        state.withLock { state in
            guard let node = state.nodes[id], state.newest !== node else { return }
            state.unlink(node)
            state.append(node)
        }
    }

    func close() {}

    func remove(_ ids: [Int64], of key: String) { _ = state.withLock { state in ids.compactMap { state.remove($0) } } }

    func repair(_ ids: [Int64], of key: String) { remove(ids, of: key) }

    func removeAll(key: String) {
        _ = state.withLock { state in (state.keys[key] ?? []).compactMap { state.remove($0.id) } }
    }

    func removeAll() {
        _ = state.withLock { state in state.nodes.keys.compactMap { state.remove($0) } }
    }

    func heads() -> [StoredHead] { state.withLock { state in state.nodes.values.map(\.head) } }

    var counts: CacheStatistics { state.withLock { $0.counts } }

    fileprivate func insert(
        _ body: Data, _ head: StoredHead, replacing isReplaced: @Sendable (StoredHead) -> Bool?
    ) -> Bool {
        let bytes = head.headBytes + Int64(body.count)
        let (bodies, isStored) = state.withLock { state -> ([Data], Bool) in
            var replaced: [Node] = []
            for node in state.keys[head.key] ?? [] {
                guard let isReplaced = isReplaced(node.head) else { return ([], false) }
                if isReplaced { replaced.append(node) }
            }
            var bodies = replaced.compactMap { state.remove($0.id) }
            if let variants = state.keys[head.key], variants.count >= Self.mostVariants, let first = variants.first {
                bodies += state.remove(first.id).map { [$0] } ?? []
            }
            guard bytes <= capacity else { return (bodies, false) }
            // The store evicts first, so that it never exceeds its capacity.
            bodies += state.evict(to: capacity - bytes)
            state.lastID += 1
            let node = Node(id: state.lastID, head: head, body: body, bytes: bytes)
            state.nodes[node.id] = node
            state.keys[head.key, default: []].append(node)
            state.append(node)
            state.counts.entryCount += 1
            state.counts.storedBytes += bytes
            return (bodies, true)
        }
        return withExtendedLifetime(bodies) { isStored }
    }
}

private final class MemoryWriter: StoreWriter {
    private let store: MemoryStore
    private let body = Locked<Data?>(Data())

    init(_ store: MemoryStore) { self.store = store }

    func write(_ data: Data) -> Bool {
        body.withLock { body in
            guard let count = body?.count, Int64(count + data.count) <= store.mostEntryBytes else {
                body = nil
                return false
            }
            body?.append(data)
            return true
        }
    }

    func commit(_ head: StoredHead, replacing isReplaced: @escaping @Sendable (StoredHead) -> Bool?) -> Bool {
        guard let body = body.withLock({ $0 }) else { return false }
        return store.insert(body, head, replacing: isReplaced)
    }

    func discard() { body.withLock { $0 = nil } }
}
