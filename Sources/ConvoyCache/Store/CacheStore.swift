// The storage of responses.
import Convoy
import Foundation

/// A stored response, as found in the store.
struct StoredEntry: Sendable {
    let id: Int64
    var head: StoredHead
    /// Its body, where that was read with it.
    var body: Data?
}

/// A short description of a stored response, for people and for statistics.
struct StoredSummary: Sendable {
    var key: String
    var head: StoredHead
}

/// The storage of responses: memory or a directory.
///
/// Disk errors are not reported. A response that cannot be read counts as missing, and one that cannot be written is
/// not stored.
protocol CacheStore: AnyObject, Sendable {
    /// What stands for secrets in keys and heads.
    var digest: KeyedDigest { get }
    /// What is stored under a key.
    func entries(for key: String) -> [StoredEntry]
    /// Whether nothing was stored under a key when it was looked for a moment ago; says so once a look.
    func takeMiss(of key: String) -> Bool
    /// The body of an entry, checked; nil when it is gone or damaged, and then the entry is gone too.
    func openBody(of id: Int64) -> StoredBody?
    /// Whether its calls may wait for a disk, so that no transport's thread may make them.
    var mayBlock: Bool { get }
    /// Takes the body of a response to be stored; nil when nothing can be stored now.
    ///
    /// Nil when it is missing or damaged; the entry is then removed.
    func openBody(of id: Int64) -> StoredBody?
    /// Whether calls may block for disk access, so that no transport's thread may make them.
    var mayBlock: Bool { get }
    /// Makes a writer for the body of a response; nil when nothing can be stored now.
    ///
    /// - Parameter expectedBytes: its length, if the server declared it.
    func makeWriter(expectedBytes: Int64?) -> (any StoreWriter)?
    /// Replaces the head of an entry.
    func update(_ id: Int64, of key: String, to head: StoredHead)
    /// Records the use of an entry.
    func use(_ id: Int64)
    func remove(_ ids: [Int64], of key: String)
    func removeAll(key: String)
    func removeAll()
    /// All stored responses in no particular order.
    func summaries() -> [StoredSummary]
    /// How much is stored, and how many entries were removed.
    var counts: StoreCounts { get }
}

/// The counts of a store.
struct StoreCounts: Sendable {
    var entries = 0
    var bytes: Int64 = 0
    var evictions = 0
    /// Damaged entries and databases.
    var repairs = 0
}

/// Receives one body in chunks.
protocol StoreWriter: AnyObject, Sendable {
    /// Writes the next bytes.
    ///
    /// False when the response will not be stored.
    func write(_ data: Data) -> Bool
    /// Stores the response, and removes those that it replaces.
    ///
    /// - Parameter isReplaced: selects the replaced responses of the key; called on any thread.
    /// - Returns: false when the response will certainly not be stored.
    @discardableResult
    func commit(
        key: String, head: StoredHead, replacing isReplaced: @escaping @Sendable (StoredHead) -> Bool
    ) -> Bool
    /// Discards the written bytes.
    func discard()
}

/// The body of a stored response.
enum StoredBody: Sendable {
    case data(Data)
    case file(StoredFile)

    var byteCount: Int64 {
        switch self {
        case .data(let data): Int64(data.count)
        case .file(let file): file.byteCount
        }
    }

    /// Reads some bytes, fewer at the end; nil when they cannot be read.
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

/// A file that is open for reading, even after its name was removed.
final class StoredFile: Sendable {
    private let descriptor: Int32
    let byteCount: Int64

    /// Opens a file; nil when it is missing or has an unexpected length.
    init?(path: String, byteCount: Int64) {
        descriptor = open(path, O_RDONLY | O_CLOEXEC)
        self.byteCount = byteCount
        guard descriptor >= 0 else { return nil }
        var status = stat()
        // The deinitialiser also runs after this failure, and closes the descriptor.
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
    /// The size of an entry without its body, as counted against the capacity.
    var headBytes: Int64 {
        let fields = headerFields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count + 4 }
        return Int64(512 + 2 * url.utf8.count + fields)
    }
}
