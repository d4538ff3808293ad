// The object that receives a body, and its result.
import Foundation

/// A complete body: its bytes, if they were stored in memory.
struct ReceivedBody: Sendable {
    var storedData: Data?
    /// The file to which the body was written.
    var file: URL?
    /// The manager's JSON decoder, for requests that set none; nil for a decoder with default settings.
    var decoder: JSONDecoder?
    var data: Data { storedData ?? Data() }
}

/// Receives one body in chunks.
///
/// The owner calls one member at a time, and none after `finish` or `discard`. The owner may call `discard` during
/// verification.
///
/// No user code runs inside `write`. A sink stores the bytes, writes them to a file, or passes them on.
protocol BodySink: AnyObject, Sendable {
    /// Receives the next chunk.
    ///
    /// A thrown error fails the operation.
    func write(_ data: Data) throws(RequestError)
    /// Whether the transfer is to pause, because too many bytes wait to be written or read.
    var isPaused: Bool { get }
    /// Whether the bytes are part of the requested body, and therefore count as progress.
    var counts: Bool { get }
    /// Verifies the complete body, which may take time.
    ///
    /// Calls `completion` with the error or nil, on any thread. The call is omitted if the sink has failed before, or
    /// if the body is discarded before the verification ends.
    func verify(_ completion: @escaping @Sendable (RequestError?) -> Void)
    /// Moves a verified body to its destination, and calls `completion` on any thread.
    ///
    /// A sink that has failed before reports its error again, or omits the call.
    func finish(_ completion: @escaping @Sendable (Result<ReceivedBody, RequestError>) -> Void)
    /// Discards the body, except bytes that a later attempt can resume.
    ///
    /// Calls `completion` afterwards, on any thread.
    func discard(_ completion: @escaping @Sendable () -> Void)
}

extension BodySink {
    /// By default no bytes wait.
    var isPaused: Bool { false }
    /// By default all bytes count.
    var counts: Bool { true }
    /// By default there is nothing to verify.
    func verify(_ completion: @escaping @Sendable (RequestError?) -> Void) { completion(nil) }
    /// By default there is nothing to remove.
    func discard(_ completion: @escaping @Sendable () -> Void) { completion() }
}

extension RequestError {
    static func tooLarge(_ what: String, limit: Int64) -> RequestError {
        RequestError(.bodyTooLarge, "\(what) where the request allows \(limit) bytes")
    }
}
