// What libcurl sends: the header lines and the body of a request.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// - Thread: the engine's; called back by libcurl.
    extension CurlTransfer {
        /// Whether a body is sent, be it an empty one.
        var sendsBody: Bool { request.body != nil || bodyLength != nil }

        /// The length to announce; nil for a request without a body, and for one whose length is not known.
        var bodyLength: Int64? {
            if let body = request.body { return body.byteCount }
            // A method that defines a meaning for a body says that there is none (RFC 9110, section 8.6).
            return [.post, .put, .patch].contains(request.method) ? 0 : nil
        }

        /// Whether a part of the body has not been taken yet.
        var hasMoreToSend: Bool { bodyLength.map { sentBytes < $0 } ?? (sendsBody && !hasSentAll) }

        func giveBody(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
            guard let source else { return 0 }
            guard !wishes.withLock({ $0.isSuspended }) else {
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
                failure = repetitionDefect ?? .bodyNotReplayable
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
            guard timesSent > 1 else { return true }
            if let repetitionDefect {
                failure = repetitionDefect
                return false
            }
            beginAgain()
            // libcurl does so itself only when bytes of the body have left it; those it has taken and not sent are lost.
            return rewindBody(to: 0)
        }

        /// Why the request must not go out a second time, or nil.
        private var repetitionDefect: RequestError? {
            let wasRefused = parser.lastStatusCode == 417
            if wasRefused || request.isIdempotent { return nil }
            return RequestError(
                .connectionLost,
                "the connection was lost before an answer, and the server may have acted on the request already")
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
#endif
