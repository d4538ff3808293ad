import Foundation

/// An HTTP/1.1 server on the loopback address with scripted responses, including faults.
///
/// A server listens as soon as it is made, on its own port, so any number of servers can run in one process. Set its
/// responses, send requests to ``url(_:)``, and inspect them with ``takeRequest(within:)``.
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
/// The server first uses the queue, then the routes, then the handler of ``respond(at:_:)``. Without any of these, it
/// responds with 404. Malformed requests receive a 400 (431 above 64 KiB of head) and are counted in
/// ``rejectedRequestCount``.
///
/// ## Concurrency
/// Every member may be used from any thread. The server has one thread that accepts connections, and one for each
/// open connection. Handlers run concurrently on the threads of their connections and may block. No lock is held while
/// a handler runs, so the handler may use the server. Releasing a server shuts it down.
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
        /// After the complete request was read; the default.
        case body
        /// After the head was read.
        ///
        /// The handler sees no body, but its reply can control how the body is read.
        case head
    }

    /// The port on 127.0.0.1, chosen by the system unless one was requested.
    ///
    /// The port refuses connections after ``shutDown()``.
    public let port: Int

    let core: ServerCore
    private let wake: Descriptor

    /// Starts a server on 127.0.0.1.
    ///
    /// - Parameters:
    ///   - port: the port; 0, the default, means that the system chooses a free port.
    ///   - recording: which requests are recorded; all by default.
    ///   - bodyLimitBytes: the maximum number of stored bytes of a request's body, 16 MiB by default. The rest is
    ///     counted and digested.
    ///   - answersContinue: whether to send a 100 for `Expect: 100-continue`; true by default.
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
    /// - Parameter target: starts with a slash and may have a query. Invalid characters are percent-encoded.
    public func url(_ target: String = "/") -> URL {
        guard let url = URL(string: "http://127.0.0.1:\(port)\(target)") else {
            preconditionFailure("\(target) does not make a URL: begin it with a slash.")
        }
        return url
    }

    /// Stops listening, closes every connection and ends every thread.
    ///
    /// A second call has no effect. Replies that wait at a gate or pause are aborted, and waits for the server throw
    /// ``TestServerError/shutDown``. `takeRequest` still returns recorded requests.
    ///
    /// - Thread: any, including a handler's. Blocks until the threads have ended, at most 10 seconds if a handler is
    ///   still running.
    public func shutDown() {
        core.shutDown(waking: wake)
    }

    /// Closes every open connection, used or idle, normally (FIN) and without a response.
    ///
    /// The server keeps running.
    ///
    /// - Thread: any. The call does not wait, see ``connectionsClosed(count:within:)``.
    public func disconnectAll() {
        core.disconnectAll()
    }
}
