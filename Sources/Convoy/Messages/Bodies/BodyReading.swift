// Reads a body while it is sent, from any source.
import Foundation

enum BodyReading: Sendable {
    /// Bytes from memory, a file or a stream. Reading may block the thread.
    case blocking(any BlockingReader)
    /// Chunks of an async sequence. The reader passes each chunk to a callback when it arrives.
    case waiting(SequenceReader)
}

/// A reader of bytes in order, which may wait for a disk.
///
/// - Thread: one at a time. libcurl's thread never calls `read`. URLSession on Linux calls it on the queue that serves
///   all of its requests.
protocol BlockingReader: AnyObject, Sendable {
    /// Copies the next bytes to a buffer, which is not empty, and returns their number; 0 at the end.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>
    var readsWithoutWaiting: Bool { get }
    /// Does the same as `read`, but never waits, so any thread may call it; nil if it would have to wait.
    func readWithoutWaiting(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>?
}

extension BlockingReader {
    var readsWithoutWaiting: Bool { false }
    func readWithoutWaiting(into _: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>? { nil }
}

extension RequestBody {
    /// - Thread: one that may block.
    func begin() throws(RequestError) -> BodyReading {
        switch self {
        case .data(let data): return .blocking(DataReader(data))
        case .file(let file, let byteCount): return .blocking(FileReader(file, byteCount: byteCount))
        case .joined(let bodies): return .blocking(JoinedReader(bodies))
        case .stream(let stream): return try stream.begin()
        }
    }
}

final class DataReader: BlockingReader, @unchecked Sendable {
    // @unchecked: one thread at a time uses the reader, as BlockingReader requires.
    let data: Data
    private var offset = 0

    init(_ data: Data) { self.data = data }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError> {
        let count = min(buffer.count, data.count - offset)
        let start = data.startIndex + offset
        data.copyBytes(to: buffer, from: start..<(start + count))
        offset += count
        return .success(count)
    }
}

final class JoinedReader: BlockingReader, @unchecked Sendable {
    // @unchecked: one thread at a time uses the reader, as BlockingReader requires.
    private var bodies: ArraySlice<RequestBody>
    private var current: (any BlockingReader)?

    init(_ bodies: [RequestBody]) { self.bodies = bodies[...] }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError> {
        while true {
            if let current {
                let result = current.read(into: buffer)
                guard case .success(0) = result else { return result }
                self.current = nil
            }
            switch bodies.popFirst() {
            case nil: return .success(0)
            // The file's length is part of a declared total, so a file that has grown or shrunk fails the request.
            case .file(let file, let byteCount)?: current = FileReader(file, byteCount: byteCount, mayGrow: false)
            case let body?:
                do throws(RequestError) {
                    guard case .blocking(let reader) = try body.begin() else {
                        throw RequestError(.bodyUnreadable, "a sequence cannot be a part of a body")
                    }
                    current = reader
                } catch { return .failure(error) }
            }
        }
    }
}

/// The length is declared before the body is sent, and the file may change afterwards.
final class FileReader: BlockingReader, @unchecked Sendable {
    // @unchecked: one thread at a time uses the reader, as BlockingReader requires.
    private let file: URL
    private let byteCount: Int64
    private let mayGrow: Bool
    private var descriptor: Int32 = -1
    private var offset: Int64 = 0
    /// Whether `preadv2` with `noWait` has failed, because the kernel or the file system does not support it.
    private var alwaysWaits = false

    #if os(Linux)
        private typealias Read =
            @Sendable @convention(c) (Int32, UnsafePointer<iovec>, Int32, off_t, Int32) -> Int

        /// Nil if the C library lacks it; looked up at run time, because Swift's module of the C library omits it.
        private static let preadv2: Read? = dlsym(nil, "preadv2").map { unsafeBitCast($0, to: Read.self) }
        /// RWF_NOWAIT (Linux 4.14): the call reads only bytes that are in the page cache.
        private static let noWait: Int32 = 8
    #endif

    /// - Parameter mayGrow: whether a file that has grown is sent with its old length instead of failing.
    init(_ file: URL, byteCount: Int64, mayGrow: Bool = true) {
        self.file = file
        self.byteCount = byteCount
        self.mayGrow = mayGrow
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError> {
        if descriptor < 0 {
            // The path may now name a pipe, and opening it would block without O_NONBLOCK.
            let opened = open(file.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
            guard opened >= 0 else { return failure(String(cString: strerror(errno))) }
            descriptor = opened
            guard let status, status.st_mode & S_IFMT == S_IFREG else { return failure("it is no longer a file") }
        }
        let wanted = min(buffer.count, Int(clamping: byteCount - offset))
        // This check precedes the return of the last bytes. Otherwise the server would receive a body that looks
        // complete.
        if !mayGrow, offset + Int64(wanted) == byteCount, let status, Int64(status.st_size) > byteCount {
            return failure("it became longer while it was sent: \(status.st_size) bytes instead of \(byteCount)")
        }
        guard wanted > 0, let base = buffer.baseAddress else { return .success(0) }
        var count = 0
        repeat { count = pread(descriptor, base, wanted, off_t(offset)) } while count < 0 && errno == EINTR
        guard count > 0 else {
            return failure(
                count == 0
                    ? "it became shorter while it was sent: \(offset) of \(byteCount) bytes"
                    : String(cString: strerror(errno)))
        }
        offset += Int64(count)
        return .success(count)
    }

    #if os(Linux)
        var readsWithoutWaiting: Bool { descriptor >= 0 && mayGrow && !alwaysWaits && Self.preadv2 != nil }

        func readWithoutWaiting(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>? {
            guard readsWithoutWaiting, let preadv2 = Self.preadv2 else { return nil }
            let wanted = min(buffer.count, Int(clamping: byteCount - offset))
            guard wanted > 0 else { return .success(0) }
            var place = iovec(iov_base: buffer.baseAddress, iov_len: wanted)
            let count = preadv2(descriptor, &place, 1, off_t(offset), Self.noWait)
            // After nil, the caller calls `read`, which waits for the bytes or reports the failure.
            guard count > 0 else {
                if count < 0, errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL { alwaysWaits = true }
                return nil
            }
            offset += Int64(count)
            return .success(count)
        }
    #endif

    private var status: stat? {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? status : nil
    }

    private func failure(_ reason: String) -> Result<Int, RequestError> { .failure(.unreadable(file, reason)) }
}
