// The manager, the main object of the library.
import Foundation

/// Sends requests as operations on an `OperationQueue`, with dependencies, limits, priorities and cancellation.
///
/// ```swift
/// let manager = RequestManager(
///     configuration: .init(
///         maxConcurrentOperationCount: 16, maxConcurrentPerHost: 6))
/// let request = Request<User>.get("https://example.com/users/1")
/// let user = try await manager.send(request).value
/// ```
///
/// Releasing a manager stops nothing. Its operations run until they finish and call their callbacks. The exception is a
/// suspended manager with its own queue: all its operations are cancelled, because no caller could resume it.
///
/// ## Concurrency
/// Use a manager from any thread. It holds no lock while user code runs.
///
/// ## Topics
/// - ``send(_:)``
/// - ``operation(_:)``
/// - ``enqueue(_:)-(AnyRequestOperation...)``
/// - ``batch(_:failFast:keepsResults:onResult:)-39bsf``
/// - ``operation(named:_:)``
/// - ``pages(_:next:)``
/// - ``download(_:to:verifying:existing:)-(Request<Data>,_,_,_)``
/// - ``cancelAll(where:)``
/// - ``why(_:)``
public final class RequestManager: Sendable {
    /// The queue on which the operations run, which you may configure; its own limit applies in addition.
    ///
    /// Your own queue receives every operation at once, starts it when it is ready, and the operation then waits for a
    /// slot. The manager's own queue receives a request when the request has a slot, so its `operations` and
    /// `operationCount` include only those; the manager's ``operations`` includes all. That queue's methods to wait for
    /// or cancel all operations, its suspension and its barriers also include requests that wait for a slot, and those
    /// of ``send(_:)`` and of batches, which callers cannot reference and which may start outside that queue.
    ///
    /// If this queue is suspended when the manager is released, its operations wait until the queue is resumed, unless
    /// a manager with its own queue is itself suspended, which cancels them.
    public let queue: OperationQueue
    /// The configuration with which the manager was made.
    public let configuration: Configuration

    let scheduler: Scheduler

    /// Makes a manager with its own queue.
    ///
    /// That queue starts one operation at a time, which suffices because requests run elsewhere after their start. If
    /// the transport allows it (libcurl's does), a request starts on the thread that enqueues it or that releases a
    /// slot for it. Put your own operations that work inside `main()` into your own queue.
    public convenience init(configuration: Configuration = Configuration()) {
        let queue = ManagerQueue()
        self.init(queue: queue, ownQueue: queue, configuration)
    }

    /// Makes a manager for your own queue.
    ///
    /// Other operations may run on the queue too. The queue treats all enqueued operations as Foundation does, with
    /// the differences in <doc:OperationQueues>. If the queue has a limit, a request counts towards the limit from its
    /// start until it finishes. This includes the time in which the request waits for its host or for a retry.
    public convenience init(queue: OperationQueue, configuration: Configuration = Configuration()) {
        self.init(queue: queue, ownQueue: nil, configuration)
    }

    private init(queue: OperationQueue, ownQueue: ManagerQueue?, _ configuration: Configuration) {
        (self.queue, self.configuration) = (queue, configuration)
        scheduler = Scheduler(configuration, queue: queue, ownQueue: ownQueue) { isReentrant in
            Schedule(
                limit: min(configuration.maxConcurrentOperationCount, Self.descriptorSlots),
                hosts: configuration.limits, configuration.prioritization, rate: configuration.requestRate,
                retryBudget: RetryBudgetState(configuration.retryBudget), queue: ownQueue == nil ? .callers : .own,
                isReentrant: isReentrant)
        }
    }

    /// A request may need two descriptors, for its connection and for its file.
    private static var descriptorSlots: Int {
        #if os(Linux)
            return max(1, FileDescriptors.freeCount / 2)
        #else
            var limit = rlimit()
            guard getrlimit(RLIMIT_NOFILE, &limit) == 0 else { return .max }
            return max(1, Int(clamping: limit.rlim_cur) / 2)
        #endif
    }

    deinit {
        guard scheduler.ownQueue != nil, isSuspended else { return }
        scheduler.shutDown()
        isSuspended = false
    }

    /// The maximum number of operations with a slot; a change takes effect at once, and running operations continue.
    ///
    /// At first it is at most half of the file descriptors that are free; a new value has no such limit.
    public var maxConcurrentOperationCount: Int {
        get { scheduler.schedule.withLock { $0.limit } }
        set {
            scheduler.changing { $0.limit = max(1, newValue) }
            scheduler.limitHasChanged()
        }
    }

    /// The body bytes that all transfers together may receive per second; nil, or zero or less, means no limit.
    ///
    /// See ``Configuration/maxBytesPerSecond``. A change takes effect at once, also for transfers paused by the old
    /// limit. If the transport cannot pause, every request that starts afterwards fails, and running transfers have no
    /// limit.
    ///
    /// - Thread: any.
    /// - Complexity: O(*n* log *n*) for *n* paused transfers.
    public var maxBytesPerSecond: Int64? {
        get { scheduler.rateLimit.bytesPerSecond }
        set { scheduler.rateLimit.bytesPerSecond = newValue }
    }

    /// Whether the manager is suspended: it starts no operations, but reports cancellation at once, and running
    /// attempts continue, though not with a redirect or a retry.
    public var isSuspended: Bool {
        get { scheduler.schedule.withLock { $0.isSuspended } }
        set {
            // The queue delays operations that it has received and not started yet.
            queue.isSuspended = newValue
            scheduler.suspend { $0.isSuspended = newValue }
        }
    }

    /// The operations that have not finished, or whose callbacks have not all returned, in the order of enqueueing.
    ///
    /// - Complexity: O(*n*).
    public var operations: [AnyRequestOperation] { scheduler.operations.map { $0.handedOut() } }

    /// Cancels every operation, batch and segmented download, and every event stream that waits to reconnect.
    ///
    /// Operations that are enqueued later are not affected. A batch pulls no more requests from its source. The
    /// remaining requests fail with `.cancelled` and are not sent.
    ///
    /// - Complexity: O(*n*) for *n* operations.
    public func cancelAll() { scheduler.cancelAll() }

    /// Cancels the operations that a predicate selects, and an event stream that waits to reconnect by its last
    /// operation; batches continue with their next requests.
    ///
    /// - Parameter isMeant: called on the thread that calls this method, with no lock held.
    public func cancelAll(where isMeant: (AnyRequestOperation) -> Bool) {
        scheduler.cancelAll { isMeant($0.handedOut()) }
    }

    /// Cancels the operations with a tag, as ``cancelAll(where:)`` does.
    public func cancelAll(tagged tag: String) { scheduler.cancelAll { $0.tags.contains(tag) } }

    /// Waits until every operation has finished, every callback has returned, and monitors have received all events.
    ///
    /// Returns early when the task is cancelled. With a suspended queue this may take forever: operations that the
    /// queue already contains do not finish by a cancellation, because the queue must start them first.
    public func drain() async {
        await scheduler.drain()
        guard !scheduler.monitors.isEmpty, !Task.isCancelled else { return }
        await withCheckedContinuation { continuation in
            scheduler.monitorQueue.async { continuation.resume() }
        }
    }

    /// Cancels everything that `cancelAll()` cancels, and rejects later operations with `.managerShutDown`.
    public func shutDown() { scheduler.shutDown() }

    /// A text that says why an operation has not finished: the reason of its wait, or its current work.
    ///
    /// - Complexity: O(*d*) for *d* dependencies.
    public func why(_ operation: AnyRequestOperation) -> String { scheduler.why(operation) }
}
