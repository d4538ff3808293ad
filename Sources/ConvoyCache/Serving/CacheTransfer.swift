// The transfer of one attempt through the cache.
import Convoy
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The transfer of one attempt: from a stored response, the network, or both in turn.
///
/// It is a task for the operation and a client for the transport.
///
/// ## Concurrency
/// One thread at a time calls the client: the transport's until it has ended, then the one that finds `isPumping`
/// false.
final class CacheTransfer: TransferTask, TransportClient {
    enum Phase {
        /// Not resumed yet.
        ///
        /// Next: network, serving, ended.
        case idle
        /// The transport transfers bytes.
        ///
        /// Next: serving, network again, ended.
        case network
        /// A stored body is read.
        ///
        /// Next: ended, or network when it is damaged.
        case serving
        /// The client has received the end.
        case ended
    }

    /// The purpose of the network's answer.
    enum Role {
        /// The client receives the network's answer, which the cache may store.
        case forward
        /// The network's answer validates a stored response.
        case validate(StoredEntry, CacheDecision.Form)
        /// The network's answer is the rest of a stored response.
        case complete(StoredEntry)
        /// The cache drops the network's answer, and the client receives a stored response.
        case serve(StoredEntry, CacheDecision.Form)
        /// The cache drops the network's answer and sends the request again without conditions.
        case sendAgain
        /// The client receives the network's answer, which the cache ignores.
        case bypass
    }

    struct State {
        var phase = Phase.idle
        var role: Role
        var network: (any TransferTask)?
        var isCancelled = false
        var isSuspended = false
        var isHeld = false
        /// Whether the client refused further bytes after the start of a completed response.
        var isRefused = false
        var isPumping = false
        var body: StoredBody?
        /// The part of the body that the client has not received.
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
    /// The current time in the unit of the rules.
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
            // The request's own condition is kept, and the server answers it.
            if question.hasCondition || form != .whole {
                sent = request
            } else {
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
        question.options.policy.addFields(to: &sent.headerFields)
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
            (state.isSuspended, state.isHeld) = (false, false)
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
        case .network(let task):
            beginSharing()
            task.resume()
        case .begin: beginServing()
        case .pump: readOn { self.pump() }
        }
    }

    func suspend() {
        // Others do not wait for what its owner does not want now.
        endSharing()
        let network = state.withLock { state in
            state.isSuspended = true
            return state.phase == .network ? state.network : nil
        }
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
        endSharing()
        network?.cancel()
        if ends { client.didFinish(Self.cancelled) }
    }

    func makeSessionTask() -> URLSessionTask {
        state.withLock { $0.network }?.makeSessionTask() ?? StoredTask(request.url, self)
    }

    /// Equal requests wait for the response from now on.
    private func beginSharing() {
        let isForward = state.withLock { if case .forward = $0.role { $0.network != nil } else { false } }
        if isForward, question.isShareable { cache.fetches.begin(exchange.key, Fetches.Selection(question), by: self) }
    }

    func endSharing() { if question.isShareable { cache.fetches.end(exchange.key, by: self) } }

    static var cancelled: RequestError { RequestError(.cancelled, "the task was cancelled") }
}

extension CachePolicy {
    /// Fields that make caches on the network path validate too (Fetch, section 4.5).
    func addFields(to headerFields: inout HeaderFields) {
        switch self {
        case .reload, .noStore:
            if !headerFields.contains("Pragma") { headerFields["Pragma"] = "no-cache" }
            if !headerFields.contains("Cache-Control") { headerFields["Cache-Control"] = "no-cache" }
        case .revalidate:
            if !headerFields.contains("Cache-Control") { headerFields["Cache-Control"] = "max-age=0" }
        case .standard, .preferCache, .onlyCache: break
        }
    }
}
