// Reads a body while it is sent, from any source.
import Foundation

/// A body that is read in order.
enum BodyReading: Sendable {
    /// From memory, a file or a stream. Reading blocks the thread.
    case blocking(any BlockingReader)
    /// From an async sequence. The reader passes its chunks to a callback when they arrive.
    case waiting(any WaitingReader)
}

/// Bytes in order.
///
/// Reading may wait for a disk.
///
/// - Thread: one at a time, and never a transport's that serves others.
protocol BlockingReader: AnyObject, Sendable {
    /// Copies the next bytes to a buffer, which is not empty; 0 at the end.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>
    /// Whether the next bytes may be in memory and can be read without waiting.
    var readsWithoutWaiting: Bool { get }
    /// As `read`, but without waiting, so on any thread; nil if it would have to wait.
    func readWithoutWaiting(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>?
}

extension BlockingReader {
    /// A reader that may always have to wait.
    var readsWithoutWaiting: Bool { false }
    func readWithoutWaiting(into _: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>? { nil }
}

/// Chunks in order, which arrive at any time.
///
/// Releasing the reader stops it.
protocol WaitingReader: AnyObject, Sendable {
    /// Requests chunks, which are never empty; nil at the end.
    ///
    /// Only one call at a time.
    ///
    /// - Parameter take: called on any thread with one chunk after the other while it returns true. It must return
    ///   false at the end. After the reader is released it may not be called at all. Once it has returned false,
    ///   `read` may be called again.
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
    // @unchecked: one at a time, as BlockingReader requires.
    private let data: Data
    private var offset = 0

    init(_ data: Data) { self.data = data }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError> { .success(take(into: buffer)) }

    func take(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        let count = min(buffer.count, data.count - offset)
        let start = data.startIndex + offset
        data.copyBytes(to: buffer, from: start..<(start + count))
        offset += count
        return count
    }
}

/// Reads bodies end to end.
final class JoinedReader: BlockingReader, @unchecked Sendable {
    // @unchecked: one at a time, as BlockingReader requires.
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
        // Its length is part of a declared total, so a file that has changed fails the request.
        if case .file(let file, let byteCount) = body {
            return FileReader(file, byteCount: byteCount, mayGrow: false)
        }
        guard case .blocking(let reader) = try body.begin() else {
            throw RequestError(.bodyUnreadable, "a sequence cannot be a part of a body")
        }
        return reader
    }
}
