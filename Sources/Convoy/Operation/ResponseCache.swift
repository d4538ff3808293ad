// The interface to a cache: what a manager asks, and what replaces a transport.
import Foundation

/// A cache of a manager; see ``RequestManager/Configuration/cache``.
///
/// The library's own is `HTTPCache` of `ConvoyCache`. Other caches cannot be made, because ``CacheConnection`` has no
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
/// let connection = cache.connection  // of an HTTPCache; a manager alone uses it
/// ```
public struct CacheConnection: Sendable {
    package let engine: any CacheEngine

    package init(_ engine: any CacheEngine) { self.engine = engine }
}

/// Decides for each attempt whether a stored response satisfies it.
package protocol CacheEngine: AnyObject, Sendable {
    /// Looks for a stored response; nil if the cache does not apply to the request.
    ///
    /// - Thread: one that may wait for a disk, if ``mayBlock`` is true.
    func begin(_ query: CacheQuery) -> (any CacheExchange)?
    /// Whether a lookup may wait for a disk.
    var mayBlock: Bool { get }
    /// What is known from a look a moment ago; nil where it has to look.
    ///
    /// - Thread: any; it never waits for a disk.
    func recall(_ query: CacheQuery) -> (any CacheExchange)?
}

extension CacheEngine {
    /// Looks for a stored response on this thread, or on the disk executor.
    func look(
        _ query: CacheQuery?, _ then: @escaping @Sendable (CacheQuery?, (any CacheExchange)?) -> Void
    ) {
        guard let query, mayBlock else { return then(query, query.flatMap { begin($0) }) }
        DiskExecutor().async { then(query, self.begin(query)) }
    }
}

/// A request as a cache sees it.
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

/// One request's use of the cache.
///
/// It makes the transfers of its attempts.
package protocol CacheExchange: AnyObject, Sendable {
    /// Whether a stored response satisfies it without the network, so that its request takes no slot.
    var answers: Bool { get }
    /// Whether this is still true now.
    ///
    /// A stored response may have become stale since.
    var stillAnswers: Bool { get }
    /// Whether to refresh the response in the background.
    ///
    /// Of all exchanges with one key, one at a time returns true.
    var wantsRefresh: Bool { get }
    /// Called when the refresh has ended.
    func refreshEnded()
    /// Has another request fetch the answer, if an equal one is under way whose response may be shared.
    ///
    /// - Parameter then: called once, on any thread, when its response is stored, or turns out not to be.
    /// - Returns: false where there is none; nothing is called then.
    func awaitEqual(_ then: @escaping @Sendable () -> Void) -> Bool
    /// Makes what moves the bytes of an attempt, suspended.
    func makeTransfer(
        for request: PreparedRequest, client: any TransportClient, over network: CacheNetwork
    ) throws(RequestError) -> any TransferTask
}

/// The transport, for a cache that needs the network.
package struct CacheNetwork: Sendable {
    /// As ``Transport/pausesInPlace``.
    package let pausesInPlace: Bool
    /// Whether the request has a slot, so that it may use the transport.
    package let hasSlot: Bool
    private let transport: any Transport
    private let direct: (any DirectTransport)?
    private let cookies: CookieJar?

    init(_ transport: any Transport, _ direct: (any DirectTransport)?, _ cookies: CookieJar?, hasSlot: Bool) {
        (pausesInPlace, self.transport, self.direct) = (transport.pausesInPlace, transport, direct)
        (self.cookies, self.hasSlot) = (cookies, hasSlot)
    }

    /// Stores the cookies of a response that a stored one replaces.
    ///
    /// The client sees only the stored one.
    package func keepCookies(of head: ResponseHead, from url: URL) { cookies?.store(head.headerFields, from: url) }

    /// Runs work on the disk executor.
    package func onDisk(_ work: @escaping @Sendable () -> Void) { DiskExecutor().async(work) }

    /// As ``Transport/makeTask(for:client:)``.
    package func makeTransfer(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> any TransferTask {
        if let direct { return try direct.makeTransfer(for: request, client: client) }
        return try transport.makeTask(for: request, client: client)
    }
}

/// Ends an attempt without a slot because the stored response from the cache lookup no longer exists.
///
/// Another attempt follows.
package struct StoredAnswerIsGone: Error {
    package init() {}
}
