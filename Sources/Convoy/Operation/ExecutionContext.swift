// The objects that all operations of one manager share.
import Foundation

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
    /// What the manager decides, and the one lock that guards the records of its operations.
    let schedule: Locked<Schedule>

    // Starts or cancels operations, and makes, suspends, resumes or cancels tasks, in order, for callers that must not:
    // a transport's thread and a lock's owner. In swift-corelibs-foundation, `cancel()` waits for the loader's queue,
    // so a callback of that queue that calls `cancel()` deadlocks.
    let taskControl = DispatchQueue(label: "convoy.task-control")

    func cancel(_ task: any TransferTask) {
        if transport.isReentrant { task.cancel() } else { taskControl.async { task.cancel() } }
    }

    private let executors = ExecutorPool()
    private let otherExecutors = Locked<[QualityOfService: ExecutorPool]>([:])
    let monitorQueue = DispatchQueue(label: "convoy.monitors")

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
        // On Linux, libdispatch creates its timer descriptors with the first timer of the process, and traps if no file
        // descriptor is free. So the library starts a timer before requests use descriptors.
        private static let timersAreReady: Void = {
            let fired = DispatchSemaphore(value: 0)
            DispatchQueue.global().asyncAfter(deadline: .now() + .microseconds(100)) { fired.signal() }
            _ = fired.wait(timeout: .now() + .milliseconds(100))
        }()
    #endif

    /// With `samplesHosts`, the results of attempts are reported to the limits of their hosts.
    init(
        transport choice: TransportChoice = .automatic, defaults: RequestDefaults = .standard,
        callbacks: Delivery? = nil,
        monitors: [any EventMonitor] = [], redirects: RedirectPolicy = .follow, retries: RetryPolicy = .never,
        interceptors: [any RequestInterceptor] = [], cookies: CookieJar? = nil, cache: (any ResponseCache)? = nil,
        clock: any RequestClock = SystemClock.shared, maxBytesPerSecond: Int64? = nil, samplesHosts: Bool = false,
        unit: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        schedule: @autoclosure () -> Schedule = Schedule()
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
        self.schedule = Locked(schedule())
        rateLimit = RateLimit(maxBytesPerSecond, clock: clock)
    }
}

extension CookieJar {
    func add(to request: inout PreparedRequest) {
        if request.headerFields.contains("Cookie") || request.omittedFields.contains("cookie") { return }
        request.headerFields["Cookie"] = cookieField(for: request.url)
    }
}
