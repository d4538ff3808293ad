// The public type of the cache.
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
    /// The requests in progress whose responses other requests may share.
    let fetches = Fetches()

    struct State {
        var statistics = CacheStatistics()
        /// The keys of the responses that are being validated in the background.
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
        (statistics.entryCount, statistics.storedBytes) = (counts.entries, counts.bytes)
        (statistics.evictions, statistics.repairs) = (counts.evictions, counts.repairs)
        return statistics
    }

    /// Removes all stored responses.
    public func removeAll() { store.removeAll() }
}

/// Counts of a cache: hits, misses and stored responses.
///
/// ```swift
/// let statistics = cache.statistics
/// print(statistics.hits, statistics.misses[.stale] ?? 0, statistics.storedBytes)
/// ```
public struct CacheStatistics: Sendable, Hashable {
    /// Requests that the cache answered with a fresh response, without the network.
    public internal(set) var hits = 0
    /// Requests that the cache answered with a stale response, as the request or the response allowed.
    public internal(set) var staleHits = 0
    /// Requests whose stored response the server confirmed with a 304.
    public internal(set) var validations = 0
    /// Requests that the cache forwarded to the network, by reason.
    public internal(set) var misses: [CacheStatus.Forward: Int] = [:]
    /// Body bytes that the cache supplied instead of the network.
    public internal(set) var savedBytes: Int64 = 0
    /// Responses that the cache stored.
    public internal(set) var stores = 0
    /// Responses that the cache evicted to make room.
    public internal(set) var evictions = 0
    /// Damaged responses and damaged indexes that the cache removed.
    public internal(set) var repairs = 0
    /// Responses that the cache stores now.
    public internal(set) var entryCount = 0
    /// The number of bytes that count towards the capacity.
    public internal(set) var storedBytes: Int64 = 0

    /// Counts a request that the cache has answered without the network.
    mutating func countHit(timeToLive: Int64?, bytes: Int64) {
        savedBytes += bytes
        if timeToLive ?? 0 > 0 { hits += 1 } else { staleHits += 1 }
    }
}
