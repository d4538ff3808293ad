// What a request wants otherwise than its manager.
import Foundation

/// How one request is followed up; nil means as its manager says.
struct RequestPolicies: Sendable {
    var redirects: RedirectPolicy?
    var retries: RetryPolicy?
    /// Nil in the inner optional for one without a deadline, and likewise below.
    var deadline: Duration??
    var idleTimeout: Duration?
    var attemptTimeout: Duration??
    /// How many bytes of body are accepted, wherever they go.
    var bodyLimit: Int64?
    var acceptableStatusCodes: StatusCheck?
    var acceptableContentTypes: ContentTypeCheck?
    /// Which of the manager's header fields are left out, in lower case.
    var omittedHeaderFields: Set<String> = []
    /// Makes the failure that the body of an answer with an unacceptable status tells.
    var decodesRefusal: RefusalDecoder?
    /// Whether that is a function of the caller's.
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
    /// The name that no other request that runs may have.
    var exclusion: String?
    var maxBytesPerSecond: Int64?
    /// In place of a limit for each operation: one for all that are made from the request.
    var sharedRateLimit: RateLimit?
    var minimumSpeed: MinimumSpeed?
    var decodesFile = false
    /// It goes to another origin than credentials were meant for: a page that another one has named.
    var hasLeftOrigin = false
    /// It goes to a mirror at another origin than that of its download.
    var isMirror = false
    var keepsUnknownCodings = false
    /// Attempts of earlier operations, of earlier processes perhaps, for the same request.
    var earlierAttemptCount = 0
    var qualityOfService: QualityOfService?
    /// What it asks of the cache; nil for nothing of its own.
    var cache: CacheOptions?
    /// What the caller keeps with it.
    var userInfo: [String: any Sendable] = [:]
}

extension Request {
    /// Sets how redirects are followed; the manager's policy by default.
    public func redirects(_ policy: RedirectPolicy) -> Self { changed { $0.policies.redirects = policy } }

    /// Says how many attempts earlier operations have made for it: ``AttemptContext/number`` goes on from there.
    package func countingAttempts(from count: Int) -> Self { changed { $0.policies.earlierAttemptCount = count } }

    /// Sets when the request is sent again; the manager's policy by default.
    public func retries(_ policy: RetryPolicy) -> Self { changed { $0.policies.retries = policy } }

    /// Sets how long the request may take, everything included: waiting for dependencies and slots, redirects, back-off.
    ///
    /// When the time is over the request ends with `.deadlineExceeded`, which says what used it up; a retry that could
    /// only come too late is not waited for. The time counts from the moment a manager takes the operation, or from its
    /// start by hand; for a chain's link, whose request is not known before, from the moment its request has been built.
    ///
    /// Nil for none, whatever ``RequestManager/Configuration/deadline`` says.
    public func deadline(_ deadline: Duration?) -> Self { changed { $0.policies.deadline = .some(deadline) } }

    /// Makes a chain's link end at the latest when the deadline of an operation that it was built from is over.
    public func inheritingDeadline() -> Self { changed { $0.policies.inheritsDeadline = true } }

    /// Adds interceptors, asked after the manager's.
    public func intercepted(by interceptors: any RequestInterceptor...) -> Self {
        changed { $0.policies.interceptors += interceptors }
    }

    /// Leaves out the manager's interceptors, and those added so far.
    ///
    /// For requests that interceptors send themselves, a token's refresh for example.
    public func withoutInterceptors() -> Self {
        changed {
            $0.policies.interceptors = []
            $0.policies.usesManagerInterceptors = false
        }
    }

    /// Allows the request to share its transfer with equal ones of the same manager that are queued or under way.
    ///
    /// Only for GET requests whose body stays in memory; equal are those with the same URL and the same header fields.
    /// Each can be cancelled by itself, and the last one cancelled ends the transfer; the highest priority among them
    /// counts. Redirects and retries are those of the first. A request with interceptors of its own is not shared.
    ///
    /// Each is told the progress, and the body is decoded once for those that decode it alike: to the same output type, as
    /// `get(_:)` does, by the same decoder object, or by the same function, which copies of one request have. They get the
    /// same output: one that is a reference is shared.
    public func coalesced() -> Self { changed { $0.policies.isCoalesced = true } }

    /// Has the request never run beside another of the same manager with the same name: mutual exclusion.
    ///
    /// They run one after the other, in the order of their priorities and of their coming, and take no slot while they wait;
    /// ``RequestManager/why(_:)`` tells which one has the name. A request has its name from its first slot to its end, also
    /// between two attempts and while it is suspended, once it has begun. An interceptor that sends a request of the same
    /// name waits for it for ever: the request it adapts has the name.
    ///
    /// ```swift
    /// let request = Request<Cart>.post(cartURL, json: item)
    /// manager.enqueue(request.mutuallyExclusive("cart"))
    /// ```
    public func mutuallyExclusive(_ name: String) -> Self { changed { $0.policies.exclusion = name } }

    /// Sets the quality of service of what waits for the answer: decoding and callbacks; see
    /// ``AnyRequestOperation/qualityOfService``.
    public func qualityOfService(_ quality: QualityOfService) -> Self {
        changed { $0.policies.qualityOfService = quality }
    }

    /// Keeps something with the request, for its operation's ``AnyRequestOperation/userInfo``; nil removes it.
    ///
    /// Nothing of it is sent, or shown in descriptions and logs.
    public func userInfo(_ key: String, _ value: (any Sendable)?) -> Self {
        changed { $0.policies.userInfo[key] = value }
    }

    /// Sets the `Idempotency-Key`, which tells the server that a repetition is one, and allows retries whatever the method.
    ///
    /// An empty key is none.
    public func idempotencyKey(_ key: String = UUID().uuidString) -> Self { header("Idempotency-Key", key) }
}

extension RequestCore {
    /// What the request wants otherwise than its manager; most want nothing.
    var policies: RequestPolicies {
        get { policyBox?.policies ?? RequestPolicies() }
        set { policyBox = PolicyBox(newValue) }
    }

    final class PolicyBox: Sendable {
        let policies: RequestPolicies

        init(_ policies: RequestPolicies) { self.policies = policies }
    }
}
