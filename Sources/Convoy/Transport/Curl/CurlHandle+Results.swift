// Reads libcurl's results of a transfer.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// - Thread: the engine's.
    extension CurlHandle {
        /// How much libcurl has sent, and how much of that the system still buffers.
        ///
        /// If two marks differ, sending has made progress between them.
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

        /// The socket of the last connection used, or -1.
        var activeSocket: Int32 {
            var socket: Int32 = -1
            return convoy_get_socket(easy, CurlInfo.activeSocket, &socket) == 0 ? socket : -1
        }

        func long(_ info: Int32) -> Int {
            var value = 0
            return convoy_get_long(easy, info, &value) == 0 ? value : 0
        }

        /// Whether the connection and its TLS handshake are complete, so that the request may have been sent.
        ///
        /// Used with a libcurl without a pre-request callback.
        var hasConnected: Bool {
            var time: Int64 = 0
            return convoy_get_int64(easy, CurlInfo.preTransferTime, &time) == 0 && time > 0
        }

        /// Reads the measurements of the transfer.
        ///
        /// The set-up times of a reused connection are zero.
        ///
        /// - Parameter session: the TLS session, if this transfer opened the connection.
        func measure(_ metrics: inout TransferMetrics, _ session: TLSSession?) {
            var found = convoy_measurements()
            convoy_measure(easy, &found)
            // The count of opened connections is 0 for a reused connection, but also if libcurl could not connect. In
            // the second case, no bytes have moved.
            metrics.isReusedConnection = found.connections == 0 && (found.request_bytes > 0 || found.first_byte > 0)
            if !metrics.isReusedConnection {
                metrics.nameLookup = .microseconds(found.name_lookup)
                metrics.connect = .microseconds(found.connect)
                metrics.secureConnect = .microseconds(found.secure_connect)
                if let session { (metrics.tlsVersion, metrics.tlsCipher) = (session.version, session.cipher) }
            }
            (metrics.firstByte, metrics.total) = (.microseconds(found.first_byte), .microseconds(found.total))
            switch found.version {
            case 1: metrics.httpVersion = "1.0"
            case 2: metrics.httpVersion = "1.1"
            case 3: metrics.httpVersion = "2"
            case 30: metrics.httpVersion = "3"
            default: break
            }
            metrics.remoteAddress = found.address.flatMap { String(validatingCString: $0) } ?? ""
            metrics.remotePort = found.port
            metrics.receivedHeaderBytes = Int64(found.header_bytes)
            metrics.sentHeaderBytes = Int64(found.request_bytes)
        }
    }
#endif
