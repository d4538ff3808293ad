// One transfer, between libcurl's callbacks and the client of an attempt.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation
    import Synchronization

    /// Moves the bytes of one attempt.
    final class CurlTransfer: @unchecked Sendable {
        // @unchecked: `desired` and `isOver` are atomic; `engine` and `request` are constant; only the engine's thread
        // uses the rest.
        let desired = Atomic<DesiredTransferState>(.suspended)
        /// Whether the transfer has ended; set just before the client is notified.
        let isOver = Atomic(false)
        let request: PreparedRequest
        /// Whether a body is sent, even an empty one.
        let sendsBody: Bool
        let isHTTPS: Bool
        let engine: CurlEngine

        enum Phase {
            /// The task was not resumed yet. Next: running, over.
            case waiting
            /// libcurl runs the transfer. Next: ended, over.
            case running
            /// libcurl is done, and received bytes wait for the client. Next: over.
            case ended
            /// The transfer has ended; set just before the client is notified.
            case over
        }

        // The exclusivity of these properties is not checked at run time, because the check would cost time for every
        // header line. While one of them changes, no called code reads or writes it.
        @exclusivity(unchecked) private(set) var phase = Phase.waiting
        @exclusivity(unchecked) var client: (any TransportClient)?
        @exclusivity(unchecked) var pauseReasons = PauseReasons()
        /// Whether libcurl has paused receiving or sending.
        @exclusivity(unchecked) var isPaused = false
        /// The error if Convoy itself ended the transfer.
        @exclusivity(unchecked) var failure: RequestError?
        /// When the transfer began; not changed when the request is sent again.
        private(set) var sendingBegan = CurlTransfer.notBegun
        /// When bytes last moved, the request was last passed to libcurl, or a pause last ended.
        @exclusivity(unchecked) var lastActivity = CurlTransfer.notBegun
        /// The turn of the loop in which `lastActivity` was last set.
        ///
        /// It is set at most once per turn.
        @exclusivity(unchecked) private var activeTurn: UInt = 0
        /// A placeholder for times that are set when the transfer begins.
        private static let notBegun = ContinuousClock.now

        // Receiving.
        @exclusivity(unchecked) var parser: CurlHeaderParser
        @exclusivity(unchecked) var decoder: ContentDecoder?
        /// Bytes that were received but not decoded, because of back-pressure or because decoding has used up its share
        /// of a turn.
        @exclusivity(unchecked) var undecoded = Data()
        /// Bytes that were received and decoded, but not delivered.
        @exclusivity(unchecked) var chunk = BodyChunk()
        /// The maximum size of `chunk`, as the client requested it when the chunk was empty.
        var chunkLimit = Int.max
        /// Decoded bytes that follow `chunk`.
        ///
        /// They wait, because the client applies back-pressure.
        @exclusivity(unchecked) var rest = Data()
        @exclusivity(unchecked) var isListedForFlush = false
        @exclusivity(unchecked) var hasHead = false
        var expectedBytes: Int64?
        /// The number of body bytes that have not arrived; nil if the response declares no length.
        @exclusivity(unchecked) var missingBytes: Int64?
        /// If the announced or received length of the body exceeds this number, the client's `maxBodyBytes` is read.
        @exclusivity(unchecked) var lengthToCheck = CurlTransfer.uncheckedLength
        /// The number of body bytes that were delivered or are in `chunk`.
        @exclusivity(unchecked) var keptBytes: Int64 = 0

        // Sending.
        @exclusivity(unchecked) var source: (any UploadSource)?
        var sentBytes: Int64 = 0
        /// Whether `source` has reported the end of the body.
        var hasSentAll = false
        @exclusivity(unchecked) var timesSent = 0
        /// How many streams of the request the server has refused.
        @exclusivity(unchecked) var timesRefused = 0
        /// Whether the request was not sent, because the server had sent bytes on the idle connection or had closed it.
        var isOnBadConnection = false
        /// Whether the request was sent on a connection whose socket the loop knows.
        @exclusivity(unchecked) var isOnKeptConnection = false
        /// Whether other requests may share the transfer's connection.
        let isShareable: Bool
        /// Whether libcurl or its TLS library may buffer received bytes, as with TLS or a proxy.
        ///
        /// The system reports no event for such bytes, so the loop polls.
        let isPolled: Bool
        @exclusivity(unchecked) var place = ConnectionPlace()
        /// The value that ``isUnprocessed`` had on the previous connection of the request.
        var wasUnprocessed = false
        /// The sending progress at the last check for idleness.
        var lastSendingMark: CurlHandle.SendingMark?

        /// The index in the loop's list of transfers; nil outside the list.
        @exclusivity(unchecked) var index: Int?
        @exclusivity(unchecked) private(set) var handle: CurlHandle?
        /// The loop of the thread, once the transfer has begun.
        @exclusivity(unchecked) private(set) var loop: CurlLoop?

        init(_ request: PreparedRequest, client: any TransportClient, engine: CurlEngine) {
            self.request = request
            (sendsBody, isHTTPS) = (request.body != nil || request.announcesNoBody, request.isHTTPS)
            self.client = client
            self.engine = engine
            isShareable = isHTTPS && engine.options.httpVersion == .automatic
            isPolled = isHTTPS || engine.options.mayUseProxy
            parser = CurlHeaderParser(engine.options, request.method, mayBeHTTP2: isShareable)
            engine.tasks.add(1, ordering: .relaxed)
        }

        deinit { engine.tasks.subtract(1, ordering: .relaxed) }

        // MARK: The owner's requests

        /// Applies the state that the owner wants now.
        func update(in loop: CurlLoop) {
            let desired = changeDesired(adding: [], removing: [.queued, .bodyReady, .resumed])
            if desired.contains(.cancelled) { return finish(RequestError(.cancelled, "the task was cancelled")) }
            if case .waiting = phase {
                guard desired.contains(.begun), !desired.contains(.suspended) else { return }
                self.loop = loop
                if request.body != nil { source = makeSource() }
                phase = .running
                sendingBegan = request.attemptTimeout == nil ? loop.now : .now
                return send(in: loop)
            }
            let wasPaused = pauseReasons.isAny
            pauseReasons.byOwner = desired.contains(.suspended)
            if desired.contains(.resumed) { pauseReasons.byClient = false }
            if wasPaused, !pauseReasons.isAny {
                continueReceiving()
            } else if desired.contains(.bodyReady), !pauseReasons.byOwner {
                unpause()
            }
        }

        /// Fails a transfer that cannot begin.
        ///
        /// - Parameter problem: the error number, if known.
        func refuse(_ problem: Int32 = 0) {
            finish(
                .shortage(problem)
                    ?? RequestError(.transportFailed, "nothing was sent: the system has no memory or no threads left"))
        }

        /// Passes the request to libcurl, the first time and after each restart.
        private func send(in loop: CurlLoop) {
            guard let handle = loop.takeHandle() else { return refuse() }
            self.handle = handle
            // The time that a parked transfer waits for another's connection counts as idle.
            if !place.isParked { lastActivity = loop.now }
            (place, isPaused, isOnKeptConnection) = (ConnectionPlace(), false, false)
            if isShareable { place.generation = loop.sharing.generation(for: self) }
            if !handle.prepare(for: self, &loop.headerLists) || !loop.add(self, handle) {
                finish(RequestError(.transportFailed, "nothing was sent: libcurl did not accept the request"))
            }
        }

        /// Passes the request to libcurl again, with another handle.
        func sendAgain() {
            guard let loop, case .running = phase else { return }
            leaveLoop()
            send(in: loop)
            loop.looksAgain = true
        }

        /// Sends a parked request again, or continues the decoding that the previous turn stopped at its limit.
        func continueInThisTurn() {
            if place.isParked { return sendAgain() }
            guard pauseReasons.forATurn else { return }
            pauseReasons.forATurn = false
            if !pauseReasons.isAny { continueReceiving() }
        }

        /// Continues receiving after the last reason for a pause has ended.
        private func continueReceiving() {
            noteActivity()
            deliverUndecoded()
            guard !pauseReasons.isAny else { return }
            if case .ended = phase { finish(nil) } else { unpause() }
        }

        private func unpause() {
            guard isPaused, let handle, case .running = phase else { return }
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

        /// Ends the transfer, or sends its request again.
        ///
        /// Called when libcurl reports the end, or when the response is complete and sending makes no progress.
        func end(_ code: CURLcode) {
            guard let handle, case .running = phase else { return }
            if isOnBadConnection {
                isOnBadConnection = false
                // libcurl has closed the bad connection, and nothing was sent.
                timesSent -= 1
                return sendAgain()
            }
            let isCut = code == 0 && mayBeCut
            if isShareable {
                if goesOn(after: code, handle) { return }
                if isTimeOver(code) { giveUpConnection() }
                leaveConnection(hasFailed: code != 0)
            }
            var metrics = TransferMetrics()
            handle.measure(&metrics, place.handshake.session)
            // The socket of a new connection is recorded, even if its ports are known from an earlier connection. The
            // socket of a known reused connection is not looked up again, because libcurl searches all connections for
            // it. A connection that requests share is not recorded. Before the head of the response arrives, only the
            // stream number shows that a connection is shared.
            let isShared = place.stream != nil || ["2", "3"].contains(metrics.httpVersion)
            if !isShared, !isOnKeptConnection || !metrics.isReusedConnection {
                let connection = KeptConnections.Key(
                    remoteAddress: metrics.remoteAddress, remotePort: Int32(clamping: metrics.remotePort),
                    localPort: Int32(clamping: handle.long(CurlInfo.localPort)))
                loop?.kept.note(connection, socket: handle.activeSocket)
            }
            client?.didCollect(metrics)
            var error = failure
            if error == nil { error = unannouncedEnd(code, handle) }
            if error == nil, code != 0, !isAnswered, !isAcceptedEnd(code, handle) {
                error = self.error(of: code, handle)
            }
            if error == nil, !hasHead { error = .headerCut }
            if error == nil, isCut { error = .streamCut }
            leaveLoop()
            phase = .ended
            flush()
            // A complete body waits for the end of back-pressure, but a failure does not.
            if error != nil || !pauseReasons.isAny { finish(error) }
        }

        /// Resets the response, because libcurl sends the request again by itself.
        func beginAgain() {
            parser = CurlHeaderParser(engine.options, request.method, mayBeHTTP2: isShareable)
            (hasHead, decoder, undecoded, expectedBytes) = (false, nil, Data(), nil)
            (missingBytes, keptBytes, lengthToCheck) = (nil, 0, Self.uncheckedLength)
            handle?.stopWatchingEnd()
            chunk = BodyChunk()
            rest = Data()
        }

        func noteActivity() {
            guard let loop, activeTurn != loop.turnCount else { return }
            (activeTurn, lastActivity) = (loop.turnCount, loop.now)
            loop.noteProgress()
        }

        /// Notifies the client of the end, once.
        func finish(_ error: RequestError?) {
            if case .over = phase { return }
            var error = error ?? failure
            if error == nil {
                do throws(ContentDecodingError) { try decoder?.finish() } catch let defect {
                    error = .undecodable(defect)
                }
            }
            leaveLoop()
            phase = .over
            isOver.store(true, ordering: .releasing)
            let client = client
            (self.client, source, decoder, undecoded, loop) = (nil, nil, nil, Data(), nil)
            chunk = BodyChunk()
            rest = Data()
            client?.didFinish(error)
        }

        private func leaveLoop() {
            guard let handle else { return }
            self.handle = nil
            loop?.remove(self, handle)
        }
    }
#endif
