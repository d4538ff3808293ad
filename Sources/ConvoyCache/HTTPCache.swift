// The cache, the main object of the library.
import Convoy
import Foundation

/// An HTTP cache (RFC 9111) that stores responses and answers later requests with them.
///
/// ```swift
/// var configuration = RequestManager.Configuration()
/// configuration.cache = HTTPCache.memory(capacity: 64 << 20)
/// let manager = RequestManager(configuration: configuration)
/// ```
///
/// ## Concurrency
/// Use it from any thread, and with several managers. A cache in a directory may be used by several processes at
/// once.
public final class HTTPCache: ResponseCache {
    /// The choices that RFC 9111 leaves to a cache.
    public struct Configuration: Sendable {
        /// Whether the cache is for one user or for several; for one by default.
        public var sharing = CacheSharing.private
        /// The maximum size of a stored body in bytes; nil, the default, means an eighth of the capacity.
        public var maxEntryBytes: Int64?
        /// How long a stale response may be used when the server cannot be reached (RFC 9111, section 4.2.4).
        ///
        /// A day by default, nil for never.
        ///
        /// A response that forbids it (`must-revalidate`, `no-cache`) is not used. `stale-if-error` takes precedence,
        /// and also applies to errors that the server answers with.
        public var staleWhenUnreachable: Duration? = .seconds(86_400)

        /// Whether a failed connection during a required validation is answered with status 504, as RFC 9111, section
        /// 5.2.2.2, says for intermediaries.
        ///
        /// If false, the default, the request fails with the connection's error.
        public var answersGatewayTimeout = false

        /// Makes a configuration with the defaults.
        public init() {}
    }

    /// The settings of the cache.
    public let configuration: Configuration
    let store: any CacheStore
    let state = Locked(State())
    /// The requests under way that others may share.
    let fetches = Fetches()

    struct State {
        var statistics = CacheStatistics()
        /// The keys that are being validated in the background.
        var refreshing: Set<String> = []
    }

    init(_ store: any CacheStore, _ configuration: Configuration) {
        (self.store, self.configuration) = (store, configuration)
    }

    /// Makes a cache in memory, which ends with the process.
    ///
    /// - Parameters:
    ///   - capacity: the maximum size in bytes, including header fields. The least recently used responses are
    ///     removed first.
    ///   - configuration: the settings.
    public static func memory(capacity: Int64, configuration: Configuration = Configuration()) -> HTTPCache {
        let capacity = max(0, capacity)
        let store = MemoryStore(capacity: capacity, mostEntryBytes: configuration.maxEntryBytes ?? capacity / 8)
        return HTTPCache(store, configuration)
    }

    /// Makes a cache in a directory, which persists beyond the process.
    ///
    /// Several processes may use one directory at once. If it does not exist, it is created for its owner only. Disk
    /// errors never fail a request. Responses that cannot be written are not stored, and damaged ones are removed.
    ///
    /// - Parameters:
    ///   - directory: a file URL. Responses that it already contains are used.
    ///   - capacity: the maximum size in bytes, including header fields. The least recently used responses are
    ///     removed first.
    ///   - configuration: the settings.
    public convenience init(directory: URL, capacity: Int64, configuration: Configuration = Configuration()) {
        let capacity = max(0, capacity)
        let store = DiskStore(
            directory: directory, capacity: capacity, mostEntryBytes: configuration.maxEntryBytes ?? capacity / 8)
        self.init(store, configuration)
    }

    /// The interface that a manager uses.
    public var connection: CacheConnection { CacheConnection(self) }

    // MARK: To look at

    /// Counts of hits and misses since the cache was made, and of stored entries.
    public var statistics: CacheStatistics {
        var statistics = state.withLock { $0.statistics }
        let counts = store.counts
        (statistics.entryCount, statistics.storedBytes) = (counts.entries, counts.bytes)
        (statistics.evictions, statistics.repairs) = (counts.evictions, counts.repairs)
        return statistics
    }

    /// Removes all responses.
    public func removeAll() { store.removeAll() }
}

/// Counts of a cache: hits, misses and stored entries.
public struct CacheStatistics: Sendable, Hashable {
    /// Requests that a fresh response answered without the network.
    public internal(set) var hits = 0
    /// Requests that a stale response answered, because the response or the request allowed it.
    public internal(set) var staleHits = 0
    /// Requests whose stored response the server confirmed with a 304.
    public internal(set) var validations = 0
    /// Requests that went to the network, by reason.
    public internal(set) var misses: [CacheStatus.Forward: Int] = [:]
    /// Body bytes that did not have to be transferred.
    public internal(set) var savedBytes: Int64 = 0
    /// Responses that were stored.
    public internal(set) var stores = 0
    /// Responses that were removed for others.
    public internal(set) var evictions = 0
    /// Damaged entries that were removed.
    public internal(set) var repairs = 0
    /// The number of stored responses.
    public internal(set) var entryCount = 0
    /// Their size in bytes, as counted against the capacity.
    public internal(set) var storedBytes: Int64 = 0
}
