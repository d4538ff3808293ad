// A request's own settings.
import Foundation

/// The settings of one request.
///
/// Nil means the manager's setting.
struct RequestPolicies: Sendable {
    var redirects: RedirectPolicy?
    var retries: RetryPolicy?
    /// A nil inner optional means no deadline.
    ///
    /// The same holds below.
    var deadline: Duration??
    var idleTimeout: Duration?
    var attemptTimeout: Duration??
    /// The maximum size of a body for any destination.
    var bodyLimit: Int64?
    var acceptableStatusCodes: StatusCheck?
    var acceptableContentTypes: ContentTypeCheck?
    /// The names of the manager's header fields that are not added, in lower case.
    var omittedHeaderFields: Set<String> = []
    /// Decodes the failure from the body of an answer with an unacceptable status.
    var decodesRefusal: RefusalDecoder?
    /// Whether that is a user function.
    var refusesByFunction = false
    /// The deadline that was inherited along a chain.
    var inheritedDeadline: ContinuousClock.Instant? {
        get { inheritedMoment?.instant }
        set { inheritedMoment = newValue.map { CompactInstant($0) } }
    }
    private var inheritedMoment: CompactInstant?
    var inheritsDeadline = false
    var interceptors: [any RequestInterceptor] = []
    var usesManagerInterceptors = true
    var isCoalesced = false
    /// The name of the mutual exclusion.
    var exclusion: String?
    var maxBytesPerSecond: Int64?
    /// One rate limit for all operations made from the request, in place of one for each.
    var sharedRateLimit: RateLimit?
    var minimumSpeed: MinimumSpeed?
    var decodesFile = false
    /// Whether the request goes to another origin than its credentials were meant for, because another page named it.
    var hasLeftOrigin = false
    /// Whether the request goes to a mirror at another origin than that of its download.
    var isMirror = false
    var keepsUnknownCodings = false
    /// The number of attempts that earlier operations made for the same request, possibly in earlier processes.
    var earlierAttemptCount = 0
    var qualityOfService: QualityOfService?
    /// The cache options of the request; nil when it has none.
    var cache: CacheOptions?
    /// Values that the caller attached.
    var userInfo: [String: any Sendable] = [:]
}

extension Request {
    /// Sets how redirects are followed; the manager's policy by default.
    public func redirects(_ policy: RedirectPolicy) -> Self { changed { $0.policies.redirects = policy } }

    /// Sets how many attempts earlier operations made.
    ///
    /// ``AttemptContext/number`` continues from there.
    package func countingAttempts(from count: Int) -> Self { changed { $0.policies.earlierAttemptCount = count } }

    /// Sets when the request is sent again; the manager's policy by default.
    public func retries(_ policy: RetryPolicy) -> Self { changed { $0.policies.retries = policy } }

    /// Sets the maximum time of the request, including waits for dependencies and slots, redirects and back-off.
    ///
    /// After that time the request fails with `.deadlineExceeded`, and the message says what took the time. A retry
    /// that would start too late is not awaited. The time starts when the manager receives the operation, or when you
    /// start it yourself. For a link of a chain it starts when its request has been built.
    ///
    /// Nil means no deadline, even if ``RequestManager/Configuration/deadline`` sets one.
    public func deadline(_ deadline: Duration?) -> Self { changed { $0.policies.deadline = .some(deadline) } }

    /// Limits a link by the deadline of the operation that it was built from.
    public func inheritingDeadline() -> Self { changed { $0.policies.inheritsDeadline = true } }

    /// Adds interceptors, which are called after the manager's.
    public func intercepted(by interceptors: any RequestInterceptor...) -> Self {
        changed { $0.policies.interceptors += interceptors }
    }

    /// Removes the manager's interceptors and those added so far.
    ///
    /// Use it for requests that interceptors send themselves, for example to refresh a token.
    public func withoutInterceptors() -> Self {
        changed {
            $0.policies.interceptors = []
            $0.policies.usesManagerInterceptors = false
        }
    }

    /// Allows the request to share its transfer with equal queued or running requests of the same manager.
    ///
    /// It applies only to GET requests whose body stays in memory. Requests are equal if they have the same URL and
    /// header fields. Each can be cancelled separately, and cancelling the last one ends the transfer. The highest
    /// priority among them is used. The policies for redirects and retries are those of the first. A request with its
    /// own interceptors is not shared.
    ///
    /// Each request reports progress. The body is decoded once for requests that decode alike: with the same output
    /// type of `get(_:)`, the same decoder object, or the same function in copies of one request. They receive the
    /// same output, so a reference is shared.
    public func coalesced() -> Self { changed { $0.policies.isCoalesced = true } }

    /// Mutual exclusion: at most one request of this name runs at a time in a manager.
    ///
    /// Such requests run in the order of priority and arrival, and take no slot while they wait.
    /// ``RequestManager/why(_:)`` names the request that runs. A request holds the name from its first slot to its
    /// end, also between attempts and while suspended. An interceptor that sends a request of the same name waits for
    /// it forever, because the request that it adapts holds the name.
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
    /// Nil removes it.
    ///
    /// The value is never sent, nor shown in descriptions and logs.
    public func userInfo(_ key: String, _ value: (any Sendable)?) -> Self {
        changed { $0.policies.userInfo[key] = value }
    }

    /// Sets the `Idempotency-Key`, by which the server recognises repetitions.
    ///
    /// It allows retries for every method.
    ///
    /// An empty key has no effect.
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
