// A request's own settings.
import Foundation

/// Where a setting is nil, the manager's setting applies.
struct RequestPolicies: Sendable {
    var redirects: RedirectPolicy?
    var retries: RetryPolicy?
    /// The outer nil means the manager's setting, the inner nil no deadline; also in `attemptTimeout`.
    var deadline: Duration??
    var idleTimeout: Duration?
    var attemptTimeout: Duration??
    var bodyLimit: Int64?
    var acceptableStatusCodes: StatusCheck?
    var acceptableContentTypes: ContentTypeCheck?
    /// The names, in lower case, of the manager's header fields that the request does not take over.
    var omittedHeaderFields: Set<String> = []
    /// The names, in lower case, of fields that neither the transport nor a cookie jar adds.
    var omittedTransportFields: Set<String> = []
    var interceptorRetryLimit = 10
    /// Decodes a typed failure from the body of a response with an unacceptable status; nil if the request has none.
    var decodesRefusal: RefusalDecoder?
    var refusesByFunction = false
    /// The deadline of the operations that the request depends on, or of the segmented download that it belongs to.
    var inheritedDeadline: ContinuousClock.Instant?
    var inheritsDeadline = false
    var interceptors: [any RequestInterceptor] = []
    var usesManagerInterceptors = true
    var isCoalesced = false
    /// The name of ``Request/mutuallyExclusive(_:)``: at most one request of this name runs at a time.
    var exclusion: String?
    var maxBytesPerSecond: Int64?
    var sharedRateLimit: RateLimit?
    var minimumSpeed: MinimumSpeed?
    var decodesFile = false
    /// A redirect, or a link to the next result page, led to an origin that must not receive the caller's credentials.
    var hasLeftOrigin = false
    /// Whether the request goes to a mirror whose origin differs from the origin of the download's URL.
    var isMirror = false
    var keepsUnknownCodings = false
    /// The number of attempts that earlier operations made for the same request, possibly in earlier processes.
    var earlierAttemptCount = 0
    var qualityOfService: QualityOfService?
    var cache: CacheOptions?
    var userInfo: [String: any Sendable] = [:]
}

extension Request {
    /// Sets how redirects are followed; the manager's policy by default.
    public func redirects(_ policy: RedirectPolicy) -> Self { changed { $0.policies.redirects = policy } }

    /// ``AttemptContext/number`` continues from this count.
    package func countingAttempts(from count: Int) -> Self { changed { $0.policies.earlierAttemptCount = count } }

    /// Sets when the request is sent again; the manager's policy by default.
    public func retries(_ policy: RetryPolicy) -> Self { changed { $0.policies.retries = policy } }

    /// Sets the maximum time of the request, including waits for dependencies and slots, redirects and back-off; nil
    /// for none, even if the manager has one.
    ///
    /// After that time the request fails with `.deadlineExceeded`, and the message says what took the time. If a retry
    /// would start later, the request fails at once with the error of the last attempt. The time starts when the
    /// manager receives the operation, when you start it, or for a chain's link when its request has been built.
    public func deadline(_ deadline: Duration?) -> Self { changed { $0.policies.deadline = .some(deadline) } }

    /// Limits a link of a chain by the deadline of the operation whose result the link was built from.
    public func inheritingDeadline() -> Self { changed { $0.policies.inheritsDeadline = true } }

    /// Adds interceptors, which are called after the manager's interceptors.
    public func intercepted(by interceptors: any RequestInterceptor...) -> Self {
        changed { $0.policies.interceptors += interceptors }
    }

    /// Removes the manager's interceptors and those added so far, for requests that interceptors send themselves.
    public func withoutInterceptors() -> Self {
        changed {
            $0.policies.interceptors = []
            $0.policies.usesManagerInterceptors = false
        }
    }

    package func allowingInterceptorRetries(_ count: Int) -> Self {
        changed { $0.policies.interceptorRetryLimit += count }
    }

    // Names in lower case. `Content-Length`, `Transfer-Encoding` and URLSession's own fields are sent all the same.
    package func omitting(transportFields names: Set<String>) -> Self {
        names.isEmpty ? self : changed { $0.policies.omittedTransportFields = names }
    }

    /// Allows the request to share its transfer with equal queued or running requests of the same manager.
    ///
    /// Only GET requests without a body whose response stays in memory share one. Requests are equal if they have the
    /// same URL, header fields, timeouts, speed limits, body limit, checks of the response, cache options and mutual
    /// exclusion, and either all or none use the manager's interceptors. A request with its own interceptors, or with a
    /// typed failure (``failing(with:decoder:)``), is not shared.
    ///
    /// Each request has its own deadline, reports progress, decodes the body itself and can be cancelled; cancelling
    /// the last one ends the transfer. The transfer has the highest priority among its requests, and the first
    /// request's policies for redirects and retries.
    public func coalesced() -> Self { changed { $0.policies.isCoalesced = true } }

    /// Mutual exclusion: at most one request of this name runs at a time in a manager.
    ///
    /// Such requests run in the order of priority and arrival, and occupy no slot while they wait;
    /// ``RequestManager/why(_:)`` names the running one. A request owns the name from its first slot until it finishes,
    /// even while suspended. Its interceptors must not wait for another request of the name, which would wait forever.
    public func mutuallyExclusive(_ name: String) -> Self { changed { $0.policies.exclusion = name } }

    /// Sets the quality of service of decoding and callbacks; see ``AnyRequestOperation/qualityOfService``.
    public func qualityOfService(_ quality: QualityOfService) -> Self {
        changed { $0.policies.qualityOfService = quality }
    }

    /// Attaches a value for the operation's ``AnyRequestOperation/userInfo``, never sent, nor shown in descriptions and
    /// logs; nil removes it.
    public func userInfo(_ key: String, _ value: (any Sendable)?) -> Self {
        changed { $0.policies.userInfo[key] = value }
    }

    /// Sets the `Idempotency-Key`, by which the server recognises repetitions, so that every method is retried; an
    /// empty key has no effect.
    public func idempotencyKey(_ key: String = UUID().uuidString) -> Self { header("Idempotency-Key", key) }

    /// Sets how the request uses the cache of its manager; ``maxCacheAge(_:)`` and ``maxCacheStaleness(_:)`` are valid
    /// only with ``CachePolicy/standard``, the default.
    public func cachePolicy(_ policy: CachePolicy) -> Self { changedCache { $0.policy = policy } }

    /// Sets the cache key that replaces the URL, for example to omit a signature in the query; an empty key is invalid.
    ///
    /// Requests with the same key share stored responses. The key is stored unchanged, so it must not be a secret. A
    /// request with an unsafe method, such as POST, removes the responses stored under its key and its URL.
    public func cacheKey(_ key: String) -> Self { changedCache { $0.key = key } }

    /// Sets the maximum age of a stored response that is used without validation; nil for any age.
    public func maxCacheAge(_ age: Duration?) -> Self { changedCache { $0.maxAge = age } }

    /// Sets how long a stored response may be stale and still be used without validation, unless it forbids that
    /// (`must-revalidate`, `no-cache`); nil, the default, leaves it to the response.
    public func maxCacheStaleness(_ staleness: Duration?) -> Self { changedCache { $0.maxStaleness = staleness } }

    package var cacheOptions: CacheOptions? { core.policyBox?.policies.cache }

    private func changedCache(_ change: (inout CacheOptions) -> Void) -> Self {
        changed { core in
            var options = core.policies.cache ?? CacheOptions()
            change(&options)
            core.policies.cache = options
        }
    }

    /// Sets the maximum number of body bytes per second; nil, the default, means no limit.
    ///
    /// The manager's limit, ``RequestManager/maxBytesPerSecond``, applies as well. Received body bytes are counted,
    /// after content decoding. Those that the limit allows in a tenth of a second may arrive at once.
    ///
    /// The limit pauses the transfer, while the operating system still fills its socket buffers. The idle timeout and
    /// ``minimumSpeed(bytesPerSecond:over:)`` do not run during a pause, but ``attemptTimeout(_:)`` and
    /// ``deadline(_:)`` do. All attempts of an operation share the limit; requests that share a transfer
    /// (``coalesced()``) have that of the first.
    ///
    /// - Parameter limit: bytes per second. Zero or less fails the request with `.invalidRequest`.
    /// - Errors: `.invalidRequest`, before anything is sent, with a transport that cannot pause: URLSession on Linux.
    public func maxBytesPerSecond(_ limit: Int64?) -> Self {
        changed {
            $0.policies.maxBytesPerSecond = limit
            $0.policies.sharedRateLimit = nil
        }
    }

    /// The same request with one rate limit for all operations made from it, such as the segments of a download.
    func sharingRateLimit(on clock: any RequestClock) -> Self {
        guard let limit = core.policyBox?.policies.maxBytesPerSecond else { return self }
        return changed { $0.policies.sharedRateLimit = RateLimit(limit, clock: clock) }
    }

    /// Sets the minimum speed of the body; by default only the idle timeout ends a slow transfer.
    ///
    /// An attempt that receives fewer bytes within the duration, after content decoding, ends with `.timedOut`, and the
    /// message says how many bytes arrived. A retry or a resumed download follows if the request allows it. The
    /// duration is measured in consecutive windows from the arrival of the head, so a stalled transfer ends after one
    /// to two of them. Time does not count while the operation is suspended, its reader or the disk is slow, or a rate
    /// limit pauses the transfer. Requests that share a transfer (``coalesced()``) have the values of the first. Zero
    /// or less fails the request with `.invalidRequest`.
    public func minimumSpeed(bytesPerSecond: Int64, over duration: Duration) -> Self {
        changed {
            $0.policies.minimumSpeed = MinimumSpeed(bytesPerSecond: bytesPerSecond, duration: duration)
        }
    }
}

extension RequestCore {
    var policies: RequestPolicies {
        get { policyBox?.policies ?? RequestPolicies() }
        set { policyBox = PolicyBox(newValue) }
    }

    final class PolicyBox: Sendable {
        let policies: RequestPolicies

        init(_ policies: RequestPolicies) { self.policies = policies }
    }
}
