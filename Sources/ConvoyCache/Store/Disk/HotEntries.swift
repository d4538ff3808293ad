// Entries of the index in memory, and keys that it does not contain.
import Foundation

/// The entries of one version of the index, as far as they were read.
///
/// It has the entries that were read last, and a filter that says which keys are certainly missing. Both belong to one
/// version of the index. A commit of this process changes them along; any other commit empties them.
struct HotEntries: Sendable {
    private struct Hot: Sendable {
        let key: String
        let entries: [StoredEntry]
        let bytes: Int
    }

    /// The maximum size of the entries.
    ///
    /// They are kept in two halves. The older half goes when the newer one is full.
    static let mostBytes = 4 << 20

    private(set) var version: IndexVersion?
    private var newer: [Int64: Hot] = [:]
    private var older: [Int64: Hot] = [:]
    private var newerBytes = 0
    private(set) var filter: KeyFilter?

    /// Whether the filter must be built anew.
    var needsFilter: Bool { filter?.isCrowded != false }

    /// The entries under a key in a version of the index; nil if only the index knows them.
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

    /// Keeps the entries that a lookup found in a version.
    ///
    /// - Parameter known: the version of these entries when the lookup began. If a commit of this process has advanced
    ///   it since, what is kept is newer.
    mutating func keep(
        _ key: String, _ hash: Int64, _ entries: [StoredEntry], in version: IndexVersion, since known: IndexVersion?
    ) {
        guard self.version == version || self.version == known else { return }
        begin(version)
        let bytes = entries.reduce(128 + key.utf8.count) { $0 + Int($1.head.headBytes) + ($1.body?.count ?? 0) }
        add(Hot(key: key, entries: entries, bytes: bytes), hash)
    }

    /// Uses a filter of a version.
    mutating func use(_ filter: KeyFilter, of version: IndexVersion) {
        begin(version)
        self.filter = filter
    }

    /// Follows a commit of this process.
    ///
    /// - Parameters:
    ///   - changed: the hashes of the keys that the commit has changed; nil for all keys.
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

/// A Bloom filter of the hashes of keys: 16 bits for each, and four tests.
///
/// About one of 400 missing keys looks as if it might be there.
struct KeyFilter: Sendable {
    private var words: [UInt64]
    private let mask: UInt64
    private var count = 0

    /// The maximum number of hashes; a filter of this capacity takes 32 MiB.
    static let mostCapacity = 1 << 24

    /// - Parameter capacity: the number of hashes. With twice as many, the filter should be built anew.
    init(capacity: Int) {
        let capacity = min(capacity, Self.mostCapacity)
        var bits = 1 << 14
        while bits / 16 < capacity { bits *= 2 }
        words = [UInt64](repeating: 0, count: bits / 64)
        mask = UInt64(bits - 1)
    }

    var isCrowded: Bool { count > words.count * 8 }

    mutating func insert(_ hash: Int64) {
        count += 1
        let bits = Self.bits(hash)
        for index in 0..<4 { words[Int(bits[index] & mask) / 64] |= 1 << (bits[index] & 63) }
    }

    func mayContain(_ hash: Int64) -> Bool {
        let bits = Self.bits(hash)
        for index in 0..<4 where words[Int(bits[index] & mask) / 64] & 1 << (bits[index] & 63) == 0 { return false }
        return true
    }

    private static func bits(_ hash: Int64) -> SIMD4<UInt64> {
        let hash = UInt64(bitPattern: hash)
        let step = (hash &* 0x9E37_79B9_7F4A_7C15) >> 32 | 1
        return SIMD4(hash, hash &+ step, hash &+ 2 &* step, hash &+ 3 &* step)
    }
}

/// The hash of a key in the index: FNV-1a with a final mix (http://www.isthe.com/chongo/tech/comp/fnv).
///
/// Different keys may have the same hash, so each head names its key.
enum KeyHash {
    static func of(_ key: String) -> Int64 {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in key.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
        hash ^= hash >> 32
        return Int64(bitPattern: hash &* 0x9E37_79B9_7F4A_7C15)
    }
}
