// How a TLS connection ended: whether its peer sent `close_notify`.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// How a connection ended.
    enum ConnectionEnd {
        case unknown
        /// The peer has sent TLS's `close_notify`.
        case announced
        case unannounced
    }

    extension CurlHandle {
        /// Makes libcurl call `noteEnd()` until the transfer ends, while the connection can still be queried.
        func watchEnd() {
            connectionEnd = .unknown
            convoy_set_long(easy, CurlOption.noProgress, 0)
        }

        func stopWatchingEnd() {
            connectionEnd = nil
            convoy_set_long(easy, CurlOption.noProgress, 1)
        }

        /// Records whether the peer has sent `close_notify` so far.
        ///
        /// The record of the last call counts.
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
        /// The error if a body's TLS connection ended without `close_notify`; nil if the options accept that.
        ///
        /// The body may be incomplete (RFC 9112, section 9.8).
        ///
        /// libcurl reports such an end as code 56 or as success. After success, the state of the TLS library decides.
        func unannouncedEnd(_ code: CURLcode, _ handle: CurlHandle) -> RequestError? {
            guard !engine.options.acceptsMissingCloseNotify,
                code == 0 ? handle.connectionEnd == .unannounced : isSilentEnd(code, handle)
            else { return nil }
            return RequestError(
                .connectionLost,
                "the connection was closed in the middle of the response: it has no length, and no TLS close_notify arrived"
            )
        }

        /// Whether the options accept this end of the connection, without `close_notify`, as the end of the body.
        func isAcceptedEnd(_ code: CURLcode, _ handle: CurlHandle) -> Bool {
            watchesEnd && engine.options.acceptsMissingCloseNotify && isSilentEnd(code, handle)
        }

        /// Whether receiving failed without a system error.
        private func isSilentEnd(_ code: CURLcode, _ handle: CurlHandle) -> Bool {
            let system = Int32(clamping: handle.long(CurlInfo.osErrno))
            return code == 56 && ![ECONNRESET, EPIPE, ETIMEDOUT, ECONNABORTED].contains(system)
        }
    }
#endif
