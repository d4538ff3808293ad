// The seam of a cache: what a manager asks, and what answers instead of a transport.
import Foundation

/// A cache that a manager may have: ``RequestManager/Configuration/cache``.
///
/// The library's own is `HTTPCache` of `ConvoyCache`. Others cannot be made: a ``CacheConnection`` has no public initialiser.
///
/// ```swift
/// configuration.cache = HTTPCache.memory(capacity: 64 << 20)
/// ```
public protocol ResponseCache: AnyObject, Sendable {
    /// What a manager asks of it.
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

/// Decides for each attempt whether a stored response answers it.
package protocol CacheEngine: AnyObject, Sendable {
    /// Looks for an answer; nil where the cache has nothing to do with the request.
    ///
    /// - Thread: one that may wait for a disk, where it ``mayBlock``.
    func begin(_ query: CacheQuery) -> (any CacheExchange)?
    /// Whether looking may wait for a disk.
    var mayBlock: Bool { get }
    /// What is known from a look a moment ago; nil where it has to look.
    ///
    /// - Thread: any; it never waits for a disk.
    func recall(_ query: CacheQuery) -> (any CacheExchange)?
}

extension CacheEngine {
    /// Looks for an answer on this thread, or where downloads use the disk.
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
    /// Whether the bytes are wanted as they are sent, content coding included.
    package var keepsCoding: Bool
    package let clock: any RequestClock

    package init(
        _ request: PreparedRequest, _ options: CacheOptions?, keepsCoding: Bool, clock: any RequestClock
    ) {
        (self.request, self.options) = (request, options ?? CacheOptions())
        (self.keepsCoding, self.clock) = (keepsCoding, clock)
    }
}

/// One request's use of the cache: makes what moves the bytes of its attempts.
package protocol CacheExchange: AnyObject, Sendable {
    /// Whether it answers without the network, so that its request takes no slot.
    var answers: Bool { get }
    /// Whether it would still do so at this moment: what is stored may have become stale since.
    var stillAnswers: Bool { get }
    /// Whether the answer is to be refreshed in the background; of all exchanges with one key one says so at a time.
    var wantsRefresh: Bool { get }
    /// The refresh has ended.
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

/// The transport, for a cache that needs it.
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

    /// Has the jar take the cookies of an answer that a stored response stands for: the client sees only those of that.
    package func keepCookies(of head: ResponseHead, from url: URL) { cookies?.store(head.headerFields, from: url) }

    /// Has something done where downloads use the disk.
    package func onDisk(_ work: @escaping @Sendable () -> Void) { DiskExecutor().async(work) }

    /// As ``Transport/makeTask(for:client:)``.
    package func makeTransfer(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> any TransferTask {
        if let direct { return try direct.makeTransfer(for: request, client: client) }
        return try transport.makeTask(for: request, client: client)
    }
}

/// Why an attempt without a slot ends: what was found when the cache was asked has gone since.
///
/// Another attempt follows.
package struct StoredAnswerIsGone: Error {
    package init() {}
}
