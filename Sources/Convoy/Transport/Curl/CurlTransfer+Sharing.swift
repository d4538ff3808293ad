// A request on a shared connection: whether it may open another connection, and when it is sent again.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// The connection of a request, and its state.
    struct ConnectionPlace {
        /// Why Convoy did not let libcurl open a connection.
        enum Veto {
            /// Another transfer is opening a connection to the same server.
            case isOpening
            /// This handle has already sent the request. Another handle repeats it, because up to 8.16, libcurl counts
            /// the repetitions of each handle and fails the sixth.
            case wasSent
        }

        var connection: KeptConnections.Key?
        /// The request's stream on the connection, once libcurl has reported it.
        var stream: Int?
        /// Whether libcurl's log lines are about `connection`; false once libcurl looks for another connection.
        var isHeard = false
        /// Whether the server has said that it has not processed the request.
        var isRefused = false
        /// Whether libcurl repeats the request over HTTP/1.1, because the server requires that.
        var isDowngraded = false
        /// Whether libcurl has closed the connection at the end of the request.
        var isClosed = false
        /// Whether libcurl is about to close another connection, because it keeps too many.
        var closesOldest = false
        /// How often the current handle has sent the request.
        var timesSent = 0
        var veto: Veto?
        /// Whether the request waits for another transfer's connection.
        ///
        /// While the request waits, its handle is not added to libcurl, so libcurl runs no timer for it.
        var isParked = false
        /// The system's error number if no socket could be made, or 0.
        var socketError: Int32 = 0
        var handshake = Handshake()
        /// The generation of connections that the request may share; see ``SharedConnections``.
        var generation = 0
    }

    /// - Thread: the engine's; libcurl calls some of the members.
    extension CurlTransfer {
        /// The maximum number of times that a request is sent, even if the server has processed none of the copies.
        static let mostTimesSent = 64
        /// The number of streams that a server may refuse before the request fails, as in libcurl.
        ///
        /// A server that refuses streams is overloaded. After the failure, the caller's retry policy waits. Refusals that
        /// libcurl does not log do not count.
        static let mostRefusals = 6

        /// Whether ``SharedConnections`` decides when the transfer may open a connection.
        var waitsForConnections: Bool { isShareable && handle?.asksBeforeSending == true }

        /// Opens a socket for a new connection; -1 if none may be opened.
        func openSocket(for address: convoy_address) -> Int32 {
            if waitsForConnections, !mayOpenConnection() { return -1 }
            let number = socket(address.family, address.type | Int32(SOCK_CLOEXEC.rawValue), address.protocol)
            if number < 0 { place.socketError = errno } else { loop?.sockets.noteOpened(number) }
            if number >= 0 { place.handshake.sockets.append(number) }
            return number
        }

        private func mayOpenConnection() -> Bool {
            // After a 417, libcurl repeats the request without "Expect", and after a downgrade over HTTP/1.1. So this
            // handle may open a connection. Another handle would repeat the request unchanged.
            guard let loop, parser.lastStatusCode != 417, !place.isDowngraded else { return true }
            guard place.timesSent == 0 else {
                handle?.isWorn = true
                failure = repetitionDefect
                if failure == nil { place.veto = .wasSent }
                return false
            }
            guard loop.sharing.mayOpen(self) else {
                place.veto = .isOpening
                return false
            }
            return true
        }

        /// Records the connection on which libcurl is about to send the request.
        func arrive(on connection: KeptConnections.Key) {
            guard let loop else { return }
            leaveConnection()
            place.connection = connection
            place.stream = nil
            (place.isHeard, place.isClosed) = (true, false)
            place.timesSent += 1
            loop.continueLater(loop.sharing.arrive(self, on: connection))
        }

        /// Makes new requests avoid this transfer's connection, unless it still works for another transfer.
        ///
        /// It still works if another transfer on it was active more recently and has received the head of its response.
        ///
        /// - Complexity: O(*n*) in the active transfers.
        func giveUpConnection() {
            guard let loop, let connection = place.connection else { return }
            let isAlive = loop.active.contains { other in
                other.hasHead && other.place.connection == connection && other.lastActivity > lastActivity
            }
            if !isAlive { loop.sharing.giveUp(connectionOf: self) }
        }

        /// Leaves the connection, so that waiting transfers may use it.
        func leaveConnection(hasFailed: Bool = false) {
            guard let loop else { return }
            let connection = place.connection
            place.connection = nil
            loop.continueLater(loop.sharing.leave(self, connection, hasFailed: hasFailed))
        }

        /// Handles a log line of libcurl (kind 0), a header line (1), or a handshake message: received (5) or sent (6).
        func hear(_ kind: Int32, _ bytes: UnsafeMutableRawBufferPointer) {
            switch kind {
            case 1 where CurlLibrary.remembersFreedLine && parser.isAtFirstField && bytes.first?.isBlank == true:
                // libcurl is about to append this folded line to the freed last line of the handle's previous response.
                // A colon in place of the blank prevents that. ``CurlHeaderParser`` rejects both forms of the line.
                bytes[0] = UInt8(ascii: ":")
            case 0:
                if timesSent == 0, place.handshake.hasBegun { place.handshake.look() }
                hear(UnsafeRawBufferPointer(bytes))
            case 5, 6:
                if kind == 6 { place.handshake.hasBegun = true }
                // An alert consists of a level, 1 or 2, and a reason. No other message is that short.
                if bytes.count == 2, bytes[0] <= 2 {
                    place.handshake.noteAlert(isOwn: kind == 6, isFatal: bytes[0] == 2)
                }
            default: break
            }
        }

        private func hear(_ text: UnsafeRawBufferPointer) {
            if let session = TLSSession(text) { place.handshake.session = session }
            guard let logLine = CurlLogLine(text) else { return }
            if logLine == .environmentProxy { handle?.usesEnvironmentProxy = true }
            guard let loop, let connection = place.connection else { return }
            switch logLine {
            case .environmentProxy: break
            case .stream(let number):
                place.stream = number
                loop.sharing.begin(number, on: connection)
            case .goAway(let last, let isGraceful):
                if place.isHeard { loop.sharing.giveUp(connection, after: last, isGraceful: isGraceful) }
            case .refused:
                (place.isRefused, place.isHeard) = (true, false)
                timesRefused += 1
            case .downgrade: (place.isRefused, place.isDowngraded, place.isHeard) = (true, true, false)
            case .retry: place.isHeard = false
            case .closing: (place.isClosed, place.closesOldest) = (place.isClosed || !place.closesOldest, false)
            case .closesOldest: place.closesOldest = true
            }
        }

        /// Whether the server has said that it has not processed the request, which has not been sent again since.
        var isUnprocessed: Bool {
            if wasUnprocessed || place.isRefused { return true }
            guard let loop, let stream = place.stream, let connection = place.connection else { return false }
            return loop.sharing.isRefused(stream, on: connection)
        }

        /// Sends the request again, or parks it while another transfer opens a connection.
        ///
        /// Returns true only in two cases: libcurl was not allowed to open a connection (``ConnectionPlace/Veto``), or
        /// a shared connection was lost before the head and the request may be repeated.
        func goesOn(after code: CURLcode, _ handle: CurlHandle) -> Bool {
            guard let loop, failure == nil else { return false }
            let veto = place.veto
            place.veto = nil
            if veto == .isOpening {
                // The transfer stays in the loop's list while libcurl does not have its handle, so its timeout
                // continues.
                if loop.takeBack(self, handle) { return true }
            } else if veto == nil {
                guard code != 0, isShareable, !hasHead, place.stream != nil, isLoss(code) else { return false }
                if let repetitionDefect {
                    if isUnprocessed { failure = repetitionDefect }
                    return false
                }
            }
            wasUnprocessed = isUnprocessed
            sendAgain()
            return true
        }

        /// Whether a response without a length may be incomplete although libcurl reports success.
        ///
        /// Up to 7.88.1, libcurl reports success when an HTTP/2 connection fails within a response, and closes the
        /// connection. After a complete response, libcurl keeps the connection. So a closed connection means that the
        /// response may be incomplete. There are two exceptions, in which the failure goes unnoticed. After a graceful
        /// GOAWAY, libcurl closes the connection after a complete response too. While other requests use the
        /// connection, libcurl does not close it at all.
        var mayBeCut: Bool {
            guard CurlLibrary.acceptsCutStreams, place.isClosed, let connection = place.connection,
                parser.framing == .frames, hasHead, missingBytes == nil
            else { return false }
            return loop?.sharing.isEnding(connection) == false
        }

        /// Whether a code can mean that a connection accepts no more requests.
        ///
        /// After any other code the caller's retry policy decides, unless the server says that it has not processed the
        /// request.
        private func isLoss(_ code: CURLcode) -> Bool {
            // 28 is CURLE_OPERATION_TIMEDOUT, 42 CURLE_ABORTED_BY_CALLBACK, 16 CURLE_HTTP2, 55 CURLE_SEND_ERROR.
            isUnprocessed ? code != 28 && code != 42 : [16, 55].contains(code)
        }
    }
#endif
