// Where a body goes.
import Foundation

/// Where a request wants its body.
enum BodyDestination: Sendable {
    case memory
    case nowhere
    case file(URL)
    case stream(@Sendable () -> OutputStream)
    case chunks(ChunkBuffer)
}

/// A complete body: its bytes, where they were kept.
struct ReceivedBody: Sendable {
    var storedData: Data?
    /// Whether the status of its answer was not acceptable.
    var isRefused = false
    var data: Data { storedData ?? Data() }
}

/// Takes one body, in pieces.
///
/// Its owner calls one member at a time, and none after `finish` or `discard`.
///
/// No user code runs inside `write`: a sink keeps the bytes, writes them to a file, or hands them over.
protocol BodySink: AnyObject, Sendable {
    /// Takes the next piece. Every write is checked (rule 13): what it throws ends the operation.
    func write(_ data: Data) throws(RequestError)
    /// Whether so much waits to be written or read that no more should come.
    var isHeld: Bool { get }
    /// The body is complete: put it in its place and tell, once, on any thread.
    func finish(_ completion: @escaping @Sendable (Result<ReceivedBody, RequestError>) -> Void)
    /// The body is not wanted any more: remove what was made, then call; on any thread.
    func discard(_ completion: @escaping @Sendable () -> Void)
}

extension BodySink {
    /// A sink that keeps up.
    var isHeld: Bool { false }
    /// A sink that leaves nothing behind.
    func discard(_ completion: @escaping @Sendable () -> Void) { completion() }
}

extension BodyDestination {
    var isFile: Bool { if case .file = self { true } else { false } }

    /// Makes the sink for the body of an acceptable answer.
    func makeSink(
        _ core: RequestCore, for head: ResponseHead, calls: @autoclosure () -> SinkCalls
    ) throws(RequestError) -> any BodySink {
        switch self {
        case .memory:
            if let expected = head.expectedBytes, expected > core.maximumBodyBytes {
                throw .tooLarge("the server announced \(expected) bytes", limit: core.maximumBodyBytes)
            }
            return MemorySink(limit: core.maximumBodyBytes)
        case .nowhere: return MemorySink(limit: 0, truncates: true)
        case .file(let file): return FileSink(target: file, calls: calls())
        case .stream(let makeStream): return StreamSink(makeStream, limit: core.maximumBodyBytes, calls: calls())
        case .chunks(let buffer): return try buffer.makeSink(limit: core.maximumBodyBytes, calls: calls())
        }
    }

    /// Fails when the destination can be seen to be unwritable before anything is sent.
    func checkWritable() throws(RequestError) {
        guard case .file(let file) = self else { return }
        let directory = file.deletingLastPathComponent().path
        var isDirectory: ObjCBool = false
        guard FileManager.default.fileExists(atPath: directory, isDirectory: &isDirectory), isDirectory.boolValue else {
            throw RequestError(
                .destinationUnwritable, "nothing was sent: the directory \(directory) does not exist; make it first")
        }
        guard file.lastPathComponent.utf8.count <= 255 else {
            throw RequestError(.destinationUnwritable, "nothing was sent: the file name is longer than 255 bytes")
        }
        // A rename over a device or a pipe would replace it by a file.
        var status = stat()
        if lstat(file.path, &status) == 0 {
            let kind = status.st_mode & S_IFMT
            guard kind == S_IFREG || kind == S_IFLNK else {
                throw RequestError(
                    .destinationUnwritable,
                    "nothing was sent: \(file.path) is \(kind == S_IFDIR ? "a directory" : "not a regular file")")
            }
        }
        guard access(directory, W_OK) == 0 else {
            throw RequestError(
                .destinationUnwritable, "nothing was sent: the directory \(directory) may not be written to")
        }
    }
}

extension RequestError {
    static func tooLarge(_ what: String, limit: Int64) -> RequestError {
        RequestError(.bodyTooLarge, "\(what) where the request allows \(limit); allow more with maximumBodyBytes(_:)")
    }
}

/// Collects a body in memory, up to a limit.
final class MemorySink: BodySink, @unchecked Sendable {
    // @unchecked: the owner of a sink calls one member at a time, so `data` needs no lock.
    private let limit: Int64
    private let truncates: Bool
    private var data = Data()

    /// - Parameter truncates: whether bytes beyond the limit are dropped instead of ending the request.
    init(limit: Int64, truncates: Bool = false) {
        self.limit = limit
        self.truncates = truncates
    }

    func write(_ new: Data) throws(RequestError) {
        let room = limit - Int64(data.count)
        if Int64(new.count) <= room {
            // The first piece is kept as it is: most bodies are one.
            if data.isEmpty { data = new } else { data.append(new) }
        } else if truncates {
            data.append(new.prefix(Int(clamping: max(0, room))))
        } else {
            throw .tooLarge("the body has more than \(data.count) bytes", limit: limit)
        }
    }

    func finish(_ completion: @escaping @Sendable (Result<ReceivedBody, RequestError>) -> Void) {
        completion(.success(ReceivedBody(storedData: data)))
    }
}
