// Making and enqueueing operations: single requests, bodies in chunks, and downloads.
import Foundation

extension RequestManager {
    /// Makes an operation; nothing runs until it is enqueued or started.
    public func operation<Output>(_ request: Request<Output>) -> RequestOperation<Output> {
        RequestOperation(request, of: scheduler)
    }

    /// No user of the library can observe the operation, so on Linux, Foundation is not notified of its changes.
    package func internalOperation<Output>(_ request: Request<Output>) -> RequestOperation<Output> {
        RequestOperation(request, of: scheduler, isInternal: true)
    }

    /// Enqueues operations, each of which runs when its dependencies have finished and it has a slot.
    ///
    /// The manager must have made the operation; any other fails with `.invalidRequest`, unless its own manager has it.
    /// An operation that was enqueued or started before is ignored. Do not enqueue one that waits in a queue to which
    /// you added it with `addOperation`. After ``shutDown()`` each operation fails with `.managerShutDown`.
    ///
    /// A finished operation is not sent again and keeps its outcome, as the returned error and
    /// ``EventMonitor/operation(_:wasRefused:)`` say. ``RequestOperation/copy()`` sends its request again.
    ///
    /// - Returns: an `.invalidRequest` error for each operation, in order, that has finished or is of another manager.
    /// - Complexity: O(1) amortised each.
    @discardableResult
    public func enqueue(_ operations: AnyRequestOperation...) -> [RequestError] { enqueue(contentsOf: operations) }

    /// Enqueues the operations of a sequence, in its order, as ``enqueue(_:)-(AnyRequestOperation...)`` does.
    @discardableResult
    public func enqueue<Operations: Sequence>(contentsOf operations: Operations) -> [RequestError]
    where Operations.Element: AnyRequestOperation {
        operations.compactMap { scheduler.enqueue($0) }
    }

    /// Makes, enqueues and returns an operation, to cancel or observe it, or to let other operations depend on it.
    @discardableResult
    public func enqueue<Output>(
        _ request: Request<Output>,
        onFinish handler: (@Sendable (RequestOperation<Output>.Result) -> Void)? = nil
    ) -> RequestOperation<Output> {
        let operation = RequestOperation(request, of: scheduler, onFinish: handler)
        scheduler.enqueue(operation)
        return operation
    }

    /// Sends a request and waits for its response; cancelling the task cancels it, or sends nothing if that came first.
    ///
    /// - Throws: the error with which the request failed.
    @discardableResult
    public func send<Output>(_ request: Request<Output>) async throws(RequestError) -> Response<Output> {
        let isCancelled = Task.isCancelled
        var prepared: PreparedRequest?
        if scheduler.cache != nil, !isCancelled, let response = scheduler.storedResponse(to: request, &prepared) {
            return response
        }
        let operation = RequestOperation(request, of: scheduler, isInternal: true)
        if let prepared { operation.withLock { $0.prepared = prepared } }
        // A cancelled task sends nothing. Without this check, the transport could respond before the cancellation
        // takes effect, and a loop of the caller might never see the cancellation.
        if isCancelled { operation.cancel() }
        return try RequestOperation.response(in: await operation.outcome(isEnqueued: false))
    }

    /// Sends a request and reads its body chunk by chunk.
    public func chunks(of request: Request<Data>) -> ResponseChunks {
        let buffer = ChunkBuffer()
        let operation = operation(Request<Void>(core: request.to(.chunks(buffer))) { _, _ in })
        let chunks = ResponseChunks(operation: operation, buffer: buffer)
        scheduler.enqueue(operation)
        return chunks
    }

    /// Downloads to a file (``Request/saved(to:verifying:existing:permissions:)``) with an enqueued operation.
    @discardableResult
    public func download(
        _ request: Request<Data>, to file: URL, verifying digest: FileDigest? = nil,
        existing: ExistingFile = .overwrite
    ) -> RequestOperation<URL> {
        enqueue(request.saved(to: file, verifying: digest, existing: existing))
    }

    /// Downloads a URL with GET, as ``download(_:to:verifying:existing:)-(Request<Data>,_,_,_)`` does.
    @discardableResult
    public func download(
        _ url: some RequestURL, to file: URL, verifying digest: FileDigest? = nil, existing: ExistingFile = .overwrite
    ) -> RequestOperation<URL> {
        download(.get(url), to: file, verifying: digest, existing: existing)
    }
}
