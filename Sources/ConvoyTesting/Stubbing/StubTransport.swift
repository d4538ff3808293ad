import Convoy
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A transport without a network, for tests of code that uses Convoy.
///
/// Routes or a function supply the responses.
///
/// ```swift
/// let stub = StubTransport()
/// stub.route(.get, "/users/*", replies: .status(503), .json(#"{"id": 1}"#))
/// let manager = RequestManager(
///     configuration: .init(transport: .custom(stub)))
/// // …
/// #expect(stub.calls.map(\.url.path) == ["/users/1", "/users/1"])
/// ```
///
/// With a function the test controls every byte:
///
/// ```swift
/// let stub = StubTransport { exchange in
///     exchange.answer(200, body: Data("[]".utf8))
/// }
/// ```
///
/// ## Concurrency
/// The function is called when the task is first resumed, on the thread that resumes it. You may store the exchange and
/// use it later from any thread. The exchange passes calls on to the client in order, on the thread that calls the
/// exchange. If two threads call at the same time, one of them also passes on the other's call. Delayed replies of
/// routes run in order on a queue of the stub. With a virtual clock they run on the thread that advances the clock.
///
/// ## Topics
/// - ``init(clock:pausesInPlace:)``
/// - ``route(_:host:_:replies:)-(_,_,_,StubReply...)``
/// - ``calls``
/// - ``init(pausesInPlace:handler:)``
public final class StubTransport: DirectTransport {
    /// Whether a resumed task continues where it was suspended; true by default.
    public let pausesInPlace: Bool

    /// True, because a stub may be called from any thread.
    public var isReentrant: Bool { true }

    private let handler: @Sendable (StubExchange) -> Void
    private let routes: StubRoutes?

    /// Makes a transport that responds with a function.
    public convenience init(pausesInPlace: Bool = true, handler: @escaping @Sendable (StubExchange) -> Void) {
        self.init(pausesInPlace: pausesInPlace, routes: nil, handler: handler)
    }

    private init(pausesInPlace: Bool, routes: StubRoutes?, handler: @escaping @Sendable (StubExchange) -> Void) {
        self.pausesInPlace = pausesInPlace
        self.routes = routes
        self.handler = handler
    }

    /// Makes a task to which the stub responds.
    public func makeTask(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> URLSessionTask {
        try makeTransfer(for: request, client: client).makeSessionTask()
    }

    package func makeTransfer(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> any TransferTask {
        StubExchange(request: request, client: client, pausesInPlace: pausesInPlace, handler: handler)
    }
}

/// A request to which a stub responds.
public final class StubExchange: Sendable {
    private struct State {
        var client: (any TransportClient)?
        /// The thread that finds `isTelling` false passes on all of them, in order.
        var pending: [@Sendable (any TransportClient) -> Void] = []
        var isTelling = false
        /// Nil after a call or a cancellation: a handler that stores its exchanges would form a retain cycle.
        var handler: (@Sendable (StubExchange) -> Void)?
        var hasBegun = false
        var hasEnded = false
        var isCancelled = false
        var isSuspended = false
    }

    /// The request to which the stub responds.
    public let request: PreparedRequest
    private let pausesInPlace: Bool
    private let state: Locked<State>

    fileprivate init(
        request: PreparedRequest, client: any TransportClient, pausesInPlace: Bool,
        handler: @escaping @Sendable (StubExchange) -> Void
    ) {
        self.request = request
        self.pausesInPlace = pausesInPlace
        state = Locked(State(client: client, handler: handler))
    }

    /// Whether the operation has cancelled the task.
    ///
    /// The exchange drops everything that is sent after the cancellation.
    public var isCancelled: Bool { state.withLock { $0.isCancelled } }
    /// Whether the operation has suspended the task, or the client has requested a pause.
    ///
    /// The handler decides whether to continue sending.
    public var isSuspended: Bool { state.withLock { $0.isSuspended } }

    /// Sends a complete response.
    public func answer(_ statusCode: Int, headerFields: HeaderFields = [:], body: Data = Data()) {
        respond(
            ResponseHead(
                statusCode: statusCode, headerFields: headerFields, url: request.url, expectedBytes: Int64(body.count)))
        if !body.isEmpty { send(body) }
        finish()
    }

    /// Sends the head of a response.
    public func respond(_ head: ResponseHead) { tell { $0.didReceive(head) } }
    /// Sends bytes of the body.
    ///
    /// If the client requests a pause and the transport pauses in place, ``isSuspended`` becomes true.
    public func send(_ data: Data) {
        tell { client in
            guard !client.didReceive(data), self.pausesInPlace else { return }
            self.setSuspended(true)
            client.didPause()
        }
    }
    /// Reports how many bytes of the request's body were sent.
    public func sent(totalBytes: Int64) { tell { $0.didSend(totalBytes: totalBytes) } }

    /// Ends the exchange, with an error or as a complete response.
    ///
    /// The exchange drops everything that is sent after its end.
    public func finish(_ error: RequestError? = nil) { tell(isLast: true) { $0.didFinish(error) } }

    private func tell(isLast: Bool = false, _ call: @escaping @Sendable (any TransportClient) -> Void) {
        let client = state.withLock { state -> (any TransportClient)? in
            guard !state.hasEnded else { return nil }
            state.hasEnded = isLast
            guard !state.isTelling else {
                state.pending.append(call)
                return nil
            }
            state.isTelling = true
            return state.client
        }
        guard let client else { return }
        call(client)
        while let calls = takePending() {
            for call in calls { call(client) }
        }
    }

    private func takePending() -> [@Sendable (any TransportClient) -> Void]? {
        // The caller retains the client, so setting `client` to nil does not release the object under the lock.
        state.withLock { state in
            guard !state.pending.isEmpty else {
                state.isTelling = false
                if state.hasEnded { state.client = nil }
                return nil
            }
            defer { state.pending = [] }
            return state.pending
        }
    }

    private func setSuspended(_ isSuspended: Bool) { state.withLock { $0.isSuspended = isSuspended } }
}

extension StubExchange: TransferTask {
    package func resume() {
        let handler = state.withLock { state in
            (state.isSuspended, state.hasBegun) = (false, true)
            defer { state.handler = nil }
            return state.isCancelled ? nil : state.handler
        }
        handler?(self)
    }

    package func suspend() { setSuspended(true) }

    package func cancel() {
        // The old handler is returned, so that its captures are released outside the lock.
        let (isFirst, handler) = state.withLock { state in
            defer { (state.isCancelled, state.handler) = (true, nil) }
            return (!state.isCancelled, state.handler)
        }
        withExtendedLifetime(handler) {}
        if isFirst { finish(RequestError(.cancelled, "the task was cancelled")) }
    }

    package func makeSessionTask() -> URLSessionTask {
        TransferSessionTask(self, for: request) {
            self.state.withLock { state in
                if state.isCancelled { return .canceling }
                if state.hasEnded { return .completed }
                return state.hasBegun && !state.isSuspended ? .running : .suspended
            }
        }
    }
}

/// A response or a failure of a ``StubTransport``.
///
/// The transport first reports the complete request body as sent. To report it in steps, use a transport with a
/// handler and ``StubExchange/sent(totalBytes:)``.
///
/// ```swift
/// stub.route(
///     .get, "/users/*",
///     replies: .failure(.connectionLost),
///     .status(503).after(.seconds(2)), .json(#"{"id": 1}"#))
/// ```
public struct StubReply: Sendable {
    private enum Outcome: Sendable {
        case answer(Int, HeaderFields, Data)
        case failure(RequestError)
        case nothing
    }

    private let outcome: Outcome
    private var tag: String?
    /// The delay of the reply by the transport's clock.
    ///
    /// It is zero unless ``after(_:)`` sets it.
    public private(set) var delay = Duration.zero

    /// A reply that never arrives.
    ///
    /// The request waits until it is cancelled or its deadline passes.
    public static let never = StubReply(outcome: .nothing)

    /// A response with a status code and an optional body.
    public static func status(_ statusCode: Int, headerFields: HeaderFields = [:], body: Data = Data()) -> StubReply {
        StubReply(outcome: .answer(statusCode, headerFields, body))
    }

    /// A response with a text body in UTF-8.
    public static func status(_ statusCode: Int, headerFields: HeaderFields = [:], body: String) -> StubReply {
        status(statusCode, headerFields: headerFields, body: Data(body.utf8))
    }

    /// A response with status 200 and `Content-Type: application/octet-stream`.
    public static func body(_ data: Data) -> StubReply {
        status(200, headerFields: ["Content-Type": "application/octet-stream"], body: data)
    }

    /// A response with a JSON body.
    ///
    /// The content type is `application/json`, unless the fields contain another.
    public static func json(_ text: String, statusCode: Int = 200, headerFields: HeaderFields = [:]) -> StubReply {
        var fields = headerFields
        if !fields.contains("Content-Type") { fields["Content-Type"] = "application/json" }
        return status(statusCode, headerFields: fields, body: Data(text.utf8))
    }

    /// A redirect to another URL.
    public static func redirect(to location: String, statusCode: Int = 302) -> StubReply {
        status(statusCode, headerFields: ["Location": location])
    }

    /// A failure, as a transport reports it.
    public static func failure(_ error: RequestError) -> StubReply { StubReply(outcome: .failure(error)) }

    /// A failure with a code, as a transport reports it.
    public static func failure(_ code: RequestError.Code) -> StubReply {
        failure(RequestError(code, "the stub was configured to fail"))
    }

    /// The same reply with a delay, measured from the request.
    public func after(_ delay: Duration) -> StubReply {
        var reply = self
        reply.delay = delay
        return reply
    }

    /// The same reply, as a response that a cache can store.
    ///
    /// The response is fresh for the given time. If the `If-None-Match` of a request is the tag, the stub replies with
    /// status 304. The cache measures the age by the manager's clock, which may be virtual. A failure and ``never`` are
    /// not changed.
    ///
    /// ```swift
    /// stub.route(
    ///     .get, "/users",
    ///     replies: .json("[]").cacheable(maxAge: .seconds(60), etag: "1"))
    /// ```
    ///
    /// - Parameters:
    ///   - maxAge: the freshness lifetime, in whole seconds.
    ///   - etag: the entity tag, without quotes. With nil, the default, the stub never replies with status 304.
    public func cacheable(maxAge: Duration, etag: String? = nil) -> StubReply {
        guard case .answer(let statusCode, var headerFields, let body) = outcome else { return self }
        headerFields["Cache-Control"] = "max-age=\(max(0, maxAge.components.seconds))"
        let tag = etag.map { "\"\($0)\"" }
        headerFields["ETag"] = tag ?? headerFields["ETag"]
        return StubReply(outcome: .answer(statusCode, headerFields, body), tag: tag ?? self.tag, delay: delay)
    }

    fileprivate func tell(_ exchange: StubExchange) {
        if let byteCount = exchange.request.body?.byteCount, byteCount > 0 { exchange.sent(totalBytes: byteCount) }
        switch outcome {
        case .answer(_, let headerFields, _) where tag != nil && exchange.request.headerFields["If-None-Match"] == tag:
            exchange.answer(304, headerFields: headerFields)
        case .answer(let statusCode, let headerFields, let body):
            exchange.answer(statusCode, headerFields: headerFields, body: body)
        case .failure(let error): exchange.finish(error)
        case .nothing: break
        }
    }
}

private struct StubPattern: Sendable, CustomStringConvertible {
    let method: HTTPMethod?
    let host: String?
    let path: String

    func matches(_ request: PreparedRequest) -> Bool {
        if let method, method != request.method { return false }
        if let host, request.url.host()?.lowercased() != host.lowercased() { return false }
        let parts = self.path.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        if parts.count == 2, request.url.query(percentEncoded: true) != String(parts[1]) { return false }
        let path = request.url.path(percentEncoded: true)
        return Self.matches(parts[0].split(separator: "/")[...], path.split(separator: "/")[...])
    }

    /// `*` matches one component, and `**` at the end any number of them.
    private static func matches(_ pattern: ArraySlice<Substring>, _ path: ArraySlice<Substring>) -> Bool {
        if pattern.last == "**" {
            return path.count >= pattern.count - 1 && matches(pattern.dropLast(), path.prefix(pattern.count - 1))
        }
        return pattern.count == path.count && zip(pattern, path).allSatisfy { $0 == "*" || $0 == $1 }
    }

    var description: String {
        "\(method?.rawValue ?? "any method") \(host.map { "//\($0)" } ?? "")\(path.hasPrefix("/") ? "" : "/")\(path)"
    }
}

private final class StubRoutes: Sendable {
    private struct Route: Sendable {
        let pattern: StubPattern
        let makeReply: @Sendable (PreparedRequest) -> StubReply
    }

    private struct State {
        var routes: [Route] = []
        var calls: [PreparedRequest] = []
    }

    private let clock: any RequestClock
    private let queue = DispatchQueue(label: "convoy.stub", target: .global())
    private let state = Locked(State())

    init(clock: any RequestClock) { self.clock = clock }

    var calls: [PreparedRequest] { state.withLock { $0.calls } }

    func add(_ pattern: StubPattern, _ makeReply: @escaping @Sendable (PreparedRequest) -> StubReply) {
        state.withLock { $0.routes.append(Route(pattern: pattern, makeReply: makeReply)) }
    }

    func answer(_ exchange: StubExchange) {
        let request = exchange.request
        let routes = state.withLock { state in
            state.calls.append(request)
            return state.routes
        }
        guard let route = routes.last(where: { $0.pattern.matches(request) }) else {
            let known = routes.isEmpty ? "it has none" : routes.map(\.pattern.description).joined(separator: ", ")
            return exchange.finish(
                RequestError(.transportFailed, "no route of the stub matches \(request): \(known)"))
        }
        let reply = route.makeReply(request)
        guard reply.delay > .zero else { return reply.tell(exchange) }
        // The delay is limited to a billion seconds, about 31 years, because an overflowing sum would trap.
        let isSystemClock = clock === SystemClock.shared
        _ = clock.wake(at: clock.now + min(reply.delay, .seconds(1_000_000_000))) {
            // With the system's clock, this code runs on the queue of all timers of the process. A client may block, so
            // the stub's own queue delivers the reply. With a virtual clock, the reply is delivered here, before the
            // next timer, so that events keep their order.
            guard isSystemClock else { return reply.tell(exchange) }
            self.queue.async { reply.tell(exchange) }
        }
    }
}

extension StubTransport {
    /// Makes a transport that responds by ``route(_:host:_:replies:)-(_,_,_,StubReply...)`` and records ``calls``.
    ///
    /// - Parameters:
    ///   - clock: the clock of delays. Pass the manager's clock, for example a virtual one.
    ///   - pausesInPlace: whether a resumed task continues where it was suspended.
    public convenience init(clock: any RequestClock = SystemClock.shared, pausesInPlace: Bool = true) {
        let routes = StubRoutes(clock: clock)
        self.init(pausesInPlace: pausesInPlace, routes: routes) { routes.answer($0) }
    }

    /// Responds to requests of one method with a list of replies.
    ///
    /// The last reply is repeated.
    ///
    /// If several routes match, the stub uses the one that was added last. A request without a matching route fails
    /// with `.transportFailed`, and the message lists the routes. For a transport with a handler the method has no
    /// effect.
    ///
    /// ```swift
    /// let stub = StubTransport()
    /// stub.route(
    ///     .post, host: "example.com", "/login",
    ///     replies: .status(503), .json(#"{"token": "t"}"#))
    /// stub.route(.get, "/users/*", replies: .json("[]"))
    /// let manager = RequestManager(
    ///     configuration: .init(transport: .custom(stub)))
    /// ```
    ///
    /// - Parameters:
    ///   - method: the method, case-sensitive.
    ///   - host: the host name without the port, case-insensitive; nil, the default, for every host.
    ///   - path: the path as sent, with percent escapes. `*` matches one component, `**` at the end any number of them,
    ///     including none. The query as sent follows after a `?`. A path without a `?` matches any query, and also
    ///     requests without a query.
    ///   - replies: the replies; none means ``StubReply/never``.
    /// - Thread: any.
    public func route(_ method: HTTPMethod, host: String? = nil, _ path: String, replies: StubReply...) {
        routes?.add(StubPattern(method: method, host: host, path: path), Self.sequence(replies))
    }

    /// Responds to requests of one method with an array of replies; see
    /// ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    public func route(_ method: HTTPMethod, host: String? = nil, _ path: String, replies: [StubReply]) {
        routes?.add(StubPattern(method: method, host: host, path: path), Self.sequence(replies))
    }

    /// Responds to requests of every method with a list of replies; see
    /// ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    public func route(host: String? = nil, _ path: String, replies: StubReply...) {
        routes?.add(StubPattern(method: nil, host: host, path: path), Self.sequence(replies))
    }

    /// Responds to requests of every method with an array of replies; see
    /// ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    public func route(host: String? = nil, _ path: String, replies: [StubReply]) {
        routes?.add(StubPattern(method: nil, host: host, path: path), Self.sequence(replies))
    }

    /// Responds to requests of one method with a function; see ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    ///
    /// - Parameters:
    ///   - method: the method, case-sensitive.
    ///   - host: the host name without the port, case-insensitive; nil, the default, for every host.
    ///   - path: a pattern, as for the other routes.
    ///   - makeReply: makes the reply. Called on the thread that starts the attempt; it must not block.
    public func route(
        _ method: HTTPMethod, host: String? = nil, _ path: String,
        _ makeReply: @escaping @Sendable (PreparedRequest) -> StubReply
    ) {
        routes?.add(StubPattern(method: method, host: host, path: path), makeReply)
    }

    /// Responds to requests of every method with a function; see ``route(_:host:_:replies:)-(_,_,_,StubReply...)``.
    ///
    /// - Parameters:
    ///   - host: the host name without the port, case-insensitive; nil, the default, for every host.
    ///   - path: a pattern, as for the other routes.
    ///   - makeReply: makes the reply. Called on the thread that starts the attempt; it must not block.
    public func route(
        host: String? = nil, _ path: String, _ makeReply: @escaping @Sendable (PreparedRequest) -> StubReply
    ) {
        routes?.add(StubPattern(method: nil, host: host, path: path), makeReply)
    }

    private static func sequence(_ replies: [StubReply]) -> @Sendable (PreparedRequest) -> StubReply {
        let next = Locked(0)
        return { _ in
            let index = next.withLock { next in
                defer { next = min(next + 1, replies.count) }
                return next
            }
            return replies.isEmpty ? .never : replies[min(index, replies.count - 1)]
        }
    }

    /// The requests of all attempts in order, including those that no route matched.
    ///
    /// The list is empty for a transport with a handler.
    ///
    /// - Thread: any.
    public var calls: [PreparedRequest] { routes?.calls ?? [] }
}
