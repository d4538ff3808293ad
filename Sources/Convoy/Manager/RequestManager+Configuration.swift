// The configuration of a manager.
import Foundation

extension RequestManager {
    /// The settings of a manager and the defaults of its requests, over which a request's own setting takes precedence.
    ///
    /// ```swift
    /// let manager = RequestManager(configuration: .init(
    ///     baseURL: URL(string: "https://example.com/v1"),
    ///     headerFields: ["Accept-Language": "en"],
    ///     decoder: snakeCase, idleTimeout: .seconds(20), retries: .standard))
    /// // https://example.com/v1/users/1
    /// let user = try await manager.send(Request<User>.get("users/1"))
    /// ```
    ///
    /// Later changes of the value have no effect on a manager that was made with it.
    ///
    /// ## Topics
    /// - ``baseURL``
    /// - ``headerFields``
    /// - ``encoder``
    /// - ``decoder``
    /// - ``retries``
    public struct Configuration: Sendable {
        /// The maximum number of operations with a slot; 16 by default, at least 1, and no more than half of the file
        /// descriptors that are free when the manager is made.
        public var maxConcurrentOperationCount: Int
        /// The maximum number of operations with a slot for one host (scheme, name and port); 6 by default.
        ///
        /// At least 1. An event stream, and a response that is read in a loop, has its slot until it ends.
        public var maxConcurrentPerHost: Int
        /// Which request of equal priority starts first; the oldest by default.
        public var prioritization: RequestPrioritization
        /// The rate limit for requests to all hosts together; nil, the default, means no limit.
        public var requestRate: RequestRate?
        /// The rate limit for requests to each host; nil, the default, means no limit.
        public var requestRatePerHost: RequestRate?

        /// The URL against which relative URLs are resolved (RFC 3986, section 5).
        ///
        /// Unlike in the RFC, the last path component of the base is kept. With `https://example.com/v1`, both `users`
        /// and `./users` mean `https://example.com/v1/users`. A slash at the end of the base makes no difference. A URL
        /// that begins with a slash replaces the path: `/users` means `https://example.com/users`. An empty URL means
        /// the base itself. A query of the base precedes the query of each relative URL, unless that URL names a host.
        /// A relative URL with a colon in its first segment begins with `./`, as in `./documents:commit`.
        public var baseURL: URL?
        /// Header fields of every request that has no field of the same name, nor removes it (``Request/header(_:_:)``
        /// with nil).
        ///
        /// Secret fields (``HeaderFields/Field/isSecret``) are sent to the origin of ``baseURL`` only, or without one
        /// to every host, and never follow a redirect to another origin. Use ``BearerAuthenticator`` for tokens. If a
        /// field is invalid, every request fails with `.invalidRequest`.
        public var headerFields: HeaderFields
        /// The encoder of JSON bodies without their own encoder; nil, the default, means a plain `JSONEncoder`.
        ///
        /// It is used from any thread, so do not change it afterwards. It encodes literals and `Sendable` values when
        /// an operation is made. A value that is not `Sendable` cannot be stored until then, so its request fails with
        /// `.invalidRequest`. Dictionaries of `any Encodable` and of `Any` are always encoded by a plain encoder.
        public var encoder: JSONEncoder?
        /// The JSON decoder of responses and error bodies (``Request/failing(with:decoder:)``) without their own; nil,
        /// the default, means a plain `JSONDecoder`.
        ///
        /// It is used from several threads at once, so do not change it afterwards.
        public var decoder: JSONDecoder?
        /// The maximum time without received data, ``Request/idleTimeout(_:)``, 60 seconds by default; zero or less, as
        /// in any timeout, fails every request with `.invalidRequest`.
        public var idleTimeout: Duration
        /// The maximum time of one attempt, ``Request/attemptTimeout(_:)``; nil, the default, means no limit.
        public var attemptTimeout: Duration?
        /// The maximum time of each request including waits and retries, ``Request/deadline(_:)``; nil, the default,
        /// means no limit.
        public var deadline: Duration?
        /// The maximum size of a body, ``Request/maxBodyBytes(_:)``; nil, the default, limits only memory, to 64 MiB.
        public var maxBodyBytes: Int64?
        /// The accepted status codes, ``Request/acceptableStatusCodes(_:)``; 200 to 299 by default.
        public var acceptableStatusCodes: StatusCheck
        package var keepsUnknownCodings = false
        /// Whether URLSession waits for a network (its `waitsForConnectivity`), on Apple platforms; false by default.
        ///
        /// A waiting request keeps its slot and its deadline. On Linux, and with a transport that is no
        /// ``URLSessionTransport``, every request fails with `.invalidRequest` before anything is sent; use ``retries``
        /// there. The code for Apple platforms is type-checked but was never run.
        public var waitsForConnectivity: Bool
        /// How redirects are followed: up to 20 by default, never from https to http.
        public var redirects: RedirectPolicy
        /// When a request is sent again; never by default.
        public var retries: RetryPolicy
        /// The limit for the retries of all requests together; see ``RetryBudget``.
        public var retryBudget: RetryBudget

        /// Learns the limit of each host, in place of ``maxConcurrentPerHost``; nil, the default, disables it.
        public var hostLimits: AdaptiveLimits?
        /// When to stop sending to a host that keeps failing; nil, the default, means never.
        public var breaker: BreakerPolicy?
        /// The body bytes that all transfers together may receive per second; nil, the default, means no limit.
        ///
        /// All transfers share the limit equally. Bytes are counted as for ``Request/maxBytesPerSecond(_:)``, which may
        /// apply in addition. Sent bytes are not counted. Zero or less means no limit. If the transport cannot pause
        /// (URLSession on Linux), every request fails with `.invalidRequest` before anything is sent. You can change
        /// the limit later with ``RequestManager/maxBytesPerSecond``.
        public var maxBytesPerSecond: Int64?
        /// Interceptors, which may change requests and decide on retries; a request's own interceptors run after these.
        public var interceptors: [any RequestInterceptor]
        /// The cookie storage; nil, the default, treats cookies like any other header field.
        public var cookies: CookieJar?
        /// The response cache, for example `HTTPCache` of `ConvoyCache`, whose responses need no slot and count against
        /// no rate limit; nil by default.
        public var cache: (any ResponseCache)?

        /// The transport that sends the requests.
        public var transport: TransportChoice
        /// Where callbacks run by default; nil runs them on shared threads, in order for each operation, and
        /// ``Delivery/inPlace`` is the cheapest choice for callbacks that do not block.
        public var callbacks: Delivery?
        /// Monitors, which receive all events.
        public var monitors: [any EventMonitor]
        /// The clock for back-off, deadlines, host back-offs and rate limits, not for a transport's own timeouts; the
        /// system's by default, in tests `VirtualClock` of `ConvoyTesting`.
        public var clock: any RequestClock

        /// The random factor of back-off, from 0 to 1: the wait is this fraction of its upper limit (``RetryPolicy``).
        ///
        /// Tests use a constant, which makes waits exact: with `{ 1 }` those of ``RetryPolicy/standard`` are half a
        /// second, one second and two, with `{ 0 }` a retry waits only for a `Retry-After`. Other values are clamped;
        /// NaN counts as 0.
        ///
        /// - Thread: any; called once for each wait, without a lock.
        public var jitter: @Sendable () -> Double

        /// Makes a configuration; each parameter sets the property of its name.
        public init(
            maxConcurrentOperationCount: Int = 16, maxConcurrentPerHost: Int = 6,
            prioritization: RequestPrioritization = .fifo, requestRate: RequestRate? = nil,
            requestRatePerHost: RequestRate? = nil, baseURL: URL? = nil,
            headerFields: HeaderFields = [:], encoder: JSONEncoder? = nil, decoder: JSONDecoder? = nil,
            idleTimeout: Duration = .seconds(60), attemptTimeout: Duration? = nil, deadline: Duration? = nil,
            maxBodyBytes: Int64? = nil, acceptableStatusCodes: StatusCheck = .successful,
            waitsForConnectivity: Bool = false,
            redirects: RedirectPolicy = .follow, retries: RetryPolicy = .never,
            retryBudget: RetryBudget = RetryBudget(), hostLimits: AdaptiveLimits? = nil,
            breaker: BreakerPolicy? = nil, maxBytesPerSecond: Int64? = nil,
            interceptors: [any RequestInterceptor] = [], cookies: CookieJar? = nil,
            cache: (any ResponseCache)? = nil,
            transport: TransportChoice = .automatic, callbacks: Delivery? = nil, monitors: [any EventMonitor] = [],
            clock: any RequestClock = SystemClock.shared,
            jitter: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) }
        ) {
            self.maxConcurrentOperationCount = maxConcurrentOperationCount
            self.maxConcurrentPerHost = maxConcurrentPerHost
            self.prioritization = prioritization
            self.requestRate = requestRate
            self.requestRatePerHost = requestRatePerHost
            self.baseURL = baseURL
            self.headerFields = headerFields
            self.encoder = encoder
            self.decoder = decoder
            self.idleTimeout = idleTimeout
            self.attemptTimeout = attemptTimeout
            self.deadline = deadline
            self.maxBodyBytes = maxBodyBytes
            self.acceptableStatusCodes = acceptableStatusCodes
            self.waitsForConnectivity = waitsForConnectivity
            self.redirects = redirects
            self.retries = retries
            self.retryBudget = retryBudget
            self.hostLimits = hostLimits
            self.breaker = breaker
            self.maxBytesPerSecond = maxBytesPerSecond
            self.interceptors = interceptors
            self.cookies = cookies
            self.cache = cache
            self.transport = transport
            self.callbacks = callbacks
            self.monitors = monitors
            self.clock = clock
            self.jitter = jitter
        }
    }
}

extension RequestManager.Configuration {
    var limits: HostLimits {
        HostLimits(fixed: maxConcurrentPerHost, adaptive: hostLimits, breaker: breaker, rate: requestRatePerHost)
    }

    fileprivate func defaults(_ defect: String?) -> RequestDefaults {
        RequestDefaults(
            baseURL: baseURL, headerFields: headerFields, encoder: encoder, decoder: decoder, idleTimeout: idleTimeout,
            attemptTimeout: attemptTimeout, deadline: deadline, maxBodyBytes: maxBodyBytes,
            acceptableStatusCodes: acceptableStatusCodes, hasCache: cache != nil,
            keepsUnknownCodings: keepsUnknownCodings, defect: defect)
    }
}

extension Scheduler {
    convenience init(
        _ configuration: RequestManager.Configuration, queue: OperationQueue? = nil, ownQueue: ManagerQueue? = nil,
        schedule: (Bool) -> Schedule = { _ in Schedule() }
    ) {
        var (transport, defect) = (configuration.transport, nil as String?)
        if configuration.waitsForConnectivity, let waiting = transport.waitingForConnectivity {
            transport = .custom(waiting)
        } else if configuration.waitsForConnectivity {
            let reason = "waitsForConnectivity is a setting of URLSession on Apple platforms"
            defect = reason + "; leave it false here and set retries"
        }
        self.init(
            transport: transport, defaults: configuration.defaults(defect), callbacks: configuration.callbacks,
            monitors: configuration.monitors, redirects: configuration.redirects, retries: configuration.retries,
            interceptors: configuration.interceptors, cookies: configuration.cookies, cache: configuration.cache,
            clock: configuration.clock, maxBytesPerSecond: configuration.maxBytesPerSecond,
            samplesHosts: configuration.limits.isSampled, unit: configuration.jitter, queue: queue, ownQueue: ownQueue,
            schedule: schedule)
    }
}
