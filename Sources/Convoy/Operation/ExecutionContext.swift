// What the operations of one manager share.
import Foundation

/// The surroundings of an operation: transport, defaults of requests, the default place of callbacks, monitors.
final class ExecutionContext: Sendable {
    let transport: any Transport
    /// The same, where it can do without a `URLSessionTask`.
    let directTransport: (any DirectTransport)?
    /// What requests leave to their manager.
    let defaults: RequestDefaults
    let callbacks: Delivery?
    let monitors: [any EventMonitor]
    /// How large a body may be for its outcome to keep it for a monitor; 0 where none asks.
    let keptBodyBytes: Int
    let redirects: RedirectPolicy
    let retries: RetryPolicy
    let interceptors: [any RequestInterceptor]
    let cookies: CookieJar?
    let cache: (any CacheEngine)?
    let clock: any RequestClock
    /// Whether the ends of attempts say something about their hosts.
    let samplesHosts: Bool
    /// How many bytes a second all transfers together may receive.
    let rateLimit: RateLimit
    /// Randomness for back-off: from 0 up to 1.
    let unit: @Sendable () -> Double

    /// Where tasks are suspended, resumed again and cancelled: in order, never on a transport's thread, never under a lock.
    ///
    /// The `cancel()` of swift-corelibs-foundation waits for the loader's queue and deadlocks when it is called from a
    /// callback of that queue.
    let taskControl = DispatchQueue(label: "convoy.task-control")

    /// Cancels a task; at once where the transport allows it.
    func cancel(_ task: any TransferTask) {
        if transport.isReentrant { task.cancel() } else { taskControl.async { task.cancel() } }
    }

    /// Where user code runs, unless it has a quality of service of its own.
    private let executors = ExecutorPool()
    private let otherExecutors = Locked<[QualityOfService: ExecutorPool]>([:])
    /// Where monitors are told, in order.
    let monitorQueue = DispatchQueue(label: "convoy.monitors")

    /// Whether interceptors may change a request, or decide what follows an attempt.
    func asksInterceptors(_ box: RequestCore.PolicyBox?) -> Bool {
        box?.policies.interceptors.isEmpty == false
            || !interceptors.isEmpty && box?.policies.usesManagerInterceptors != false
    }

    /// Where user code of a quality of service runs.
    func executors(_ quality: QualityOfService) -> ExecutorPool {
        if quality == .default { return executors }
        return otherExecutors.withLock { others in
            let executors = others[quality] ?? ExecutorPool(quality: DispatchQoS(quality))
            others[quality] = executors
            return executors
        }
    }

    /// For operations made without a manager.
    static let standalone = ExecutionContext()

    #if canImport(FoundationNetworking)
        /// Has libdispatch make what its timers need, once.
        ///
        /// On Linux it does so with the first timer of the process, and traps when it finds no file descriptor then: so here,
        /// before requests take them.
        private static let timersAreReady: Void = {
            let fired = DispatchSemaphore(value: 0)
            DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(100)) { fired.signal() }
            _ = fired.wait(timeout: .now() + .milliseconds(100))
        }()
    #endif

    /// - Parameters:
    ///   - transport: what moves the bytes; the rest as in a manager's configuration.
    ///   - samplesHosts: whether limits of hosts are learned.
    init(
        transport choice: TransportChoice = .automatic, defaults: RequestDefaults = .standard,
        callbacks: Delivery? = nil,
        monitors: [any EventMonitor] = [], redirects: RedirectPolicy = .follow, retries: RetryPolicy = .never,
        interceptors: [any RequestInterceptor] = [], cookies: CookieJar? = nil, cache: (any ResponseCache)? = nil,
        clock: any RequestClock = SystemClock.shared, maxBytesPerSecond: Int64? = nil, samplesHosts: Bool = false,
        unit: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) }
    ) {
        #if canImport(FoundationNetworking)
            _ = Self.timersAreReady
        #endif
        transport = choice.transport
        directTransport = transport as? any DirectTransport
        self.defaults = defaults
        self.callbacks = callbacks
        self.monitors = monitors
        keptBodyBytes = monitors.reduce(0) { max($0, ($1 as? any BodyKeepingMonitor)?.keptBodyBytes ?? 0) }
        self.redirects = redirects
        self.retries = retries
        self.interceptors = interceptors
        self.cookies = cookies
        self.cache = cache?.connection.engine
        self.clock = clock
        rateLimit = RateLimit(maxBytesPerSecond, clock: clock)
        self.unit = unit
        self.samplesHosts = samplesHosts
    }
}
