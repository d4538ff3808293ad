// The `URLSessionTask` of a request that a stored response answers.
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A task for a transfer that uses no `URLSessionTask`.
final class StoredTask: URLSessionDataTask, @unchecked Sendable {
    // @unchecked: the superclass requires it. The properties never change.
    private let url: URL
    private let transfer: CacheTransfer

    init(_ url: URL, _ transfer: CacheTransfer) {
        (self.url, self.transfer) = (url, transfer)
        super.init()
    }

    override var state: URLSessionTask.State { transfer.isOver ? .completed : .running }
    override var originalRequest: URLRequest? { URLRequest(url: url) }
    override var currentRequest: URLRequest? { originalRequest }
    override func resume() { transfer.resume() }
    override func suspend() { transfer.suspend() }
    override func cancel() { transfer.cancel() }
}

extension CacheTransfer {
    /// Whether the transfer has finished.
    var isOver: Bool { state.withLock { if case .ended = $0.phase { true } else { false } } }
}
