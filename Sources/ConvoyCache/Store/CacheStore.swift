// Where responses are kept.
import Convoy
import Foundation

/// A stored response, as it was found.
struct StoredEntry: Sendable {
    let id: Int64
    var head: StoredHead
    /// Its body, where that was read with it.
    var body: Data?
}

/// A description of a stored response, for people and for statistics.
struct StoredSummary: Sendable {
    var key: String
    var head: StoredHead
}

/// Where responses are kept: in memory or in a directory.
///
/// Nothing that goes wrong with a disk is an error here: what cannot be read is not there, and what cannot be written is
/// not stored.
protocol CacheStore: AnyObject, Sendable {
    /// What stands for secrets in keys and heads.
    var digest: KeyedDigest { get }
    /// What is stored under a key, in the order in which it was stored.
    func entries(for key: String) -> [StoredEntry]
    /// Whether nothing was stored under a key when it was looked for a moment ago; says so once a look.
    func takeMiss(of key: String) -> Bool
    /// The body of an entry, checked; nil when it is gone or damaged, and then the entry is gone too.
    func openBody(of id: Int64) -> StoredBody?
    /// Whether its calls may wait for a disk, so that no transport's thread may make them.
    var mayBlock: Bool { get }
    /// Takes the body of a response to be stored; nil when nothing can be stored now.
    ///
    /// - Parameter expectedBytes: its length, where the server declared it.
    func makeWriter(expectedBytes: Int64?) -> (any StoreWriter)?
    /// Replaces what is known of an entry.
    func update(_ id: Int64, of key: String, to head: StoredHead)
    /// Notes that an entry has been used.
    func use(_ id: Int64)
    func remove(_ ids: [Int64], of key: String)
    func removeAll(key: String)
    func removeAll()
    /// All that is stored, in no order.
    func summaries() -> [StoredSummary]
    /// How much is stored, and how often something had to go.
    var counts: StoreCounts { get }
}

/// What a store counts.
struct StoreCounts: Sendable {
    var entries = 0
    var bytes: Int64 = 0
    var evictions = 0
    /// Entries and databases that were damaged.
    var repairs = 0
}

/// Takes one body, piece by piece.
protocol StoreWriter: AnyObject, Sendable {
    /// Takes the next bytes; false when the response is not stored after all.
    func write(_ data: Data) -> Bool
    /// Stores the response in place of others.
    ///
    /// - Parameter isReplaced: which of those under the key; called on any thread.
    /// - Returns: false when it is known already that it is not stored.
    @discardableResult
    func commit(
        key: String, head: StoredHead, replacing isReplaced: @escaping @Sendable (StoredHead) -> Bool
    ) -> Bool
    /// Leaves nothing behind.
    func discard()
}

/// The body of a stored response, to be read.
enum StoredBody: Sendable {
    case data(Data)
    case file(StoredFile)

    var byteCount: Int64 {
        switch self {
        case .data(let data): Int64(data.count)
        case .file(let file): file.byteCount
        }
    }

    /// Some bytes of it, fewer at its end; nil when it cannot be read.
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

/// A file that is open to be read, whatever becomes of its name.
final class StoredFile: Sendable {
    private let descriptor: Int32
    let byteCount: Int64

    /// Opens a file; nil when it is not there, or has another length than it should have.
    init?(path: String, byteCount: Int64) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        self.byteCount = byteCount
        guard descriptor >= 0 else { return nil }
        var status = stat()
        // The deinitializer runs after this failure, too, and closes the descriptor.
        guard fstat(descriptor, &status) == 0, Int64(status.st_size) == byteCount else { return nil }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    func read(at offset: Int64, count: Int) -> Data? {
        // Not zeroed first: that costs as much as reading.
        guard count > 0, let bytes = malloc(count) else { return count == 0 ? Data() : nil }
        let got = pread(descriptor, bytes, count, off_t(offset))
        guard got >= 0 else {
            free(bytes)
            return nil
        }
        return Data(bytesNoCopy: bytes, count: got, deallocator: .free)
    }

    /// The digest of all its bytes; nil when they cannot be read.
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
    /// What an entry takes of the capacity beside its body.
    var headBytes: Int64 {
        let fields = headerFields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 }
        return Int64(512 + 2 * url.utf8.count + fields)
    }
}
