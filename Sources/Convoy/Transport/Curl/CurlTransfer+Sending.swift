// What libcurl sends: the header lines and the body of a request.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// - Thread: the engine's; called back by libcurl.
    extension CurlTransfer {
        /// The length to announce; nil for a request without a body.
        var bodyLength: Int64? {
            if let body = request.body { return body.byteCount }
            // A method that defines a meaning for a body says that there is none (RFC 9110, section 8.6).
            return [.post, .put, .patch].contains(request.method) ? 0 : nil
        }

        func giveBody(_ buffer: UnsafeMutableRawBufferPointer) -> Int {
            guard let source else { return 0 }
            guard !wishes.withLock({ $0.isSuspended }) else {
                (isHeld, isPaused) = (true, true)
                return CurlCallbackResult.pause
            }
            switch source.take(into: buffer) {
            case .bytes(let count):
                noteActivity()
                sentBytes += Int64(count)
                if count > 0 { client?.didSend(totalBytes: sentBytes) }
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
            source?.rewind(to: offset)
            sentBytes = offset
            return true
        }

        /// Asked before the request goes out, and again before libcurl sends it on a fresh connection because the pooled
        /// one was dead: by then the server may have seen it (RFC 9112, section 9.3.1).
        func mayBeSent(fromPort localPort: Int32) -> Bool {
            timesSent += 1
            if !request.isHTTPS, loop?.hasUnreadInput(onPort: localPort) == true {
                isOnBadConnection = true
                return false
            }
            if timesSent == 1 || request.method.isIdempotent || request.headerFields.contains("Idempotency-Key") {
                return true
            }
            failure = RequestError(
                .connectionLost,
                "the connection was lost before an answer, and the server may have acted on the request already")
            return false
        }

        /// The header lines libcurl does not make by itself.
        var headerLines: [String] {
            let fields = request.headerFields
            var lines: [String] = []
            for field in fields {
                // The transport's own: it knows the length.
                if field.name.equalsIgnoringCase("Content-Length") || field.name.equalsIgnoringCase("Transfer-Encoding")
                {
                    continue
                }
                lines.append(field.value.isEmpty ? "\(field.name);" : "\(field.name): \(field.value)")
            }
            // A large body asks first; a small one would only wait for the answer.
            if let length = bodyLength, length <= 1 << 20, !fields.contains("Expect") { lines.append("Expect:") }
            return lines
        }
    }
#endif
