// How a TLS connection ended: whether its peer sent `close_notify`.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    extension CurlHandle {
        /// Makes libcurl call `noteEnd()` repeatedly until the transfer ends.
        ///
        /// After the end, the connection cannot be queried any more.
        func watchEnd() {
            endsUnannounced = false
            convoy_set_long(easy, CurlOption.noProgress, 0)
        }

        func stopWatchingEnd() {
            guard endsUnannounced != nil else { return }
            endsUnannounced = nil
            convoy_set_long(easy, CurlOption.noProgress, 1)
        }

        /// Records whether the peer has sent `close_notify` so far.
        ///
        /// The record of the last call counts.
        func noteEnd() {
            // The result is 1 after `close_notify`, 0 without, and another number if it is unknown.
            if endsUnannounced != nil { endsUnannounced = convoy_has_close_notify(easy) == 0 }
        }
    }

    extension CurlTransfer {
        /// The error if a body's TLS connection ended without `close_notify`; nil if the options accept that.
        ///
        /// The body may be incomplete (RFC 9112, section 9.8).
        ///
        /// libcurl reports such an end as code 56 or as success. After success, the state of the TLS library decides.
        func unannouncedEnd(_ code: CURLcode, _ handle: CurlHandle) -> RequestError? {
            guard let endsUnannounced = handle.endsUnannounced, !engine.options.acceptsMissingCloseNotify,
                code == 0 ? endsUnannounced : isSilentEnd(code, handle)
            else { return nil }
            return RequestError(
                .connectionLost,
                "the connection was closed in the middle of the response: it has no length, and no TLS close_notify arrived"
            )
        }

        /// Whether the options accept this end of the connection, without `close_notify`, as the end of the body.
        func isAcceptedEnd(_ code: CURLcode, _ handle: CurlHandle) -> Bool {
            handle.endsUnannounced != nil && engine.options.acceptsMissingCloseNotify && isSilentEnd(code, handle)
        }

        /// Whether receiving failed without a system error.
        private func isSilentEnd(_ code: CURLcode, _ handle: CurlHandle) -> Bool {
            let system = Int32(clamping: handle.long(CurlInfo.osErrno))
            return code == 56 && ![ECONNRESET, EPIPE, ETIMEDOUT, ECONNABORTED].contains(system)
        }
    }
#endif
