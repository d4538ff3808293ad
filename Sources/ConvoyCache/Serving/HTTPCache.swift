import Convoy
import Foundation

/// Stores responses and answers later requests with them: an HTTP cache by RFC 9111.
///
/// ```swift
/// var configuration = RequestManager.Configuration()
/// configuration.cache = HTTPCache.memory(capacity: 64 << 20)
/// let manager = RequestManager(configuration: configuration)
/// ```
///
/// ## Concurrency
/// Use it from any thread, and with several managers. A cache in a directory may be used by several processes at once.
public final class HTTPCache: ResponseCache {
    /// The settings of a cache beyond what RFC 9111 requires.
    public struct Configuration: Sendable {
        /// Whether the cache serves one user or several.
        ///
        /// The default is one user.
        public var sharing = CacheSharing.private
        /// The maximum size of a stored body, in bytes.
        ///
        /// The default, nil, means an eighth of the capacity.
        public var maxEntryBytes: Int64?
        /// How long the cache may serve a stale response while the server is unreachable (RFC 9111, section 4.2.4).
        ///
        /// The default is one day; nil means never. The option does not apply to a response with `must-revalidate` or
        /// `no-cache`, nor to a request with `no-cache`, `max-age` or `min-fresh`. It applies only to requests with the
        /// standard cache policy. If the request or the response has `stale-if-error`, the larger of their numbers of
        /// seconds applies instead. `stale-if-error` also covers error responses from the server.
        public var staleWhenUnreachable: Duration? = .seconds(86_400)

        /// Whether the cache answers with status 504 when it cannot validate because the server is unreachable.
        ///
        /// RFC 9111, section 5.2.2.2, recommends 504 for this case. With the default, false, the request fails with
        /// the error of the connection.
        public var answersGatewayTimeout = false

        /// Makes a configuration with the default settings.
        public init() {}
    }

    /// The settings of this cache.
    public let configuration: Configuration
    let store: any CacheStore
    let state = Locked(State())
    let fetches = Fetches()

    struct State {
        var statistics = CacheStatistics()
        var refreshing: Set<String> = []
    }

    init(_ store: any CacheStore, _ configuration: Configuration) {
        (self.store, self.configuration) = (store, configuration)
    }

    deinit { store.close() }

    /// Makes a cache in memory.
    ///
    /// Its contents are lost when the process ends.
    ///
    /// - Parameters:
    ///   - capacity: the maximum size in bytes, including header fields. The cache evicts the least recently used
    ///     responses first.
    ///   - configuration: the settings of the cache.
    public static func memory(capacity: Int64, configuration: Configuration = Configuration()) -> HTTPCache {
        let capacity = max(0, capacity)
        let store = MemoryStore(capacity: capacity, mostEntryBytes: configuration.maxEntryBytes ?? capacity / 8)
        return HTTPCache(store, configuration)
    }

    /// Makes a cache in a directory, whose contents outlive the process.
    ///
    /// Several processes may use one directory at once. The cache creates a missing directory with access for its
    /// owner only. In a directory of another user it stores nothing. The cache skips what it cannot write and removes
    /// damaged entries. A disk error fails an attempt only if the cache cannot read the rest of a body that it
    /// delivers.
    ///
    /// - Parameters:
    ///   - directory: a file URL. The cache uses responses that the directory already contains.
    ///   - capacity: the maximum size in bytes, including header fields. The cache evicts the least recently used
    ///     responses first.
    ///   - configuration: the settings of the cache.
    public convenience init(directory: URL, capacity: Int64, configuration: Configuration = Configuration()) {
        let capacity = max(0, capacity)
        let store = DiskStore(
            directory: directory, capacity: capacity, mostEntryBytes: configuration.maxEntryBytes ?? capacity / 8)
        self.init(store, configuration)
    }

    /// The connection between this cache and a manager.
    public var connection: CacheConnection { CacheConnection(self) }

    // MARK: Statistics and removal

    /// The hits and misses since the cache was made, and the number of stored responses.
    public var statistics: CacheStatistics {
        var statistics = state.withLock { $0.statistics }
        let counts = store.counts
        (statistics.entryCount, statistics.storedBytes) = (counts.entryCount, counts.storedBytes)
        (statistics.evictions, statistics.repairs) = (counts.evictions, counts.repairs)
        return statistics
    }

    /// Removes all stored responses.
    public func removeAll() { store.removeAll() }

    // MARK: Storing

    /// Stores a response from another source, as if it had just been received.
    ///
    /// The usual rules apply. For example, a response with `no-store` is not stored. A response without a lifetime
    /// needs validation.
    ///
    /// ```swift
    /// try cache.store(page, headerFields: ["Cache-Control": "max-age=3600"], for: .get(url))
    /// ```
    ///
    /// - Parameters:
    ///   - body: the complete body, without a content coding.
    ///   - statusCode: the status code; 200 by default.
    ///   - headerFields: the header fields of the response.
    ///   - request: the GET request that the response answers.
    ///   - date: when the response was received; now by default.
    /// - Returns: whether the cache accepted the response. A later disk error is not reported.
    /// - Throws: `.invalidRequest` if the request cannot be sent.
    /// - Thread: any; it may wait for the disk.
    @discardableResult
    public func store(
        _ body: Data, statusCode: Int = 200, headerFields: HeaderFields, for request: Request<Data>,
        at date: Date = Date()
    ) throws(RequestError) -> Bool {
        let prepared = try PreparedRequest(checking: request)
        let query = CacheQuery(
            prepared, request.cacheOptions, keepsCoding: prepared.asksForIdentity, clock: SystemClock.shared)
        let question = CacheQuestion(query, sharing: configuration.sharing, store.digest)
        guard question.method == .get, !question.hasBody, statusCode != 206,
            question.refusal(statusCode, headerFields) == nil,
            let writer = store.makeWriter(expectedBytes: Int64(body.count))
        else { return false }
        let key = CacheKey.key(query, question.digest)
        let response = ResponseHead(
            statusCode: statusCode, headerFields: headerFields, url: prepared.url, expectedBytes: Int64(body.count))
        let now = date.cacheSeconds
        var head = StoredHead(response, to: prepared, question, key: key, requestTime: now, responseTime: now)
        head.bodyBytes = Int64(body.count)
        guard writer.write(body) else {
            writer.discard()
            return false
        }
        let isStored = writer.commit(head) { [head] in head.replaces($0, question) }
        if isStored { count { $0.stores += 1 } }
        return isStored
    }
}

extension HTTPCache: CacheEngine {
    /// - Thread: one that may block on the disk.
    package func begin(_ query: CacheQuery) -> (any CacheExchange)? {
        let digest = store.digest
        let key = CacheKey.key(query, digest)
        let question = CacheQuestion(query, sharing: configuration.sharing, digest)
        return StoredExchange(self, query, question, key, question.looksUp ? store.entries(for: key) : [])
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
        return StoredExchange(self, query, question, key, [], isCertain: isMiss)
    }

    func refreshEnded(_ key: String) { state.withLock { _ = $0.refreshing.remove(key) } }

    func count(_ change: (inout CacheStatistics) -> Void) { state.withLock { change(&$0.statistics) } }

    /// The key of the request is not its URL if the request has a `cacheKey`.
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

final class StoredExchange: CacheExchange {
    let cache: HTTPCache
    let query: CacheQuery
    let key: String
    let entries: [StoredEntry]
    /// Nil for any other decision than to request the rest.
    let beginning: Data?
    private let question: CacheQuestion
    private let decision: CacheDecision
    package let wantsRefresh: Bool
    package let isCertain: Bool

    init(
        _ cache: HTTPCache, _ query: CacheQuery, _ question: CacheQuestion, _ key: String, _ entries: [StoredEntry],
        isCertain: Bool = true
    ) {
        (self.cache, self.query, self.question, self.key) = (cache, query, question, key)
        let decision = CacheDecision.decide(question, entries.map(\.head))
        (self.entries, self.decision, self.isCertain) = (entries, decision, isCertain)
        var (beginning, wantsRefresh) = (Data?.none, false)
        switch decision {
        case .complete(let index):
            // The body is read here because a transport's thread must not block on the disk.
            let body = cache.store.openBody(of: entries[index], key: key)
            beginning = body.flatMap { $0.read(at: 0, count: Int($0.byteCount)) }
        case .serve(_, _, isRefreshing: true):
            wantsRefresh = cache.state.withLock { $0.refreshing.insert(key).inserted }
        default: break
        }
        (self.beginning, self.wantsRefresh) = (beginning, wantsRefresh)
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
        let selection = Fetches.Selection(credentials: question.credentials, keepsCoding: question.keepsCoding)
        return cache.fetches.awaitEqual(key, selection, by: self, registers: isCertain, makeThen)
    }

    /// If `handsOver` is false, all of the waiting requests search the cache again.
    func endSharing(handsOver: Bool) { cache.fetches.end(key, by: self, handsOver: handsOver) }

    deinit { endSharing(handsOver: true) }

    package func makeTransfer(
        for request: PreparedRequest, client: any TransportClient, over network: CacheNetwork
    ) throws(RequestError) -> any TransferTask {
        // The time and the fields may have changed. For example, a resumed download has a range.
        let question = question(of: request)
        return try CacheTransfer(self, question, decide(question), request, client, network)
    }

    private func question(of request: PreparedRequest) -> CacheQuestion {
        var query = query
        query.request = request
        return CacheQuestion(query, sharing: question.sharing, question.digest)
    }

    private func decide(_ question: CacheQuestion) -> CacheDecision {
        let isSame =
            question.now == self.question.now && question.method == self.question.method
            && question.hasBody == self.question.hasBody && question.headerFields == self.question.headerFields
        let decision = isSame ? decision : CacheDecision.decide(question, entries.map(\.head))
        guard case .complete(let index) = decision else { return decision }
        return beginning?.count == Int(entries[index].head.bodyBytes) ? decision : .forward(.partial)
    }
}
