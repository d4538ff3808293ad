// Handles network responses: forwards them, stores them, or updates stored responses.
import Convoy
import Foundation

extension CacheTransfer {
    func didReceive(_ head: ResponseHead) {
        guard !(100..<200).contains(head.statusCode) else { return client.didReceive(head) }
        let now = now
        let (role, requestTime) = state.withLock { ($0.role, $0.requestTime) }
        switch role {
        case .bypass:
            cache.invalidate(request, head, key: exchange.key)
            client.didReceive(head)
        case .forward: forward(head, requestTime, now)
        case .validate(let entry, let form): judge(head, entry, form, requestTime, now)
        case .complete(let entry): complete(entry, with: head, requestTime, now)
        // The transport delivered a second head. The first one applies.
        case .serve, .sendAgain: break
        }
    }

    /// Passes a network response to the client and stores it if allowed.
    private func forward(_ head: ResponseHead, _ requestTime: Int64, _ now: Int64) {
        cache.invalidate(request, head, key: exchange.key)
        if question.method == .head { updateByHead(head, now) }
        if head.statusCode == 304 { updateConfirmed(head, now) }
        let recording = makeRecording(head, requestTime, now)
        if recording == nil || head.statusCode == 206 || head.expectedBytes ?? 0 > Fetches.mostBytes {
            exchange.endSharing(handsOver: false)
        }
        let old = state.withLock { state in
            let old = state.recording
            (state.recording, state.role) = (recording, .forward)
            return old
        }
        old?.writer.discard()
        client.didReceive(head)
    }

    /// Handles the response to a conditional request.
    private func judge(
        _ head: ResponseHead, _ entry: StoredEntry, _ form: CacheDecision.Form, _ requestTime: Int64, _ now: Int64
    ) {
        // If the request has its own condition or range, the client receives the network response.
        guard !question.isSentUnchanged(for: form) else { return forward(head, requestTime, now) }
        let role: Role
        switch entry.head.outcome(of: head, at: now, question) {
        case .updated:
            var updated = entry
            updated.head.update(by: head, to: question, requestTime: requestTime, responseTime: now)
            if updated.head.refusal(question) == nil {
                store.update(entry.id, of: exchange.key, to: updated.head)
            } else {
                state.withLock { $0.isLastUse = true }
            }
            cache.count { $0.validations += 1 }
            role = .serve(updated, form)
        case .mismatch:
            // This 304 does not answer the request, so the cache status does not report its code.
            store.remove([entry.id], of: exchange.key)
            network.keepCookies(of: head, from: request.url)
            return state.withLock { $0.role = .sendAgain }
        case .replaced, .failed: return forward(head, requestTime, now)
        case .staleOnError: role = .serve(entry, form)
        }
        network.keepCookies(of: head, from: request.url)
        state.withLock { state in
            state.role = role
            state.status.forwardStatus = head.statusCode
            if head.statusCode >= 500 { state.status.detail = "stale-if-error" }
        }
    }

    /// Completes a stored response if the network response contains exactly the missing rest.
    private func complete(_ entry: StoredEntry, with head: ResponseHead, _ requestTime: Int64, _ now: Int64) {
        let range = head.headerFields["Content-Range"].flatMap(ContentRange.init)
        guard [206, 416].contains(head.statusCode) else { return forward(head, requestTime, now) }
        network.keepCookies(of: head, from: request.url)
        guard head.statusCode == 206, let positions = range?.range, positions.lowerBound == entry.head.bodyBytes,
            range?.totalBytes == positions.upperBound,
            entry.head.totalBytes ?? positions.upperBound == positions.upperBound,
            let validator = entry.head.strongValidator, entry.head.isSame(head.headerFields, validator),
            let first = exchange.beginning
        else {
            // The response is not exactly the rest of the stored representation. The transfer requests the complete
            // representation instead.
            store.remove([entry.id], of: exchange.key)
            return state.withLock { $0.role = .sendAgain }
        }
        var whole = entry.head
        whole.update(by: head, to: question, requestTime: requestTime, responseTime: now)
        (whole.statusCode, whole.totalBytes, whole.requestedRange) = (200, positions.upperBound, nil)
        whole.headerFields["Content-Range"] = nil
        whole.headerFields["Content-Length"] = String(positions.upperBound)
        let isAllowed = whole.refusal(question) == nil
        if !isAllowed { store.remove([entry.id], of: exchange.key) }
        let writer = isAllowed ? store.makeWriter(expectedBytes: positions.upperBound) : nil
        let isKept = writer?.write(first) == true
        if !isKept || positions.upperBound > Fetches.mostBytes { exchange.endSharing(handsOver: false) }
        state.withLock { state in
            state.role = .forward
            guard isKept, let writer else { return }
            state.recording = Recording(writer: writer, head: whole, bytes: Int64(first.count))
        }
        var answer = ResponseHead(
            statusCode: 200, headerFields: whole.headerFields, url: request.url, expectedBytes: positions.upperBound)
        answer.hasStoredCookies = true
        client.didReceive(answer)
        // If the client pauses here, the next `didReceive` of data returns false, so that the transport pauses its
        // task.
        if !client.didReceive(first) { state.withLock { $0.isRefused = true } }
    }

    func didReceive(_ data: Data) -> Bool {
        let (passes, recording, isRefused) = state.withLock { state -> (Bool, Recording?, Bool) in
            defer { state.isRefused = false }
            switch state.role {
            case .forward, .bypass:
                state.recording?.bytes += Int64(data.count)
                return (true, state.recording, state.isRefused)
            case .validate, .complete, .serve, .sendAgain: return (false, nil, false)
            }
        }
        if let recording, !recording.writer.write(data) {
            exchange.endSharing(handsOver: false)
            state.withLock { $0.recording = nil }
            recording.writer.discard()
        }
        return passes ? client.didReceive(data) && !isRefused : true
    }

    var expectsLargeBody: Bool { client.expectsLargeBody }
    var maxChunkBytes: Int { client.maxChunkBytes }
    var maxBodyBytes: Int64? { client.maxBodyBytes }
    func didPause() { client.didPause() }
    func didSend(totalBytes: Int64) { client.didSend(totalBytes: totalBytes) }
    func didCollect(_ metrics: TransferMetrics) { state.withLock { $0.metrics = metrics } }

    func didFinish(_ error: RequestError?) {
        let (role, recording, isCancelled, isOver) = state.withLock { state in
            defer { (state.recording, state.network) = (nil, nil) }
            if case .ended = state.phase { return (state.role, state.recording, state.isCancelled, true) }
            return (state.role, state.recording, state.isCancelled, false)
        }
        // If the transfer was cancelled before it started, `cancel` has already called `client.didFinish`.
        if isOver { return }
        if isCancelled {
            exchange.endSharing(handsOver: true)
            if let recording { keepPart(recording) }
            return finish(error ?? Self.cancelled)
        }
        switch role {
        case .serve where error == nil: return serveInstead()
        case .sendAgain where error == nil: return sendAgain()
        case .validate(let entry, let form), .serve(let entry, let form):
            if let error, isUnreachable(error), mayServe(entry) {
                state.withLock { state in
                    (state.role, state.status.detail) = (.serve(entry, form), "stale-if-error")
                }
                return serveInstead()
            }
            if let error, isUnreachable(error), cache.configuration.answersGatewayTimeout {
                removeAfterLastUse()
                state.withLock { ($0.role, $0.phase, $0.isPumping) = (.bypass, .serving, true) }
                return answerUnavailable()
            }
        case .forward, .complete, .bypass, .sendAgain: break
        }
        if let recording {
            if error == nil { keep(recording) } else { keepPart(recording) }
        }
        exchange.endSharing(handsOver: error != nil)
        finish(error)
    }

    private func finish(_ error: RequestError?) {
        removeAfterLastUse()
        let metrics = state.withLock { state in
            state.phase = .ended
            var metrics = state.metrics ?? TransferMetrics()
            metrics.cache = state.status
            return metrics
        }
        client.didCollect(metrics)
        client.didFinish(error)
    }

    /// Serves a stored response after the network has finished.
    private func serveInstead() {
        let isRefresh = question.options.isRefresh
        state.withLock { ($0.phase, $0.isPumping) = (.serving, true) }
        if isRefresh {
            // A background refresh has no reader, so it needs no body.
            client.didReceive(ResponseHead(statusCode: 304, url: request.url))
            return finish(nil)
        }
        readOn { self.beginServing() }
    }

    /// Sends the original request again without the cache's condition, because the stored response was removed.
    private func sendAgain() {
        var sent = request
        question.options.policy.addFields(to: &sent)
        do throws(RequestError) {
            let task = try network.makeTransfer(for: sent, client: self)
            let requestTime = now
            let (isCancelled, isSuspended) = state.withLock { state in
                (state.role, state.network, state.requestTime) = (.forward, task, requestTime)
                return (state.isCancelled, state.isSuspended)
            }
            // If the owner has suspended the transfer, the owner's next call of `resume` starts the task.
            if isCancelled { task.cancel() } else if !isSuspended { task.resume() }
        } catch {
            finish(error)
        }
    }

    /// Whether the server is unreachable, so that the cache counts as disconnected (RFC 9111, section 4.2.4).
    private func isUnreachable(_ error: RequestError) -> Bool {
        [.connectionFailed, .connectionLost, .timedOut, .proxyFailed].contains(error.code)
    }

    private func mayServe(_ entry: StoredEntry) -> Bool {
        entry.head.mayBeUsedOnError(
            at: now, question, unconfigured: cache.configuration.staleWhenUnreachable?.components.seconds)
    }
}

extension StoredHead {
    /// Whether a message has the strong validator of this stored response.
    func isSame(_ headerFields: HeaderFields, _ validator: String) -> Bool {
        if entityTag != nil { return EntityTag(headerFields)?.text == validator }
        return headerFields.values(of: "Last-Modified").first?.trimmingBlanks == validator
    }
}
