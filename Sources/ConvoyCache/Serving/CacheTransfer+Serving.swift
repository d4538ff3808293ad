// Delivers a stored response to the client.
import Convoy
import Foundation

extension CacheTransfer {
    /// Runs code that reads the store: on the disk executor if the store may block, otherwise on the calling thread.
    func readOn(_ work: @escaping @Sendable () -> Void) {
        if store.mayBlock { network.onDisk(work) } else { work() }
    }

    /// Delivers a stored response or status 504, or sends the request if the stored body cannot be opened.
    func beginServing() {
        let role = state.withLock { $0.role }
        guard case .serve(let entry, let form) = role else { return answerUnavailable() }
        let isWithoutBody = form == .notModified || form == .unsatisfiable || question.method == .head
        if isWithoutBody { return serve(entry, form, .data(Data())) }
        guard let body = entry.body.map(StoredBody.data) ?? store.openBody(of: entry, key: exchange.key) else {
            return sendInstead()
        }
        serve(entry, form, body)
    }

    private func serve(_ entry: StoredEntry, _ form: CacheDecision.Form, _ body: StoredBody) {
        store.use(entry.id)
        removeAfterLastUse()
        let served = entry.head.response(form, to: request, at: now, cache.configuration.sharing)
        let rest = served.bodyRange
        let length = rest.upperBound - rest.lowerBound
        let freshness = entry.head.freshness(cache.configuration.sharing)
        let timeToLive = freshness.timeToLive(at: now)
        let isHit = state.withLock { state in
            (state.body, state.rest) = (body, rest)
            state.status.timeToLive = timeToLive.map { Int(clamping: $0) }
            return state.status.isHit
        }
        cache.count { statistics in
            if isHit {
                statistics.countHit(timeToLive: timeToLive, bytes: length)
            } else {
                statistics.savedBytes += length
            }
        }
        client.didReceive(served.head)
        pump()
    }

    /// Removes the stored response if the fields of its 304 forbid storing it.
    func removeAfterLastUse() {
        guard case .serve(let entry, _) = state.withLock({ $0.isLastUse ? $0.role : nil }) else { return }
        store.remove([entry.id], of: exchange.key)
    }

    /// Sends the request, because the stored body is missing or damaged.
    ///
    /// If the request may not use the network, the client receives status 504. If the attempt has no slot, it fails.
    private func sendInstead() {
        if question.isOffline {
            state.withLock { ($0.status.forward, $0.status.detail) = (.miss, "only-if-cached") }
            return answerUnavailable()
        }
        guard network.hasSlot else {
            state.withLock { $0.phase = .ended }
            return client.didFinish(
                RequestError(.connectionLost, "the stored body no longer exists", underlying: StoredAnswerIsGone()))
        }
        var sent = request
        question.options.policy.addFields(to: &sent)
        do throws(RequestError) {
            let task = try network.makeTransfer(for: sent, client: self)
            let requestTime = now
            let (isCancelled, isSuspended) = state.withLock { state in
                (state.role, state.status.forward, state.isPumping) = (.forward, .miss, false)
                (state.phase, state.network, state.requestTime) = (.network, task, requestTime)
                return (state.isCancelled, state.isSuspended)
            }
            cache.count { $0.misses[.miss, default: 0] += 1 }
            if isCancelled { task.cancel() } else if !isSuspended { task.resume() }
        } catch {
            state.withLock { $0.phase = .ended }
            client.didFinish(error)
        }
    }

    /// Delivers status 504 to the client.
    ///
    /// The request may not use the network (RFC 9111, section 5.2.1.7), or the server is unreachable (RFC 9111, section
    /// 5.2.2.2).
    func answerUnavailable() {
        client.didReceive(
            ResponseHead(statusCode: 504, headerFields: ["Content-Length": "0"], url: request.url, expectedBytes: 0))
        pump()
    }

    /// Delivers the rest of the body while the client accepts data, and then finishes.
    func pump() {
        enum Step {
            case wait
            case read(StoredBody, Range<Int64>)
            case finish(RequestError?, TransferMetrics)
        }
        let most = max(1, min(Self.chunkBytes, client.maxChunkBytes))
        let files = client as? any FileClient
        while true {
            let step = state.withLock { state -> Step in
                var metrics = state.metrics ?? TransferMetrics()
                metrics.cache = state.status
                if state.isCancelled {
                    state.phase = .ended
                    return .finish(Self.cancelled, metrics)
                }
                if state.isSuspended || state.isPaused {
                    state.isPumping = false
                    return .wait
                }
                guard let body = state.body, !state.rest.isEmpty else {
                    state.phase = .ended
                    return .finish(nil, metrics)
                }
                return .read(body, state.rest)
            }
            switch step {
            case .wait: return
            case .finish(let error, let metrics):
                if error == nil { client.didCollect(metrics) }
                return client.didFinish(error)
            case .read(.file(let file), let rest):
                let bytes = FileBytes(file.descriptor, rest, of: file) { self.repair() }
                if let isTaken = files?.didReceive(bytes) {
                    state.withLock { $0.rest = rest.upperBound..<rest.upperBound }
                    if holds(isTaken) { return }
                } else if !deliver(.file(file), rest, most) {
                    return
                }
            case .read(let body, let rest):
                if !deliver(body, rest, most) { return }
            }
        }
    }

    /// Delivers the next chunk; false if `pump` must return.
    private func deliver(_ body: StoredBody, _ rest: Range<Int64>, _ most: Int) -> Bool {
        let count = Int(min(Int64(most), rest.upperBound - rest.lowerBound))
        guard let data = body.read(at: rest.lowerBound, count: count), !data.isEmpty else {
            repair()
            state.withLock { $0.phase = .ended }
            client.didFinish(RequestError(.connectionLost, "the stored body could not be read completely"))
            return false
        }
        state.withLock { $0.rest = rest.lowerBound + Int64(data.count)..<rest.upperBound }
        return !holds(client.didReceive(data))
    }

    /// Removes the stored response whose body could not be read, so that another attempt uses the network.
    private func repair() {
        guard case .serve(let entry, _) = state.withLock({ $0.role }) else { return }
        store.repair([entry.id], of: exchange.key)
    }

    /// Stops the delivery if the client has paused, and if the transport can continue a paused task where it stopped.
    ///
    /// - Returns: whether `pump` must return.
    private func holds(_ isTaken: Bool) -> Bool {
        guard !isTaken, network.pausesInPlace else { return false }
        state.withLock { ($0.isPaused, $0.isPumping) = (true, false) }
        client.didPause()
        return true
    }
}
