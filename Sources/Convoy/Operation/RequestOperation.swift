// A request as an operation, with its typed result.
import Foundation

#if canImport(Combine)
    import Combine
#endif

/// One request as a concurrent operation, with its typed result, of a manager or for any `OperationQueue`.
///
/// ```swift
/// let request = Request<User>.get("https://example.com/users/1")
/// let operation = RequestOperation(request)
/// operation.onFinish { result in print(result) }
/// OperationQueue().addOperation(operation)
/// ```
///
/// ## Concurrency
/// Use an operation from any thread. It finishes exactly once, with the first outcome. The result is stored before
/// `isFinished` turns true. After that, only the handlers for the outcome are called.
///
/// ## Topics
/// - ``result``
/// - ``onFinish(on:_:)-(Delivery?,_)``
/// - ``onFinish(on:_:)-(MainDelivery,_)``
/// - ``response()``
/// - ``copy()``
/// - ``startAndWait(in:timeout:)``
public final class RequestOperation<Output: Sendable>: AnyRequestOperation, @unchecked Sendable, TypedDependency {
    // @unchecked: this class adds no state to its superclass.

    /// The outcome of an operation.
    public typealias Result = Swift.Result<Response<Output>, RequestError>

    /// Makes an operation without a manager, which runs when it is started or added to a queue.
    ///
    /// The request's URL must be absolute. The transport is by default the best one for the platform.
    public convenience init(_ request: Request<Output>, transport: (any Transport)? = nil) {
        self.init(
            requestPlan: TypedRequestPlan(request),
            scheduler: transport.map { Scheduler(transport: .custom($0)) } ?? .standalone)
    }

    convenience init(
        _ request: Request<Output>, of scheduler: Scheduler, isInternal: Bool = false,
        onFinish handler: (@Sendable (Result) -> Void)? = nil
    ) {
        let place = scheduler.callbacks?.place ?? .executor
        let handlers: [FinishHandler] = if let handler { [Self.finishHandler(handler, at: place)] } else { [] }
        self.init(
            requestPlan: TypedRequestPlan(request, scheduler.defaults.encoder), scheduler: scheduler,
            isInternal: isInternal, handlers: handlers)
    }

    private static func finishHandler(
        _ handler: @escaping @Sendable (Result) -> Void, at place: CallbackPlace
    ) -> FinishHandler {
        // The closure names the type `RequestOperation<Output>`, because with `Self` it would also capture the
        // metatype.
        FinishHandler(place: place) { handler(RequestOperation<Output>.typed($0)) }
    }

    /// The outcome, stored before `isFinished` turns true and then constant; nil until there is one.
    public var result: Result? {
        guard let outcome = withLock({ $0.outcome }) else { return nil }
        return Self.typed(outcome)
    }

    /// Adds a handler for the outcome, which is called exactly once, even if it is added after the end.
    ///
    /// Handlers on the same serial queue run in the order in which they were added. For the main actor, use
    /// `onFinish(on: .main)`, ``onFinish(on:_:)-(MainDelivery,_)``.
    ///
    /// - Parameters:
    ///   - delivery: where to call the handler: a queue, a run loop with its modes, or in place. The default is the
    ///     manager's choice, or this operation's own serial executor, where a slow handler delays no other operation.
    ///   - handler: receives the outcome. The operation has then finished, unless it was cancelled or failed before its
    ///     start: the handler then runs at once and the queue finishes the operation later.
    @discardableResult
    public func onFinish(on delivery: Delivery? = nil, _ handler: @escaping @Sendable (Result) -> Void) -> Self {
        whenFinished(Self.finishHandler(handler, at: place(delivery)))
        return self
    }

    /// Waits for the outcome, without starting the operation; cancelling the task cancels the operation.
    ///
    /// Handlers of ``onFinish(on:_:)-(Delivery?,_)`` that were added earlier come first. A handler without its own
    /// delivery has returned before this call returns, if ``RequestManager/Configuration/callbacks`` is nil. Any other
    /// handler has been dispatched, and may still be running.
    ///
    /// - Throws: the operation's error.
    @discardableResult
    public func response() async throws(RequestError) -> Response<Output> { try Self.response(in: await outcome()) }

    /// A new, unsent operation of the same request for the same manager.
    ///
    /// The copy has the request's own name, tags, priority and `userInfo`, but no handlers, observers, dependencies or
    /// values set on this operation. The copy of a chain's link whose request has not been built builds the request
    /// itself, and needs the same dependencies.
    ///
    /// ```swift
    /// operation.onFinish { [weak operation] result in
    ///     guard let operation, case .failure(let error) = result else { return }
    ///     if error.code == .connectionFailed { later.append(operation.copy()) }
    /// }
    /// ```
    ///
    /// A finished operation has released code of the caller: a closure that decodes or maps, a stream as body or
    /// destination, an interceptor, `onRedirect`. The copy of one that had such code fails with `.invalidRequest`. Copy
    /// it before it finishes, or store its ``Request``.
    ///
    /// - Thread: any.
    public override func copy() -> RequestOperation<Output> {
        let (requestPlan, prepared) = withLock { ($0.requestPlan, $0.prepared) }
        return RequestOperation(
            requestPlan: requestPlan ?? .released(Output.self, of: prepared), scheduler: scheduler)
    }

    /// Makes no `Result`, because generic code would have to look up its metadata.
    static func response(in outcome: AnyOutcome) throws(RequestError) -> Response<Output> {
        if let success = outcome as? Success<Output> { return success.response }
        throw outcome.failure
    }

    static func typed(_ outcome: AnyOutcome) -> Result {
        if let success = outcome as? Success<Output> { return .success(success.response) }
        return .failure(outcome.failure)
    }

    /// Starts the operation and runs the current run loop in a mode until the operation has finished.
    ///
    /// Callbacks and timers that are due on that loop in that mode run meanwhile. An operation that a manager has
    /// queued is only waited for. Any thread may call this method, but not a callback on this operation's own executor,
    /// because then only the timeout ends the wait. After the timeout the operation fails with `.timedOut`.
    ///
    /// - Throws: the operation's error.
    @discardableResult
    @available(*, noasync, message: "it would block a thread of the concurrency pool: await response() instead")
    public func startAndWait(
        in mode: RunLoop.Mode = .default, timeout: Duration? = nil
    ) throws(RequestError) -> Response<Output> {
        if withLock({ !$0.isEnqueued }) { start() }
        let loop = RunLoop.current
        let began = ContinuousClock.now
        // A loop without a source returns at once. This timer keeps it asleep for the requested time.
        let anchor = Timer(timeInterval: 3_600, repeats: true) { _ in }
        loop.add(anchor, forMode: mode)
        defer { anchor.invalidate() }
        var toldAt: ContinuousClock.Instant?
        while true {
            let delivery = withLock { $0.delivery }
            let (isDelivering, isSettled) = (delivery.hasBegun, delivery.isSettled)
            // Callbacks that are due on this loop may still run. After 250 ms the method returns, even if callbacks
            // elsewhere are running.
            if isDelivering, toldAt == nil { toldAt = .now }
            if isSettled || toldAt.map({ $0.duration(to: .now) > .milliseconds(250) }) == true { break }
            let waited = began.duration(to: .now)
            if let timeout, waited >= timeout, !isDelivering {
                conclude(.timedOut, "it had not finished after the timeout of \(timeout)")
                break
            }
            // The loop runs in slices, because neither a timer nor a performed block makes a run loop return, and Linux
            // has no call that does. The slices grow with the wait. A fast response is noticed quickly, and a long wait
            // costs little.
            let slice = min(
                .milliseconds(10), waited / 4 + .microseconds(100),
                timeout.map { max(.microseconds(100), $0 - waited) } ?? .seconds(1))
            let end = ContinuousClock.now + slice
            _ = loop.run(mode: mode, before: Date(timeIntervalSinceNow: slice.seconds))
            // The loop returns at once in `.common`, which is not a mode but a set of modes.
            if mode == .common, .now < end {
                _ = loop.run(mode: .default, before: Date(timeIntervalSinceNow: slice.seconds))
            }
        }
        // The outcome is already stored, even if another thread is still finishing the operation.
        guard let result else {
            throw RequestError(.timedOut, "it had not finished", request: label)
        }
        return try result.get()
    }

    /// The response; the link fails if there is none.
    public var input: DependencyInput<Response<Output>> {
        DependencyInput(self) { () throws(RequestError) in
            guard let outcome = self.withLock({ $0.outcome }) else { throw self.hasNoResult }
            return try Self.response(in: outcome)
        }
    }
}

extension AnyRequestOperation {
    /// Waits for the outcome, in order with the handlers; cancelling the task cancels the operation.
    func outcome(isEnqueued: Bool = true) async -> AnyOutcome {
        await withTaskCancellationHandler {
            // An unsafe continuation suffices, because a handler is called exactly once.
            await withUnsafeContinuation { continuation in
                let handler = FinishHandler(place: .inTurn) { outcome in
                    WakeUps.perform { continuation.resume(returning: outcome) }
                }
                if isEnqueued { whenFinished(handler) } else { scheduler.enqueue(self, then: handler) }
            }
        } onCancel: {
            // This closure runs under the task's own lock, and `cancel()` must not. So another queue calls it.
            scheduler.taskControl.async { self.cancel() }
        }
    }

    fileprivate var hasNoResult: RequestError {
        RequestError(.invalidRequest, "the request needs the result of \(label), which has none yet")
    }
}

extension RequestPlan {
    fileprivate static func released<Output: Sendable>(_: Output.Type, of prepared: PreparedRequest?) -> RequestPlan {
        var core = RequestCore(method: prepared?.method ?? .get, url: prepared?.url)
        core.defect = """
            it is a copy of a finished operation, whose end released a request with code of the caller (a closure, a \
            stream, an interceptor): copy the operation before its end, or make one from its request
            """
        return TypedRequestPlan(
            Request<Output>(core: core) { _, _ in throw RequestError(.invalidRequest, "nothing was sent") })
    }
}

#if canImport(Combine)
    extension RequestOperation {
        /// Publishes the response, or the error, once there is an outcome, also to a late subscriber.
        ///
        /// Subscribing does not start the operation, and cancelling a subscription does not cancel it.
        ///
        /// - Thread: the publisher publishes where finish handlers run by default; use `receive(on:)` to change it.
        public var publisher: AnyPublisher<Response<Output>, RequestError> {
            Deferred {
                Future { promise in
                    let promise = Promise(fulfil: promise)
                    self.onFinish { promise.fulfil($0) }
                }
            }.eraseToAnyPublisher()
        }
    }

    private struct Promise<Value, Failure: Error>: @unchecked Sendable {
        // @unchecked: Combine does not declare `Sendable`, but any thread may fulfil a promise, and here only one call
        // does.
        let fulfil: (Result<Value, Failure>) -> Void
    }
#endif

/// A dependency of a chain's link, whose outcome becomes an argument of the function that makes the request.
///
/// ``RequestOperation`` provides its response and ``GroupOperation`` its value. The link fails if its dependency fails,
/// but with ``optional`` and ``asResult`` it continues:
///
/// ```swift
/// let page = manager.operation(
///     after: user, avatar.optional, settings.asResult
/// ) { user, avatar, settings in
///     let settings = try? settings.get().value
///     let page = makePage(user.value, avatar?.value, settings)
///     return Request<Page>.post(pageURL, json: page)
/// }
/// ```
///
/// Your own type with an operation conforms by returning the ``input`` of that operation.
public protocol TypedDependency<Value>: Sendable {
    /// The value that the link's function receives.
    associatedtype Value: Sendable
    /// The operation, its failure policy, and its value.
    var input: DependencyInput<Value> { get }
}

/// An operation that a link follows, and how its outcome becomes a value.
public struct DependencyInput<Value: Sendable>: TypedDependency {
    let operation: AnyRequestOperation
    let policy: DependencyPolicy
    /// Returns the value; called after the operation has finished.
    let value: @Sendable () throws(RequestError) -> Value

    var edge: (operation: AnyRequestOperation, policy: DependencyPolicy) { (operation, policy) }

    /// This input itself.
    public var input: DependencyInput<Value> { self }

    init(
        _ operation: AnyRequestOperation, policy: DependencyPolicy = .fail,
        value: @escaping @Sendable () throws(RequestError) -> Value
    ) {
        (self.operation, self.policy, self.value) = (operation, policy, value)
    }

    init(_ operation: AnyRequestOperation, result: @escaping @Sendable () -> Result<Value, RequestError>?) {
        self.init(operation) { () throws(RequestError) in
            guard let result = result() else { throw operation.hasNoResult }
            return try result.get()
        }
    }
}

extension TypedDependency {
    /// The same dependency, which may fail: the link then continues with nil.
    public var optional: DependencyInput<Value?> {
        let input = input
        return DependencyInput<Value?>(input.operation, policy: .ignore) { () throws(RequestError) in
            try? input.value()
        }
    }

    /// The same dependency, which may fail: the link continues with its result.
    public var asResult: DependencyInput<Result<Value, RequestError>> {
        let input = input
        return DependencyInput<Result<Value, RequestError>>(input.operation, policy: .ignore) {
            () throws(RequestError) in
            do throws(RequestError) { return .success(try input.value()) } catch { return .failure(error) }
        }
    }
}
