// Answers that are whole before the request is: RFC 9113, section 8.1.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// A server may answer before it has the whole body of a request, and take no more of it. libcurl waits on.
    ///
    /// - Thread: the engine's.
    extension CurlTransfer {
        /// Whether a request with a body has its whole answer, by the length of that.
        var isAnswered: Bool { sendsBody && hasHead && missingBytes == 0 }

        /// How long the rest of a request may stand still after its answer.
        private static let stillTime = Duration.milliseconds(250)

        /// Has the loop look soon whether the rest of the request stands still, once the answer is whole.
        func noteAnswered() {
            guard isAnswered else { return }
            lastSendingMark = handle?.sendingMark
            loop?.checkTimes(after: Self.stillTime)
        }

        /// Ends well what has its whole answer, once the rest of the request stands still; returns when to look again.
        func endAnswered(_ handle: CurlHandle, _ now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
            let mark = handle.sendingMark
            defer { lastSendingMark = mark }
            guard mark == lastSendingMark else { return now + Self.stillTime }
            end(0)
            return nil
        }
    }
#endif
