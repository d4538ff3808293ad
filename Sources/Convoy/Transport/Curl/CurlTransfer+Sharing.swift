// A request among others on one connection: whether it may open another, and when it is sent again.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// Where a request is, and what is known of it there.
    struct ConnectionPlace {
        /// Why libcurl was not let open a connection.
        enum Veto {
            /// Another transfer is opening one to the same server.
            case isOpening
            /// The request had been sent before: another handle sends it again, whose count of tries is its own.
            case wasSent
        }

        var connection: KeptConnections.Key?
        /// The request's number on it, once it has one.
        var stream: Int?
        /// Whether what libcurl says is about that connection.
        var isHeard = false
        /// Whether the server has said that it has not processed the request.
        var isRefused = false
        /// How often the present handle has sent the request.
        var timesSent = 0
        var veto: Veto?
        /// Whether it waits for another transfer's connection: libcurl does not have it then, and no timer of libcurl's runs.
        var isParked = false
        /// Why no socket could be made: the system's number, or 0.
        var socketError: Int32 = 0
        var handshake = Handshake()
        /// With which connections of its origin it shares one; see ``SharedConnections``.
        var generation = 0
    }

    /// - Thread: the engine's; partly called back by libcurl.
    extension CurlTransfer {
        /// So often a request goes out while the server does not process it.
        static let mostTimesSent = 64

        /// Whether it has to ask before it opens a connection.
        var waitsForConnections: Bool { isShareable && handle?.asksBeforeSending == true }

        /// A socket for a new connection; -1 when none may be opened.
        func openSocket(for address: convoy_address) -> Int32 {
            guard mayOpenConnection() else { return -1 }
            let number = socket(address.family, address.type | Int32(SOCK_CLOEXEC.rawValue), address.protocol)
            if number < 0 { place.socketError = errno } else { loop?.sockets.noteOpened(number) }
            if number >= 0 { place.handshake.sockets.append(number) }
            return number
        }

        private func mayOpenConnection() -> Bool {
            // After a 417 libcurl sends again without "Expect", which another handle would not.
            guard waitsForConnections, let loop, parser.lastStatusCode != 417 else { return true }
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

        /// The request is about to go out on a connection.
        func arrive(on connection: KeptConnections.Key) {
            guard waitsForConnections, let loop else { return }
            leaveConnection()
            place.connection = connection
            place.stream = nil
            place.isHeard = true
            place.timesSent += 1
            loop.release(loop.sharing.arrive(self, on: connection))
        }

        /// Has new requests avoid its connection, where nothing else has arrived on it since.
        ///
        /// - Complexity: O(*n*) in the transfers under way.
        func giveUpConnection() {
            guard let loop, let connection = place.connection else { return }
            let isAlive = loop.active.contains { other in
                other.hasHead && other.place.connection == connection && other.lastActivity > lastActivity
            }
            if !isAlive { loop.sharing.giveUp(connectionOf: self) }
        }

        /// Gives its room on a connection to others.
        func leaveConnection(hasFailed: Bool = false) {
            guard isShareable, let loop else { return }
            let connection = place.connection
            place.connection = nil
            loop.release(loop.sharing.leave(self, connection, hasFailed: hasFailed))
        }

        /// Hears a log line of libcurl's, kind 0, or a message of the handshake: received, 5, or sent, 6.
        func hear(_ kind: Int32, _ bytes: UnsafeRawBufferPointer) {
            switch kind {
            case 0:
                if timesSent == 0, place.handshake.hasBegun { place.handshake.look() }
                hear(bytes)
            case 5, 6:
                if kind == 6 { place.handshake.hasBegun = true }
                // A level, 1 or 2, and a reason; no other message is as short.
                if bytes.count == 2, bytes[0] <= 2 {
                    place.handshake.noteAlert(isOwn: kind == 6, isFatal: bytes[0] == 2)
                }
            default: break
            }
        }

        private func hear(_ text: UnsafeRawBufferPointer) {
            if let session = TLSSession(text) { place.handshake.session = session }
            guard let loop, let connection = place.connection, let logLine = CurlLogLine(text) else { return }
            switch logLine {
            case .stream(let number):
                place.stream = number
                loop.sharing.begin(number, on: connection)
            case .goAway(let last): if place.isHeard { loop.sharing.giveUp(connection, after: last) }
            case .refused: (place.isRefused, place.isHeard) = (true, false)
            case .retry: place.isHeard = false
            }
        }

        /// Whether the server has said that it has not processed the request.
        var isUnprocessed: Bool {
            if place.isRefused { return true }
            guard let loop, let stream = place.stream, let connection = place.connection else { return false }
            return loop.sharing.isRefused(stream, on: connection)
        }

        /// Sends the request again, or has it wait for a connection, where that is what became of an attempt of libcurl's;
        /// else false.
        func goesOn(after code: CURLcode, _ handle: CurlHandle) -> Bool {
            guard let loop, failure == nil else { return false }
            let veto = place.veto
            place.veto = nil
            if veto == .isOpening {
                // Taken from libcurl, but not off the list: its time to wait goes on.
                if loop.takeBack(self, handle) { return true }
            } else if veto == nil {
                guard code != 0, isShareable, !hasHead, place.stream != nil, isLoss(code) else { return false }
                if let repetitionDefect {
                    if isUnprocessed { failure = repetitionDefect }
                    return false
                }
            }
            wasUnprocessed = wasUnprocessed || isUnprocessed
            sendAgain()
            return true
        }

        /// What is left of the time for the transfer; nil for no end.
        var timeLeft: Duration? { request.attemptTimeout.map { $0 - (ContinuousClock.now - sendingBegan) } }

        /// Ends what has taken too long where libcurl does not see it; returns when to look again.
        func checkTime(_ now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
            guard place.isParked, let timeLeft else { return checkIdle(now) }
            guard timeLeft > .zero else {
                finish(RequestError(.timedOut, CurlFailure.timeIsOver))
                return nil
            }
            return checkIdle(now).map { min($0, now + timeLeft) }
        }

        /// Whether a code can mean that a connection takes no more requests: what has another cause is for the caller's
        /// retries, unless the server says that it has not processed the request.
        private func isLoss(_ code: CURLcode) -> Bool {
            // CURLE_HTTP2, CURLE_SEND_ERROR
            isUnprocessed ? code != 28 && code != 42 : [16, 55].contains(code)
        }

        /// There may be a connection now.
        func tryAgain() { if handle != nil { sendAgain() } }
    }
#endif
