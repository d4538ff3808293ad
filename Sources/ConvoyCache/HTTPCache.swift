// The cache: what people hold.
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
    /// How a cache works beyond the standard's musts.
    public struct Configuration: Sendable {
        /// For one user or for several; for one by default.
        public var sharing = CacheSharing.private
        /// How large a stored body may be, in bytes; nil, the default: an eighth of the capacity.
        public var maxEntryBytes: Int64?
        /// For how long after it has become stale a response may be used when the server cannot be reached (RFC 9111,
        /// section 4.2.4); a day by default, nil for never.
        ///
        /// A response that forbids it (`must-revalidate`, `no-cache`) is never used so. Where `stale-if-error` is there, that
        /// counts, for errors that the server answers with too.
        public var staleWhenUnreachable: Duration? = .seconds(86_400)

        /// Whether a request whose stored response has to be validated is answered with status 504 when the server cannot be
        /// reached, as RFC 9111, section 5.2.2.2, has it for a cache between others; false, the default: it fails with the
        /// error of the connection.
        public var answersGatewayTimeout = false

        /// Makes a configuration with the defaults.
        public init() {}
    }

    /// How it works.
    public let configuration: Configuration
    let store: any CacheStore
    let state = Locked(State())
    /// The requests under way that others may share.
    let fetches = Fetches()

    struct State {
        var statistics = CacheStatistics()
        /// The keys that are being refreshed in the background.
        var refreshing: Set<String> = []
    }

    init(_ store: any CacheStore, _ configuration: Configuration) {
        (self.store, self.configuration) = (store, configuration)
    }

    /// Makes a cache in memory, which goes with the process.
    ///
    /// - Parameters:
    ///   - capacity: how much it may store, in bytes, header fields included; the least recently used goes first.
    ///   - configuration: how it works.
    public static func memory(capacity: Int64, configuration: Configuration = Configuration()) -> HTTPCache {
        let capacity = max(0, capacity)
        let store = MemoryStore(capacity: capacity, mostEntryBytes: configuration.maxEntryBytes ?? capacity / 8)
        return HTTPCache(store, configuration)
    }

    /// Makes a cache in a directory, which keeps what it stores beyond the process.
    ///
    /// Several processes may use one directory at once. It is made when it is not there, for its owner alone. Nothing that
    /// goes wrong with the disk fails a request: what cannot be written is not stored, and what is damaged is removed.
    ///
    /// - Parameters:
    ///   - directory: a file URL; what is in it already is used.
    ///   - capacity: how much it may store, in bytes, header fields included; the least recently used goes first.
    ///   - configuration: how it works.
    public convenience init(directory: URL, capacity: Int64, configuration: Configuration = Configuration()) {
        let capacity = max(0, capacity)
        let store = DiskStore(
            directory: directory, capacity: capacity, mostEntryBytes: configuration.maxEntryBytes ?? capacity / 8)
        self.init(store, configuration)
    }

    /// What a manager asks of it.
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

    /// Removes everything.
    public func removeAll() { store.removeAll() }
}

/// Counts of a cache: hits, misses and stored entries.
public struct CacheStatistics: Sendable, Hashable {
    /// Requests that were answered by a fresh response without the network.
    public internal(set) var hits = 0
    /// Requests that were answered by a stale response, because it or the request allowed that.
    public internal(set) var staleHits = 0
    /// Requests whose stored response the server has confirmed by a 304.
    public internal(set) var validations = 0
    /// Requests that went to the network, by reason.
    public internal(set) var misses: [CacheStatus.Forward: Int] = [:]
    /// Bytes of body that did not have to come over the network.
    public internal(set) var savedBytes: Int64 = 0
    /// Responses that were stored.
    public internal(set) var stores = 0
    /// Responses that had to go for others.
    public internal(set) var evictions = 0
    /// Damaged entries that were removed.
    public internal(set) var repairs = 0
    /// Responses that are stored now.
    public internal(set) var entryCount = 0
    /// What they take of the capacity, in bytes.
    public internal(set) var storedBytes: Int64 = 0
}
