// The `URLSessionTask` of an operation whose bytes libcurl transfers.
#if canImport(CLibcurl)
    import Foundation
    import FoundationNetworking

    /// A data task over libcurl.
    ///
    /// Any thread may use the members. No member blocks.
    final class CurlTask: URLSessionDataTask, @unchecked Sendable {
        // @unchecked: `URLSessionTask` requires it. The transfer guards the mutable state.
        private let transfer: CurlTransfer

        init(_ transfer: CurlTransfer) {
            self.transfer = transfer
            super.init()
        }

        override var originalRequest: URLRequest? {
            var request = URLRequest(url: transfer.request.url)
            request.httpMethod = transfer.request.method.rawValue
            return request
        }

        override var currentRequest: URLRequest? { originalRequest }

        override var state: URLSessionTask.State {
            if transfer.isOver.load(ordering: .acquiring) { return .completed }
            return transfer.desired.withLock { desired in
                if desired.isCancelled { return .canceling }
                return desired.isSuspended ? .suspended : .running
            }
        }

        override func resume() { transfer.resume() }

        override func suspend() { transfer.suspend() }

        override func cancel() { transfer.cancel() }
    }

    /// The state of a transfer that the owner of its task wants.
    ///
    /// Any thread may write the state. The engine later reads the result of all changes until then.
    struct DesiredTransferState {
        var hasBegun = false
        var isSuspended = true
        /// Whether `resume()`, which ends the client's back-pressure, was called since the last check.
        var wasResumed = false
        var isCancelled = false
        var isBodyReady = false
        /// Whether the transfer is in the engine's inbox.
        var isQueued = false
    }

    extension CurlTransfer: TransferTask {
        func resume() {
            engine.look(at: self) { desired in
                desired.hasBegun = true
                desired.isSuspended = false
                desired.wasResumed = true
            }
        }

        func suspend() { engine.look(at: self) { $0.isSuspended = true } }

        func cancel() { engine.look(at: self) { $0.isCancelled = true } }

        func makeSessionTask() -> URLSessionTask { CurlTask(self) }
    }
#endif
