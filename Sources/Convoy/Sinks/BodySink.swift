// Where a body goes.
import Foundation

/// Where a request wants its body.
enum BodyDestination: Sendable {
    case memory
    case nowhere
    indirect case file(DownloadPlan)
    case segment(FileSegment)
    case stream(@Sendable () -> OutputStream)
    case chunks(ChunkBuffer)
}

/// A complete body: its bytes, where they were kept.
struct ReceivedBody: Sendable {
    var storedData: Data?
    /// The file it was put into.
    var file: URL?
    /// Whether the status of its answer was not acceptable.
    var isRefused = false
    var data: Data { storedData ?? Data() }
}

/// Takes one body, in pieces.
///
/// Its owner calls one member at a time, and none after `finish` or `discard`; `discard` may come while it verifies.
///
/// No user code runs inside `write`: a sink keeps the bytes, writes them to a file, or hands them over.
protocol BodySink: AnyObject, Sendable {
    /// Takes the next piece. Every write is checked (rule 13): what it throws ends the operation.
    func write(_ data: Data) throws(RequestError)
    /// Whether so much waits to be written or read that no more should come.
    var isHeld: Bool { get }
    /// Whether what it takes is of the body that was asked for.
    var counts: Bool { get }
    /// The body is complete: check it, which may take its time, and call with what is wrong; on any thread, or never when it
    /// is discarded meanwhile.
    func verify(_ completion: @escaping @Sendable (RequestError?) -> Void)
    /// The body is good: put it in its place and tell, once, on any thread.
    func finish(_ completion: @escaping @Sendable (Result<ReceivedBody, RequestError>) -> Void)
    /// The body is not wanted any more: leave nothing behind but what can be continued, then call; on any thread.
    func discard(_ completion: @escaping @Sendable () -> Void)
}

extension BodySink {
    /// A sink that keeps up.
    var isHeld: Bool { false }
    /// A sink of what was asked for.
    var counts: Bool { true }
    /// A sink that has nothing to check.
    func verify(_ completion: @escaping @Sendable (RequestError?) -> Void) { completion(nil) }
    /// A sink that leaves nothing behind.
    func discard(_ completion: @escaping @Sendable () -> Void) { completion() }
}

extension BodyDestination {
    var isFile: Bool {
        switch self {
        case .file, .segment: true
        case .memory, .nowhere, .stream, .chunks: false
        }
    }

    /// What the attempts of one operation fill, where that is a file.
    func makeDownload() -> (any DownloadTarget)? {
        switch self {
        case .file(let plan): Download(plan)
        case .segment(let segment): segment
        case .memory, .nowhere, .stream, .chunks: nil
        }
    }

    /// Makes the sink for the body of an acceptable answer, unless that goes into a file.
    func makeSink(
        for head: ResponseHead, limit: Int64, calls: @autoclosure () -> SinkCalls
    ) throws(RequestError) -> any BodySink {
        switch self {
        case .memory:
            // The caller's limit has been looked at; where there is none, this is that of memory.
            if let expected = head.expectedBytes, expected > limit {
                throw .tooLarge("the server announced \(expected) bytes", limit: limit)
            }
            return MemorySink(limit: limit)
        case .nowhere: return MemorySink(limit: 0, truncates: true)
        case .file, .segment: throw RequestError(.destinationUnwritable, "the download is over")
        case .stream(let makeStream): return StreamSink(makeStream, limit: limit, calls: calls())
        case .chunks(let buffer): return try buffer.makeSink(limit: limit, calls: calls())
        }
    }
}

extension RequestError {
    static func tooLarge(_ what: String, limit: Int64) -> RequestError {
        RequestError(.bodyTooLarge, "\(what) where the request allows \(limit) bytes")
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
