// The outcome as a Combine publisher, where there is Combine.
#if canImport(Combine)
    import Combine

    extension RequestOperation {
        /// Publishes the response, or the error, once there is an outcome; a subscriber that comes late gets it too.
        ///
        /// Subscribing does not start the operation, and cancelling a subscription does not cancel it.
        ///
        /// - Thread: values are published where handlers run that ask for no other place; use `receive(on:)`.
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
        // @unchecked: Combine does not say so, but a promise is fulfilled from any thread, and here by one call only.
        let fulfil: (Result<Value, Failure>) -> Void
    }
#endif
