import Convoy
import Foundation
import Synchronization

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

// The operation uses a `CacheTransfer` as its task, and the transport uses the same object as its client.
// One lock protects the state; no other lock is acquired under it. One thread at a time calls the client: while the
// transport delivers a response, the transport's thread; at other times the thread that has set `isPumping` to true,
// or the phase to `ended`.
final class CacheTransfer: TransferTask, TransportClient {
    enum Phase {
        /// Next: looking or ended.
        case idle
        /// Looks in the store. Next: waiting, network, serving, ended, or idle if it is suspended.
        case looking
        /// Waits for an equal request. Next: looking, network, ended, or idle if it is suspended.
        case waiting
        /// The transport delivers a response. Next: serving, network again or ended.
        case network
        /// The cache reads a stored body. Next: ended, or network if the stored body cannot be opened.
        case serving
        /// The transfer calls, or has called, `client.didFinish`.
        case ended
    }

    enum Role {
        /// The client receives the response, which may be stored.
        case forward
        case validate(StoredEntry, CacheDecision.Form)
        case complete(StoredEntry)
        case serve(StoredEntry, CacheDecision.Form)
        case sendAgain
        /// The client receives the response, and the cache does not store it.
        case bypass
    }

    struct State {
        var phase = Phase.idle
        var role = Role.bypass
        var network: (any TransferTask)?
        var isCancelled = false
        var isSuspended = false
        var isPaused = false
        /// The next `didReceive` of data then returns false, so that the transport pauses its task.
        var isRefused = false
        var isPumping = false
        var isLastUse = false
        var body: StoredBody?
        var rest: Range<Int64> = 0..<0
        var status = CacheStatus()
        var metrics: TransferMetrics?
        var requestTime: Int64 = 0
        var recording: Recording?
        /// The bytes of the body that no one receives, because a stored response or another request replaces it.
        var droppedBytes = 0
        /// The lookup of a request that other requests may wait for, or that waits itself.
        var shared: StoredExchange?
    }

    static let chunkBytes = 256 << 10
    static let mostWait = Duration.seconds(5)
    /// A longer body is not read to its end to use its connection again; it may have no end.
    static let mostDroppedBytes = 64 << 10

    let cache: HTTPCache
    let query: CacheQuery
    let client: any CacheClient
    private let hasSlot: Bool
    private let found = AtomicLazyReference<StoredExchange>()
    let state = Locked(State())

    var request: PreparedRequest { query.request }
    var store: any CacheStore { cache.store }
    var now: Int64 { query.clock.date.cacheSeconds }
    var question: CacheQuestion { exchange.question }

    var exchange: StoredExchange {
        guard let exchange = found.load() else { preconditionFailure("a transfer uses its lookup before it has begun") }
        return exchange
    }

    init(_ cache: HTTPCache, _ query: CacheQuery, _ known: StoredExchange?, _ client: any CacheClient) {
        (self.cache, self.query, self.client, hasSlot) = (cache, query, client, known == nil)
        guard let known else { return }
        // The time and the fields may have changed. For example, a resumed download has a range.
        _ = found.storeIfNil(StoredExchange(cache.question(query, known.question.digest), known.entries))
    }

    deinit { endSharing(handsOver: true) }

    // MARK: The task

    func resume() {
        let (network, looks, pumps) = state.withLock { state -> ((any TransferTask)?, Bool, Bool) in
            (state.isSuspended, state.isPaused) = (false, false)
            switch state.phase {
            case .idle:
                state.phase = .looking
                return (nil, true, false)
            case .network: return (state.network, false, false)
            case .serving:
                defer { state.isPumping = true }
                return (nil, false, !state.isPumping)
            case .looking, .waiting, .ended: return (nil, false, false)
            }
        }
        network?.resume()
        if looks {
            if let exchange = found.load() {
                // Opening a file on this thread would delay other starts.
                if exchange.readsFile { readOn { self.begin(exchange) } } else { begin(exchange) }
            } else {
                look(waits: true)
            }
        }
        if pumps { readOn { self.pump() } }
    }

    func suspend() {
        let network = state.withLock { state in
            state.isSuspended = true
            if state.phase == .waiting { state.phase = .idle }
            return state.phase == .network ? state.network : nil
        }
        // Other requests do not wait for a suspended transfer.
        endSharing(handsOver: true)
        network?.suspend()
    }

    func cancel() {
        let (ends, network) = state.withLock { state -> (Bool, (any TransferTask)?) in
            guard !state.isCancelled, state.phase != .ended else { return (false, nil) }
            state.isCancelled = true
            switch state.phase {
            case .network: return (false, state.network)
            case .serving where state.isPumping: return (false, nil)
            case .idle, .looking, .waiting, .serving, .ended:
                state.phase = .ended
                return (true, nil)
            }
        }
        endSharing(handsOver: true)
        network?.cancel()
        if ends { client.didFinish(Self.cancelled) }
    }

    func makeSessionTask() -> URLSessionTask {
        state.withLock { $0.network }?.makeSessionTask()
            ?? TransferSessionTask(self, for: request) {
                self.state.withLock { if case .ended = $0.phase { .completed } else { .running } }
            }
    }

    static var cancelled: RequestError { RequestError(.cancelled, "the task was cancelled") }

    // MARK: The lookup

    private func look(waits: Bool) {
        let known = cache.look(query, waits: waits) { found in
            if found.decision.answers { return self.readOn { self.begin(found) } }
            self.client.onTaskControl { self.use(found, waits: waits) }
        }
        guard let known else { return }
        // Nested calls for many stored responses would overflow the stack.
        if known.decision.answers { client.onExecutor { self.begin(known) } } else { use(known, waits: waits) }
    }

    private func use(_ exchange: StoredExchange, waits: Bool) {
        if waits, waitsForEqual(exchange) { return }
        if exchange.isCertain { return begin(exchange) }
        state.withLock { if $0.phase == .waiting { ($0.phase, $0.shared) = (.looking, nil) } }
        look(waits: false)
    }

    // The request keeps its slot meanwhile. The wait ends when the response is stored or cannot be shared, or after
    // ``mostWait``. It also ends when the equal request fails, is cancelled or is suspended, and this request takes its
    // place.
    private func waitsForEqual(_ exchange: StoredExchange) -> Bool {
        guard exchange.isShareable else { return false }
        state.withLock { if $0.phase == .looking { ($0.phase, $0.shared) = (.waiting, exchange) } }
        guard cache.fetches.awaitEqual(exchange, by: self) else { return false }
        if state.withLock({ $0.shared == nil }) {
            // The transfer was cancelled or suspended before it waited.
            cache.fetches.end(exchange, by: ObjectIdentifier(self), handsOver: true)
        } else {
            let end = query.clock.now + Self.mostWait
            _ = query.clock.wake(at: end) { [weak self] in self?.waitEnded(takesOver: false) }
        }
        return true
    }

    func waitEnded(takesOver: Bool) {
        client.onTaskControl {
            let exchange = self.state.withLock { state -> StoredExchange? in
                guard state.phase == .waiting else { return nil }
                state.phase = .looking
                return state.shared
            }
            guard let exchange else { return }
            if takesOver { return self.begin(exchange) }
            self.endSharing(handsOver: true)
            self.look(waits: false)
        }
    }

    /// If `handsOver` is false, all of the waiting requests search the cache again.
    private func endSharing(handsOver: Bool) {
        let shared = state.withLock { state in
            defer { state.shared = nil }
            return state.shared
        }
        if let shared { cache.fetches.end(shared, by: ObjectIdentifier(self), handsOver: handsOver) }
    }

    private func begin(_ exchange: StoredExchange) {
        let (question, entries) = (exchange.question, exchange.entries)
        var (sent, status, stale) = (request, CacheStatus(), StoredHead?.none)
        let role: Role
        switch exchange.decision {
        case .serve(let index, let form, let isRefreshing):
            role = .serve(entries[index], form)
            if isRefreshing { stale = entries[index].head }
        case .unavailable:
            (role, status.forward, status.detail) = (.bypass, .miss, "only-if-cached")
        case .validate(let index, let form, let reason):
            (role, status.forward) = (.validate(entries[index], form), reason)
            if !question.isSentUnchanged(for: form) { entries[index].head.addConditions(to: &sent.headerFields) }
        case .complete(let index):
            (role, status.forward) = (.complete(entries[index]), .partial)
            let head = entries[index].head
            sent.headerFields["Range"] = "bytes=\(head.bodyBytes)-"
            sent.headerFields["If-Range"] = head.strongValidator
        case .forward(let reason): (role, status.forward) = (.forward, reason)
        case .bypass: (role, status.forward) = (.bypass, .bypass)
        }
        let answers = exchange.decision.answers
        let begins = state.withLock { state in
            guard state.phase == .looking || state.phase == .waiting else { return false }
            guard !state.isSuspended else {
                state.phase = .idle
                return false
            }
            (state.role, state.status) = (role, status)
            (state.phase, state.isPumping) = answers ? (.serving, true) : (.network, false)
            return true
        }
        guard begins else { return cache.fetches.end(exchange, by: ObjectIdentifier(self), handsOver: true) }
        _ = found.storeIfNil(exchange)
        // The request has changed since the lookup, or the response is no longer fresh.
        guard answers || hasSlot else { return endWithoutSlot() }
        guard answers else {
            cache.count { $0.misses[status.forward ?? .miss, default: 0] += 1 }
            return send(sent, as: role)
        }
        beginServing(refreshing: stale)
    }

    /// Validates a stale response in the background (RFC 5861, section 3), once at a time for each key.
    private func refresh(_ head: StoredHead) {
        let key = question.key
        guard cache.state.withLock({ $0.refreshing.insert(key).inserted }) else { return }
        var (request, options) = (request, query.options)
        // Only the original request needs its conditions and its range.
        for name in CacheQuestion.conditions { request.headerFields[name] = nil }
        // The refresh of a partial response keeps `Range`. The rest may be large, and no request needs it yet.
        if head.isComplete, head.statusCode != 206 { request.headerFields["Range"] = nil }
        (options.policy, options.maxAge, options.maxStaleness, options.isRefresh) = (.revalidate, nil, nil, true)
        client.refresh(request, options) { [cache] in cache.state.withLock { _ = $0.refreshing.remove(key) } }
    }

    /// Called by the first ``resume()`` or on the queue of later calls, so that the owner does not suspend the task
    /// meanwhile.
    private func send(_ request: PreparedRequest, as role: Role) {
        var sent = request
        question.options.policy.addFields(to: &sent)
        client.usesNetwork()
        do throws(RequestError) {
            let task = try client.makeTransfer(for: sent, client: self)
            let requestTime = now
            let (isCancelled, isSuspended) = state.withLock { state in
                (state.role, state.network, state.requestTime) = (role, task, requestTime)
                return (state.isCancelled, state.isSuspended)
            }
            // If the owner has suspended the transfer, the owner's next call of `resume` starts the task.
            if isCancelled { task.cancel() } else if !isSuspended { task.resume() }
        } catch {
            finish(error)
        }
    }

    // MARK: The network response

    func didReceive(_ head: ResponseHead) {
        guard !(100..<200).contains(head.statusCode) else { return client.didReceive(head) }
        let now = now
        let (role, requestTime) = state.withLock { ($0.role, $0.requestTime) }
        switch role {
        case .bypass:
            cache.invalidate(request, head, key: question.key)
            client.didReceive(head)
        case .forward: forward(head, requestTime, now)
        case .validate(let entry, let form): judge(head, entry, form, requestTime, now)
        case .complete(let entry): complete(entry, with: head, requestTime, now)
        // The transport delivered a second head. The first one applies.
        case .serve, .sendAgain: break
        }
    }

    private func forward(_ head: ResponseHead, _ requestTime: Int64, _ now: Int64) {
        cache.invalidate(request, head, key: question.key)
        if head.statusCode == 304 || question.method == .head && head.statusCode == 200 {
            updateStored(by: head, requestTime, now)
        }
        let recording = makeRecording(head, requestTime, now)
        if recording == nil || head.statusCode == 206 || head.expectedBytes ?? 0 > Fetches.mostBytes {
            endSharing(handsOver: false)
        }
        let old = state.withLock { state in
            let old = state.recording
            (state.recording, state.role) = (recording, .forward)
            return old
        }
        old?.writer.discard()
        client.didReceive(head)
    }

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
            if question.refusal(updated.head.statusCode, updated.head.headerFields) == nil {
                store.update(entry.id, to: updated.head)
            } else {
                state.withLock { $0.isLastUse = true }
            }
            cache.count { $0.validations += 1 }
            role = .serve(updated, form)
        case .mismatch:
            // This 304 does not answer the request, so the cache status does not report its code.
            store.remove([entry.id], of: question.key)
            client.keepCookies(of: head)
            return state.withLock { $0.role = .sendAgain }
        case .replaced: return forward(head, requestTime, now)
        case .staleOnError: role = .serve(entry, form)
        }
        client.keepCookies(of: head)
        state.withLock { state in
            state.role = role
            state.status.forwardStatus = head.statusCode
            if head.statusCode >= 500 { state.status.detail = "stale-if-error" }
        }
    }

    private func complete(_ entry: StoredEntry, with head: ResponseHead, _ requestTime: Int64, _ now: Int64) {
        let range = head.headerFields["Content-Range"].flatMap(ContentRange.init)
        guard [206, 416].contains(head.statusCode) else { return forward(head, requestTime, now) }
        client.keepCookies(of: head)
        guard head.statusCode == 206, let positions = range?.range, positions.lowerBound == entry.head.bodyBytes,
            range?.totalBytes == positions.upperBound,
            entry.head.totalBytes ?? positions.upperBound == positions.upperBound,
            let validator = entry.head.strongValidator, entry.head.isSame(head.headerFields, validator),
            let first = exchange.beginning
        else {
            // The response is not exactly the rest of the stored representation. The transfer requests the complete
            // representation instead.
            store.remove([entry.id], of: question.key)
            return state.withLock { $0.role = .sendAgain }
        }
        var whole = entry.head
        whole.update(by: head, to: question, requestTime: requestTime, responseTime: now)
        (whole.statusCode, whole.totalBytes, whole.requestedRange) = (200, positions.upperBound, nil)
        whole.headerFields["Content-Range"] = nil
        whole.headerFields["Content-Length"] = String(positions.upperBound)
        let isAllowed = question.refusal(whole.statusCode, whole.headerFields) == nil
        if !isAllowed { store.remove([entry.id], of: question.key) }
        let writer = isAllowed ? store.makeWriter(expectedBytes: positions.upperBound) : nil
        let isKept = writer?.write(first) == true
        if !isKept || positions.upperBound > Fetches.mostBytes { endSharing(handsOver: false) }
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
        let (passes, recording, isRefused, dropped) = state.withLock {
            state -> (Bool, Recording?, Bool, (any TransferTask)?) in
            defer { state.isRefused = false }
            switch state.role {
            case .forward, .bypass:
                state.recording?.bytes += Int64(data.count)
                return (true, state.recording, state.isRefused, nil)
            case .validate, .complete, .serve, .sendAgain:
                state.droppedBytes += data.count
                guard state.droppedBytes > Self.mostDroppedBytes else { return (false, nil, false, nil) }
                defer { state.network = nil }
                return (false, nil, false, state.network)
            }
        }
        if let dropped { client.onTaskControl { dropped.cancel() } }
        if let recording, !recording.writer.write(data) {
            endSharing(handsOver: false)
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
            defer { (state.recording, state.network, state.droppedBytes) = (nil, nil, 0) }
            return (state.role, state.recording, state.isCancelled, state.phase == .ended)
        }
        // If the transfer was cancelled before it started, `cancel` has already called `client.didFinish`.
        if isOver { return }
        if isCancelled {
            endSharing(handsOver: true)
            if let recording { keepPart(recording) }
            return finish(error ?? Self.cancelled)
        }
        switch role {
        // The head has decided. The rest of its response, or an error in it, means nothing.
        case .serve: return serveInstead()
        case .sendAgain: return client.onTaskControl { self.send(self.request, as: .forward) }
        case .validate(let entry, let form):
            if let error, isUnreachable(error), mayServe(entry) {
                state.withLock { state in
                    (state.role, state.status.detail) = (.serve(entry, form), "stale-if-error")
                }
                return serveInstead()
            }
            if let error, isUnreachable(error), cache.configuration.answersGatewayTimeout {
                state.withLock { ($0.role, $0.phase, $0.isPumping) = (.bypass, .serving, true) }
                return answerUnavailable()
            }
        case .forward, .complete, .bypass: break
        }
        if let recording {
            if error == nil { keep(recording) } else { keepPart(recording) }
        }
        endSharing(handsOver: error != nil)
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

    /// Whether the server is unreachable, so that the cache counts as disconnected (RFC 9111, section 4.2.4).
    private func isUnreachable(_ error: RequestError) -> Bool {
        [.connectionFailed, .connectionLost, .timedOut, .proxyFailed].contains(error.code)
    }

    private func mayServe(_ entry: StoredEntry) -> Bool {
        entry.head.mayBeUsedOnError(
            at: now, question, unconfigured: cache.configuration.staleWhenUnreachable?.components.seconds)
    }

    // MARK: Serving a stored response

    func readOn(_ work: @escaping @Sendable () -> Void) {
        guard store.mayBlock else { return work() }
        // A client that cannot pause waits for a thread of the disk's pool, so it must not use all of them.
        if client.pausesInPlace { cache.onDisk(work) } else { client.onExecutor(work) }
    }

    func beginServing(refreshing stale: StoredHead? = nil) {
        let role = state.withLock { $0.role }
        guard case .serve(let entry, let form) = role else { return answerUnavailable() }
        let isWithoutBody = form == .notModified || form == .unsatisfiable || question.method == .head
        let body =
            isWithoutBody
            ? .data(Data()) : entry.body.map(StoredBody.data) ?? store.openBody(of: entry, key: question.key)
        guard let body else { return sendInstead() }
        // Not before the body is open: the refresh may replace the stored response.
        if let stale { refresh(stale) }
        serve(entry, form, body)
    }

    private func serve(_ entry: StoredEntry, _ form: CacheDecision.Form, _ body: StoredBody) {
        store.use(entry.id)
        removeAfterLastUse()
        let (head, rest) = entry.head.response(form, to: request, at: now, cache.configuration.sharing)
        let length = rest.upperBound - rest.lowerBound
        let timeToLive = entry.head.timeToLive(at: now, cache.configuration.sharing)
        let isHit = state.withLock { state in
            (state.body, state.rest) = (body, rest)
            state.status.timeToLive = timeToLive
            return state.status.isHit
        }
        cache.count { count in
            if isHit { count.countHit(timeToLive: timeToLive, bytes: length) } else { count.savedBytes += length }
        }
        client.didReceive(head)
        pump()
    }

    func removeAfterLastUse() {
        let role = state.withLock { state in
            defer { state.isLastUse = false }
            return state.isLastUse ? state.role : nil
        }
        guard case .serve(let entry, _) = role else { return }
        store.remove([entry.id], of: question.key)
    }

    // If the request may not use the network, the client receives status 504. If the attempt has no slot, it fails.
    private func sendInstead() {
        if question.isOffline {
            state.withLock { ($0.status.forward, $0.status.detail) = (.miss, "only-if-cached") }
            return answerUnavailable()
        }
        guard hasSlot else { return endWithoutSlot() }
        cache.count { $0.misses[.miss, default: 0] += 1 }
        state.withLock { ($0.phase, $0.status.forward, $0.isPumping) = (.network, .miss, false) }
        client.onTaskControl { self.send(self.request, as: .forward) }
    }

    private func endWithoutSlot() {
        state.withLock { $0.phase = .ended }
        client.didFinish(
            RequestError(.connectionLost, "the stored response is gone", underlying: StoredAnswerIsGone()))
    }

    /// The request may not use the network (RFC 9111, section 5.2.1.7), or the server is unreachable (section 5.2.2.2).
    func answerUnavailable() {
        client.didReceive(
            ResponseHead(statusCode: 504, headerFields: ["Content-Length": "0"], url: request.url, expectedBytes: 0))
        pump()
    }

    func pump() {
        enum Step {
            case wait
            case read(StoredBody, Range<Int64>)
            case finish, cancel
        }
        let most = max(1, min(Self.chunkBytes, client.maxChunkBytes))
        while true {
            let step = state.withLock { state -> Step in
                if state.isCancelled {
                    state.phase = .ended
                    return .cancel
                }
                if state.isSuspended || state.isPaused {
                    state.isPumping = false
                    return .wait
                }
                guard let body = state.body, !state.rest.isEmpty else {
                    state.phase = .ended
                    return .finish
                }
                return .read(body, state.rest)
            }
            switch step {
            case .wait: return
            case .finish: return finish(nil)
            case .cancel: return client.didFinish(Self.cancelled)
            case .read(let body, let rest): if !deliver(body, rest, most) { return }
            }
        }
    }

    /// False if `pump` must return.
    private func deliver(_ body: StoredBody, _ rest: Range<Int64>, _ most: Int) -> Bool {
        let count = Int(min(Int64(most), rest.upperBound - rest.lowerBound))
        guard let data = body.read(at: rest.lowerBound, count: count), !data.isEmpty else {
            let role = state.withLock { state in
                state.phase = .ended
                return state.role
            }
            if case .serve(let entry, _) = role { store.repair([entry.id], of: question.key) }
            client.didFinish(RequestError(.connectionLost, "the stored body could not be read completely"))
            return false
        }
        state.withLock { $0.rest = rest.lowerBound + Int64(data.count)..<rest.upperBound }
        // Stops only if the transport can continue a paused task where it stopped.
        guard !client.didReceive(data), client.pausesInPlace else { return true }
        state.withLock { ($0.isPaused, $0.isPumping) = (true, false) }
        client.didPause()
        return false
    }

    // MARK: Storing: RFC 9111, section 3

    func makeRecording(_ head: ResponseHead, _ requestTime: Int64, _ now: Int64) -> Recording? {
        guard mayBeStored(head) else { return nil }
        guard question.refusal(head.statusCode, head.headerFields) == nil,
            let writer = store.makeWriter(expectedBytes: head.expectedBytes)
        else {
            supersede(head)
            return nil
        }
        let stored = StoredHead(head, to: request, question, requestTime: requestTime, responseTime: now)
        return Recording(writer: writer, head: stored)
    }

    // The request must be a GET without a body, or a POST. The response to a POST needs status 200, the request's URL
    // in `Content-Location` and an explicit lifetime (RFC 9110, section 9.3.3).
    private func mayBeStored(_ head: ResponseHead) -> Bool {
        if question.method == .get { return !question.hasBody }
        guard question.method == .post, head.statusCode == 200,
            let location = head.headerFields["Content-Location"]?.trimmingBlanks,
            let url = URL(string: location, relativeTo: request.url)?.absoluteURL,
            CacheKey.key(url, question.digest) == CacheKey.key(request.url, question.digest)
        else { return false }
        let control = Freshness.control(head.headerFields, question.sharing)
        return Freshness.isExplicit(head.headerFields, control, question.sharing)
    }

    private func supersede(_ head: ResponseHead) {
        guard head.statusCode < 500, head.statusCode != 206, !CacheRules.isOfOneRequest(head.statusCode) else { return }
        store.remove(exchange.entries.filter { $0.head.matches(question) }.map(\.id), of: question.key)
    }

    func keep(_ recording: Recording) {
        var head = recording.head
        head.bodyBytes = recording.bytes
        if head.statusCode == 206 {
            // The server chooses the range. A longer body is discarded; a shorter one is stored as the beginning of the
            // range.
            let range = head.headerFields["Content-Range"].flatMap(ContentRange.init)?.range
            guard let range, recording.bytes > 0, recording.bytes <= range.count else {
                return recording.writer.discard()
            }
            if recording.bytes < range.count, head.coding != .decoded { head.shortenPart() }
        } else {
            // If the length differs, the connection may have ended early without an error. The cache must not store the
            // body as complete (RFC 9111, section 3.3).
            if let expected = head.totalBytes, head.coding != .decoded, expected != recording.bytes {
                return recording.writer.discard()
            }
            head.totalBytes = recording.bytes
        }
        if commit(recording, head) { state.withLock { $0.status.isStored = true } }
    }

    /// Stores an incomplete response, which a later request may complete (RFC 9111, section 3.3).
    func keepPart(_ recording: Recording) {
        var head = recording.head
        head.bodyBytes = recording.bytes
        guard head.statusCode == 200, head.coding == .none, recording.bytes > 0, let total = head.totalBytes,
            total > recording.bytes, recording.bytes <= StoredHead.mostBeginningBytes, head.strongValidator != nil
        else { return recording.writer.discard() }
        commit(recording, head)
    }

    @discardableResult
    private func commit(_ recording: Recording, _ head: StoredHead) -> Bool {
        let question = question
        let isStored = recording.writer.commit(head) { other in
            // Another request may have stored the complete response meanwhile.
            if head.statusCode == 200, !head.isComplete, other.isComplete, other.matches(question) { return nil }
            return head.replaces(other, question)
        }
        if isStored { cache.count { $0.stores += 1 } }
        return isStored
    }

    /// Updates stored responses, or marks them invalid (RFC 9111, sections 4.3.4 and 4.3.5).
    private func updateStored(by head: ResponseHead, _ requestTime: Int64, _ now: Int64) {
        for entry in exchange.entries where entry.head.matches(question) {
            var updated = entry.head
            if head.statusCode == 304 {
                // Without a validator, the 304 does not identify a stored response.
                guard EntityTag(head.headerFields) != nil || head.headerFields.contains("Last-Modified"),
                    entry.head.isUpdated(by: head.headerFields)
                else { continue }
                updated.update(by: head, to: question, requestTime: requestTime, responseTime: now)
            } else {
                updated.update(byHead: head, to: question, requestTime: requestTime, responseTime: now)
            }
            if question.refusal(updated.statusCode, updated.headerFields) == nil {
                store.update(entry.id, to: updated)
            } else {
                store.remove([entry.id], of: question.key)
            }
        }
    }
}

extension CachePolicy {
    /// Makes caches between client and server validate their responses (Fetch Standard, section 4.5).
    func addFields(to request: inout PreparedRequest) {
        switch self {
        case .reload, .noStore:
            if !request.headerFields.contains("Pragma") { request.headerFields["Pragma"] = "no-cache" }
            if !request.headerFields.contains("Cache-Control") { request.headerFields["Cache-Control"] = "no-cache" }
        case .revalidate:
            if !request.headerFields.contains("Cache-Control") { request.headerFields["Cache-Control"] = "max-age=0" }
        case .standard, .preferCache, .onlyCache: break
        }
    }
}

struct Recording {
    let writer: any StoreWriter
    var head: StoredHead
    var bytes: Int64 = 0
}

extension StoredHead {
    func isSame(_ headerFields: HeaderFields, _ validator: String) -> Bool {
        if entityTag != nil { return EntityTag(headerFields)?.text == validator }
        return headerFields.values(of: "Last-Modified").first?.trimmingBlanks == validator
    }
}
