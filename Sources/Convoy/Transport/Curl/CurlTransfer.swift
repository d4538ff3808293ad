// One transfer: between libcurl's callbacks and the client of an attempt.
#if canImport(CLibcurl)
    import CLibcurl
    import Foundation

    /// What the owner of a task wants of its transfer, and what he may ask.
    ///
    /// Written by any thread; the engine looks when it comes to the transfer, not when it was asked, so that two wishes
    /// cannot be carried out in the wrong order.
    struct TransferWishes {
        var hasBegun = false
        var isSuspended = true
        var isCancelled = false
        var isBodyReady = false
        var isOver = false
        /// Whether the engine has been told to look.
        var isQueued = false
    }

    /// Moves the bytes of one attempt.
    final class CurlTransfer: @unchecked Sendable {
        // @unchecked: `wishes` is a lock of its own; `engine`, `request` and `options` are constant; everything else belongs
        // to the engine's thread.
        let wishes = Locked(TransferWishes())
        let request: PreparedRequest
        let engine: CurlEngine

        enum Phase {
            /// Not resumed yet. Next: running, over.
            case waiting
            /// In libcurl's hands. Next: ended, over.
            case running
            /// libcurl is done; what it brought waits for the client. Next: over.
            case ended(RequestError?)
            /// The client has been told the end.
            case over
        }

        var phase = Phase.waiting
        var client: (any TransportClient)?
        let options: ConnectionOptions
        var parser: CurlHeaderParser
        var source: (any UploadSource)?
        var sentBytes: Int64 = 0
        var timesSent = 0
        /// The request was not sent, because bytes that nobody had asked for were waiting on its connection.
        var isOnBadConnection = false
        var decoder: ContentDecoder?
        /// Received, not decoded yet: the client wanted no more.
        var undecoded = Data()
        /// Received and decoded, not handed over yet.
        var piece = BodyPiece()
        var isListedForFlush = false
        var hasHead = false
        var hasBody = false
        var expectedBytes: Int64?
        /// The client said that it wants no more for now, or the task is suspended.
        var isHeld = false
        /// libcurl was told to pause: receiving, or sending.
        var isPaused = false
        /// Why we ended it ourselves.
        var failure: RequestError?
        /// When bytes last moved.
        var lastActivity = ContinuousClock.now
        /// Where the loop keeps it; nil when it does not.
        var index: Int?
        var handle: CurlHandle?
        /// The loop of the thread, once that has seen the transfer.
        var loop: CurlLoop?

        init(_ request: PreparedRequest, client: any TransportClient, engine: CurlEngine, options: ConnectionOptions) {
            self.request = request
            self.client = client
            self.engine = engine
            self.options = options
            engine.countTask(1)
            parser = CurlHeaderParser(
                maximumBytes: options.maximumHeaderBytes, maximumFieldCount: options.maximumHeaderFieldCount)
        }

        deinit { engine.countTask(-1) }

        // MARK: The engine's side

        /// Does what the owner wants by now.
        func update(in loop: CurlLoop) {
            self.loop = loop
            let wishes = wishes.withLock { wishes in
                defer { (wishes.isQueued, wishes.isBodyReady) = (false, false) }
                return wishes
            }
            if wishes.isCancelled { return cancel() }
            if case .waiting = phase {
                if wishes.hasBegun, !wishes.isSuspended { begin() }
                return
            }
            if wishes.isSuspended {
                isHeld = true
            } else if isHeld {
                release()
            } else if wishes.isBodyReady {
                unpause()
            }
        }

        /// Ends what cannot even be begun.
        func refuse() { finish(RequestError(.transportFailed, "nothing was sent: libcurl is out of memory")) }

        func begin() {
            source = makeSource()
            guard let loop, let handle = loop.takeHandle() else { return refuse() }
            self.handle = handle
            phase = .running
            lastActivity = loop.now
            handle.prepare(for: self)
            if !loop.add(self, handle) {
                finish(RequestError(.transportFailed, "nothing was sent: libcurl did not take the request"))
            }
        }

        func makeSource() -> (any UploadSource)? {
            switch request.body {
            case nil: nil
            case .data(let data): DataSource(data)
            case .file(let file, let byteCount):
                FileSource(file, byteCount: byteCount) { [weak self] in
                    guard let self else { return }
                    engine.look(at: self) { $0.isBodyReady = true }
                }
            }
        }

        func cancel() {
            switch phase {
            case .over: break
            case .waiting, .running, .ended:
                finish(RequestError(.cancelled, "the task was cancelled"))
            }
        }

        /// The client wants more, or the task was resumed.
        func release() {
            isHeld = false
            noteActivity()
            deliverUndecoded()
            guard !isHeld else { return }
            if case .ended(let error) = phase { return finish(error) }
            unpause()
        }

        func unpause() {
            guard isPaused, let handle, case .running = phase else { return }
            isPaused = false
            noteActivity()
            // Calls back at once with what libcurl has kept.
            if curl_easy_pause(handle.easy, 0) != 0 { loop?.lookAgain() }
            flush()
        }

        /// libcurl is done with it.
        func end(_ code: CURLcode) {
            guard let handle, case .running = phase else { return }
            if isOnBadConnection {
                isOnBadConnection = false
                // That connection has been closed; nothing was sent.
                timesSent -= 1
                loop?.restart(handle)
                return
            }
            loop?.noteConnection(of: handle)
            client?.didCollect(handle.metrics)
            var error = failure
            if error == nil, code != 0 { error = RequestError(code, of: handle, request, hasHead: hasHead) }
            if error == nil, !hasHead { error = RequestError(.badResponse, "the answer has no header") }
            leaveEngine()
            phase = .ended(error)
            flush()
            // A body that is complete waits for a client that wants no more; a failure does not.
            if error != nil || !isHeld { finish(error) }
        }

        /// Ends what has had no byte for its idle timeout; returns when to look again.
        func checkIdle(_ now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
            guard case .running = phase else { return nil }
            if isHeld { return now + request.idleTimeout }
            let end = lastActivity + request.idleTimeout
            guard end <= now else { return end }
            let what = hasHead ? "of the body" : "of an answer"
            finish(
                RequestError(.timedOut, "nothing \(what) arrived for \(request.idleTimeout), the idle timeout"))
            return nil
        }

        /// Tells the end, once.
        func finish(_ error: RequestError?) {
            if case .over = phase { return }
            leaveEngine()
            var error = error
            if error == nil {
                do throws(ContentDecodingError) { try decoder?.finish() } catch {
                    finish(.undecodable(error))
                    return
                }
            }
            phase = .over
            wishes.withLock { $0.isOver = true }
            if error == nil { error = failure }
            let client = client
            (self.client, source, decoder, undecoded, loop) = (nil, nil, nil, Data(), nil)
            piece = BodyPiece()
            client?.didFinish(error)
        }

        func noteActivity() { lastActivity = loop?.now ?? .now }

        func leaveEngine() {
            guard let handle else { return }
            self.handle = nil
            loop?.remove(self, handle)
        }
    }
#endif
