// The task of an attempt, as its operation uses it.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Transfers the bytes of one attempt, controlled by its operation.
///
/// `URLSessionTask` conforms to this protocol. Convoy's own transports may use a smaller type, which makes a
/// `URLSessionTask` only on request. On Linux, making one costs a dispatch queue and a dozen allocations.
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

/// A transport that does not need a `URLSessionTask`.
protocol DirectTransport: Transport {
    /// Works like ``Transport/makeTask(for:client:)``.
    func makeTransfer(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> any TransferTask
}
