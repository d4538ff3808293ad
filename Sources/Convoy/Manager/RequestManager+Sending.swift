// One request, a chain, a download: making operations and enqueueing them.
import Foundation

extension RequestManager {
    /// Makes an operation; nothing runs until it is enqueued or started.
    public func operation<Output>(_ request: Request<Output>) -> RequestOperation<Output> {
        RequestOperation(request, of: scheduler)
    }

    /// Makes an operation that its caller keeps to itself: Foundation is not told of its changes while nothing can ask for them.
    package func unseenOperation<Output>(_ request: Request<Output>) -> RequestOperation<Output> {
        RequestOperation(request, of: scheduler, isUnseen: true)
    }

    /// Enqueues operations; each runs when its dependencies have finished and it has a slot.
    ///
    /// One that was enqueued or started before is left alone; one that was added to a queue by `addOperation` must not be
    /// enqueued before it has started. After ``shutDown()`` each ends with `.managerShutDown`.
    ///
    /// One that has finished is not sent again: its outcome stays, and the error says so. Monitors are told, too:
    /// ``EventMonitor/operation(_:wasRefused:)``. ``RequestOperation/copy()`` makes another of its
    /// request.
    ///
    /// - Returns: an error with the code `.invalidRequest` for each that has finished, in their order; else nothing.
    /// - Complexity: O(1) amortised each.
    @discardableResult
    public func enqueue(_ operations: AnyRequestOperation...) -> [RequestError] { enqueue(contentsOf: operations) }

    /// Enqueues the operations of a sequence, in its order, as ``enqueue(_:)-(AnyRequestOperation...)`` does.
    @discardableResult
    public func enqueue<Operations: Sequence>(contentsOf operations: Operations) -> [RequestError]
    where Operations.Element: AnyRequestOperation {
        var errors: [RequestError] = []
        for operation in operations {
            if let error = scheduler.enqueue(operation) { errors.append(error) }
        }
        return errors
    }

    /// Makes and enqueues an operation.
    ///
    /// - Returns: the operation, to cancel it, watch it or let others depend on it.
    @discardableResult
    public func enqueue<Output>(
        _ request: Request<Output>,
        onFinish handler: (@Sendable (RequestOperation<Output>.Result) -> Void)? = nil
    ) -> RequestOperation<Output> {
        let operation = operation(request)
        if let handler { operation.onFinish(handler) }
        scheduler.enqueue(operation)
        return operation
    }

    /// Sends a request and waits for its response.
    ///
    /// Cancelling the task cancels the operation; in a task that has been cancelled nothing is sent.
    ///
    /// - Throws: why it failed.
    @discardableResult
    public func send<Output>(_ request: Request<Output>) async throws(RequestError) -> Response<Output> {
        let operation = RequestOperation(request, of: scheduler, isUnseen: true)
        // Before it can be sent: a transport may answer at once, and a loop would never see that it is to end.
        if Task.isCancelled { operation.cancel() }
        scheduler.enqueue(operation)
        return try await operation.response()
    }

    /// Sends a request and reads its body chunk by chunk.
    public func chunks(of request: Request<Data>) -> ResponseChunks {
        let buffer = ChunkBuffer()
        var core = request.core
        core.destination = .chunks(buffer)
        core.decodesAtOnce = true
        let operation = operation(Request<Void>(core: core) { _, _ in })
        let chunks = ResponseChunks(operation: operation, buffer: buffer)
        scheduler.enqueue(operation)
        return chunks
    }

    /// Downloads to a file, and continues what an earlier download to it has left.
    ///
    /// See ``Request/saved(to:verifying:existing:permissions:)``.
    ///
    /// - Returns: the operation, enqueued.
    @discardableResult
    public func download(
        _ request: Request<Data>, to file: URL, verifying digest: FileDigest? = nil,
        existing: ExistingFile = .overwrite
    ) -> RequestOperation<URL> {
        enqueue(request.saved(to: file, verifying: digest, existing: existing))
    }

    /// Downloads what a URL leads to, as ``download(_:to:verifying:existing:)-(Request<Data>,_,_,_)`` does with a GET
    /// request.
    ///
    /// - Returns: the operation, enqueued.
    @discardableResult
    public func download(
        _ url: some RequestURL, to file: URL, verifying digest: FileDigest? = nil, existing: ExistingFile = .overwrite
    ) -> RequestOperation<URL> {
        download(.get(url), to: file, verifying: digest, existing: existing)
    }
}
