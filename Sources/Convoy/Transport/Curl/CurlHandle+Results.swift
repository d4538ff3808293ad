// Reads libcurl's results of a transfer.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// - Thread: the engine's.
    extension CurlHandle {
        /// How much libcurl has sent, and how much of that the system still buffers.
        ///
        /// The value changes while bytes are sent.
        struct SendingMark: Equatable {
            var sentBytes: Int64 = 0
            var queuedBytes: Int32 = 0
        }

        var sendingMark: SendingMark {
            var mark = SendingMark()
            convoy_get_int64(easy, CurlInfo.uploadedBytes, &mark.sentBytes)
            mark.queuedBytes = convoy_queued_bytes(activeSocket)
            return mark
        }

        /// The last connection used, if it carries one request at a time.
        var connection: KeptConnections.Key? {
            guard long(CurlInfo.httpVersion) < 3 else { return nil }
            return KeptConnections.Key(
                remoteAddress: string(CurlInfo.primaryAddress), remotePort: Int32(clamping: long(CurlInfo.primaryPort)),
                localPort: Int32(clamping: long(CurlInfo.localPort)))
        }

        private func string(_ info: Int32) -> String {
            var text: UnsafePointer<CChar>?
            guard convoy_get_string(easy, info, &text) == 0, let text else { return "" }
            return String(validatingCString: text) ?? ""
        }

        /// The socket of the last connection used, or -1.
        var activeSocket: Int32 {
            var socket: Int32 = -1
            return convoy_get_socket(easy, CurlInfo.activeSocket, &socket) == 0 ? socket : -1
        }

        func long(_ info: Int32) -> Int {
            var value = 0
            return convoy_get_long(easy, info, &value) == 0 ? value : 0
        }

        private func duration(_ info: Int32) -> Duration {
            var value: Int64 = 0
            return convoy_get_int64(easy, info, &value) == 0 ? .microseconds(value) : .zero
        }

        /// Whether the connection and its TLS handshake are complete, so that the request may have been sent.
        ///
        /// Used with a libcurl without a pre-request callback.
        var hasConnected: Bool { duration(CurlInfo.preTransferTime) > .zero }

        /// Reads the measurements of the transfer.
        ///
        /// The set-up times of a reused connection are zero.
        func measure(_ metrics: inout TransferMetrics) {
            metrics.isReusedConnection = long(CurlInfo.connectCount) == 0
            if !metrics.isReusedConnection {
                metrics.nameLookup = duration(CurlInfo.nameLookupTime)
                metrics.connect = duration(CurlInfo.connectTime)
                metrics.secureConnect = duration(CurlInfo.secureConnectTime)
            }
            metrics.firstByte = duration(CurlInfo.startTransferTime)
            metrics.total = duration(CurlInfo.totalTime)
            switch long(CurlInfo.httpVersion) {
            case 1: metrics.httpVersion = "1.0"
            case 2: metrics.httpVersion = "1.1"
            case 3: metrics.httpVersion = "2"
            case 30: metrics.httpVersion = "3"
            default: break
            }
            metrics.remoteAddress = string(CurlInfo.primaryAddress)
            metrics.remotePort = long(CurlInfo.primaryPort)
            metrics.receivedHeaderBytes = Int64(long(CurlInfo.headerSize))
            metrics.sentHeaderBytes = Int64(long(CurlInfo.requestSize))
        }
    }

    extension CurlTransfer {
        /// Reads the measurements, and the TLS session if this transfer opened the connection.
        func measure(_ handle: CurlHandle, _ metrics: inout TransferMetrics) {
            handle.measure(&metrics)
            if !metrics.isReusedConnection, let session = place.handshake.session {
                (metrics.tlsVersion, metrics.tlsCipher) = (session.version, session.cipher)
            }
        }
    }
#endif
