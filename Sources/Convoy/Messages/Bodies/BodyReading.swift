// Reads a body while it is sent, from any source.
import Foundation

/// A body that is read in order.
enum BodyReading: Sendable {
    /// Bytes from memory, a file or a stream. Reading may block the thread.
    case blocking(any BlockingReader)
    /// Chunks of an async sequence. The reader passes each chunk to a callback when it arrives.
    case waiting(any WaitingReader)
}

/// A reader of bytes in order, which may wait for a disk.
///
/// - Thread: one at a time. libcurl's thread never calls `read`. URLSession on Linux calls it on the queue that serves
///   all of its requests.
protocol BlockingReader: AnyObject, Sendable {
    /// Copies the next bytes to a buffer, which is not empty, and returns their number; 0 at the end.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>
    /// Whether the next bytes may be in memory and can be read without waiting.
    var readsWithoutWaiting: Bool { get }
    /// Does the same as `read`, but never waits, so any thread may call it; nil if it would have to wait.
    func readWithoutWaiting(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>?
}

extension BlockingReader {
    /// By default, each read may have to wait.
    var readsWithoutWaiting: Bool { false }
    func readWithoutWaiting(into _: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>? { nil }
}

/// A reader of chunks that arrive in order, at any time.
///
/// Releasing the reader stops the reading.
protocol WaitingReader: AnyObject, Sendable {
    /// Requests chunks, which are never empty.
    ///
    /// The caller makes one call at a time.
    ///
    /// - Parameter take: receives one chunk after the other, then nil at the end, on any thread, while it returns true.
    ///   The closure must return false at the end. After it has returned false, `read` may be called again. If the
    ///   reader is released, the closure may receive no further chunk.
    func read(_ take: @escaping @Sendable (Result<Data?, RequestError>) -> Bool)
}

extension RequestBody {
    /// Starts to read the body from its beginning.
    ///
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

/// Reads bytes in memory.
final class DataReader: BlockingReader, @unchecked Sendable {
    // @unchecked: one thread at a time uses the reader, as BlockingReader requires.
    let data: Data
    private var offset = 0

    init(_ data: Data) { self.data = data }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError> { .success(copy(into: buffer)) }

    /// Copies the next bytes, and returns their number.
    func copy(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        let count = min(buffer.count, data.count - offset)
        let start = data.startIndex + offset
        data.copyBytes(to: buffer, from: start..<(start + count))
        offset += count
        return count
    }
}

/// Reads bodies end to end.
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
            guard let next = bodies.popFirst() else { return .success(0) }
            do throws(RequestError) { current = try Self.reader(of: next) } catch { return .failure(error) }
        }
    }

    private static func reader(of body: RequestBody) throws(RequestError) -> any BlockingReader {
        // The file's length is part of a declared total, so a file that has grown or shrunk fails the request.
        if case .file(let file, let byteCount) = body {
            return FileReader(file, byteCount: byteCount, mayGrow: false)
        }
        guard case .blocking(let reader) = try body.begin() else {
            throw RequestError(.bodyUnreadable, "a sequence cannot be a part of a body")
        }
        return reader
    }
}
