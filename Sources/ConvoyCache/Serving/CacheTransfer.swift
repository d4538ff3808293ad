// What moves the bytes of one attempt through the cache.
import Convoy
import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// The transfer of one attempt: a stored response, the network, or the one behind the other.
///
/// Towards the operation it is a task, towards the transport a client.
///
/// ## Concurrency
/// One lock, a leaf. The client is called by one thread at a time: by the transport's until that has ended, then by the one
/// that finds `isPumping` false.
final class CacheTransfer: TransferTask, TransportClient {
    enum Phase {
        /// Not resumed yet. Next: network, serving, ended.
        case idle
        /// The transport moves bytes. Next: serving, network again, ended.
        case network
        /// A stored body is read. Next: ended, or network when it is damaged.
        case serving
        /// The client has been told the end.
        case ended
    }

    /// What the network's answer is for.
    enum Role {
        /// It is the answer, and may be stored.
        case forward
        /// It says whether a stored response is still the one.
        case validate(StoredEntry, CacheDecision.Form)
        /// It is the rest of a stored one.
        case complete(StoredEntry)
        /// It is dropped, and a stored response is the answer.
        case serve(StoredEntry, CacheDecision.Form)
        /// It is dropped, and the request is sent again without conditions.
        case sendAgain
        /// It is the answer, and the cache takes no notice of it.
        case bypass
    }

    struct State {
        var phase = Phase.idle
        var role: Role
        var network: (any TransferTask)?
        var isCancelled = false
        var isSuspended = false
        var isHeld = false
        /// Whether the client has refused more than the beginning of a response that is completed.
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
    /// The present moment, as the rules count.
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
            // A condition of the request's own stays, and is answered by the server.
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
    /// The fields that have caches on the way validate too (Fetch, section 4.5).
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
