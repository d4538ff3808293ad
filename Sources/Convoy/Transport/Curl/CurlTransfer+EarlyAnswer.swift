// Responses that are complete before the request has been sent (RFC 9113, section 8.1).
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// A server may respond before it has received the complete request body, and read no more of the body. libcurl
    /// would wait for the server to read on.
    ///
    /// - Thread: the engine's.
    extension CurlTransfer {
        /// Whether the complete response to a request with a body has arrived, by the response's length.
        var isAnswered: Bool { sendsBody && hasHead && missingBytes == 0 }

        /// How long sending may stall after the complete response.
        private static let stillTime = Duration.milliseconds(250)

        /// Schedules a check of whether sending still makes progress, once the response is complete.
        func noteAnswered() {
            guard isAnswered else { return }
            lastSendingMark = handle?.sendingMark
            loop?.checkTimes(after: Self.stillTime)
        }

        /// Ends a transfer with a complete response once sending makes no progress.
        ///
        /// Returns the time of the next check; nil if the transfer has ended.
        func endAnswered(_ handle: CurlHandle, _ now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
            let mark = handle.sendingMark
            defer { lastSendingMark = mark }
            guard mark == lastSendingMark else { return now + Self.stillTime }
            end(0)
            return nil
        }
    }
#endif
