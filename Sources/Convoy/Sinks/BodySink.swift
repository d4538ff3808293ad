// What takes a body, and what it becomes there.
import Foundation

/// A complete body: its bytes, where they were kept.
struct ReceivedBody: Sendable {
    var storedData: Data?
    /// The file it was put into.
    var file: URL?
    /// What decodes JSON where the request names no decoder; nil for a plain one.
    var decoder: JSONDecoder?
    var data: Data { storedData ?? Data() }
}

/// Takes one body, in pieces.
///
/// Its owner calls one member at a time, and none after `finish` or `discard`; `discard` may come while it verifies.
///
/// No user code runs inside `write`: a sink keeps the bytes, writes them to a file, or hands them over.
protocol BodySink: AnyObject, Sendable {
    /// Takes the next piece. Every write is checked: what it throws ends the operation.
    func write(_ data: Data) throws(RequestError)
    /// Whether that takes no time and calls nothing, so that it may happen under a lock.
    var writesAtOnce: Bool { get }
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
    /// A sink that hands on what it takes.
    var writesAtOnce: Bool { false }
    /// A sink that keeps up.
    var isHeld: Bool { false }
    /// A sink of what was asked for.
    var counts: Bool { true }
    /// A sink that has nothing to check.
    func verify(_ completion: @escaping @Sendable (RequestError?) -> Void) { completion(nil) }
    /// A sink that leaves nothing behind.
    func discard(_ completion: @escaping @Sendable () -> Void) { completion() }
}

extension RequestError {
    static func tooLarge(_ what: String, limit: Int64) -> RequestError {
        RequestError(.bodyTooLarge, "\(what) where the request allows \(limit) bytes")
    }
}
