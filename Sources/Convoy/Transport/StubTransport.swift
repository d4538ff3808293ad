// Answers without a network.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A transport without a network, for tests of code that uses Convoy: it answers by routes, or by a function.
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
/// With a function every byte is in the hands of the test:
///
/// ```swift
/// let stub = StubTransport { exchange in
///     exchange.answer(200, body: Data("[]".utf8))
/// }
/// ```
///
/// ## Concurrency
/// The function is called when the task is resumed for the first time, on that thread: a queue's, for an operation in a
/// queue. The exchange may be kept and used later, from any thread; what it is told is passed on at once, one call after
/// the other, so the thread that tells is the transport's thread. Replies of routes that come later
/// come one after the other on a queue of the stub's, or by a virtual clock on the thread that moves it.
///
/// ## Topics
/// - ``init(clock:pausesInPlace:)``
/// - ``route(_:host:_:replies:)-(_,_,_,StubReply...)``
/// - ``calls``
/// - ``init(pausesInPlace:handler:)``
public final class StubTransport: Transport {
    /// Whether tasks go on where they were when suspended and resumed; true by default.
    public let pausesInPlace: Bool

    /// A stub may be called from anywhere.
    public var isReentrant: Bool { true }

    private let handler: @Sendable (StubExchange) -> Void
    /// Nil for one with a handler of its own.
    let routes: StubRoutes?

    /// Makes a transport that answers with a function.
    public convenience init(pausesInPlace: Bool = true, handler: @escaping @Sendable (StubExchange) -> Void) {
        self.init(pausesInPlace: pausesInPlace, routes: nil, handler: handler)
    }

    init(pausesInPlace: Bool, routes: StubRoutes?, handler: @escaping @Sendable (StubExchange) -> Void) {
        self.pausesInPlace = pausesInPlace
        self.routes = routes
        self.handler = handler
    }

    /// Makes a task that moves no bytes.
    public func makeTask(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> URLSessionTask {
        StubTask(
            exchange: StubExchange(request: request, client: client, pausesInPlace: pausesInPlace), handler: handler)
    }
}

/// One request that a stub answers.
public final class StubExchange: Sendable {
    private struct State {
        /// Until the end has been told.
        var client: (any TransportClient)?
        /// What is to be told, in order; the thread that finds `isTelling` false tells it all.
        var pending: [@Sendable (any TransportClient) -> Void] = []
        var isTelling = false
        var hasEnded = false
        var isCancelled = false
        var isSuspended = false
    }

    /// What was sent.
    public let request: PreparedRequest
    private let pausesInPlace: Bool
    private let state: Locked<State>

    init(request: PreparedRequest, client: any TransportClient, pausesInPlace: Bool) {
        self.request = request
        self.pausesInPlace = pausesInPlace
        state = Locked(State(client: client))
    }

    /// Whether the task was cancelled; what is sent then is dropped.
    public var isCancelled: Bool { state.withLock { $0.isCancelled } }
    /// Whether the task is suspended; a stub goes on or waits as it likes.
    public var isSuspended: Bool { state.withLock { $0.isSuspended } }

    /// The whole answer in one call.
    public func answer(_ statusCode: Int, headerFields: HeaderFields = [:], body: Data = Data()) {
        respond(
            ResponseHead(
                statusCode: statusCode, headerFields: headerFields, url: request.url, expectedBytes: Int64(body.count)))
        if !body.isEmpty { send(body) }
        finish()
    }

    /// The head of a response.
    public func respond(_ head: ResponseHead) { tell { $0.didReceive(head) } }
    /// Bytes of the body; a client that wants no more for now makes ``isSuspended`` true.
    public func send(_ data: Data) {
        tell { client in
            guard !client.didReceive(data), self.pausesInPlace else { return }
            self.setSuspended(true)
            client.didHold()
        }
    }
    /// How many bytes of the request's body have gone.
    public func sent(totalBytes: Int64) { tell { $0.didSend(totalBytes: totalBytes) } }

    /// The end; later calls are dropped.
    public func finish(_ error: RequestError? = nil) {
        tell(isLast: true) { $0.didFinish(error) }
    }

    private func tell(isLast: Bool = false, _ call: @escaping @Sendable (any TransportClient) -> Void) {
        let isTeller = state.withLock { state in
            guard !state.hasEnded else { return false }
            state.hasEnded = isLast
            state.pending.append(call)
            defer { state.isTelling = true }
            return !state.isTelling
        }
        guard isTeller else { return }
        while let (client, calls) = takePending() {
            for call in calls { call(client) }
        }
    }

    private func takePending() -> (any TransportClient, [@Sendable (any TransportClient) -> Void])? {
        // What is let go of calls back from its deinit: not under the lock.
        var last: (any TransportClient)?
        defer { withExtendedLifetime(last) {} }
        return state.withLock { state in
            guard let client = state.client, !state.pending.isEmpty else {
                state.isTelling = false
                if state.hasEnded { (last, state.client) = (state.client, nil) }
                return nil
            }
            defer { state.pending = [] }
            return (client, state.pending)
        }
    }

    func cancel() {
        let isFirst = state.withLock { state in
            defer { state.isCancelled = true }
            return !state.isCancelled
        }
        if isFirst { finish(RequestError(.cancelled, "the task was cancelled")) }
    }

    func setSuspended(_ isSuspended: Bool) { state.withLock { $0.isSuspended = isSuspended } }

}

/// The task of a stub.
private final class StubTask: URLSessionDataTask, @unchecked Sendable {
    // @unchecked: `URLSessionTask` forces it. Everything that changes is behind a lock.
    private let exchange: StubExchange
    private let handler: @Sendable (StubExchange) -> Void
    private let phase = Locked(URLSessionTask.State.suspended)
    private let hasBegun = Locked(false)

    init(exchange: StubExchange, handler: @escaping @Sendable (StubExchange) -> Void) {
        self.exchange = exchange
        self.handler = handler
        super.init()
    }

    override var state: URLSessionTask.State { phase.withLock { $0 } }
    override var originalRequest: URLRequest? { URLRequest(url: exchange.request.url) }
    override var currentRequest: URLRequest? { originalRequest }

    override func resume() {
        phase.withLock { if $0 == .suspended { $0 = .running } }
        exchange.setSuspended(false)
        let isFirst = hasBegun.withLock { hasBegun in
            defer { hasBegun = true }
            return !hasBegun
        }
        if isFirst, !exchange.isCancelled { handler(exchange) }
    }

    override func suspend() {
        phase.withLock { if $0 == .running { $0 = .suspended } }
        exchange.setSuspended(true)
    }

    override func cancel() {
        phase.withLock { $0 = .canceling }
        exchange.cancel()
    }
}
