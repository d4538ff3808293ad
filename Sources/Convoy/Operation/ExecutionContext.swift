// The objects that all operations of one manager share.
import Foundation

/// The environment of an operation: transport, request defaults, default place of callbacks, monitors.
final class ExecutionContext: Sendable {
    let transport: any Transport
    let directTransport: (any DirectTransport)?
    let pausesInPlace: Bool
    let defaults: RequestDefaults
    let callbacks: Delivery?
    let monitors: [any EventMonitor]
    /// The size in bytes of the largest body that an outcome stores for a monitor; 0 if no monitor wants bodies.
    let keptBodyBytes: Int
    let redirects: RedirectPolicy
    let retries: RetryPolicy
    let interceptors: [any RequestInterceptor]
    let cookies: CookieJar?
    let cache: (any CacheEngine)?
    let clock: any RequestClock
    let samplesHosts: Bool
    let rateLimit: RateLimit
    let unit: @Sendable () -> Double

    /// Runs calls that a transport's thread or a lock's owner must not make, in order.
    ///
    /// Such calls start or cancel an operation, or make, suspend, resume or cancel a task.
    ///
    /// In swift-corelibs-foundation, `cancel()` waits for the loader's queue. A callback of that queue that calls
    /// `cancel()` deadlocks.
    let taskControl = DispatchQueue(label: "convoy.task-control")

    /// Cancels a task, at once if the transport allows it.
    func cancel(_ task: any TransferTask) {
        if transport.isReentrant { task.cancel() } else { taskControl.async { task.cancel() } }
    }

    private let executors = ExecutorPool()
    private let otherExecutors = Locked<[QualityOfService: ExecutorPool]>([:])
    let monitorQueue = DispatchQueue(label: "convoy.monitors")

    /// Whether interceptors may change a request, or decide what follows an attempt.
    func asksInterceptors(_ box: RequestCore.PolicyBox?) -> Bool {
        box?.policies.interceptors.isEmpty == false
            || !interceptors.isEmpty && box?.policies.usesManagerInterceptors != false
    }

    func executors(_ quality: QualityOfService) -> ExecutorPool {
        if quality == .default { return executors }
        return otherExecutors.withLock { others in
            let executors = others[quality] ?? ExecutorPool(quality: DispatchQoS(quality))
            others[quality] = executors
            return executors
        }
    }

    static let standalone = ExecutionContext()

    #if canImport(FoundationNetworking)
        /// Makes libdispatch create its timer descriptors, once.
        ///
        /// On Linux, libdispatch creates them with the first timer of the process, and traps if no file descriptor is
        /// free. So the library starts a timer before requests use descriptors.
        private static let timersAreReady: Void = {
            let fired = DispatchSemaphore(value: 0)
            DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(100)) { fired.signal() }
            _ = fired.wait(timeout: .now() + .milliseconds(100))
        }()
    #endif

    /// - Parameters:
    ///   - transport: moves the bytes. The other parameters are those of a manager's configuration.
    ///   - samplesHosts: whether the results of attempts are reported to the limits of their hosts.
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
        pausesInPlace = transport.pausesInPlace
        (self.defaults, self.callbacks, self.monitors) = (defaults, callbacks, monitors)
        keptBodyBytes = monitors.reduce(0) { max($0, ($1 as? any BodyKeepingMonitor)?.keptBodyBytes ?? 0) }
        (self.redirects, self.retries, self.interceptors) = (redirects, retries, interceptors)
        (self.cookies, self.clock, self.unit, self.samplesHosts) = (cookies, clock, unit, samplesHosts)
        self.cache = cache?.connection.engine
        rateLimit = RateLimit(maxBytesPerSecond, clock: clock)
    }
}

extension CookieJar {
    /// Adds the cookies for a request, unless the caller has set or omitted the `Cookie` field.
    func add(to request: inout PreparedRequest) {
        if request.headerFields.contains("Cookie") || request.omittedFields.contains("cookie") { return }
        request.headerFields["Cookie"] = cookieField(for: request.url)
    }
}
