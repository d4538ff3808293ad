// How a manager works: a value, given when it is made.
import Foundation

extension RequestManager {
    /// How a manager works.
    public struct Configuration: Sendable {
        /// How many operations may have a slot at once; 16 by default.
        ///
        /// At least 1.
        public var maxConcurrentOperationCount: Int
        /// How many of them to one host, a host being scheme, name and port; 6 by default.
        ///
        /// At least 1.
        public var maxConcurrentPerHost: Int
        /// What relative URLs are resolved against (RFC 3986, section 5: end it with a slash to keep its last part).
        public var baseURL: URL?
        /// What moves the bytes.
        public var transport: TransportChoice
        /// Where callbacks run that ask for no other place; nil, the default: in order for each operation, on
        /// threads that all share.
        public var callbacks: Delivery?
        /// Who is told of everything that happens.
        public var monitors: [any EventMonitor]

        /// How redirects are followed; up to 20 by default, never from https to http.
        public var redirects = RedirectPolicy.follow
        /// When a request is sent again; never by default.
        public var retries = RetryPolicy.none
        /// How many retries all requests together may have.
        public var retryBudget = RetryBudget()
        /// How many requests at once each host is sent, learned from its answers in place of
        /// ``maxConcurrentPerHost``; nil, the default: not learned.
        public var hostLimits: AdaptiveLimits?
        /// When a host that keeps failing is left alone for a while; nil, the default: never.
        public var breaker: BreakerPolicy?
        /// How many bytes of body all transfers together may receive a second; nil, the default: as many as come.
        ///
        /// Those that want more get equal shares. Counted as for ``Request/maximumBytesPerSecond(_:)``, which may hold for a
        /// request beside it; nothing is counted of what is sent. Zero or less means no limit. Over a transport that cannot
        /// be held (URLSession on Linux) every request ends with `.invalidRequest` before anything is sent.
        ///
        /// It can be changed later: ``RequestManager/maximumBytesPerSecond``.
        public var maximumBytesPerSecond: Int64?
        /// Who may change requests and decide on retries; a request's own come after these.
        public var interceptors: [any RequestInterceptor] = []
        /// Where cookies are kept; nil, the default: cookies are header fields as any other.
        public var cookies: CookieJar?

        /// Time, for tests.
        var clock: any RequestClock = SystemClock.shared
        /// Randomness for back-off, for tests: from 0 up to 1.
        var unit: @Sendable () -> Double = { Double.random(in: 0..<1) }

        /// Makes a configuration.
        public init(
            maxConcurrentOperationCount: Int = 16, maxConcurrentPerHost: Int = 6, baseURL: URL? = nil,
            transport: TransportChoice = .automatic, callbacks: Delivery? = nil, monitors: [any EventMonitor] = []
        ) {
            self.maxConcurrentOperationCount = maxConcurrentOperationCount
            self.maxConcurrentPerHost = maxConcurrentPerHost
            self.baseURL = baseURL
            self.transport = transport
            self.callbacks = callbacks
            self.monitors = monitors
        }
    }
}

extension RequestManager.Configuration {
    /// The limits of hosts.
    var limits: HostLimits {
        HostLimits(fixed: maxConcurrentPerHost, adaptive: hostLimits, breaker: breaker)
    }
}

extension ExecutionContext {
    /// The surroundings of a manager's operations.
    convenience init(_ configuration: RequestManager.Configuration) {
        self.init(
            transport: configuration.transport, baseURL: configuration.baseURL, callbacks: configuration.callbacks,
            monitors: configuration.monitors, redirects: configuration.redirects, retries: configuration.retries,
            interceptors: configuration.interceptors, cookies: configuration.cookies, clock: configuration.clock,
            maximumBytesPerSecond: configuration.maximumBytesPerSecond, samplesHosts: configuration.limits.learn,
            unit: configuration.unit)
    }
}
