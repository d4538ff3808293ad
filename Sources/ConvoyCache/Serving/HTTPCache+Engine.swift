// The cache's interface to a manager.
import Convoy
import Foundation

extension HTTPCache: CacheEngine {
    /// - Thread: one that may block on the disk.
    package func begin(_ query: CacheQuery) -> (any CacheExchange)? {
        let digest = store.digest
        let key = CacheKey.key(query, digest)
        let question = CacheQuestion(query, sharing: configuration.sharing, digest)
        let entries = question.looksUp ? store.entries(for: key) : []
        let decision = CacheDecision.decide(question, entries.map(\.head))
        var beginning: Data?
        if case .complete(let index) = decision, let body = store.openBody(of: entries[index], key: key) {
            // The body is read here because a transport's thread must not block on the disk.
            beginning = body.read(at: 0, count: Int(body.byteCount))
        }
        var isRefreshing = false
        if case .serve(_, _, isRefreshing: true) = decision {
            isRefreshing = state.withLock { $0.refreshing.insert(key).inserted }
        }
        return StoredExchange(self, query, question, key, entries, decision, beginning, wantsRefresh: isRefreshing)
    }

    package var mayBlock: Bool { store.mayBlock }

    package func answer(_ query: CacheQuery) -> CacheAnswer {
        guard let digest = store.knownDigest else { return .unknown }
        let key = CacheKey.key(query, digest)
        guard let entries = store.entriesInMemory(for: key) else { return .unknown }
        let question = CacheQuestion(query, sharing: configuration.sharing, digest)
        let decision = CacheDecision.decide(question, entries.map(\.head))
        guard decision.answers else { return .none }
        // Other responses need an operation, which refreshes, follows a redirect, or fails.
        guard case .serve(let index, .whole, isRefreshing: false) = decision, let body = entries[index].body,
            entries[index].head.statusCode == 200
        else { return .unknown }
        store.use(entries[index].id)
        return .stored(entries[index].head.answer(to: query.request, at: question.now, question.sharing), body)
    }

    package func countHit(_ answer: StoredAnswer, bytes: Int64) {
        count { $0.countHit(timeToLive: answer.timeToLive, bytes: bytes) }
    }

    package func recall(_ query: CacheQuery) -> (any CacheExchange)? {
        guard let digest = store.knownDigest else { return nil }
        let key = CacheKey.key(query, digest)
        let question = CacheQuestion(query, sharing: configuration.sharing, digest)
        let isMiss = !question.looksUp || store.takeMiss(of: key)
        guard isMiss || fetches.has(key) else { return nil }
        return StoredExchange(
            self, query, question, key, [], .decide(question, []), nil, wantsRefresh: false, isCertain: isMiss)
    }

    func refreshEnded(_ key: String) { state.withLock { _ = $0.refreshing.remove(key) } }

    func count(_ change: (inout CacheStatistics) -> Void) { state.withLock { change(&$0.statistics) } }

    /// Removes the stored responses that an unsafe request invalidates.
    ///
    /// - Parameter key: the key of the request, which is not its URL if the request has a `cacheKey`.
    func invalidate(_ request: PreparedRequest, _ head: ResponseHead, key: String) {
        let urls = CacheRules.invalidated(request, head)
        guard !urls.isEmpty else { return }
        // Each URL has two keys: one with the request's `Host` field and one without it. If the field names another
        // host than the URL, the responses to URLs with the host of the field are not invalidated.
        let hosts = [nil, request.headerFields["Host"]]
        let keys = urls.flatMap { url in hosts.map { CacheKey.key(url, host: $0, store.digest) } }
        for key in Set(keys + [key]) { store.removeAll(key: key) }
    }
}

/// One request's use of the cache.
final class StoredExchange: CacheExchange {
    let cache: HTTPCache
    let query: CacheQuery
    let key: String
    let entries: [StoredEntry]
    /// The stored first bytes of a response whose rest must be requested; nil for any other decision.
    let beginning: Data?
    private let question: CacheQuestion
    private let decision: CacheDecision
    package let wantsRefresh: Bool
    package let isCertain: Bool

    init(
        _ cache: HTTPCache, _ query: CacheQuery, _ question: CacheQuestion, _ key: String, _ entries: [StoredEntry],
        _ decision: CacheDecision, _ beginning: Data?, wantsRefresh: Bool, isCertain: Bool = true
    ) {
        (self.cache, self.query, self.question, self.key) = (cache, query, question, key)
        (self.entries, self.decision) = (entries, decision)
        (self.beginning, self.wantsRefresh, self.isCertain) = (beginning, wantsRefresh, isCertain)
    }

    package var answers: Bool { decision.answers }

    package var stillAnswers: Bool { answers && decide(question(of: query.request)).answers }

    package var refreshRequest: PreparedRequest {
        var request = query.request
        for name in CacheQuestion.conditions { request.headerFields[name] = nil }
        guard case .serve(let index, _, _) = decision else { return request }
        let head = entries[index].head
        // The refresh of a partial response keeps `Range`. The rest may be large, and no request needs it yet.
        if head.isComplete, head.statusCode != 206 { request.headerFields["Range"] = nil }
        return request
    }

    package func refreshEnded() { cache.refreshEnded(key) }

    package func awaitEqual(_ makeThen: () -> @Sendable (Bool) -> Void) -> Bool {
        switch decision {
        case .forward(.uriMiss), .complete: break
        default: return false
        }
        guard question.isShareable else { return false }
        return cache.fetches.awaitEqual(key, Fetches.Selection(question), by: self, registers: isCertain, makeThen)
    }

    /// Ends the wait of equal requests for this one.
    ///
    /// - Parameter handsOver: whether one of them takes its place. If false, all of them search the cache again.
    func endSharing(handsOver: Bool) { cache.fetches.end(key, by: self, handsOver: handsOver) }

    deinit { endSharing(handsOver: true) }

    package func makeTransfer(
        for request: PreparedRequest, client: any TransportClient, over network: CacheNetwork
    ) throws(RequestError) -> any TransferTask {
        // The time and the fields may have changed. For example, a resumed download has a range.
        let question = question(of: request)
        return try CacheTransfer(self, question, decide(question), request, client, network)
    }

    /// Makes a new question for a request, at the current time.
    private func question(of request: PreparedRequest) -> CacheQuestion {
        var query = query
        query.request = request
        return CacheQuestion(query, sharing: question.sharing, question.digest)
    }

    /// Decides how to answer the request.
    private func decide(_ question: CacheQuestion) -> CacheDecision {
        let isSame =
            question.now == self.question.now && question.method == self.question.method
            && question.hasBody == self.question.hasBody && question.headerFields == self.question.headerFields
        let decision = isSame ? decision : CacheDecision.decide(question, entries.map(\.head))
        guard case .complete(let index) = decision else { return decision }
        return beginning?.count == Int(entries[index].head.bodyBytes) ? decision : .forward(.partial)
    }
}
