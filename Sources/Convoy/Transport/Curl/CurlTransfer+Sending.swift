// What a transfer sends: the header lines and the body of its request.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// - Thread: the engine's; libcurl calls some of the members.
    extension CurlTransfer {
        /// The value of `Content-Length`; nil if the request has no such field.
        ///
        /// A body of unknown length has no such field. A POST, PUT or PATCH without a body has the value 0.
        var bodyLength: Int64? {
            if let body = request.body { return body.byteCount }
            return request.announcesNoBody ? 0 : nil
        }

        /// Whether libcurl still has to read bytes of the request's body.
        var hasMoreToSend: Bool { bodyLength.map { sentBytes < $0 } ?? (sendsBody && !hasSentAll) }

        func makeSource() -> (any UploadSource)? {
            switch request.body {
            case nil: nil
            case .data(let data): DataReader(data)
            case .some(let body):
                ReadAhead(body) { [weak self] in
                    guard let self else { return }
                    engine.look(at: self, adding: .bodyReady)
                }
            }
        }

        func giveBody(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
            guard let source else { return 0 }
            guard !desired.load(ordering: .acquiring).contains(.suspended) else {
                (pauseReasons.byOwner, isPaused) = (true, true)
                return CurlCallbackResult.pause
            }
            switch source.take(into: buffer) {
            case .bytes(let count):
                noteActivity()
                sentBytes += Int64(count)
                if count > 0 { client?.didSend(totalBytes: sentBytes) } else { hasSentAll = true }
                return count
            case .wait:
                isPaused = true
                return CurlCallbackResult.pause
            case .failed(let error):
                failure = error
                return CurlCallbackResult.abort
            }
        }

        func rewindBody(to offset: Int64) -> Bool {
            let rewound = offset == 0 ? source?.rewound() : nil
            guard offset == 0, source == nil || rewound != nil else {
                failure = isUnprocessed ? .unprocessedBody : repetitionDefect ?? .bodyNotReplayable
                return false
            }
            (source, sentBytes, hasSentAll) = (rewound, 0, false)
            return true
        }

        /// Returns whether libcurl may send the request on a connection.
        ///
        /// libcurl asks before it sends the request, and again before it repeats the request. libcurl repeats a request
        /// on a new connection if the reused one was dead (RFC 9112, section 9.3.1), or after a 417. The server may
        /// have received the first copy.
        func mayBeSent(on connection: KeptConnections.Key) -> Bool {
            let socket = loop?.kept.sockets[connection]
            isOnKeptConnection = socket != nil
            if let socket, loop?.isQuiet(socket) != true, KeptConnections.isUnusable(connection, socket) {
                isOnBadConnection = true
                timesSent += 1
                return false
            }
            timesSent += 1
            if timesSent > 1 { handle?.isWorn = true }
            if timesSent > 1, let repetitionDefect {
                failure = repetitionDefect
                return false
            }
            wasUnprocessed = isUnprocessed
            if waitsForConnections { arrive(on: connection) }
            guard timesSent > 1 else { return true }
            beginAgain()
            // libcurl rewinds the body only if it has sent bytes of it. Without this call, bytes that libcurl has read
            // but not sent would be lost.
            guard rewindBody(to: 0) else { return false }
            (wasUnprocessed, place.isRefused) = (false, false)
            return true
        }

        /// Why the request must not be sent a second time, or nil.
        var repetitionDefect: RequestError? {
            if timesSent >= Self.mostTimesSent || timesRefused >= Self.mostRefusals {
                return isUnprocessed ? .unprocessed : .lostBeforeAnswer
            }
            if isUnprocessed { return nil }
            let wasRefused = parser.lastStatusCode == 417
            return wasRefused || request.isIdempotent ? nil : .lostBeforeAnswer
        }

        /// The header lines that libcurl does not write itself.
        var headerLines: [String] {
            let fields = request.headerFields
            var lines: [String] = []
            for field in fields {
                // The transport writes the framing fields, because it knows the length.
                if field.isFraming { continue }
                let value = field.value.trimmingBlanks
                lines.append(value.isEmpty ? "\(field.name);" : "\(field.name): \(value)")
            }
            let omitted = request.omittedFields
            if !fields.contains("Accept-Encoding"), !omitted.contains("accept-encoding") {
                // A range of a coded body cannot be decoded.
                let codings = fields.contains("Range") ? "identity" : ContentDecoder.acceptedCodings
                if !codings.isEmpty { lines.append("Accept-Encoding: " + codings) }
            }
            // The empty value removes the `Expect` that libcurl would add. Most servers do not need it, and it delays
            // the body.
            if sendsBody, !fields.contains("Expect") { lines.append("Expect:") }
            // Without the framing fields, the server would take the body for another request.
            for name in omitted.subtracting(["content-length", "transfer-encoding"]).sorted()
            where !fields.contains(name) {
                // libcurl compares this name with case.
                lines.append(name == "host" ? "Host:" : "\(name):")
            }
            return lines
        }
    }

    extension RequestError {
        fileprivate static let lostBeforeAnswer = RequestError(
            .connectionLost,
            "the connection was lost before a response, and the server may have acted on the request already")

        fileprivate static let unprocessedBody = RequestError(
            .bodyNotReplayable,
            "the server has not processed the request, and its body cannot be sent again")

        fileprivate static let unprocessed = RequestError(
            .connectionLost,
            "the server repeatedly refused the request, or ended the connection before it processed it")
    }
#endif
