// Reading a body while it is sent, wherever its bytes come from.
import Foundation

/// A body that is being read, in order.
enum BodyReading: Sendable {
    /// From memory, a file or a stream: the thread that reads waits for it.
    case blocking(any BlockingReader)
    /// From a sequence, which may take any time and calls back.
    case waiting(any WaitingReader)
}

/// Bytes in order; reading may wait for a disk.
///
/// - Thread: one at a time, and never a transport's that serves others.
protocol BlockingReader: AnyObject, Sendable {
    /// Puts the next bytes into a buffer that is not empty; 0 at the end.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>
    /// Whether the system may have the next bytes in memory, and can be asked for them without waiting.
    var readsWithoutWaiting: Bool { get }
    /// Does what `read` does where that waits for nothing, and so on any thread; nil where it would have to wait.
    func readWithoutWaiting(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>?
}

extension BlockingReader {
    /// A reader that always may have to wait.
    var readsWithoutWaiting: Bool { false }
    func readWithoutWaiting(into _: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError>? { nil }
}

/// Chunks in order, which come when they come; letting go of it ends the waiting.
protocol WaitingReader: AnyObject, Sendable {
    /// Gets chunks, never an empty one; nil at the end. One call at a time.
    ///
    /// - Parameter take: called on any thread, with one chunk after the other for as long as it returns true, which it does
    ///   not at the end; perhaps not at all after the reader has been let go of. Once it has returned false, this may be
    ///   called again.
    func read(_ take: @escaping @Sendable (Result<Data?, RequestError>) -> Bool)
}

extension RequestBody {
    /// Begins to read the body from its start.
    ///
    /// - Thread: one that may wait.
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
    // @unchecked: one at a time, as BlockingReader says.
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
    // @unchecked: one at a time, as BlockingReader says.
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
        // Its length is part of a whole that has been declared: a form with half a file is not what was meant.
        if case .file(let file, let byteCount) = body {
            return FileReader(file, byteCount: byteCount, mayGrow: false)
        }
        guard case .blocking(let reader) = try body.begin() else {
            throw RequestError(.bodyUnreadable, "a sequence cannot be a part of a body")
        }
        return reader
    }
}
