import Foundation

/// An HTTP/1.1 server on the loopback address that answers as a test tells it to, faults included.
///
/// A server listens as soon as it is made, on a port of its own, so any number of them can run in one process.
/// Tell it what to answer, point the client at ``url(_:)``, and look at what came with ``takeRequest(within:)``.
///
/// ```swift
/// let server = try TestServer()
/// server.enqueue(.status(200, body: "first"))
/// server.enqueue(.status(200, body: "second").resetting(afterBytes: 30))
/// server.route("/file") { _ in
///     .resource(generatedByteCount: 10_000_000, etag: "\"v1\"")
/// }
/// // send requests to server.url("/a")
/// let request = try await server.takeRequest()
/// server.shutDown()
/// ```
///
/// The queue is asked first, then the routes, then the handler of ``respond(at:_:)``; else the answer is 404.
/// Malformed requests are answered with 400 (431 above 64 KiB of head) and counted in ``rejectedRequestCount``.
///
/// ## Concurrency
/// Every member may be used from any thread. The server has one thread that accepts and one for each open connection;
/// handlers run on the latter, at the same time as each other, and may block. No lock is held while a handler runs, so it may
/// use the server. A server that is let go shuts itself down.
///
/// ## Topics
/// - ``enqueue(_:)-(Reply)``
/// - ``route(_:at:_:)``
/// - ``respond(at:_:)``
/// - ``takeRequest(within:)``
/// - ``shutDown()``
public final class TestServer: Sendable {
    /// Makes the reply to one request.
    public typealias Handler = @Sendable (RecordedRequest) -> Reply

    /// When a handler runs.
    public enum HandlerMoment: Sendable, Hashable {
        /// When the request has been read whole, as by default.
        case body
        /// When only the head has been read: the handler sees no body, but its reply can meddle with the reading of it.
        case head
    }

    /// The port on 127.0.0.1, chosen by the system unless one was asked for.
    ///
    /// Refuses connections after ``shutDown()``.
    public let port: Int

    let core: ServerCore
    private let wake: Descriptor

    /// Starts a server on 127.0.0.1.
    ///
    /// - Parameters:
    ///   - port: 0, the default, for a free one.
    ///   - recording: which requests are kept to be taken; all by default.
    ///   - bodyLimitBytes: how much of a request's body is kept, 16 MiB by default. The rest is counted and digested.
    ///   - answersContinue: whether `Expect: 100-continue` gets its 100, as by default.
    /// - Throws: ``TestServerError/cannotListen(call:code:)``.
    public init(
        port: UInt16 = 0, recording: RequestRecording = .all, bodyLimitBytes: Int = 16 * 1024 * 1024,
        answersContinue: Bool = true
    ) throws(TestServerError) {
        let (listener, boundPort) = try Descriptor.listening(on: port)
        guard let pair = Descriptor.wakePair() else { throw .cannotListen(call: "socketpair", code: errno) }
        self.port = Int(boundPort)
        wake = pair.writing
        core = ServerCore(
            options: ServerCore.Options(
                recording: recording, bodyLimitBytes: bodyLimitBytes, answersContinue: answersContinue))
        core.startAccepting(on: listener, until: pair.reading)
    }

    deinit {
        shutDown()
    }

    /// The URL of a target on this server.
    ///
    /// - Parameter target: begins with a slash and may have a query; what a URL cannot hold is percent-encoded.
    public func url(_ target: String = "/") -> URL {
        guard let url = URL(string: "http://127.0.0.1:\(port)\(target)") else {
            preconditionFailure("\(target) does not make a URL: begin it with a slash.")
        }
        return url
    }

    /// Stops listening, closes every connection and ends every thread.
    ///
    /// Safe to call again. Replies that stand at a gate or pause are broken off, and waits for the server throw ``TestServerError/shutDown``.
    /// Requests that were recorded can still be taken.
    ///
    /// - Thread: any, a handler included. Blocks until the threads have ended: at once, unless a handler is still busy, for
    ///   which it waits 10 seconds at most.
    public func shutDown() {
        core.shutDown(waking: wake)
    }

    /// Closes every connection that is open now, used or idle, in order and without a word; the server goes on.
    ///
    /// - Thread: any. Does not wait, see ``connectionsClosed(count:within:)``.
    public func disconnectAll() {
        core.disconnectAll()
    }
}
