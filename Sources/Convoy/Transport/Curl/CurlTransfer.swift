// One transfer: between libcurl's callbacks and the client of an attempt.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation
    import Synchronization

    /// Moves the bytes of one attempt.
    final class CurlTransfer: @unchecked Sendable {
        // @unchecked: `desired` is a lock of its own; `engine` and `request` are constant; everything else belongs to the
        // engine's thread.
        let desired = Locked(DesiredTransferState())
        /// Whether its owner has suspended it; as in `desired`, for the thread that asks with every chunk of a body.
        let isSuspended = Atomic(true)
        /// Whether the client has been told the end.
        let isOver = Atomic(false)
        let request: PreparedRequest
        /// Whether a body is sent, be it an empty one.
        let sendsBody: Bool
        let isHTTPS: Bool
        let engine: CurlEngine

        enum Phase {
            /// Not resumed yet. Next: running, over.
            case waiting
            /// In libcurl's hands. Next: ended, over.
            case running
            /// libcurl is done; what it brought waits for the client. Next: over.
            case ended
            /// The client has been told the end.
            case over
        }

        // Unchecked where every line of a header uses them: nothing that is called while one of them changes comes back here.
        @exclusivity(unchecked) private var phase = Phase.waiting
        @exclusivity(unchecked) var client: (any TransportClient)?
        @exclusivity(unchecked) var hold = TransferHold()
        /// libcurl was told to pause: receiving, or sending.
        @exclusivity(unchecked) var isPaused = false
        /// Why we ended it ourselves.
        @exclusivity(unchecked) var failure: RequestError?
        /// When libcurl was given the request.
        private(set) var sendingBegan = CurlTransfer.notBegun
        /// When bytes last moved.
        @exclusivity(unchecked) private(set) var lastActivity = CurlTransfer.notBegun
        /// The turn of the loop in which that was noted: a turn has one time, and many lines.
        @exclusivity(unchecked) private var activeTurn: UInt = 0
        /// Any moment, until the transfer has begun.
        private static let notBegun = ContinuousClock.now

        // Receiving.
        @exclusivity(unchecked) var parser: CurlHeaderParser
        @exclusivity(unchecked) var decoder: ContentDecoder?
        /// Received, not decoded yet: the client wanted no more.
        @exclusivity(unchecked) var undecoded = Data()
        /// Received and decoded, not handed over yet.
        @exclusivity(unchecked) var chunk = BodyChunk()
        /// How large it may become.
        var chunkLimit = Int.max
        /// What comes behind it: the client wanted no more.
        @exclusivity(unchecked) var rest = Data()
        @exclusivity(unchecked) var isListedForFlush = false
        @exclusivity(unchecked) var hasHead = false
        var expectedBytes: Int64?
        /// How many bytes of the body have not come; nil when its length is not known.
        @exclusivity(unchecked) var missingBytes: Int64?
        /// How many bytes of the body there are, announced or received, at which the client is asked how many it waits for.
        @exclusivity(unchecked) var lengthToCheck = CurlTransfer.uncheckedLength
        /// How many bytes of the body went to the client, or stand in `chunk`.
        @exclusivity(unchecked) var keptBytes: Int64 = 0
        /// The body ends with its TLS connection, which has to say so.
        var watchesEnd = false

        // Sending.
        @exclusivity(unchecked) var source: (any UploadSource)?
        var sentBytes: Int64 = 0
        /// The source has nothing more.
        var hasSentAll = false
        @exclusivity(unchecked) var timesSent = 0
        /// The request was not sent, because unrequested bytes were waiting on its connection.
        var isOnBadConnection = false
        /// Whether others may share its connection.
        let isShareable: Bool
        /// Whether there may be more between libcurl and the socket than HTTP/1.1.
        let isPolled: Bool
        @exclusivity(unchecked) var place = ConnectionPlace()
        /// The server has said that it has not processed the request, which has not been sent again since.
        var wasUnprocessed = false
        /// How far sending was at the last look for idleness.
        var lastSendingMark: CurlHandle.SendingMark?

        /// Where the loop keeps it; nil when it does not.
        @exclusivity(unchecked) var index: Int?
        @exclusivity(unchecked) private(set) var handle: CurlHandle?
        /// The loop of the thread, from the moment it has begun.
        @exclusivity(unchecked) private(set) var loop: CurlLoop?

        init(_ request: PreparedRequest, client: any TransportClient, engine: CurlEngine) {
            self.request = request
            (sendsBody, isHTTPS) = (request.body != nil || request.announcesNoBody, request.isHTTPS)
            self.client = client
            self.engine = engine
            isShareable = isHTTPS && engine.options.httpVersion == .automatic
            isPolled = isHTTPS || CurlHandle.mayUseProxy(engine.options)
            parser = CurlHeaderParser(engine.options, request.method, mayBeHTTP2: isShareable)
            engine.countTask(1)
        }

        deinit { engine.countTask(-1) }

        // MARK: What the owner wants

        /// Does what the owner wants by now.
        func update(in loop: CurlLoop) {
            let desired = desired.withLock { desired in
                defer { (desired.isQueued, desired.isBodyReady, desired.wasResumed) = (false, false, false) }
                return desired
            }
            if desired.isCancelled { return finish(RequestError(.cancelled, "the task was cancelled")) }
            if case .waiting = phase {
                if desired.hasBegun, !desired.isSuspended { begin(in: loop) }
                return
            }
            let wasHeld = hold.isHeld
            hold.byOwner = desired.isSuspended
            if desired.wasResumed { hold.byClient = false }
            if wasHeld, !hold.isHeld { continueReceiving() } else if desired.isBodyReady, !hold.byOwner { unpause() }
        }

        /// Ends what cannot even be begun.
        ///
        /// - Parameter problem: the error number, where it is known.
        func refuse(_ problem: Int32 = 0) {
            finish(
                .shortage(problem)
                    ?? RequestError(.transportFailed, "nothing was sent: no memory or no threads are left"))
        }

        private func begin(in loop: CurlLoop) {
            self.loop = loop
            if request.body != nil { source = makeSource() }
            phase = .running
            sendingBegan = request.attemptTimeout == nil ? loop.now : .now
            send(in: loop)
        }

        /// Gives the request to libcurl, the first time and when it has to begin again.
        private func send(in loop: CurlLoop) {
            guard let handle = loop.takeHandle() else { return refuse() }
            self.handle = handle
            // The time that it waited for another's connection counts.
            if !place.isParked { lastActivity = loop.now }
            (place, isPaused) = (ConnectionPlace(), false)
            if isShareable { place.generation = loop.sharing.generation(for: self) }
            if !handle.prepare(for: self, &loop.headerLists) || !loop.add(self, handle) {
                finish(RequestError(.transportFailed, "nothing was sent: libcurl did not take the request"))
            }
        }

        /// Gives the request to libcurl again, with another handle.
        func sendAgain() {
            guard let loop, case .running = phase else { return }
            leaveLoop()
            send(in: loop)
            loop.lookAgain()
        }

        /// The turn after one in which decoding had its share.
        func takeNextShare() {
            guard hold.forATurn else { return }
            hold.forATurn = false
            if !hold.isHeld { continueReceiving() }
        }

        /// Nothing holds it any more.
        private func continueReceiving() {
            noteActivity()
            deliverUndecoded()
            guard !hold.isHeld else { return }
            if case .ended = phase { finish(nil) } else { unpause() }
        }

        private func unpause() {
            guard isPaused, let handle, case .running = phase else { return }
            isPaused = false
            noteActivity()
            // Calls back at once with what libcurl has kept.
            let code = curl_easy_pause(handle.easy, 0)
            flush()
            if let failure { return finish(failure) }
            if code != 0 { finish(error(of: code, handle)) }
            loop?.lookAgain()
        }

        // MARK: What libcurl and the clock say

        /// libcurl is done with it.
        func end(_ code: CURLcode) {
            guard let handle, case .running = phase else { return }
            if isOnBadConnection {
                isOnBadConnection = false
                // That connection has been closed; nothing was sent.
                timesSent -= 1
                return sendAgain()
            }
            if isShareable {
                if goesOn(after: code, handle) { return }
                if isTimeOver(code) { giveUpConnection() }
                leaveConnection(hasFailed: code != 0)
            }
            loop?.noteConnection(of: handle)
            client?.didCollect(metrics(of: handle))
            var error = failure
            if error == nil, watchesEnd { error = unannouncedEnd(code, handle) }
            if error == nil, code != 0, !isAnswered, !isAcceptedEnd(code, handle) {
                error = self.error(of: code, handle)
            }
            if error == nil, !hasHead { error = .headerCut }
            leaveLoop()
            phase = .ended
            flush()
            // A body that is complete waits for a client that wants no more; a failure does not.
            if error != nil || !hold.isHeld { finish(error) }
        }

        /// Ends what has had no byte for its idle timeout; returns when to look again.
        func checkIdle(_ now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
            guard case .running = phase, let handle else { return nil }
            if hold.isHeld { return now + request.idleTimeout }
            if isAnswered { return endAnswered(handle, now) }
            let end = lastActivity + request.idleTimeout
            guard end <= now else { return end }
            // libcurl takes more of a body than it sends, and the system keeps some MiB of it: that these become less is
            // activity too.
            if !hasHead, sentBytes > 0 {
                let mark = handle.sendingMark
                defer { lastSendingMark = mark }
                if mark != lastSendingMark {
                    lastActivity = now
                    return now + request.idleTimeout
                }
            }
            let what = hasHead ? "of the body" : "of an answer"
            // No new request is put behind one that was not answered.
            handle.forbidReuse()
            giveUpConnection()
            finish(
                RequestError(.timedOut, "nothing \(what) arrived for \(request.idleTimeout), the idle timeout"))
            return nil
        }

        /// libcurl sends the request again by itself: what comes is a new answer.
        func beginAgain() {
            parser = CurlHeaderParser(engine.options, request.method, mayBeHTTP2: isShareable)
            (hasHead, decoder, undecoded, expectedBytes) = (false, nil, Data(), nil)
            (missingBytes, keptBytes, lengthToCheck) = (nil, 0, Self.uncheckedLength)
            watchesEnd = false
            chunk = BodyChunk()
            rest = Data()
        }

        func noteActivity() {
            guard let loop, activeTurn != loop.turnCount else { return }
            (activeTurn, lastActivity) = (loop.turnCount, loop.now)
        }

        /// Tells the end, once.
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
