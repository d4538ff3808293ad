// The manager: what people hold.
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
/// Letting go of a manager stops nothing: what is queued goes on to its end and its callbacks come. Only when the manager
/// is suspended and the queue is its own, everything queued is cancelled: nothing could resume it.
///
/// ## Concurrency
/// Use it from any thread. No lock is held while user code runs.
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
    /// The queue the operations run on.
    ///
    /// Configure it as you like; its own limit holds beside the manager's.
    ///
    /// Your own queue receives every operation at once. It starts an operation when the operation is ready, and the operation
    /// then waits for a slot. The manager's own queue receives a request when the request has a slot. Its `operations` and
    /// `operationCount` include only those; ``operations`` includes all.
    /// Waiting for all, cancelling all, suspension and barriers mean those too that wait for a slot, and the requests of
    /// ``send(_:)`` and of batches, to which callers have no reference and which may start beside that queue.
    public let queue: OperationQueue
    /// The configuration, as it was given.
    public let configuration: Configuration

    let scheduler: Scheduler

    /// Makes a manager with a queue of its own.
    ///
    /// That queue starts one operation at a time, which is all that requests need: they run on elsewhere. Where the
    /// transport allows it (libcurl's does), a request starts on the thread that frees its slot, or that enqueues it.
    /// Operations of yours that work inside `main()` are better off in a queue of yours.
    public convenience init(configuration: Configuration = Configuration()) {
        let queue = ManagerQueue(startsInPlace: configuration.transport.transport.isReentrant)
        queue.name = "convoy.manager"
        // Starting is brief, so one at a time is enough; and a serial queue gets a thread when it needs one, where the
        // concurrent default waits for one of as many threads as there are cores, which any other code may be blocking.
        let startQueue = DispatchQueue(label: "convoy.manager")
        queue.underlyingQueue = startQueue
        self.init(queue: queue, startQueue: startQueue, configuration: configuration)
    }

    /// Makes a manager over a queue of yours.
    ///
    /// Other operations may run on it too. The queue keeps Foundation's promises for all that is enqueued; <doc:GettingStarted>
    /// lists the differences. With a limit of its own a request keeps its place there from its start to its end, also while
    /// it waits for its host or for a retry.
    public convenience init(queue: OperationQueue, configuration: Configuration = Configuration()) {
        self.init(queue: queue, startQueue: nil, configuration: configuration)
    }

    private init(queue: OperationQueue, startQueue: DispatchQueue?, configuration: Configuration) {
        self.queue = queue
        self.configuration = configuration
        scheduler = Scheduler(
            queue: queue, startQueue: startQueue, context: ExecutionContext(configuration),
            connectivity: configuration.waitsForConnectivity ? configuration.connectivity() : nil,
            SchedulerState(
                limit: configuration.maxConcurrentOperationCount, hosts: configuration.limits,
                configuration.prioritization, rate: configuration.requestRate,
                retryBudget: RetryBudgetState(configuration.retryBudget), queue: startQueue == nil ? .callers : .own))
        scheduler.follow()
    }

    deinit {
        guard scheduler.startQueue != nil, isSuspended else { return }
        scheduler.shutDown()
        isSuspended = false
    }

    // MARK: All at once

    /// How many operations have a slot at most.
    ///
    /// A change takes effect at once; what runs goes on.
    public var maxConcurrentOperationCount: Int {
        get { scheduler.state.withLock { $0.limit } }
        set {
            scheduler.state.withLock { $0.limit = max(1, newValue) }
            scheduler.pump()
        }
    }

    /// Whether the queue starts no more operations.
    ///
    /// Attempts under way go on; what follows one, a redirect or a retry, waits. A cancelled operation is still told so at
    /// once.
    public var isSuspended: Bool {
        get { scheduler.state.withLock { $0.isSuspended } }
        set {
            // For those it has been handed and has not started yet.
            queue.isSuspended = newValue
            scheduler.suspend { $0.isSuspended = newValue }
        }
    }

    /// The operations that have not finished, or whose callbacks have not all returned, in the order of enqueueing.
    ///
    /// - Complexity: O(*n* log *n*).
    public var operations: [AnyRequestOperation] { scheduler.operations.map { $0.handedOut() } }

    /// Cancels every operation, every batch and every download in segments, and ends reading events that waits to connect
    /// again; later ones are not affected.
    ///
    /// A batch takes no more from its source: what it has not taken ends as `.cancelled`, unsent.
    ///
    /// - Complexity: O(*n* log *n*) for *n* operations.
    public func cancelAll() { scheduler.cancelAll() }

    /// Cancels the operations a predicate picks; batches go on.
    ///
    /// - Parameter isMeant: called on this thread, with no lock held.
    public func cancelAll(where isMeant: (AnyRequestOperation) -> Bool) {
        scheduler.cancelAll { isMeant($0.handedOut()) }
    }

    /// Cancels the operations with a tag; batches go on.
    public func cancelAll(tagged tag: String) { scheduler.cancelAll { $0.tags.contains(tag) } }

    /// Waits until every operation has finished, every callback returned, and what monitors were to be told by then has been
    /// told; returns early when the task is cancelled.
    ///
    /// In a suspended queue that may be never; cancelling the operations does not end those the queue already has.
    public func drain() async {
        await scheduler.drain()
        guard !scheduler.context.monitors.isEmpty, !Task.isCancelled else { return }
        await withCheckedContinuation { continuation in
            scheduler.context.monitorQueue.async { continuation.resume() }
        }
    }

    /// Cancels everything and takes no more: what is enqueued later ends with `.managerShutDown`.
    ///
    /// Again: no effect.
    public func shutDown() { scheduler.shutDown() }

    /// Why an operation has not finished, in words: what it waits for, or what it does.
    ///
    /// - Complexity: O(*d*) for *d* dependencies.
    public func why(_ operation: AnyRequestOperation) -> String { scheduler.why(operation) }
}
