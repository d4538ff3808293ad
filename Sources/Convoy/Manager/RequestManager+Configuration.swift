// How a manager works: a value, given when it is made.
import Foundation

extension RequestManager {
    /// How a manager works, and what holds for its requests that say nothing else.
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
    /// A value: a manager keeps it as it was when it was made. A request that sets one of the defaults itself has its own.
    ///
    /// ## Topics
    /// - ``baseURL``
    /// - ``headerFields``
    /// - ``encoder``
    /// - ``decoder``
    /// - ``retries``
    public struct Configuration: Sendable {
        /// How many operations may have a slot at once; 16 by default.
        ///
        /// At least 1.
        public var maxConcurrentOperationCount: Int
        /// How many of them to one host, a host being scheme, name and port; 6 by default.
        ///
        /// At least 1.
        public var maxConcurrentPerHost: Int
        /// Which of the requests of one priority goes first; the oldest by default.
        public var prioritization: RequestPrioritization
        /// How many requests are sent in a time, to all hosts together; nil, the default: as many as there are slots.
        public var requestRate: RequestRate?
        /// How many requests are sent in a time to each host; nil, the default: as many as there are slots.
        public var requestRatePerHost: RequestRate?

        /// What relative URLs are resolved against (RFC 3986, section 5), its last component kept: with
        /// `https://example.com/v1`, `users` and `./users` are `https://example.com/v1/users`, with or without a slash at the
        /// end.
        ///
        /// A URL that begins with a slash leaves the path out: `/users` is `https://example.com/users`. A query of the base
        /// is dropped.
        public var baseURL: URL?
        /// Header fields of every request; a field of the same name of the request takes their place, and
        /// ``Request/header(_:_:)`` with nil leaves one out.
        ///
        /// Secret ones (`Authorization`, and those added as secret) go to the origin of ``baseURL`` only, if there is one,
        /// and never follow a redirect to another; without a base they go wherever a request is sent. For tokens there is
        /// ``BearerAuthenticator``. With a field that may not be sent every request ends with `.invalidRequest`.
        public var headerFields: HeaderFields
        /// What encodes JSON bodies that name no encoder; nil, the default, for a plain `JSONEncoder`.
        ///
        /// Used as it is, from any thread: do not change it afterwards. Literals and `Sendable` values are encoded by it when
        /// an operation is made; dictionaries of `any Encodable` and of `Any` always by a plain one. A value that is not
        /// `Sendable` cannot wait for it: such a request ends with `.invalidRequest` and says so.
        public var encoder: JSONEncoder?
        /// What decodes the JSON of answers, and of failures (``Request/failing(with:decoder:)``), where the request names no
        /// decoder; nil, the default, for a plain `JSONDecoder`.
        ///
        /// Used as it is, from several threads at once: do not change it afterwards.
        public var decoder: JSONDecoder?
        /// How long nothing may arrive, ``Request/idleTimeout(_:)``; 60 seconds by default.
        ///
        /// Zero or less ends every request with `.invalidRequest`; likewise below.
        public var idleTimeout: Duration
        /// How long one attempt may take, ``Request/attemptTimeout(_:)``; nil, the default: as long as it wants.
        public var attemptTimeout: Duration?
        /// How long each request may take, everything included, ``Request/deadline(_:)``; nil, the default: as long as it
        /// wants.
        public var deadline: Duration?
        /// How many bytes of body are accepted, ``Request/maxBodyBytes(_:)``; nil, the default: 64 MiB in memory, and
        /// whatever comes elsewhere.
        public var maxBodyBytes: Int64?
        /// Which status codes are accepted, ``Request/acceptableStatusCodes(_:)``; 200 to 299 by default.
        public var acceptableStatusCodes: StatusCheck
        /// Whether requests wait while there is no network, until their deadline; false, the default: they fail with
        /// `.connectionFailed`.
        ///
        /// As `waitsForConnectivity` of `URLSessionConfiguration`. Waiting takes no slot and no retry, and
        /// ``RequestManager/why(_:)`` says it. A request that finds no connection waits too, if there is no network then;
        /// what fails over a network that is there fails, or is retried, as ever. This machine itself (`localhost`,
        /// 127.0.0.1, ::1) needs no network. On Linux a network is an interface beside the loopback's that is up and has an
        /// address valid beyond its link: that of a bridge for containers is taken for one too.
        public var waitsForConnectivity: Bool
        /// How redirects are followed; up to 20 by default, never from https to http.
        public var redirects: RedirectPolicy
        /// When a request is sent again; never by default.
        public var retries: RetryPolicy
        /// How many retries all requests together may have.
        public var retryBudget: RetryBudget

        /// How many requests at once each host is sent, learned from its answers in place of
        /// ``maxConcurrentPerHost``; nil, the default: not learned.
        public var hostLimits: AdaptiveLimits?
        /// When a host that keeps failing is left alone for a while; nil, the default: never.
        public var breaker: BreakerPolicy?
        /// How many bytes of body all transfers together may receive a second; nil, the default: as many as come.
        ///
        /// Those that want more get equal shares. Counted as for ``Request/maxBytesPerSecond(_:)``, which may hold for a
        /// request beside it; nothing is counted of what is sent. Zero or less means no limit. Over a transport that cannot
        /// be held (URLSession on Linux) every request ends with `.invalidRequest` before anything is sent.
        ///
        /// It can be changed later: ``RequestManager/maxBytesPerSecond``.
        public var maxBytesPerSecond: Int64?
        /// Interceptors, which may change requests and decide on retries; a request's own come after these.
        public var interceptors: [any RequestInterceptor]
        /// Where cookies are kept; nil, the default: cookies are header fields as any other.
        public var cookies: CookieJar?
        /// Where responses are stored and answer later requests, `HTTPCache` of `ConvoyCache` for example; nil, the default:
        /// every request is sent.
        ///
        /// A request that a stored response answers takes no slot, no host's place and no token of a rate.
        public var cache: (any ResponseCache)?

        /// What moves the bytes.
        public var transport: TransportChoice
        /// Where callbacks run that ask for no other place; nil, the default: in order for each operation, on
        /// threads that all share.
        ///
        /// ``Delivery/inPlace`` is the cheapest, for those that do not wait.
        public var callbacks: Delivery?
        /// Monitors, which are told of everything that happens.
        public var monitors: [any EventMonitor]
        /// What back-off, deadlines, holds of hosts and limits of bytes a second are measured by; the system's by default.
        ///
        /// Tests put a virtual one here, `VirtualClock` of `ConvoyTesting`. The timeouts of a transport are its own.
        public var clock: any RequestClock

        /// The randomness of back-off: which part of the longest wait a retry waits (``RetryPolicy``), and an event stream
        /// until it connects again; from 0 up to 1, random by default.
        ///
        /// A test puts a constant here, and its waits are exact: with `{ 1 }` those of ``RetryPolicy/standard`` are half a
        /// second, a second and two. With `{ 0 }` nothing waits but for a `Retry-After`. What lies outside of 0 to 1, and what
        /// is no number, counts as the nearest of the two, or as 0.
        ///
        /// - Thread: any; called once a wait, with no lock held.
        public var jitter: @Sendable () -> Double

        /// Makes what tells whether there is a network, for tests.
        var connectivity: @Sendable () -> any ConnectivityMonitor = { SystemConnectivity() }

        /// Makes a configuration; each parameter is the property of its name.
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
    /// The limits of hosts.
    var limits: HostLimits {
        HostLimits(fixed: maxConcurrentPerHost, adaptive: hostLimits, breaker: breaker, rate: requestRatePerHost)
    }

    /// What requests leave to their manager.
    fileprivate var defaults: RequestDefaults {
        RequestDefaults(
            baseURL: baseURL, headerFields: headerFields, encoder: encoder, decoder: decoder, idleTimeout: idleTimeout,
            attemptTimeout: attemptTimeout, deadline: deadline, maxBodyBytes: maxBodyBytes,
            acceptableStatusCodes: acceptableStatusCodes, hasCache: cache != nil)
    }
}

extension ExecutionContext {
    /// The surroundings of a manager's operations.
    convenience init(_ configuration: RequestManager.Configuration) {
        self.init(
            transport: configuration.transport, defaults: configuration.defaults, callbacks: configuration.callbacks,
            monitors: configuration.monitors, redirects: configuration.redirects, retries: configuration.retries,
            interceptors: configuration.interceptors, cookies: configuration.cookies, cache: configuration.cache,
            clock: configuration.clock,
            maxBytesPerSecond: configuration.maxBytesPerSecond, samplesHosts: configuration.limits.isSampled,
            unit: configuration.jitter)
    }
}
