// Delivers what libcurl receives to the client of an attempt.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// Why nothing is delivered to a client for now.
    struct PauseReasons {
        /// Whether the task is suspended.
        var byOwner = false
        /// Whether the client applies back-pressure.
        var byClient = false
        /// Whether decoding has used up its share of this turn.
        var forATurn = false

        var isAny: Bool { byOwner || byClient || forATurn }
    }

    /// - Thread: the engine's; libcurl calls some of the members.
    extension CurlTransfer {
        func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Int {
            noteActivity()
            let wasAtFirstField = parser.isAtFirstField
            defer {
                // In verbose mode, libcurl passes the line after a status line to the debug callback before it stores
                // the line. So `hear(_:_:)` can change a folded line.
                if parser.isAtFirstField != wasAtFirstField, CurlLibrary.remembersFreedLine {
                    handle?.setVerbose(isHTTPS || !wasAtFirstField)
                }
            }
            do throws(CurlHeaderParser.Defect) {
                guard var head = try parser.take(line, loop?.fieldLines) else { return line.count }
                head.url = request.url
                if !head.isInformational, let defect = begin(&head) {
                    // The client does not receive this head, so that a download retains its partial file.
                    failure = defect.with(response: head)
                    return 0
                }
                client?.didReceive(head)
                if hasHead, let missingBytes, missingBytes > lengthToCheck { checkLength(missingBytes) }
                return line.count
            } catch {
                failure = RequestError(error.isCut ? .connectionLost : .badResponse, error.reason)
                return 0
            }
        }

        /// Prepares for the body.
        ///
        /// Returns an error if the response cannot be accepted.
        private func begin(_ head: inout ResponseHead) -> RequestError? {
            hasHead = true
            missingBytes = head.hasBody(for: request.method) ? head.expectedBytes : 0
            if sendsBody { noteAnswered() }
            if parser.framing != .frames {
                // Over HTTP/1.1 the server would read the rest of the request's body as the next request. Over HTTP/2
                // the rest belongs to a stream.
                if hasMoreToSend { handle?.forbidReuse() }
                // libcurl may send the next request on this connection before it reports the end of this one. Without
                // this call, the two requests would count as sharing the connection.
                if isShareable { leaveConnection() }
            }
            if isHTTPS, parser.framing == .connection, head.hasBody(for: request.method) { handle?.watchEnd() }
            do throws(RequestError) {
                if parser.hasContentCoding { decoder = try makeDecoder(for: head) }
            } catch {
                head.expectedBytes = nil
                return error
            }
            // The length of a coded body does not apply to its decoded bytes.
            if decoder != nil { head.expectedBytes = nil }
            expectedBytes = head.expectedBytes
            return nil
        }

        private func makeDecoder(for head: ResponseHead) throws(RequestError) -> ContentDecoder? {
            let codings = try ContentCodings.toUndo(head, of: request)
            do throws(ContentDecodingError) {
                return try ContentDecoder.makeDecoder(codings: codings)
            } catch {
                throw RequestError(.badResponse, error.description)
            }
        }

        /// The body length up to which the client's ``TransportClient/maxBodyBytes`` is not read.
        static let uncheckedLength: Int64 = 65_536

        /// Makes libcurl close an HTTP/1.1 connection after a body that exceeds the client's limit.
        ///
        /// Without this, libcurl could reuse the connection before the client ends the transfer. The connection would
        /// still have the rest of the response on it.
        private func checkLength(_ byteCount: Int64) {
            guard let client else { return }
            lengthToCheck = client.maxBodyBytes ?? .max
            guard byteCount > lengthToCheck else { return }
            lengthToCheck = .max
            if parser.framing != .frames { handle?.forbidReuse() }
        }

        /// The number of decoded bytes at which a transfer stops decoding until the next turn.
        ///
        /// A few coded bytes can expand to gigabytes.
        private static let decodingShare = 1 << 20

        func receiveBody(_ bytes: UnsafeRawBufferPointer) -> Int {
            noteActivity()
            if desired.load(ordering: .acquiring).contains(.suspended) { pauseReasons.byOwner = true }
            guard !pauseReasons.isAny else {
                isPaused = true
                return CurlCallbackResult.pause
            }
            missingBytes = missingBytes.map { $0 - Int64(bytes.count) }
            if sendsBody { noteAnswered() }
            guard let decoder else {
                keep(bytes)
                return bytes.count
            }
            let used = decode(bytes, with: decoder)
            if used < bytes.count { undecoded = Data(bytes[used...]) }
            return failure == nil ? bytes.count : 0
        }

        private func decode(_ bytes: UnsafeRawBufferPointer, with decoder: ContentDecoder) -> Int {
            var share = Self.decodingShare
            do throws(ContentDecodingError) {
                let used = try decoder.decode(bytes) { output in
                    keep(output)
                    share -= output.count
                    return !pauseReasons.isAny && share > 0
                }
                if share <= 0, used < bytes.count || decoder.hasPendingOutput {
                    pauseReasons.forATurn = true
                    loop?.continueLater([self])
                }
                return used
            } catch {
                failure = .undecodable(error)
                return bytes.count
            }
        }

        /// Decodes and delivers the bytes that were stored during a pause.
        func deliverUndecoded() {
            if !rest.isEmpty {
                let bytes = rest
                rest = Data()
                bytes.withUnsafeBytes { keep($0) }
                flush()
                guard !pauseReasons.isAny else { return }
            }
            guard let decoder, !undecoded.isEmpty || decoder.hasPendingOutput else { return }
            let bytes = undecoded
            undecoded = Data()
            let used = bytes.withUnsafeBytes { decode($0, with: decoder) }
            if used < bytes.count { undecoded = Data(bytes.dropFirst(used)) }
            flush()
            if let failure { finish(failure) }
        }

        /// Appends bytes to the chunk for the client.
        ///
        /// The client sets the maximum size of the chunk.
        private func keep(_ bytes: UnsafeRawBufferPointer) {
            keptBytes += Int64(bytes.count)
            if keptBytes > lengthToCheck { checkLength(keptBytes) }
            var new = bytes[...]
            while !new.isEmpty, !pauseReasons.byClient {
                // The limit is read once per chunk, because reading it locks, and libcurl passes a sixteenth of a chunk
                // per call.
                if chunk.isEmpty { chunkLimit = client?.maxChunkBytes ?? .max }
                let start = UnsafeRawBufferPointer(rebasing: new)
                new = new.dropFirst(chunk.append(start, expecting: expectedBytes, atMost: chunkLimit))
                if chunk.isFull { flush() }
            }
            if !new.isEmpty { rest.append(contentsOf: new) }
            keptBytes -= Int64(new.count)
            if !isListedForFlush, !chunk.isEmpty {
                isListedForFlush = true
                loop?.flushLater(self)
            }
        }

        /// Delivers the chunk to the client.
        ///
        /// If the client refuses more bytes, the transfer pauses.
        func flush() {
            isListedForFlush = false
            guard !chunk.isEmpty else { return }
            guard client?.didReceive(chunk.take()) != true else { return }
            pauseReasons.byClient = true
            client?.didPause()
        }
    }

    extension RequestError {
        static func undecodable(_ failure: ContentDecodingError) -> RequestError {
            RequestError(.badResponse, "the body does not match its Content-Encoding: \(failure.description)")
        }
    }
#endif
