// How a TLS connection ended: whether its peer said so.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// What is known of how a connection ended.
    enum ConnectionEnd {
        case unknown
        /// The peer has sent TLS's `close_notify`.
        case announced
        case unannounced
    }

    extension CurlHandle {
        /// Has libcurl call back up to the transfer's end, when the connection is still there to be asked.
        func watchEnd() {
            connectionEnd = .unknown
            convoy_set_long(easy, CurlOption.noProgress, 0)
        }

        func stopWatchingEnd() {
            connectionEnd = nil
            convoy_set_long(easy, CurlOption.noProgress, 1)
        }

        /// Looks how the connection is now; the last look counts.
        func noteEnd() {
            guard connectionEnd != nil else { return }
            switch convoy_has_close_notify(easy) {
            case 1: connectionEnd = .announced
            case 0: connectionEnd = .unannounced
            default: connectionEnd = .unknown
            }
        }
    }

    extension CurlTransfer {
        /// The error for a body whose TLS connection ended without saying so: it may have been cut (RFC 9112, section 9.8).
        ///
        /// libcurl either ends such a transfer well, and then its TLS library can be asked, or with the code 56.
        func unannouncedEnd(_ code: CURLcode, _ handle: CurlHandle) -> RequestError? {
            guard !engine.options.acceptsMissingCloseNotify,
                code == 0 ? handle.connectionEnd == .unannounced : isSilentEnd(code, handle)
            else { return nil }
            return RequestError(
                .connectionLost,
                "the connection was closed in the middle of the answer: it has no length, and TLS's close_notify did not come"
            )
        }

        /// Whether the end of the connection is taken for the end of the body, as the options allow.
        func isAcceptedEnd(_ code: CURLcode, _ handle: CurlHandle) -> Bool {
            watchesEnd && engine.options.acceptsMissingCloseNotify && isSilentEnd(code, handle)
        }

        /// Whether receiving failed without an error of the system's.
        private func isSilentEnd(_ code: CURLcode, _ handle: CurlHandle) -> Bool {
            let system = Int32(clamping: handle.long(CurlInfo.osErrno))
            return code == 56 && ![ECONNRESET, EPIPE, ETIMEDOUT, ECONNABORTED].contains(system)
        }
    }
#endif
