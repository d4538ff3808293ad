// The outcome as a Combine publisher, where Combine is available.
#if canImport(Combine)
    import Combine

    extension RequestOperation {
        /// Publishes the response, or the error, once there is an outcome.
        ///
        /// A late subscriber receives the outcome too.
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
