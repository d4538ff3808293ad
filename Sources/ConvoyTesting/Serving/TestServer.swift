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
    public func shutDown() { core.shutDown(waking: wake) }

    /// Closes every open connection, used or idle, normally (FIN) and without a response.
    ///
    /// The server keeps running.
    ///
    /// - Thread: any. The call does not wait, see ``connectionsClosed(count:within:)``.
    public func disconnectAll() { core.disconnectAll() }
}

extension TestServer {
    /// Adds a reply to the queue.
    ///
    /// The server uses queued replies in order. Each one answers the next request, whatever its path.
    ///
    /// - Parameter reply: used once.
    /// - Thread: any.
    /// - Complexity: O(1) on average.
    public func enqueue(_ reply: Reply) { core.change { $0.queue.append(reply) } }

    /// Adds replies to the queue, in this order.
    ///
    /// - Parameter replies: each is used once.
    /// - Thread: any.
    /// - Complexity: O(*n*) for *n* replies.
    public func enqueue(_ replies: [Reply]) {
        core.change { state in
            for reply in replies { state.queue.append(reply) }
        }
    }

    /// Answers requests for one path with a handler.
    ///
    /// Queued replies come first. A later call for the same path replaces the handler.
    ///
    /// - Parameters:
    ///   - path: the path as sent, with percent escapes. A path with a query applies to requests with exactly that
    ///     query. A path without a query applies to all other requests for the path.
    ///   - moment: when the handler runs; by default after the complete request was read.
    ///   - handler: called for each request on the thread of its connection, without a lock.
    /// - Thread: any.
    /// - Complexity: O(1) for each request, independent of the number of routes.
    public func route(_ path: String, at moment: HandlerMoment = .body, _ handler: @escaping Handler) {
        core.change { $0.routes[path] = (handler, moment) }
    }

    /// Answers every request without a queued reply or a route.
    ///
    /// A later call replaces the handler.
    ///
    /// - Parameters:
    ///   - moment: when the handler runs; by default after the complete request was read.
    ///   - handler: called for each request on the thread of its connection, without a lock.
    /// - Thread: any.
    public func respond(at moment: HandlerMoment = .body, _ handler: @escaping Handler) {
        core.change { $0.fallback = (handler, moment) }
    }

    /// The number of queued replies.
    ///
    /// - Thread: any.
    public var queuedReplyCount: Int { core.read { $0.queue.count } }

    /// Removes and returns the oldest recorded request, or waits for the next.
    ///
    /// A request is available after its body was read or aborted, before its reply is sent.
    ///
    /// - Parameter bound: the longest wait, 60 seconds by default.
    /// - Throws: ``TestServerError/timedOut(waitingFor:bound:)``, ``TestServerError/shutDown``,
    ///   ``TestServerError/cancelled`` or, for a server that records none, ``TestServerError/recordsNothing``.
    /// - Thread: any; suspends the task and blocks no thread. Several tasks receive requests in the order of their
    ///   calls.
    public func takeRequest(within bound: Duration = .seconds(60)) async throws(TestServerError) -> RecordedRequest {
        try await core.takeRequest(within: bound)
    }

    /// The recorded requests that `takeRequest` has not returned, oldest first.
    ///
    /// - Thread: any.
    /// - Complexity: O(*n*) for *n* requests.
    public var recordedRequests: [RecordedRequest] { core.read { $0.requests.all } }

    /// The number of received requests, including those that were not recorded.
    ///
    /// - Thread: any.
    public var requestCount: Int { core.read { $0.requestCount } }

    /// The number of requests that `takeRequest` has returned.
    ///
    /// - Thread: any.
    public var takenRequestCount: Int { core.read { $0.takenRequestCount } }

    /// The number of malformed requests that received a 400 or 431.
    ///
    /// - Thread: any.
    public var rejectedRequestCount: Int { core.read { $0.rejectedRequestCount } }

    /// The number of accepted connections.
    ///
    /// - Thread: any.
    public var connectionCount: Int { core.read { $0.connectionCount } }

    /// The number of open connections.
    ///
    /// - Thread: any.
    public var openConnectionCount: Int { core.read { $0.connections.count } }

    /// Waits until a total of `count` requests were received.
    ///
    /// The requests stay recorded.
    ///
    /// - Parameters:
    ///   - count: the number of requests, counted as in ``requestCount``.
    ///   - bound: the longest wait, 60 seconds by default.
    /// - Throws: ``TestServerError``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func requestsReceived(count: Int, within bound: Duration = .seconds(60)) async throws(TestServerError) {
        try await core.wait(within: bound, for: "\(count) request(s)") { $0.requestCount >= count }
    }

    /// Waits until a total of `count` connections were accepted.
    ///
    /// - Parameters:
    ///   - count: the number of connections, counted as in ``connectionCount``.
    ///   - bound: the longest wait, 60 seconds by default.
    /// - Throws: ``TestServerError``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func connectionsAccepted(count: Int, within bound: Duration = .seconds(60)) async throws(TestServerError) {
        try await core.wait(within: bound, for: "\(count) connection(s)") { $0.connectionCount >= count }
    }

    /// Waits until a total of `count` connections have ended.
    ///
    /// Without a count, the call waits until no connection is open.
    ///
    /// The server notices a disconnected client at once while it reads, waits at a gate or pauses.
    ///
    /// - Parameters:
    ///   - count: ended connections since the server was made.
    ///   - bound: the longest wait, 60 seconds by default.
    /// - Throws: ``TestServerError``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func connectionsClosed(
        count: Int? = nil, within bound: Duration = .seconds(60)
    ) async throws(TestServerError) {
        let what = count.map { "\($0) connection(s) to end" } ?? "all connections to end"
        try await core.wait(within: bound, for: what) { state in
            count.map { state.closedConnectionCount >= $0 } ?? state.connections.isEmpty
        }
    }

    /// Waits until a connection was accepted and has ended.
    ///
    /// - Parameters:
    ///   - number: the number of the connection; the first accepted connection is 1.
    ///   - bound: the longest wait, 60 seconds by default.
    /// - Throws: ``TestServerError``.
    /// - Thread: any; suspends the task and blocks no thread.
    public func connectionClosed(number: Int, within bound: Duration = .seconds(60)) async throws(TestServerError) {
        try await core.wait(within: bound, for: "connection \(number) to end") { state in
            state.connectionCount >= number && state.connections[number] == nil
        }
    }
}
