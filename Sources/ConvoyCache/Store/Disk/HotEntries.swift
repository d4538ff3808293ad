import Foundation

// Entries and filter belong to one version of the index. A commit of this process updates both; a commit of another
// process makes both invalid.
struct HotEntries: Sendable {
    private struct Hot: Sendable {
        let key: String
        let entries: [StoredEntry]
        let bytes: Int
    }

    // The entries are in two halves. When the newer half is full, it replaces the older half.
    static let mostBytes = 4 << 20

    private(set) var version: IndexVersion?
    private var newer: [Int64: Hot] = [:]
    private var older: [Int64: Hot] = [:]
    private var newerBytes = 0
    private(set) var filter: KeyFilter?

    var needsFilter: Bool { filter?.isCrowded != false }

    /// Returns nil if a query must find the entries.
    mutating func find(_ key: String, _ hash: Int64, in version: IndexVersion) -> [StoredEntry]? {
        guard self.version == version else { return nil }
        if let hot = newer[hash] { return hot.key == key ? hot.entries : nil }
        if let hot = older[hash] {
            guard hot.key == key else { return nil }
            add(hot, hash)
            return hot.entries
        }
        return filter?.mayContain(hash) == false ? [] : nil
    }

    /// Adds nothing if `self.version` is now neither `known`, its value when the lookup began, nor the version of the
    /// found entries.
    mutating func keep(
        _ key: String, _ hash: Int64, _ entries: [StoredEntry], in version: IndexVersion, since known: IndexVersion?
    ) {
        guard self.version == version || self.version == known else { return }
        begin(version)
        let bytes = entries.reduce(128 + key.utf8.count) { $0 + Int($1.head.headBytes) + ($1.body?.count ?? 0) }
        add(Hot(key: key, entries: entries, bytes: bytes), hash)
    }

    mutating func use(_ filter: KeyFilter, of version: IndexVersion) {
        begin(version)
        self.filter = filter
    }

    /// Discards all if another process has committed too, if a version is unknown, or if all keys have changed.
    mutating func advance(from before: IndexVersion?, to after: IndexVersion?, changed: Set<Int64>?) {
        guard let before, let after, let changed, version == before, after.follows(before) else {
            self = HotEntries()
            return
        }
        version = after
        for hash in changed {
            if let hot = newer.removeValue(forKey: hash) { newerBytes -= hot.bytes }
            older[hash] = nil
            filter?.insert(hash)
        }
    }

    private mutating func begin(_ version: IndexVersion) {
        guard self.version != version else { return }
        self = HotEntries()
        self.version = version
    }

    private mutating func add(_ hot: Hot, _ hash: Int64) {
        if newerBytes + hot.bytes > Self.mostBytes / 2 { (older, newer, newerBytes) = (newer, [:], 0) }
        guard hot.bytes <= Self.mostBytes / 2 else { return }
        if let replaced = newer.updateValue(hot, forKey: hash) { newerBytes -= replaced.bytes }
        newerBytes += hot.bytes
    }
}

// A Bloom filter: 16 bits of memory for each hash, of which four are set and tested. They are in one group of 512
// bits, so that a test reads at most two cache lines; inserting sorted hashes writes the memory in order. At capacity,
// the false-positive rate is about 1 in 400.
struct KeyFilter: Sendable {
    private var words: [UInt64]
    private var count = 0

    /// A filter of this capacity takes 32 MiB.
    static let mostCapacity = 1 << 24

    // The capacity is between 1,024 and ``mostCapacity`` hashes. Above twice this number, ``isCrowded`` is true, and
    // the store rebuilds the filter.
    init(capacity: Int) {
        let lineCount = max(1024, min(capacity, Self.mostCapacity)) / 32
        words = [UInt64](repeating: 0, count: 8 * lineCount)
    }

    var isCrowded: Bool { count > words.count * 8 }

    mutating func insert(_ hash: Int64) {
        count += 1
        var (start, bits) = place(of: hash)
        for _ in 0..<4 {
            words[start + Int(bits >> 6 & 7)] |= 1 &<< (bits & 63)
            bits >>= 9
        }
    }

    func mayContain(_ hash: Int64) -> Bool {
        var (start, bits) = place(of: hash)
        for _ in 0..<4 {
            if words[start + Int(bits >> 6 & 7)] & 1 &<< (bits & 63) == 0 { return false }
            bits >>= 9
        }
        return true
    }

    private func place(of hash: Int64) -> (start: Int, bits: UInt64) {
        let hash = UInt64(bitPattern: hash)
        let line = hash.multipliedFullWidth(by: UInt64(words.count / 8)).high
        return (8 * Int(truncatingIfNeeded: line), (hash &* 0x9E37_79B9_7F4A_7C15) >> 28)
    }
}

// FNV-1a with a final mix (http://www.isthe.com/chongo/tech/comp/fnv). Different keys may have the same hash, so each
// stored head contains its key.
enum KeyHash {
    static func of(_ key: String) -> Int64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in key.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        hash ^= hash >> 32
        return Int64(bitPattern: hash &* 0x9E37_79B9_7F4A_7C15)
    }
}
