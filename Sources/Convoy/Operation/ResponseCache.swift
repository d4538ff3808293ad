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
    // For a GET without a body or cache options, in memory only, on any thread; a store on disk reads the inode number
    // of its index. `use` receives a fresh response with status 200 and its body. It counts as a hit unless `use` returns
    // nil. `isMiss` is set if no stored response can be used without the network.
    func answer<Value>(
        _ query: CacheQuery, isMiss: inout Bool, _ use: (ResponseHead, CopyOnWrite<TransferMetrics>, Data) -> Value?
    ) -> Value?
    // Looks for a response that needs no network, and so no slot. False if there is certainly none; otherwise `then` is
    // called once, perhaps on a thread that waits for the disk.
    func find(_ query: CacheQuery, _ then: @escaping @Sendable ((any CacheExchange)?) -> Void) -> Bool
    /// The task answers with the response that ``find(_:_:)`` has found, or else looks again when it starts.
    func makeTransfer(for query: CacheQuery, _ found: (any CacheExchange)?, client: any CacheClient) -> any TransferTask
}

extension CacheEngine {
    package func onDisk(_ work: @escaping @Sendable () -> Void) { DiskExecutor().async(work) }
}

/// A stored response that satisfies a request without the network.
package protocol CacheExchange: AnyObject, Sendable {
    /// False if the response has become stale since the lookup.
    func answers(at date: Date) -> Bool
}

package struct CacheQuery: Sendable {
    package let request: PreparedRequest
    package let options: CacheOptions
    /// Whether the caller wants the bytes as sent, including the content coding.
    package private(set) var keepsCoding: Bool
    package let clock: any RequestClock

    package init(_ request: PreparedRequest, _ options: CacheOptions?, clock: any RequestClock) {
        (self.request, self.options, self.clock) = (request, options ?? CacheOptions(), clock)
        keepsCoding = request.asksForIdentity
    }

    init(_ request: PreparedRequest, _ rules: AnswerRules, clock: any RequestClock) {
        self.init(request, rules.policyBox?.policies.cache, clock: clock)
        if rules.destination.isFile, request.keepsCoding { keepsCoding = true }
    }
}

/// An attempt, as its cache uses it.
package protocol CacheClient: TransportClient {
    var pausesInPlace: Bool { get }
    /// The attempt uses the network. Without this call it uses no rate, says nothing about its host, and its response
    /// is not requested again.
    func usesNetwork()
    /// Stores the cookies of a network response of which the client receives only the stored form.
    func keepCookies(of head: ResponseHead)
    func onExecutor(_ work: @escaping @Sendable () -> Void)
    /// Runs work on the queue on which the owner resumes and suspends a task that has begun.
    func onTaskControl(_ work: @escaping @Sendable () -> Void)
    /// A task of the manager's transport.
    func makeTransfer(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> any TransferTask
    /// Sends a request in the background, with a slot of its own.
    func refresh(_ request: PreparedRequest, _ options: CacheOptions, _ then: @escaping @Sendable () -> Void)
}

extension Attempt: CacheClient {
    var pausesInPlace: Bool { operation.pausesInPlace }

    func usesNetwork() { receiving.withLock { $0.isAnswered = false } }

    func keepCookies(of head: ResponseHead) { operation.scheduler.cookies?.store(head.headerFields, from: request.url) }

    func onExecutor(_ work: @escaping @Sendable () -> Void) { operation.onExecutor(work) }

    func onTaskControl(_ work: @escaping @Sendable () -> Void) { operation.scheduler.taskControl.async(execute: work) }

    func makeTransfer(
        for request: PreparedRequest, client: any TransportClient
    ) throws(RequestError) -> any TransferTask { try operation.scheduler.makeTask(for: request, client: client) }

    func refresh(_ request: PreparedRequest, _ options: CacheOptions, _ then: @escaping @Sendable () -> Void) {
        let scheduler = operation.scheduler
        var core = RequestCore(method: request.method, url: request.url)
        (core.headerFields, core.priority) = (request.headerFields, .low)
        (core.destination, core.decodesAtOnce) = (.nowhere, true)
        var policies = rules.policyBox?.policies ?? RequestPolicies()
        (policies.cache, policies.isCoalesced, policies.exclusion) = (options, false, nil)
        (policies.deadline, policies.inheritedDeadline) = (nil, nil)
        (policies.acceptableStatusCodes, policies.acceptableContentTypes) = (.any, nil)
        (policies.decodesRefusal, policies.sharedRateLimit) = (nil, nil)
        if operation.withLock({ $0.followUp?.history.hasLeftOrigin == true }) { policies.hasLeftOrigin = true }
        // A redirect may have removed fields of the manager.
        for field in scheduler.defaults.headerFields where !request.headerFields.contains(field.name) {
            policies.omittedHeaderFields.insert(field.name.lowercased())
        }
        core.policies = policies
        let made = RequestOperation(Request<Data>(core: core) { body, _ in body.data }, of: scheduler, isInternal: true)
        scheduler.begin(made)
        made.whenFinished(
            FinishHandler(place: .executor) { [unowned made] _ in
                scheduler.end(made)
                then()
            })
        scheduler.enqueue(made, as: .shared)
    }
}

/// Ends an attempt without a slot, because the stored response was removed after the lookup.
package struct StoredAnswerIsGone: Error {
    package init() {}
}
