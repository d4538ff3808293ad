import Convoy
import Foundation

struct StoredEntry: Sendable {
    let id: Int64
    var head: StoredHead
    var body: Data?
    var bodyDigest: Int64 = 0
}

/// The store throws no disk errors: it skips writes that fail, and reports unreadable entries as missing.
protocol CacheStore: AnyObject, Sendable {
    var digest: KeyedDigest { get }
    /// Nil if its key must still be read from the disk.
    var knownDigest: KeyedDigest? { get }
    func entries(for key: String) -> [StoredEntry]
    /// Returns nil if the disk must be read. Any thread: a store on disk only calls `stat` on its index, which a local
    /// file system answers from memory.
    func entriesInMemory(for key: String) -> [StoredEntry]?
    /// Whether the filter of stored keys, or a lookup of the last second, shows that no response is stored. The call
    /// removes the record of that lookup. Another process may have stored a response since. Any thread; never waits for
    /// a disk.
    func takeMiss(of key: String) -> Bool
    /// Returns nil if the body is missing or damaged, and removes such an entry; also if the identifier now belongs to
    /// another entry.
    func openBody(of entry: StoredEntry, key: String) -> StoredBody?
    /// If true, a transport's thread must not make calls that read the disk.
    var mayBlock: Bool { get }
    /// Nil if the body is too long or too many bytes wait for the disk.
    func makeWriter(expectedBytes: Int64?) -> (any StoreWriter)?
    func update(_ id: Int64, to head: StoredHead)
    func use(_ id: Int64)
    func close()
    func remove(_ ids: [Int64], of key: String)
    func repair(_ ids: [Int64], of key: String)
    func removeAll(key: String)
    func removeAll()
    func heads() -> [StoredHead]
    /// Only what the store itself counts: entries, bytes, evictions and repairs.
    var counts: CacheStatistics { get }
}

protocol StoreWriter: AnyObject, Sendable {
    /// Returns false if the response will not be stored.
    func write(_ data: Data) -> Bool
    /// `isReplaced` may run on any thread; if it returns nil, the store keeps the other response and drops this one.
    /// Returns false if the store already knows that it cannot store the response.
    @discardableResult
    func commit(_ head: StoredHead, replacing isReplaced: @escaping @Sendable (StoredHead) -> Bool?) -> Bool
    func discard()
}

enum StoredBody: Sendable {
    case data(Data)
    case file(StoredFile)

    var byteCount: Int64 {
        switch self {
        case .data(let data): Int64(data.count)
        case .file(let file): file.byteCount
        }
    }

    /// Returns fewer bytes at the end of the body, and nil if reading fails.
    func read(at offset: Int64, count: Int) -> Data? {
        switch self {
        case .data(let data):
            guard offset >= 0, offset <= data.count else { return nil }
            let start = data.startIndex + Int(offset)
            return data[start..<min(data.endIndex, start + count)]
        case .file(let file): return file.read(at: offset, count: count)
        }
    }
}

final class StoredFile: Sendable {
    private let descriptor: Int32
    let byteCount: Int64

    /// Nil if the file is missing, is not a regular file, or has another length.
    init?(path: String, byteCount: Int64? = nil) {
        descriptor = Self.openRegular(path)
        var status = stat()
        let isThere = descriptor >= 0 && fstat(descriptor, &status) == 0
        self.byteCount = Int64(status.st_size)
        // The deinitializer also runs after this failure and closes the descriptor.
        guard isThere, byteCount == nil || byteCount == self.byteCount else { return nil }
    }

    /// These values change with the bytes of the file.
    var stamp: FileStamp? {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? FileStamp(status) : nil
    }

    /// Follows no symbolic link and does not block on a FIFO; -1 on failure.
    static func openRegular(_ path: String) -> Int32 {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)
        guard descriptor >= 0 else { return -1 }
        var status = stat()
        if fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG { return descriptor }
        close(descriptor)
        return -1
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    func read(at offset: Int64, count: Int) -> Data? {
        // `malloc` avoids zeroing the memory, which would cost as much as the read.
        guard count > 0, let bytes = malloc(count) else { return count == 0 ? Data() : nil }
        let got = pread(descriptor, bytes, count, off_t(offset))
        guard got >= 0 else {
            free(bytes)
            return nil
        }
        return Data(bytesNoCopy: bytes, count: got, deallocator: .free)
    }

    var digest: Int64? {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 << 10, alignment: 16)
        defer { buffer.deallocate() }
        var (digest, offset) = (BodyDigest(), Int64(0))
        while offset < byteCount {
            let got = pread(descriptor, buffer.baseAddress, buffer.count, off_t(offset))
            guard got > 0 else { return nil }
            digest.update(UnsafeRawBufferPointer(rebasing: buffer[..<got]))
            offset += Int64(got)
        }
        return digest.value
    }
}

extension StoredHead {
    var headBytes: Int64 {
        let fields = headerFields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 }
        return Int64(512 + 2 * key.utf8.count + fields)
    }
}

/// Counts of a cache: hits, misses and stored responses.
///
/// ```swift
/// let statistics = cache.statistics
/// print(statistics.hits, statistics.misses[.stale] ?? 0, statistics.storedBytes)
/// ```
public struct CacheStatistics: Sendable, Hashable {
    /// Requests that the cache answered with a fresh response, without the network.
    public internal(set) var hits = 0
    /// Requests that the cache answered with a stale response, as the request or the response allowed.
    public internal(set) var staleHits = 0
    /// Requests whose stored response the server confirmed with a 304.
    public internal(set) var validations = 0
    /// Requests that the cache forwarded to the network, by reason.
    public internal(set) var misses: [CacheStatus.Forward: Int] = [:]
    /// Body bytes that the cache supplied instead of the network.
    public internal(set) var savedBytes: Int64 = 0
    /// Responses that the cache stored.
    public internal(set) var stores = 0
    /// Responses that the cache evicted to make room.
    public internal(set) var evictions = 0
    /// Damaged responses and damaged indexes that the cache removed.
    public internal(set) var repairs = 0
    /// Responses that the cache stores now.
    public internal(set) var entryCount = 0
    /// The number of bytes that count towards the capacity.
    public internal(set) var storedBytes: Int64 = 0

    mutating func countHit(timeToLive: Int?, bytes: Int64) {
        savedBytes += bytes
        if timeToLive ?? 0 > 0 { hits += 1 } else { staleHits += 1 }
    }
}
