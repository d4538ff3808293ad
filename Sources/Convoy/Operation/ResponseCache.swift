// The interface between a manager and its cache.
import Foundation

/// A cache for a manager; see ``RequestManager/Configuration/cache``.
///
/// The library provides `HTTPCache` of `ConvoyCache`. Other caches are impossible, because ``CacheConnection`` has no
/// public initialiser.
///
/// ```swift
/// configuration.cache = HTTPCache.memory(capacity: 64 << 20)
/// ```
public protocol ResponseCache: AnyObject, Sendable {
    /// The connection for the manager.
    var connection: CacheConnection { get }
}

/// The connection between a manager and its cache.
///
/// ```swift
/// let connection = cache.connection  // `cache` is an HTTPCache; only a manager uses the connection
/// ```
public struct CacheConnection: Sendable {
    package let engine: any CacheEngine

    package init(_ engine: any CacheEngine) { self.engine = engine }
}

package protocol CacheEngine: AnyObject, Sendable {
    /// - Thread: one that may wait for a disk, if ``mayBlock`` is true.
    func begin(_ query: CacheQuery) -> (any CacheExchange)?
    var mayBlock: Bool { get }
    /// For a GET without a body or cache options, in memory only, on any thread; a store on disk reads the inode number
    /// of its index.
    func answer(_ query: CacheQuery) -> CacheAnswer
    func countHit(_ answer: StoredAnswer, bytes: Int64)
    // For a request for which the cache certainly has no response, or whose key a request in progress has; nil for any
    // other request. As cheap as ``answer(_:)``.
    func recall(_ query: CacheQuery) -> (any CacheExchange)?
}

extension CacheEngine {
    func look(_ query: CacheQuery, _ then: @escaping @Sendable ((any CacheExchange)?) -> Void) {
        guard mayBlock else { return then(begin(query)) }
        DiskExecutor().async { then(self.begin(query)) }
    }
}

package enum CacheAnswer: Sendable {
    /// A fresh response with status 200, and its complete body.
    case stored(StoredAnswer, Data)
    /// No stored response can be used without the network.
    case none
    /// The memory of the cache cannot decide; look in its store.
    case unknown
}

/// A stored response, prepared once for all requests to one URL within the same second.
package final class StoredAnswer: Sendable {
    package let head: ResponseHead
    let metrics: CopyOnWrite<TransferMetrics>
    package var timeToLive: Int64? { metrics.value.cache?.timeToLive.map { Int64($0) } }

    package init(_ head: ResponseHead, _ status: CacheStatus) {
        var metrics = TransferMetrics()
        metrics.cache = status
        (self.head, self.metrics) = (head, CopyOnWrite(metrics))
    }

    func decode<Output>(_ body: Data, for request: Request<Output>, _ decoder: JSONDecoder?) throws -> Output {
        try request.decode(ReceivedBody(storedData: body, decoder: decoder), head)
    }
}

package struct CacheQuery: Sendable {
    package var request: PreparedRequest
    package var options: CacheOptions
    /// Whether the caller wants the bytes as sent, including the content coding.
    package var keepsCoding: Bool
    package let clock: any RequestClock

    package init(
        _ request: PreparedRequest, _ options: CacheOptions?, keepsCoding: Bool, clock: any RequestClock
    ) {
        (self.request, self.options) = (request, options ?? CacheOptions())
        (self.keepsCoding, self.clock) = (keepsCoding, clock)
    }
}

/// The lookup for one request, which makes the transfers of its attempts.
package protocol CacheExchange: AnyObject, Sendable {
    /// Whether a stored response satisfies the request without the network, and so without a slot.
    var answers: Bool { get }
    /// Whether the stored response still satisfies the request; false if it has become stale since the lookup.
    var stillAnswers: Bool { get }
    // False if only a request in progress with the same key was found. Such an exchange can wait for that request. A
    // search at that time could find nothing, and its result could arrive when the response is already stored.
    var isCertain: Bool { get }
    /// Whether to refresh the response in the background; true for one exchange of a cache key at a time.
    var wantsRefresh: Bool { get }
    /// The request of the refresh, without the conditions and the range that only the original request needs.
    var refreshRequest: PreparedRequest { get }
    func refreshEnded()
    // Returns whether the request waits. If not, later equal requests may wait for it, until this exchange is released.
    // The cache calls the closure of `makeThen` at most once, on any thread, when the equal request ends or its
    // response cannot be shared. If the argument is true, this request is to be sent in place of the equal one;
    // otherwise it searches the cache again. The closure must keep the exchange until it is called.
    func awaitEqual(_ makeThen: () -> @Sendable (Bool) -> Void) -> Bool
    func makeTransfer(
        for request: PreparedRequest, client: any TransportClient, over network: CacheNetwork
    ) throws(RequestError) -> any TransferTask
}

package struct CacheNetwork: Sendable {
    package let hasSlot: Bool
    private let scheduler: Scheduler

    init(_ scheduler: Scheduler, hasSlot: Bool) { (self.scheduler, self.hasSlot) = (scheduler, hasSlot) }

    package var pausesInPlace: Bool { scheduler.transport.pausesInPlace }

    /// Stores the cookies of a network response whose client receives only the stored response.
    package func keepCookies(of head: ResponseHead, from url: URL) {
        scheduler.cookies?.store(head.headerFields, from: url)
    }

    package func onDisk(_ work: @escaping @Sendable () -> Void) { DiskExecutor().async(work) }

    package func makeTransfer(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> any TransferTask {
        if let direct = scheduler.directTransport { return try direct.makeTransfer(for: request, client: client) }
        return try scheduler.transport.makeTask(for: request, client: client)
    }
}

/// Ends an attempt without a slot, because the stored response was removed after the lookup.
package struct StoredAnswerIsGone: Error {
    package init() {}
}
