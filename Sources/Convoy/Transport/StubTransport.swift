// A transport for tests, which responds without a network.
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
    /// The routes that supply the responses; nil for a transport with a handler.
    let routes: StubRoutes?

    /// Makes a transport that responds with a function.
    public convenience init(pausesInPlace: Bool = true, handler: @escaping @Sendable (StubExchange) -> Void) {
        self.init(pausesInPlace: pausesInPlace, routes: nil, handler: handler)
    }

    init(pausesInPlace: Bool, routes: StubRoutes?, handler: @escaping @Sendable (StubExchange) -> Void) {
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

    func makeTransfer(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> any TransferTask {
        StubExchange(request: request, client: client, pausesInPlace: pausesInPlace, handler: handler)
    }
}

/// A request to which a stub responds.
public final class StubExchange: Sendable {
    private struct State {
        /// The client; nil after the end was reported.
        var client: (any TransportClient)?
        /// The calls that wait for the client, in order.
        ///
        /// The thread that finds `isTelling` false passes on all of them.
        var pending: [@Sendable (any TransportClient) -> Void] = []
        var isTelling = false
        /// The function that responds; nil once it was called, and after a cancellation.
        ///
        /// A handler that stores its exchanges would otherwise form a retain cycle.
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

    init(
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
    public func finish(_ error: RequestError? = nil) {
        tell(isLast: true) { $0.didFinish(error) }
    }

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
