// What libcurl sends: the header lines and the body of a request.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// - Thread: the engine's; called back by libcurl.
    extension CurlTransfer {
        /// The length to announce; nil for a request without a body, and for one whose length is not known.
        var bodyLength: Int64? {
            if let body = request.body { return body.byteCount }
            return request.announcesNoBody ? 0 : nil
        }

        /// Whether a part of the body has not been taken yet.
        var hasMoreToSend: Bool { bodyLength.map { sentBytes < $0 } ?? (sendsBody && !hasSentAll) }

        func makeSource() -> (any UploadSource)? {
            switch request.body {
            case nil: nil
            case .data(let data): DataSource(data)
            case .some(let body):
                ReadSource(body) { [weak self] in
                    guard let self else { return }
                    engine.look(at: self) { $0.isBodyReady = true }
                }
            }
        }

        func giveBody(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
            guard let source else { return 0 }
            guard !isSuspended.load(ordering: .acquiring) else {
                (hold.byOwner, isPaused) = (true, true)
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
            guard offset == 0, source?.rewind() != false else {
                failure = wasUnprocessed || isUnprocessed ? .unprocessedBody : repetitionDefect ?? .bodyNotReplayable
                return false
            }
            (sentBytes, hasSentAll) = (0, false)
            return true
        }

        /// Asked before the request goes out, and again before libcurl sends it once more: on a fresh connection, because
        /// the pooled one was dead and the server may have seen it (RFC 9112, section 9.3.1), or after a 417.
        func mayBeSent(on connection: KeptConnections.Key) -> Bool {
            if loop?.isUnusable(connection) == true {
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
            wasUnprocessed = wasUnprocessed || isUnprocessed
            arrive(on: connection)
            guard timesSent > 1 else { return true }
            beginAgain()
            // libcurl does so itself only when bytes of the body have left it; those it has taken and not sent are lost.
            guard rewindBody(to: 0) else { return false }
            (wasUnprocessed, place.isRefused) = (false, false)
            return true
        }

        /// Why the request must not go out a second time, or nil.
        var repetitionDefect: RequestError? {
            let isUnprocessed = wasUnprocessed || isUnprocessed
            if timesSent >= Self.mostTimesSent { return isUnprocessed ? .unprocessed : .lostBeforeAnswer }
            if isUnprocessed { return nil }
            let wasRefused = parser.lastStatusCode == 417
            return wasRefused || request.isIdempotent ? nil : .lostBeforeAnswer
        }

        /// The header lines libcurl does not make by itself.
        var headerLines: [String] {
            let fields = request.headerFields
            var lines: [String] = []
            for field in fields {
                // The transport's own: it knows the length.
                if field.isFraming { continue }
                let value = field.value.trimmingBlanks
                lines.append(value.isEmpty ? "\(field.name);" : "\(field.name): \(value)")
            }
            if !fields.contains("Accept-Encoding") {
                // A part of a coded body cannot be decoded.
                let codings = fields.contains("Range") ? "identity" : ContentDecoder.acceptedCodings
                if !codings.isEmpty { lines.append("Accept-Encoding: " + codings) }
            }
            // Never by itself: most servers have no use for it, and it makes a body wait.
            if sendsBody, !fields.contains("Expect") { lines.append("Expect:") }
            return lines
        }
    }

    extension RequestError {
        fileprivate static let lostBeforeAnswer = RequestError(
            .connectionLost,
            "the connection was lost before an answer, and the server may have acted on the request already")

        fileprivate static let unprocessedBody = RequestError(
            .bodyNotReplayable,
            "the server ended the connection and has not processed the request, whose body cannot be sent again")

        fileprivate static let unprocessed = RequestError(
            .connectionLost,
            "the server has not processed the request: again and again it ended the connection before that")
    }
#endif
