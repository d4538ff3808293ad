// The transfer of one attempt through the cache.
import Convoy
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Transfers one attempt from the store, from the network, or from both in turn.
///
/// The operation uses a `CacheTransfer` as its task, and the transport uses the same object as its client.
///
/// ## Concurrency
/// One lock protects the state. No other lock is acquired under this lock. One thread at a time calls the client. While
/// the transport delivers a response, this is the transport's thread. At other times it is the thread that has set
/// `isPumping` to true, or that has set the phase to `ended`.
final class CacheTransfer: TransferTask, TransportClient {
    enum Phase {
        /// The transfer has not been resumed yet.
        ///
        /// Next: network, serving or ended.
        case idle
        /// The transport delivers a response.
        ///
        /// Next: serving, network again or ended.
        case network
        /// The cache reads a stored body.
        ///
        /// Next: ended, or network if the stored body cannot be opened.
        case serving
        /// The transfer calls, or has called, `client.didFinish`.
        case ended
    }

    /// How the transfer uses the network response.
    enum Role {
        /// The client receives the response, which may be stored.
        case forward
        /// The response validates a stored one.
        case validate(StoredEntry, CacheDecision.Form)
        /// The transfer has requested the rest of a stored response.
        case complete(StoredEntry)
        /// The client receives a stored response, and the transfer discards any network response.
        case serve(StoredEntry, CacheDecision.Form)
        /// The response is discarded, and the request is sent again without conditions.
        case sendAgain
        /// The client receives the response, and the cache does not store it.
        case bypass
    }

    struct State {
        var phase = Phase.idle
        var role: Role
        var network: (any TransferTask)?
        var isCancelled = false
        var isSuspended = false
        var isPaused = false
        /// Whether the client returned false for the stored beginning of a response.
        ///
        /// If true, the next `didReceive` of data returns false, so that the transport pauses its task.
        var isRefused = false
        var isPumping = false
        /// Whether the stored response is removed after this use, because the fields of its 304 forbid storing it.
        var isLastUse = false
        var body: StoredBody?
        /// The byte range of the body that the client has not received.
        var rest: Range<Int64> = 0..<0
        var status = CacheStatus()
        var metrics: TransferMetrics?
        var requestTime: Int64 = 0
        var recording: Recording?
    }

    static let chunkBytes = 256 << 10

    let exchange: StoredExchange
    let question: CacheQuestion
    let request: PreparedRequest
    let client: any TransportClient
    let network: CacheNetwork
    let state: Locked<State>

    var cache: HTTPCache { exchange.cache }
    var store: any CacheStore { exchange.cache.store }
    /// The current time in seconds since 1970.
    var now: Int64 { exchange.query.clock.date.cacheSeconds }

    init(
        _ exchange: StoredExchange, _ question: CacheQuestion, _ decision: CacheDecision, _ request: PreparedRequest,
        _ client: any TransportClient, _ network: CacheNetwork
    ) throws(RequestError) {
        (self.exchange, self.question, self.request) = (exchange, question, request)
        (self.client, self.network) = (client, network)
        var sent = request
        var status = CacheStatus()
        let role: Role
        switch decision {
        case .serve(let index, let form, _):
            role = .serve(exchange.entries[index], form)
        case .unavailable:
            (role, status.detail) = (.bypass, "only-if-cached")
            status.forward = .miss
        case .validate(let index, let form, let reason):
            (role, status.forward) = (.validate(exchange.entries[index], form), reason)
            if !question.isSentUnchanged(for: form) {
                exchange.entries[index].head.addConditions(to: &sent.headerFields)
            }
        case .complete(let index):
            (role, status.forward) = (.complete(exchange.entries[index]), .partial)
            let head = exchange.entries[index].head
            sent.headerFields["Range"] = "bytes=\(head.bodyBytes)-"
            sent.headerFields["If-Range"] = head.strongValidator
        case .forward(let reason): (role, status.forward) = (.forward, reason)
        case .bypass: (role, status.forward) = (.bypass, .bypass)
        }
        state = Locked(State(role: role, status: status))
        if case .serve = decision { return }
        if decision == .unavailable { return }
        question.options.policy.addFields(to: &sent)
        let task = try network.makeTransfer(for: sent, client: self)
        state.withLock { $0.network = task }
        cache.count { $0.misses[status.forward ?? .miss, default: 0] += 1 }
    }

    // MARK: The task

    func resume() {
        enum Action {
            case none
            case network(any TransferTask)
            case begin
            case pump
        }
        let requestTime = now
        let action = state.withLock { state -> Action in
            (state.isSuspended, state.isPaused) = (false, false)
            switch state.phase {
            case .idle:
                guard !state.isCancelled else { return .none }
                state.requestTime = requestTime
                if let network = state.network {
                    state.phase = .network
                    return .network(network)
                }
                (state.phase, state.isPumping) = (.serving, true)
                return .begin
            case .network: return state.network.map { .network($0) } ?? .none
            case .serving:
                if state.isPumping { return .none }
                state.isPumping = true
                return .pump
            case .ended: return .none
            }
        }
        switch action {
        case .none: break
        case .network(let task): task.resume()
        case .begin: beginServing()
        case .pump: readOn { self.pump() }
        }
    }

    func suspend() {
        let network = state.withLock { state in
            state.isSuspended = true
            return state.phase == .network ? state.network : nil
        }
        // Other requests do not wait for a suspended transfer.
        exchange.endSharing(handsOver: true)
        network?.suspend()
    }

    func cancel() {
        let (ends, network) = state.withLock { state -> (Bool, (any TransferTask)?) in
            guard !state.isCancelled, state.phase != .ended else { return (false, nil) }
            state.isCancelled = true
            switch state.phase {
            case .idle:
                state.phase = .ended
                return (true, state.network)
            case .network: return (false, state.network)
            case .serving:
                if state.isPumping { return (false, nil) }
                state.phase = .ended
                return (true, nil)
            case .ended: return (false, nil)
            }
        }
        exchange.endSharing(handsOver: true)
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
}

extension CachePolicy {
    /// Adds fields that make caches between client and server validate their responses (Fetch Standard, section 4.5).
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
