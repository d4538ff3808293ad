// What an operation holds of the transport while an attempt is under way.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Moves the bytes of one attempt, as its operation tells it.
///
/// A `URLSessionTask` is one. A transport of the library's own may have a smaller one, whose `URLSessionTask` is made when
/// the operation is asked for it: on Linux making one costs a dispatch queue and a dozen allocations.
package protocol TransferTask: AnyObject, Sendable {
    func resume()
    func suspend()
    func cancel()
    /// What the operation's owner sees; a new one each time where it has to be made.
    func makeSessionTask() -> URLSessionTask
}

extension URLSessionTask: TransferTask {
    package func makeSessionTask() -> URLSessionTask { self }
}

/// A transport that can do without a `URLSessionTask`.
protocol DirectTransport: Transport {
    /// As ``Transport/makeTask(for:client:)``.
    func makeTransfer(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> any TransferTask
}
