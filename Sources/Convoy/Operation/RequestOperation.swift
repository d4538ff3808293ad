// A request as an operation, with its typed result.
import Foundation

/// One request as a concurrent operation, with its typed result.
///
/// A manager makes and schedules it. One made by hand can be started, or added to any `OperationQueue`.
///
/// ```swift
/// let request = Request<User>.get("https://example.com/users/1")
/// let operation = RequestOperation(request)
/// operation.onFinish { result in print(result) }
/// OperationQueue().addOperation(operation)
/// ```
///
/// ## Concurrency
/// Use it from any thread. It ends exactly once; the first outcome wins; the result is stored before `isFinished` turns
/// true, and nothing is called back after it but the handlers that wanted it.
///
/// ## Topics
/// - ``result``
/// - ``onFinish(on:_:)-(Delivery?,_)``
/// - ``onFinish(on:_:)-(MainDelivery,_)``
/// - ``response()``
/// - ``copy()``
/// - ``startAndWait(in:timeout:)``
public final class RequestOperation<Output: Sendable>: AnyRequestOperation, @unchecked Sendable {
    // @unchecked: it adds no state to its superclass.

    /// What an operation ends with.
    public typealias Result = Swift.Result<Response<Output>, RequestError>

    /// Makes an operation without a manager; nothing runs until it is started or added to a queue.
    ///
    /// - Parameters:
    ///   - request: what to send; its URL must be absolute.
    ///   - transport: what moves the bytes; the best one for the platform by default.
    public convenience init(_ request: Request<Output>, transport: (any Transport)? = nil) {
        self.init(
            requestPlan: RequestPlan(request),
            context: transport.map { ExecutionContext(transport: .custom($0)) } ?? .standalone)
    }

    /// Makes an operation of a manager's.
    convenience init(_ request: Request<Output>, of scheduler: any OperationScheduler, isInternal: Bool = false) {
        let context = scheduler.context
        self.init(
            requestPlan: RequestPlan(request, context.defaults.encoder), context: context, scheduler,
            isInternal: isInternal)
    }

    /// The outcome; nil until there is one.
    ///
    /// Stored before `isFinished` turns true, and never changed.
    public var result: Result? { state.withLock { $0.outcome }.map { Self.typed($0) } }

    /// Adds a handler for the outcome.
    ///
    /// Any number may be added, also after the end; each is called exactly once. Those with the same serial place run in the
    /// order in which they were added.
    ///
    /// For what belongs to the main actor there is `onFinish(on: .main)`, ``onFinish(on:_:)-(MainDelivery,_)``.
    ///
    /// - Parameters:
    ///   - delivery: where to call it: a queue, a run loop with its modes, in place. By default the manager's choice, or a
    ///     serial queue of this operation's own, where it delays no other callback however long it takes.
    ///   - handler: receives the outcome. The operation has finished then, unless it was cancelled or failed before its
    ///     start: that is told at once, and the queue finishes the operation when it comes to it.
    @discardableResult
    public func onFinish(on delivery: Delivery? = nil, _ handler: @escaping @Sendable (Result) -> Void) -> Self {
        whenFinished(finishHandler(on: delivery, handler))
        return self
    }

    /// Waits for the outcome; it does not start the operation.
    ///
    /// It takes its turn among the handlers of ``onFinish(on:_:)-(Delivery?,_)``: those that were added before and asked for no other place
    /// have returned. Those with a place of their own (that of ``RequestManager/Configuration/callbacks`` too) have been sent
    /// there, and are not waited for. Cancelling the task cancels the operation.
    ///
    /// - Throws: the operation's error.
    @discardableResult
    public func response() async throws(RequestError) -> Response<Output> {
        let stored = await outcome()
        guard let success = stored as? Success<Output> else { return try Self.typed(stored).get() }
        return success.response
    }

    /// A new operation of the same request, which has not been sent, for the same manager: to send it once more.
    ///
    /// It has the request's own name, tags, priority and `userInfo`; handlers, observers, dependencies and what was set at
    /// this operation are not copied. A chain's link is copied as far as it is: until its request has been built the copy
    /// builds it itself, and needs the same dependencies.
    ///
    /// ```swift
    /// operation.onFinish { [weak operation] result in
    ///     guard let operation, case .failure(let error) = result else { return }
    ///     if error.code == .connectionFailed { later.append(operation.copy()) }
    /// }
    /// ```
    ///
    /// A finished operation can be copied too, unless its request has code of the caller's, which the end lets go of: a
    /// closure that decodes or maps, a stream as body or destination, an interceptor, `onRedirect`. Such a copy ends with
    /// `.invalidRequest` and says so, without sending anything; copy it before the end, or keep its ``Request``.
    ///
    /// - Thread: any.
    public override func copy() -> RequestOperation<Output> { makeCopy() }

    private func finishHandler(
        on delivery: Delivery? = nil, _ handler: @escaping @Sendable (Result) -> Void
    ) -> FinishHandler {
        FinishHandler(place: CallbackPlace(delivery ?? context.callbacks)) { handler(Self.typed($0)) }
    }

    static func typed(_ outcome: AnyOutcome) -> Result {
        if let success = outcome as? Success<Output> { return .success(success.response) }
        return .failure(outcome.error ?? RequestError(.decodingFailed, "the outcome is of another type"))
    }
}

extension AnyRequestOperation {
    /// Waits for the outcome, in turn among the handlers; cancelling the task cancels the operation.
    func outcome() async -> AnyOutcome {
        await withTaskCancellationHandler {
            // Not a checked one: a handler is called exactly once.
            await withUnsafeContinuation { continuation in
                whenFinished(FinishHandler(place: .inTurn) { continuation.resume(returning: $0) })
            }
        } onCancel: {
            // Runs under the task's own lock: what cancelling leads to must not. A queue of our own takes it from here.
            context.taskControl.async { self.cancel() }
        }
    }
}
