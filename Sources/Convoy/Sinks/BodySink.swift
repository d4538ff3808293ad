// The object that receives a body, and its result.
import Foundation

struct ReceivedBody: Sendable {
    var storedData: Data?
    var file: URL?
    /// The manager's JSON decoder, for requests that set none; nil for a decoder with default settings.
    var decoder: JSONDecoder?
    var data: Data { storedData ?? Data() }
}

typealias Callback<Value> = @Sendable (Result<Value, RequestError>) -> Void

// The owner calls one member at a time, and none after `finish` or `discard`, which it may call during verification. No
// user code runs inside `write`.
protocol BodySink: AnyObject, Sendable {
    func write(_ data: Data) throws(RequestError)
    var isPaused: Bool { get }
    /// Whether the bytes are part of the requested body, and therefore count as progress.
    var counts: Bool { get }
    /// No call if the sink has failed before, or if the body is discarded before the verification ends; any thread.
    func verify(_ completion: @escaping @Sendable (RequestError?) -> Void)
    /// Calls `completion` on any thread; a sink that has failed before reports its error again, or omits the call.
    func finish(_ completion: @escaping Callback<ReceivedBody>)
    /// Discards the body, except bytes that a later attempt can resume, and calls `completion` on any thread.
    func discard(_ completion: @escaping @Sendable () -> Void)
}

extension BodySink {
    var isPaused: Bool { false }
    var counts: Bool { true }
    func verify(_ completion: @escaping @Sendable (RequestError?) -> Void) { completion(nil) }
    func discard(_ completion: @escaping @Sendable () -> Void) { completion() }
}

extension RequestError {
    static func tooLarge(_ what: String, limit: Int64) -> RequestError {
        RequestError(.bodyTooLarge, "\(what) where the request allows \(limit) bytes")
    }
}

enum BodyDestination: Sendable {
    case memory
    case nowhere
    indirect case file(DownloadPlan)
    indirect case segment(FileSegment)
    case stream(@Sendable () -> OutputStream)
    case chunks(ChunkBuffer)

    var isFile: Bool { if case .file = self { true } else { segment != nil } }

    var segment: FileSegment? { if case .segment(let segment) = self { segment } else { nil } }

    func makeDownload() -> Download? { if case .file(let plan) = self { Download(plan) } else { nil } }

    /// - Parameter queue: a serial queue that all streams of one operation share.
    func makeSink(
        for head: ResponseHead, limit: Int64, queue: @autoclosure () -> DispatchQueue,
        calls: @autoclosure () -> SinkCalls
    ) throws(RequestError) -> any BodySink {
        switch self {
        case .memory:
            // The caller's own limit was already checked. If the caller has set none, the memory limit applies here.
            if let expected = head.expectedBytes, expected > limit {
                throw .tooLarge("the server announced \(expected) bytes", limit: limit)
            }
            return MemorySink(limit: limit)
        case .nowhere: return MemorySink(limit: 0, truncates: true)
        case .file, .segment: throw RequestError(.destinationUnwritable, "the download has ended")
        case .stream(let makeStream): return StreamSink(makeStream, limit: limit, queue: queue(), calls: calls())
        case .chunks(let buffer):
            try buffer.begin(limit: limit, calls: calls())
            return buffer
        }
    }
}

final class MemorySink: BodySink, @unchecked Sendable {
    // @unchecked: the owner of a sink calls one member at a time, so `data` needs no lock.
    private let limit: Int64
    /// Whether bytes beyond the limit are dropped instead of failing the request.
    private let truncates: Bool
    private var data = Data()

    init(limit: Int64, truncates: Bool = false) { (self.limit, self.truncates) = (limit, truncates) }

    /// Receives the next chunk; the owner may call it under a lock, because it is fast and calls no other code.
    func write(_ new: Data) throws(RequestError) {
        let room = limit - Int64(data.count)
        if Int64(new.count) <= room {
            // The first chunk is not copied, because most bodies have only one.
            if data.isEmpty { data = new } else { data.append(new) }
        } else if truncates {
            data.append(new.prefix(Int(clamping: max(0, room))))
        } else {
            throw .tooLarge("the body has at least \(data.count + new.count) bytes", limit: limit)
        }
    }

    var body: ReceivedBody { ReceivedBody(storedData: data) }

    func finish(_ completion: Callback<ReceivedBody>) { completion(.success(body)) }
}
