// The task of an attempt, as its operation uses it.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Transfers the bytes of one attempt, controlled by its operation.
///
/// `URLSessionTask` conforms to this protocol. Convoy's own transports may use a smaller type, which makes a
/// `URLSessionTask` only in ``makeSessionTask()``. On Linux, making one costs a dispatch queue and a dozen allocations.
package protocol TransferTask: AnyObject, Sendable {
    func resume()
    func suspend()
    func cancel()
    /// The task for the operation's owner, possibly a new one for each call.
    func makeSessionTask() -> URLSessionTask
}

extension URLSessionTask: TransferTask {
    package func makeSessionTask() -> URLSessionTask { self }
}

/// A `URLSessionTask` for a transfer that is not a `URLSessionTask` itself.
package final class TransferSessionTask: URLSessionDataTask, @unchecked Sendable {
    // @unchecked: `URLSessionTask` requires it. The properties never change.
    private let transfer: any TransferTask
    private let request: PreparedRequest
    private let currentState: @Sendable () -> URLSessionTask.State

    package init(
        _ transfer: any TransferTask, for request: PreparedRequest,
        state: @escaping @Sendable () -> URLSessionTask.State
    ) {
        (self.transfer, self.request, currentState) = (transfer, request, state)
        super.init()
    }

    override package var originalRequest: URLRequest? {
        var request = URLRequest(url: request.url)
        request.httpMethod = self.request.method.rawValue
        return request
    }

    override package var currentRequest: URLRequest? { originalRequest }
    override package var state: URLSessionTask.State { currentState() }

    override package func resume() { transfer.resume() }
    override package func suspend() { transfer.suspend() }
    override package func cancel() { transfer.cancel() }
}

/// A transport that does not need a `URLSessionTask`.
protocol DirectTransport: Transport {
    /// Makes a suspended transfer, as ``Transport/makeTask(for:client:)`` makes a task.
    func makeTransfer(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> any TransferTask
}
