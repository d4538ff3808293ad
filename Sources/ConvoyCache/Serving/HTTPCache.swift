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
        let question = question(CacheQuery(prepared, request.cacheOptions, clock: SystemClock.shared), store.digest)
        guard question.method == .get, !question.hasBody, statusCode != 206,
            question.refusal(statusCode, headerFields) == nil,
            let writer = store.makeWriter(expectedBytes: Int64(body.count))
        else { return false }
        let response = ResponseHead(
            statusCode: statusCode, headerFields: headerFields, url: prepared.url, expectedBytes: Int64(body.count))
        let now = date.cacheSeconds
        var head = StoredHead(response, to: prepared, question, requestTime: now, responseTime: now)
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
    func question(_ query: CacheQuery, _ digest: KeyedDigest) -> CacheQuestion {
        CacheQuestion(query, sharing: configuration.sharing, digest)
    }

    package func answer<Value>(
        _ query: CacheQuery, isMiss: inout Bool, _ use: (ResponseHead, CopyOnWrite<TransferMetrics>, Data) -> Value?
    ) -> Value? {
        guard let question = store.knownDigest.map({ question(query, $0) }),
            let entries = store.entriesInMemory(for: question.key)
        else { return nil }
        let decision = CacheDecision.decide(question, entries.map(\.head))
        isMiss = !decision.answers
        // Other responses need an operation, which refreshes, follows a redirect, or fails.
        guard case .serve(let index, .whole, isRefreshing: false) = decision, let body = entries[index].body,
            entries[index].head.statusCode == 200
        else { return nil }
        store.use(entries[index].id)
        let answer = entries[index].head.answer(to: query.request, at: question.now, question.sharing)
        guard let value = use(answer.head, answer.metrics, body) else { return nil }
        count { $0.countHit(timeToLive: answer.metrics.value.cache?.timeToLive, bytes: Int64(body.count)) }
        return value
    }

    package func find(_ query: CacheQuery, _ then: @escaping @Sendable ((any CacheExchange)?) -> Void) -> Bool {
        guard let known = look(query, { then($0.decision.answers ? $0 : nil) }) else { return true }
        if known.decision.answers { then(known) }
        return known.decision.answers
    }

    package func makeTransfer(
        for query: CacheQuery, _ found: (any CacheExchange)?, client: any CacheClient
    ) -> any TransferTask {
        CacheTransfer(self, query, found as? StoredExchange, client)
    }

    // Nil if the disk must be read; `then` is then called on a thread that may wait for the disk. With `waits`, the
    // result is not certain if a request in progress has the key.
    func look(
        _ query: CacheQuery, waits: Bool = false, _ then: @escaping @Sendable (StoredExchange) -> Void
    ) -> StoredExchange? {
        if let question = store.knownDigest.map({ question(query, $0) }) {
            if !question.looksUp || store.takeMiss(of: question.key) { return StoredExchange(question) }
            if !store.mayBlock { return StoredExchange(question, in: store) }
            if waits, fetches.has(question.key) { return StoredExchange(question, isCertain: false) }
        }
        onDisk { then(StoredExchange(self.question(query, self.store.digest), in: self.store)) }
        return nil
    }

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

/// The result of a lookup.
final class StoredExchange: CacheExchange {
    let question: CacheQuestion
    let entries: [StoredEntry]
    let decision: CacheDecision
    // False if only a request in progress with the same key was found, for which the request can wait. A lookup on disk
    // at that time could find nothing, and its result could arrive when the response is already stored.
    let isCertain: Bool
    /// Nil for any other decision than to request the rest.
    let beginning: Data?

    var readsFile: Bool { if case .serve(let index, _, _) = decision { entries[index].body == nil } else { false } }

    /// Looks in the store, if there is one.
    init(
        _ question: CacheQuestion, _ known: [StoredEntry] = [], in store: (any CacheStore)? = nil,
        isCertain: Bool = true
    ) {
        let entries = question.looksUp ? store?.entries(for: question.key) ?? known : known
        var (decision, beginning) = (CacheDecision.decide(question, entries.map(\.head)), Data?.none)
        if case .complete(let index) = decision {
            // The body is read here because a transport's thread must not wait for the disk.
            let body = store?.openBody(of: entries[index], key: question.key)
            beginning = body.flatMap { $0.read(at: 0, count: Int($0.byteCount)) }
            if beginning?.count != Int(entries[index].head.bodyBytes) { decision = .forward(.partial) }
        }
        (self.question, self.entries, self.isCertain) = (question, entries, isCertain)
        (self.decision, self.beginning) = (decision, beginning)
    }

    package func answers(at date: Date) -> Bool {
        var question = question
        question.now = date.cacheSeconds
        return CacheDecision.decide(question, entries.map(\.head)).answers
    }
}
