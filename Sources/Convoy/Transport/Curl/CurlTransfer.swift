// One transfer, between libcurl's callbacks and the client of an attempt.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation
    import FoundationNetworking
    import Synchronization

    final class CurlTransfer: @unchecked Sendable {
        // @unchecked: `desired` and `isOver` are atomic; `engine` and `request` are constant; only the engine's thread
        // uses the rest.
        private let desired = Atomic(DesiredTransferState.suspended.rawValue)
        /// Set just before the client is notified of the end.
        let isOver = Atomic(false)
        let request: PreparedRequest
        /// Whether a body is sent, even an empty one.
        let sendsBody: Bool
        let isHTTPS: Bool
        let engine: CurlEngine

        /// What is known of the response, and what of its body waits for the client.
        struct ResponseState: ~Copyable {
            var parser: CurlHeaderParser
            var decoder: ContentDecoder?
            /// Bytes that were received but not decoded, because of back-pressure or because decoding has used up its
            /// share of a turn.
            var undecoded = Data()
            var chunk = BodyChunk()
            /// The maximum size of `chunk`, as the client requested it when the chunk was empty.
            var chunkLimit = Int.max
            /// Decoded bytes that follow `chunk`, because the client applies back-pressure.
            var rest = Data()
            /// The number of body bytes that have not arrived; nil if the response declares no length.
            var missingBytes: Int64?
            /// If the announced or received length of the body exceeds this number, the client's `maxBodyBytes` is read.
            var lengthToCheck: Int64 = 65_536
            /// The number of body bytes that were delivered or are in `chunk`.
            var keptBytes: Int64 = 0
        }

        // Checking the exclusivity of these properties at run time would cost time for every header line. While one of
        // them changes, no called code reads or writes it.
        @exclusivity(unchecked) private var response: ResponseState
        @exclusivity(unchecked) var place = ConnectionPlace()
        private(set) var client: (any TransportClient)?
        /// Nil before the first resume, and when libcurl is done, though received bytes may still wait for the client.
        private(set) var handle: CurlHandle?
        /// Nil before the first resume and after the end.
        @exclusivity(unchecked) private var loop: CurlLoop?
        private var source: (any UploadSource)?
        /// When bytes last moved, the request was last passed to libcurl, or a pause last ended.
        @exclusivity(unchecked) private var lastActivity = CurlTransfer.notBegun
        private static let notBegun = ContinuousClock.now
        private var failure: RequestError?
        // Whether the owner has suspended the transfer. Unlike `desired`, this becomes false only when the bytes that
        // wait are delivered, so later bytes cannot overtake them.
        private var isHeldByOwner = false
        private var isHeldByClient = false
        /// Whether decoding has used up its share of this turn.
        private var isHeldForATurn = false
        private var isPaused = false
        /// When the attempt timeout passes, counted from the first sending.
        private var timeoutInstant: ContinuousClock.Instant?
        private var sentBytes: Int64 = 0
        private var hasSentAll = false
        private(set) var timesSent = 0
        private var timesRefused = 0
        /// The value that ``isUnprocessed`` had on the previous connection of the request.
        private var wasUnprocessed = false
        private var lastSendingMark: CurlHandle.SendingMark?
        var isShareable: Bool { isHTTPS && engine.options.httpVersion == .automatic }
        /// The system reports no event for bytes that libcurl or its TLS library buffers, so the loop polls.
        var isPolled: Bool { isHTTPS || engine.options.mayUseProxy }

        init(_ request: PreparedRequest, client: any TransportClient, engine: CurlEngine) {
            self.request = request
            (sendsBody, isHTTPS) = (request.body != nil || request.announcesNoBody, request.isHTTPS)
            self.client = client
            self.engine = engine
            let isShareable = isHTTPS && engine.options.httpVersion == .automatic
            response = ResponseState(parser: .init(engine.options, request.method, mayBeHTTP2: isShareable))
            engine.tasks.add(1, ordering: .relaxed)
        }

        deinit { engine.tasks.subtract(1, ordering: .relaxed) }

        // MARK: The owner's requests

        func update(in loop: CurlLoop) {
            let mask = ~DesiredTransferState([.queued, .bodyReady, .resumed]).rawValue
            let desired = DesiredTransferState(
                rawValue: desired.bitwiseAnd(mask, ordering: .acquiringAndReleasing).oldValue)
            if desired.contains(.cancelled) { return finish(RequestError(.cancelled, "the task was cancelled")) }
            if isOver.load(ordering: .relaxed) { return }
            if self.loop == nil {
                guard !desired.contains(.suspended) else { return }
                self.loop = loop
                source = makeSource()
                timeoutInstant = request.attemptTimeout.map { .now + $0 }
                return send(in: loop)
            }
            let wasHeld = isHeld
            isHeldByOwner = desired.contains(.suspended)
            if desired.contains(.resumed) { isHeldByClient = false }
            if wasHeld, !isHeld {
                continueReceiving()
            } else if desired.contains(.bodyReady), !isHeldByOwner {
                unpause()
            }
        }

        func refuse(_ errorNumber: Int32 = 0) {
            let noMemory = "nothing was sent: the system has no memory or no threads left"
            finish(.shortage(errorNumber) ?? RequestError(.transportFailed, noMemory))
        }

        private func send(in loop: CurlLoop) {
            guard let handle = loop.takeHandle() else { return refuse() }
            self.handle = handle
            // The time that a parked transfer waits for another's connection counts as idle.
            if !place.isParked { lastActivity = loop.now }
            (place, isPaused) = (ConnectionPlace(), false)
            if isShareable { place.generation = loop.sharing[self].generation }
            if !handle.prepare(for: self) || !loop.add(self, handle) {
                finish(RequestError(.transportFailed, "nothing was sent: libcurl did not accept the request"))
            }
        }

        func sendAgain() {
            guard let loop, handle != nil else { return }
            leaveLoop()
            send(in: loop)
            loop.looksAgain = true
        }

        /// Sends a parked request again, or continues the decoding that the previous turn stopped at its limit.
        func continueInThisTurn() {
            if place.isParked { return sendAgain() }
            guard isHeldForATurn else { return }
            isHeldForATurn = false
            if !isHeld { continueReceiving() }
        }

        private func continueReceiving() {
            noteActivity()
            deliverUndecoded()
            guard !isHeld else { return }
            if handle == nil { finish(nil) } else { unpause() }
        }

        private func unpause() {
            guard isPaused, let handle else { return }
            isPaused = false
            noteActivity()
            // This call runs libcurl's callbacks at once, with the data that libcurl has buffered.
            let code = curl_easy_pause(handle.easy, 0)
            flush()
            if let failure { return finish(failure) }
            if code != 0 { finish(error(of: code, handle)) }
            loop?.looksAgain = true
        }

        // MARK: Ends and timeouts

        /// Called when libcurl reports the end, or when the response is complete and sending makes no progress.
        func end(_ code: CURLcode) {
            guard let handle else { return }
            // libcurl has closed the bad connection, and nothing was sent.
            if place.veto == .isUnusable { return sendAgain() }
            let isCut = code == 0 && mayBeCut
            if isShareable {
                if continues(after: code, handle) { return }
                if isTimeOver(code) { giveUpConnection() }
                leaveConnection(hasFailed: code != 0)
            }
            var metrics = TransferMetrics()
            handle.measure(&metrics, place.handshake.session)
            // The socket of a known reused connection is not looked up again, because libcurl searches all connections
            // for it. A connection that requests share is not recorded; before the head of the response, only the
            // stream number shows that it is shared.
            let isShared = place.stream != nil || metrics.httpVersion >= "2"
            if !isShared, !place.isKept || !metrics.isReusedConnection {
                let connection = ConnectionKey(
                    remoteAddress: metrics.remoteAddress, remotePort: Int32(clamping: metrics.remotePort),
                    localPort: Int32(clamping: handle.number(CURLINFO_LOCAL_PORT)))
                loop?.sockets.keep(connection, socket: handle.activeSocket)
            }
            client?.didCollect(metrics)
            let isSilent = handle.endsSilently(code)
            var loss: String?
            if isSilent, !engine.options.acceptsMissingCloseNotify {
                loss =
                    "the connection was closed in the middle of the response: it has no length, and no TLS close_notify arrived"
            } else if code != 0, !isAnswered, !isSilent {
                failure = failure ?? error(of: code, handle)
            } else if !hasHead {
                // Some versions of libcurl report success for such an end.
                loss = "the connection was closed in the middle of the header"
            } else if isCut {
                loss = "the connection failed before the end of the response, which has no length"
            }
            failure = failure ?? loss.map { RequestError(.connectionLost, $0) }
            leaveLoop()
            flush()
            // A complete body waits for the end of back-pressure, but a failure does not.
            if failure != nil || !isHeld { finish(failure) }
        }

        func noteActivity() {
            guard let loop else { return }
            lastActivity = loop.now
            loop.lastProgress = loop.now
        }

        func finish(_ error: RequestError?) {
            if isOver.load(ordering: .relaxed) { return }
            var error = error ?? failure
            do throws(RequestError) { if error == nil { try response.decoder?.finish() } } catch let cut { error = cut }
            leaveLoop()
            isOver.store(true, ordering: .releasing)
            let client = client
            (self.client, source, loop) = (nil, nil, nil)
            response = ResponseState(parser: response.parser)
            client?.didFinish(error)
        }

        private func leaveLoop() {
            guard let handle else { return }
            self.handle = nil
            loop?.remove(self, handle)
        }

        // MARK: Sending

        var bodyLength: Int64? { request.body.map(\.byteCount) ?? (request.announcesNoBody ? 0 : nil) }

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
            guard !isSuspended else {
                (isHeldByOwner, isPaused) = (true, true)
                return CURL_READFUNC_PAUSE
            }
            switch source.take(into: buffer) {
            case .success(let count)?:
                noteActivity()
                sentBytes += Int64(count)
                if count > 0 { client?.didSend(totalBytes: sentBytes) } else { hasSentAll = true }
                return count
            case nil:
                isPaused = true
                return CURL_READFUNC_PAUSE
            case .failure(let error)?:
                failure = error
                return CURL_READFUNC_ABORT
            }
        }

        func rewindBody(to offset: Int64) -> Bool {
            let rewound = offset == 0 ? source?.rewound() : nil
            guard offset == 0, source == nil || rewound != nil else {
                let unread = "the server has not processed the request, and its body cannot be sent again"
                failure = isUnprocessed ? .init(.bodyNotReplayable, unread) : repetitionDefect ?? .bodyNotReplayable
                return false
            }
            (source, sentBytes, hasSentAll) = (rewound, 0, false)
            return true
        }

        // libcurl asks before it sends the request, and again before it repeats it: on a new connection if the reused
        // one was dead (RFC 9112, section 9.3.1), or after a 417. The server may have received the first copy.
        func mayBeSent(on connection: ConnectionKey) -> Bool {
            let socket = loop?.sockets.kept[connection]
            place.isKept = socket != nil
            if let loop, let socket, !loop.isQuiet(socket), loop.sockets.isUnusable(socket) {
                place.veto = .isUnusable
                return false
            }
            timesSent += 1
            if timesSent > 1 {
                handle?.isWorn = true
                failure = repetitionDefect
                if failure != nil { return false }
            }
            wasUnprocessed = isUnprocessed
            if waitsForConnections { arrive(on: connection) }
            guard timesSent > 1 else { return true }
            handle?.watchEnd(false)
            response = ResponseState(parser: .init(engine.options, request.method, mayBeHTTP2: isShareable))
            // libcurl rewinds the body only if it has sent bytes of it. Without this call, bytes that libcurl has read
            // but not sent would be lost.
            guard rewindBody(to: 0) else { return false }
            (wasUnprocessed, place.isRefused) = (false, false)
            return true
        }

        var repetitionDefect: RequestError? {
            // A server that refuses streams is overloaded: after libcurl's own limit of 6, the retry policy decides.
            let isTooOften = timesSent >= 64 || timesRefused >= 6
            let mayBeRepeated = isUnprocessed || response.parser.lastStatusCode == 417 || request.isIdempotent
            guard isTooOften || !mayBeRepeated else { return nil }
            return RequestError(
                .connectionLost,
                isUnprocessed
                    ? "the server repeatedly refused the request, or ended the connection before it processed it"
                    : "the connection was lost before a response, and the server may have acted on the request already")
        }

        var headerLines: [String] {
            let (fields, omitted) = (request.headerFields, request.omittedFields)
            var lines: [String] = []
            for field in fields {
                if field.isFraming { continue }  // libcurl writes these, because it knows the length.
                let value = field.value.trimmingBlanks
                lines.append(value.isEmpty ? "\(field.name);" : "\(field.name): \(value)")
            }
            if !fields.contains("Accept-Encoding"), !omitted.contains("accept-encoding") {
                // A range of a coded body cannot be decoded.
                let codings = fields.contains("Range") ? "identity" : ContentDecoder.acceptedCodings
                if !codings.isEmpty { lines.append("Accept-Encoding: " + codings) }
            }
            // Removes the `Expect` that libcurl would add. Most servers do not need it, and it delays the body.
            if sendsBody, !fields.contains("Expect") { lines.append("Expect:") }
            // Without the framing fields, the server would take the body for another request.
            for name in omitted.subtracting(["content-length", "transfer-encoding"]).sorted()
            where !fields.contains(name) {
                // libcurl compares this name with case.
                lines.append(name == "host" ? "Host:" : "\(name):")
            }
            return lines
        }

        // MARK: Receiving

        var hasHead: Bool { response.parser.isComplete }
        private var isSuspended: Bool { desiredState.contains(.suspended) }
        /// Whether nothing may be delivered to the client now.
        private var isHeld: Bool { isHeldByOwner || isHeldByClient || isHeldForATurn }

        func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Int {
            noteActivity()
            let wasAtFirstField = response.parser.isAtFirstField
            defer {
                // In verbose mode, libcurl passes the line after a status line to the debug callback before it stores
                // the line. So `handleDebug(_:_:)` can change a folded line.
                if response.parser.isAtFirstField != wasAtFirstField, CurlLibrary.remembersFreedLine {
                    handle?.setVerbose(isHTTPS || !wasAtFirstField)
                }
            }
            do throws(RequestError) {
                guard var head = try response.parser.take(line) else { return line.count }
                head.url = request.url
                if !head.isInformational, let defect = begin(&head) {
                    // The client does not receive this head, so that a download retains its partial file.
                    failure = defect.with(response: head)
                    return 0
                }
                client?.didReceive(head)
                if hasHead, let length = response.missingBytes, length > response.lengthToCheck { checkLength(length) }
                return line.count
            } catch {
                failure = error
                return 0
            }
        }

        private func begin(_ head: inout ResponseHead) -> RequestError? {
            response.missingBytes = head.hasBody(for: request.method) ? head.expectedBytes : 0
            if sendsBody { noteAnswered() }
            if response.parser.framing != .frames {
                // Over HTTP/1.1 the server would read the rest of the request's body as the next request. Over HTTP/2
                // the rest belongs to a stream.
                if hasMoreToSend { handle?.forbidReuse() }
                // libcurl may send the next request on this connection before it reports the end of this one. Without
                // this call, the two requests would count as sharing the connection.
                if isShareable { leaveConnection() }
            }
            if isHTTPS, response.parser.framing == .connection, head.hasBody(for: request.method) { handle?.watchEnd() }
            guard head.headerFields.contains("Content-Encoding") else { return nil }
            do throws(RequestError) {
                response.decoder = try ContentDecoder(codings: try ContentCodings.toUndo(head, of: request))
            } catch {
                head.expectedBytes = nil
                return error
            }
            // The length of a coded body does not apply to its decoded bytes.
            if response.decoder != nil { head.expectedBytes = nil }
            return nil
        }

        // libcurl could reuse the connection with the rest of the response still on it. So it closes an HTTP/1.1
        // connection after a body that exceeds the client's limit.
        private func checkLength(_ byteCount: Int64) {
            guard let client else { return }
            response.lengthToCheck = client.maxBodyBytes ?? .max
            guard byteCount > response.lengthToCheck else { return }
            response.lengthToCheck = .max
            if response.parser.framing != .frames { handle?.forbidReuse() }
        }

        /// A few coded bytes can expand to gigabytes, so decoding stops until the next turn.
        private static let decodingShare = 1 << 20

        func receiveBody(_ bytes: UnsafeRawBufferPointer) -> Int {
            noteActivity()
            if isSuspended { isHeldByOwner = true }
            guard !isHeld else {
                isPaused = true
                return CURL_WRITEFUNC_PAUSE
            }
            response.missingBytes = response.missingBytes.map { $0 - Int64(bytes.count) }
            if sendsBody { noteAnswered() }
            guard let decoder = response.decoder else {
                keep(bytes)
                return bytes.count
            }
            let used = decode(bytes, with: decoder)
            if used < bytes.count { response.undecoded = Data(bytes[used...]) }
            return failure == nil ? bytes.count : 0
        }

        private func decode(_ bytes: UnsafeRawBufferPointer, with decoder: ContentDecoder) -> Int {
            var share = Self.decodingShare
            do throws(RequestError) {
                let used = try decoder.decode(bytes) { output in
                    keep(output)
                    share -= output.count
                    return !isHeld && share > 0
                }
                if share <= 0, used < bytes.count || decoder.hasPendingOutput {
                    isHeldForATurn = true
                    loop?.continueLater([self])
                }
                return used
            } catch {
                failure = error
                return bytes.count
            }
        }

        func deliverUndecoded() {
            if !response.rest.isEmpty {
                let bytes = response.rest
                response.rest = Data()
                bytes.withUnsafeBytes { keep($0) }
                flush()
                guard !isHeld else { return }
            }
            let bytes = response.undecoded
            guard let decoder = response.decoder, !bytes.isEmpty || decoder.hasPendingOutput else { return }
            response.undecoded = Data()
            let used = bytes.withUnsafeBytes { decode($0, with: decoder) }
            if used < bytes.count { response.undecoded = Data(bytes.dropFirst(used)) }
            flush()
            if let failure { finish(failure) }
        }

        private func keep(_ bytes: UnsafeRawBufferPointer) {
            response.keptBytes += Int64(bytes.count)
            if response.keptBytes > response.lengthToCheck { checkLength(response.keptBytes) }
            let isFirst = response.chunk.isEmpty
            var new = bytes[...]
            while !new.isEmpty, !isHeldByClient {
                // The limit is read once per chunk, because reading it locks, and libcurl passes a sixteenth of a chunk
                // per call.
                if response.chunk.isEmpty { response.chunkLimit = client?.maxChunkBytes ?? .max }
                let start = UnsafeRawBufferPointer(rebasing: new)
                let following = response.decoder == nil ? response.missingBytes ?? 0 : 0
                new = new.dropFirst(response.chunk.append(start, following: following, atMost: response.chunkLimit))
                if response.chunk.isFull { flush() }
            }
            if !new.isEmpty { response.rest.append(contentsOf: new) }
            response.keptBytes -= Int64(new.count)
            // A chunk with bytes is always on the loop's list.
            if isFirst, !response.chunk.isEmpty { loop?.flushLater(self) }
        }

        func flush() {
            guard !response.chunk.isEmpty else { return }
            guard client?.didReceive(response.chunk.take()) != true else { return }
            isHeldByClient = true
            client?.didPause()
        }

        // MARK: Connections

        var waitsForConnections: Bool { isShareable && handle?.asksBeforeSending == true }

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
            guard let loop, response.parser.lastStatusCode != 417, !place.isDowngraded else { return true }
            guard place.timesSent == 0 else {
                handle?.isWorn = true
                failure = repetitionDefect
                if failure == nil { place.veto = .wasSent }
                return false
            }
            guard loop.sharing[self].mayOpen(self) else {
                place.veto = .isOpening
                return false
            }
            return true
        }

        func arrive(on connection: ConnectionKey) {
            guard let loop else { return }
            leaveConnection()
            place.connection = connection
            place.stream = nil
            (place.isHeard, place.isClosed) = (true, false)
            place.timesSent += 1
            loop.continueLater(loop.sharing[self].arrive(self, on: connection))
        }

        private func giveUpConnection() {
            guard let loop, let connection = place.connection else { return }
            // The connection still works if another transfer on it was active more recently and has its head.
            let isAlive = loop.active.values.contains { other in
                other.hasHead && other.place.connection == connection && other.lastActivity > lastActivity
            }
            // Counts each connection once, however many requests have waited on it.
            if !isAlive, loop.sharing[self].generation == place.generation { loop.sharing[self].generation += 1 }
        }

        func leaveConnection(hasFailed: Bool = false) {
            guard let loop else { return }
            let connection = place.connection
            place.connection = nil
            loop.continueLater(loop.sharing[self].leave(self, connection, hasFailed: hasFailed))
        }

        /// Handles a log line of libcurl (kind 0), a header line (1), or a handshake message: received (5) or sent (6).
        func handleDebug(_ kind: Int32, _ bytes: UnsafeMutableRawBufferPointer) {
            switch kind {
            case 1 where response.parser.isAtFirstField && bytes.first?.isBlank == true:
                guard CurlLibrary.remembersFreedLine else { return }
                // libcurl is about to append this folded line to the freed last line of the handle's previous response.
                // A colon in place of the blank prevents that. ``CurlHeaderParser`` rejects both forms of the line.
                bytes[0] = UInt8(ascii: ":")
            case 0:
                if timesSent == 0, place.handshake.hasBegun { place.handshake.look() }
                handleLogLine(UnsafeRawBufferPointer(bytes))
            case 5, 6:
                if kind == 6 { place.handshake.hasBegun = true }
                // An alert consists of a level, 1 or 2, and a reason. No other message is that short.
                if bytes.count == 2, bytes[0] <= 2 {
                    place.handshake.noteAlert(isOwn: kind == 6, isFatal: bytes[0] == 2)
                }
            default: break
            }
        }

        private func handleLogLine(_ text: UnsafeRawBufferPointer) {
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

        /// Whether the transfer waits or is sent again, because libcurl was not allowed to open a connection
        /// (``ConnectionPlace/Veto``), or because a shared connection was lost before the head.
        func continues(after code: CURLcode, _ handle: CurlHandle) -> Bool {
            guard let loop, failure == nil else { return false }
            let veto = place.veto
            place.veto = nil
            if veto == .isOpening {
                // The transfer stays in the loop's list, so its timeout continues.
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

        // Up to 7.88.1, libcurl reports success when an HTTP/2 connection fails within a response, and closes the
        // connection. After a complete response, libcurl keeps it. Two exceptions go unnoticed: after a graceful
        // GOAWAY, libcurl closes the connection after a complete response too; while other requests use the connection,
        // libcurl does not close it.
        var mayBeCut: Bool {
            guard CurlLibrary.acceptsCutStreams, place.isClosed, let connection = place.connection,
                response.parser.framing == .frames, hasHead, response.missingBytes == nil
            else { return false }
            return loop?.sharing.isEnding(connection) == false
        }

        /// After any other code the caller's retry policy decides, unless the server says that it has not processed the
        /// request.
        private func isLoss(_ code: CURLcode) -> Bool {
            // 28 is CURLE_OPERATION_TIMEDOUT, 42 CURLE_ABORTED_BY_CALLBACK, 16 CURLE_HTTP2, 55 CURLE_SEND_ERROR.
            isUnprocessed ? code != 28 && code != 42 : [16, 55].contains(code)
        }

        private func checkIdle(_ now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
            guard let handle else { return nil }
            if isHeld {
                lastSendingMark = nil
                return now + idleCheckInterval
            }
            if isAnswered {
                let mark = handle.sendingMark
                guard mark == lastSendingMark else {
                    lastSendingMark = mark
                    return now + Self.stillTime
                }
                end(0)
                return nil
            }
            // Bytes of the body may still be in libcurl's buffer or in the system's. Draining these counts as activity.
            if sentBytes > 0, !hasHead {
                var mark = handle.sendingMark
                // The queue of a shared connection also has bytes of other requests.
                if place.stream != nil { mark.queuedBytes = 0 }
                if mark != lastSendingMark { lastActivity = now }
                lastSendingMark = mark
            }
            let end = lastActivity + request.idleTimeout
            guard end <= now else { return min(end, now + idleCheckInterval) }
            // A connection on which the server did not respond is not reused.
            handle.forbidReuse()
            giveUpConnection()
            let what = hasHead ? "of the body" : "of a response"
            finish(RequestError(.timedOut, "nothing \(what) arrived for \(request.idleTimeout), the idle timeout"))
            return nil
        }

        /// No callback reports that the buffers of a request's body drain, so their fill levels are compared several
        /// times.
        var idleCheckInterval: Duration { sendsBody ? request.idleTimeout / 8 : request.idleTimeout }

        var timeLeft: Duration? { timeoutInstant.map { $0 - .now } }

        /// Returns the time of the next check; nil if the transfer has ended.
        func checkTime(_ now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
            guard place.isParked, let timeLeft else { return checkIdle(now) }
            guard timeLeft > .zero else {
                finish(RequestError(.timedOut, CurlFailure.timeIsOver))
                return nil
            }
            return checkIdle(now).map { min($0, now + timeLeft) }
        }

        // MARK: Early responses

        // A server may respond before it has received the complete request body (RFC 9113, section 8.1), and read no
        // more of the body. libcurl would wait for the server to read on.

        var isAnswered: Bool { sendsBody && hasHead && response.missingBytes == 0 }

        private static let stillTime = Duration.milliseconds(250)

        func noteAnswered() {
            guard isAnswered else { return }
            lastSendingMark = handle?.sendingMark
            loop?.checkTimes(after: Self.stillTime)
        }
    }

    struct ConnectionPlace {
        enum Veto {
            case isOpening
            /// Another handle repeats the request, because up to 8.16, libcurl counts the repetitions of each handle.
            case wasSent
            /// The server had sent bytes on the idle connection or had closed it, so nothing was sent.
            case isUnusable
        }

        var connection: ConnectionKey?
        var stream: Int?
        /// Whether libcurl's log lines are about `connection`; false once libcurl looks for another connection.
        var isHeard = false
        /// Whether the server has said that it has not processed the request.
        var isRefused = false
        /// Whether libcurl repeats the request over HTTP/1.1, because the server requires that.
        var isDowngraded = false
        var isClosed = false
        /// Whether libcurl is about to close another connection, because it keeps too many.
        var closesOldest = false
        /// How often the current handle has sent the request.
        var timesSent = 0
        var veto: Veto?
        /// While the request waits for another's connection, its handle is not in libcurl, which runs no timer for it.
        var isParked = false
        /// The system's error number if no socket could be made, or 0.
        var socketError: Int32 = 0
        var handshake = Handshake()
        var generation = 0
        /// Whether the request was sent on a connection whose socket the loop knows.
        var isKept = false
    }

    /// Any thread may change the state; when the engine reads it, it sees the result of all earlier changes.
    struct DesiredTransferState: OptionSet {
        let rawValue: UInt8

        /// From the start until the first `resume()`, and after `suspend()`.
        static let suspended = Self(rawValue: 1)
        /// `resume()`, which ends the client's back-pressure, was called since the last check.
        static let resumed = Self(rawValue: 2)
        static let cancelled = Self(rawValue: 4)
        static let bodyReady = Self(rawValue: 8)
        /// The transfer is in the engine's inbox.
        static let queued = Self(rawValue: 16)
    }

    extension CurlTransfer: TransferTask {
        func resume() {
            desired.bitwiseAnd(~DesiredTransferState.suspended.rawValue, ordering: .acquiringAndReleasing)
            engine.look(at: self, adding: .resumed)
        }

        func suspend() { engine.look(at: self, adding: .suspended) }

        func cancel() { engine.look(at: self, adding: .cancelled) }

        func makeSessionTask() -> URLSessionTask {
            TransferSessionTask(self, for: request) {
                if self.isOver.load(ordering: .acquiring) { return .completed }
                let desired = self.desiredState
                return desired.contains(.cancelled) ? .canceling : desired.contains(.suspended) ? .suspended : .running
            }
        }

        private var desiredState: DesiredTransferState { .init(rawValue: desired.load(ordering: .acquiring)) }

        /// Returns the state before, on any thread.
        func changeDesired(adding new: DesiredTransferState) -> DesiredTransferState {
            .init(rawValue: desired.bitwiseOr(new.rawValue, ordering: .acquiringAndReleasing).oldValue)
        }
    }

    /// libcurl passes at most 16 KiB per callback, and a delivery to the client costs more than copying that.
    struct BodyChunk: ~Copyable {
        private static let largest = LargeBuffers.byteCount

        private var bytes: UnsafeMutableRawPointer?
        private var count = 0
        private var capacity = 0

        deinit { if let bytes { Self.free(bytes, capacity) } }

        var isEmpty: Bool { count == 0 }
        var isFull: Bool { count > 0 && count == capacity }

        /// Returns the number of appended bytes: at least one, unless `new` is empty or the chunk is full.
        ///
        /// - Parameter following: the announced number of bytes after `new`.
        mutating func append(_ new: UnsafeRawBufferPointer, following: Int64, atMost limit: Int) -> Int {
            let largest = max(1, min(Self.largest, limit))
            if new.count > capacity - count, capacity < largest {
                // The first buffer has room for the rest of the body. The limit applies, because a server can announce
                // any length.
                let wanted = bytes == nil ? new.count + Int(clamping: min(following, 1 << 20)) : capacity * 4
                let larger = min(largest, max(wanted, count + new.count))
                let moved: UnsafeMutableRawPointer =
                    larger == Self.largest ? LargeBuffers.take() : .allocate(byteCount: larger, alignment: 16)
                if let bytes {
                    memcpy(moved, bytes, count)
                    Self.free(bytes, capacity)
                }
                (bytes, capacity) = (moved, larger)
            }
            let fitting = min(new.count, capacity - count)
            if let bytes, let start = new.baseAddress { memcpy(bytes.advanced(by: count), start, fitting) }
            count += fitting
            return fitting
        }

        private static func free(_ bytes: UnsafeMutableRawPointer, _ capacity: Int) {
            if capacity == largest { LargeBuffers.giveBack(bytes) } else { bytes.deallocate() }
        }

        mutating func take() -> Data {
            defer { (bytes, count, capacity) = (nil, 0, 0) }
            guard let bytes else { return Data() }
            // The bytes are copied, so that a slow reader does not retain a mostly empty buffer.
            if count * 2 < capacity {
                defer { Self.free(bytes, capacity) }
                return Data(bytes: bytes, count: count)
            }
            if capacity == Self.largest { return LargeBuffers.data(bytes, count: count) }
            return Data(bytesNoCopy: bytes, count: count, deallocator: .custom { bytes, _ in bytes.deallocate() })
        }
    }
#endif
