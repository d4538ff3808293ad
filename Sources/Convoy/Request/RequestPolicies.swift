// A request's own settings.
import Foundation

/// The settings of one request.
///
/// Where a setting is nil, the manager's setting applies.
struct RequestPolicies: Sendable {
    var redirects: RedirectPolicy?
    var retries: RetryPolicy?
    /// The maximum time of the request.
    ///
    /// The outer nil means the manager's setting. The inner nil means no deadline. `attemptTimeout` has the same form.
    var deadline: Duration??
    var idleTimeout: Duration?
    var attemptTimeout: Duration??
    /// The maximum size of a body for any destination.
    var bodyLimit: Int64?
    var acceptableStatusCodes: StatusCheck?
    var acceptableContentTypes: ContentTypeCheck?
    /// The names, in lower case, of the manager's header fields that the request does not take over.
    var omittedHeaderFields: Set<String> = []
    /// The names, in lower case, of fields that neither the transport nor a cookie jar adds.
    var omittedTransportFields: Set<String> = []
    /// The number of attempts that interceptors can request.
    var interceptorRetryLimit = 10
    /// Decodes a typed failure from the body of a response with an unacceptable status; nil if the request has none.
    var decodesRefusal: RefusalDecoder?
    /// Whether `decodesRefusal` calls a function of the caller.
    var refusesByFunction = false
    /// The deadline of the operations that the request depends on, or of the segmented download that it belongs to.
    var inheritedDeadline: ContinuousClock.Instant? {
        get { inheritedMoment?.instant }
        set { inheritedMoment = newValue.map { CompactInstant($0) } }
    }
    private var inheritedMoment: CompactInstant?
    var inheritsDeadline = false
    var interceptors: [any RequestInterceptor] = []
    var usesManagerInterceptors = true
    var isCoalesced = false
    /// The name of ``Request/mutuallyExclusive(_:)``: at most one request of this name runs at a time.
    var exclusion: String?
    var maxBytesPerSecond: Int64?
    /// A rate limit that all operations made from the request share; nil if each operation has a separate limit.
    var sharedRateLimit: RateLimit?
    var minimumSpeed: MinimumSpeed?
    var decodesFile = false
    /// Whether a redirect, or a link from one result page to the next, led to another origin.
    ///
    /// The caller's credentials are not for that origin.
    var hasLeftOrigin = false
    /// Whether the request goes to a mirror whose origin differs from the origin of the download's URL.
    var isMirror = false
    var keepsUnknownCodings = false
    /// The number of attempts that earlier operations made for the same request, possibly in earlier processes.
    var earlierAttemptCount = 0
    var qualityOfService: QualityOfService?
    /// The cache options of the request; nil when it has none.
    var cache: CacheOptions?
    /// Values that the caller attached with ``Request/userInfo(_:_:)``.
    var userInfo: [String: any Sendable] = [:]
}

extension Request {
    /// Sets how redirects are followed; the manager's policy by default.
    public func redirects(_ policy: RedirectPolicy) -> Self { changed { $0.policies.redirects = policy } }

    /// Sets how many attempts earlier operations made for the same request.
    ///
    /// ``AttemptContext/number`` continues from this count.
    package func countingAttempts(from count: Int) -> Self { changed { $0.policies.earlierAttemptCount = count } }

    /// Sets when the request is sent again; the manager's policy by default.
    public func retries(_ policy: RetryPolicy) -> Self { changed { $0.policies.retries = policy } }

    /// Sets the maximum time of the request, including waits for dependencies and slots, redirects and back-off.
    ///
    /// After that time the request fails with `.deadlineExceeded`, and the message says what took the time. If a retry
    /// would start after the deadline, the request fails at once with the error of the last attempt. The time starts
    /// when the manager receives the operation, or when you start the operation yourself. For a link of a chain, the
    /// time starts when the link's request has been built.
    ///
    /// Nil means no deadline, even if ``RequestManager/Configuration/deadline`` sets one.
    public func deadline(_ deadline: Duration?) -> Self { changed { $0.policies.deadline = .some(deadline) } }

    /// Limits a link of a chain by the deadline of the operation whose result the link was built from.
    public func inheritingDeadline() -> Self { changed { $0.policies.inheritsDeadline = true } }

    /// Adds interceptors, which are called after the manager's interceptors.
    public func intercepted(by interceptors: any RequestInterceptor...) -> Self {
        changed { $0.policies.interceptors += interceptors }
    }

    /// Removes the manager's interceptors and the interceptors added so far.
    ///
    /// Use this modifier for requests that interceptors send themselves, for example to refresh a token.
    public func withoutInterceptors() -> Self {
        changed {
            $0.policies.interceptors = []
            $0.policies.usesManagerInterceptors = false
        }
    }

    /// Lets interceptors request more attempts than the usual ten.
    package func allowingInterceptorRetries(_ count: Int) -> Self {
        changed { $0.policies.interceptorRetryLimit += count }
    }

    /// Omits fields that the transport or a cookie jar would add, such as `User-Agent` or `Cookie`.
    ///
    /// `Content-Length` and `Transfer-Encoding` are sent all the same, and so are URLSession's own fields.
    ///
    /// - Parameter names: the names in lower case.
    package func omitting(transportFields names: Set<String>) -> Self {
        names.isEmpty ? self : changed { $0.policies.omittedTransportFields = names }
    }

    /// Allows the request to share its transfer with equal queued or running requests of the same manager.
    ///
    /// The modifier applies only to GET requests without a body whose response stays in memory. Requests are equal if
    /// they have the same URL, header fields, timeouts, speed limits, body limit, checks of the response, cache options
    /// and mutual exclusion, and either all or none use the manager's interceptors. A request with its own
    /// interceptors, or with a typed failure (``failing(with:decoder:)``), is not shared.
    ///
    /// Each request has its own deadline. It can be cancelled separately, and cancelling the last one ends the
    /// transfer. The transfer has the highest priority among its requests. The first request determines the policies
    /// for redirects and retries.
    ///
    /// Each request reports progress, and decodes the body itself.
    public func coalesced() -> Self { changed { $0.policies.isCoalesced = true } }

    /// Mutual exclusion: at most one request of this name runs at a time in a manager.
    ///
    /// Such requests run in the order of priority and arrival, and occupy no slot while they wait.
    /// ``RequestManager/why(_:)`` names the request that runs. A request owns the name from its first slot until it
    /// finishes, also between attempts and while suspended. An interceptor of the request must not wait for another
    /// request of the same name. The intercepted request owns the name, so both would wait forever.
    ///
    /// ```swift
    /// let request = Request<Cart>.post(cartURL, json: item)
    /// manager.enqueue(request.mutuallyExclusive("cart"))
    /// ```
    public func mutuallyExclusive(_ name: String) -> Self { changed { $0.policies.exclusion = name } }

    /// Sets the quality of service of decoding and callbacks; see ``AnyRequestOperation/qualityOfService``.
    public func qualityOfService(_ quality: QualityOfService) -> Self {
        changed { $0.policies.qualityOfService = quality }
    }

    /// Attaches a value to the request, for its operation's ``AnyRequestOperation/userInfo``.
    ///
    /// Nil removes the value.
    ///
    /// The value is never sent, nor shown in descriptions and logs.
    public func userInfo(_ key: String, _ value: (any Sendable)?) -> Self {
        changed { $0.policies.userInfo[key] = value }
    }

    /// Sets the `Idempotency-Key`, by which the server recognises repetitions.
    ///
    /// A key allows retries for every method. An empty key has no effect.
    public func idempotencyKey(_ key: String = UUID().uuidString) -> Self { header("Idempotency-Key", key) }
}

extension RequestCore {
    /// The request's own settings.
    ///
    /// Most requests have none.
    var policies: RequestPolicies {
        get { policyBox?.policies ?? RequestPolicies() }
        set { policyBox = PolicyBox(newValue) }
    }

    final class PolicyBox: Sendable {
        let policies: RequestPolicies

        init(_ policies: RequestPolicies) { self.policies = policies }
    }
}
