// The queue: what people hold.
import Convoy
import Foundation

/// Sends requests that were accepted, until their outcome has been acknowledged: through crashes, reboots and days without a
/// network.
///
/// ```swift
/// let queue = try DurableQueue(at: file, manager: manager)
/// queue.start([
///     "order": { job, result in
///         result.isSuccess ? .done : .fail(result.failure ?? "refused")
///     }
/// ])
/// var job = Job("order", try JobRequest(.post(ordersURL, json: order)))
/// job.group = "customer-17"
/// try await queue.add(job)
/// ```
///
/// ``add(_:)`` returns when the job is on the disk. Each is sent at least once, and every attempt of it has the same
/// `Idempotency-Key`, so that a server that knows repetitions by it carries it out once. Any number of queues, in any number of
/// processes, may work on the same jobs, each with a store instance of its own: what is claimed belongs to the instance.
///
/// ## Concurrency
/// Use it from any thread. Handlers run in tasks of their own, several at a time.
///
/// ## Topics
/// - ``init(at:manager:configuration:)``
/// - ``start(_:otherwise:)``
/// - ``add(_:)``
/// - ``drain()``
/// - ``why(_:)``
public final class DurableQueue: Sendable {
    /// Takes the outcome of a job, and says what becomes of the job.
    ///
    /// It may be called twice for one outcome: when the process ends before its decision is on the disk, the job is sent again.
    public typealias Handler = @Sendable (Job, JobResult) async -> JobDecision

    /// Where the jobs are.
    public let store: any Store
    /// What sends them.
    public let manager: RequestManager
    /// How the queue works.
    public let configuration: Configuration

    let state = Locked(DurableQueueState())
    /// Wakes the loop; elements in between become one.
    let wakeUps: AsyncStream<Void>
    let wakeUp: AsyncStream<Void>.Continuation

    /// Makes a queue over a store.
    public init(store: any Store, manager: RequestManager, configuration: Configuration = Configuration()) {
        self.store = store
        self.manager = manager
        self.configuration = configuration
        (wakeUps, wakeUp) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Makes a queue over a database in a file, which is made when there is none.
    ///
    /// - Throws: as ``SQLiteStore/init(at:clock:)``.
    public convenience init(
        at file: URL, manager: RequestManager, configuration: Configuration = Configuration()
    ) throws(QueueError) {
        let store = try SQLiteStore(at: file, clock: manager.configuration.clock)
        self.init(store: store, manager: manager, configuration: configuration)
    }

    deinit {
        wakeUp.finish()
        let (listener, timers) = state.withLock { ($0.listener, [$0.workTimer, $0.heartbeat]) }
        listener?.cancel()
        for timer in timers { timer?.cancel() }
    }

    // MARK: Jobs

    /// Adds a job; when it returns, the job is on the disk.
    ///
    /// - Throws: `.invalidJob` for a job that cannot be sent, and for one with a secret in it; errors of the store, after which
    ///   nothing was added.
    @discardableResult
    public func add(_ job: Job) async throws(QueueError) -> JobAddition {
        try await add(contentsOf: [job]).first ?? JobAddition(id: job.id, outcome: .added)
    }

    /// Adds jobs in one transaction, all or none.
    ///
    /// - Throws: as ``add(_:)``.
    @discardableResult
    public func add(contentsOf jobs: [Job]) async throws(QueueError) -> [JobAddition] {
        for job in jobs {
            if let defect = job.defect { throw QueueError(.invalidJob, "\(job.id) (\(job.request)): \(defect)") }
        }
        let additions = try await store.add(jobs)
        if jobs.contains(where: { $0.uniqueness?.policy == .replace }) {
            // What was replaced may be under way here.
            state.withLock { $0.needsHeartbeat = true }
            wakeUp.yield()
        }
        return additions
    }

    /// Cancels jobs, and those that depend on them; a request under way is broken off.
    ///
    /// - Returns: how many were cancelled.
    @discardableResult
    public func cancel(_ selection: JobSelection) async throws(QueueError) -> Int {
        let count = try await store.cancel(selection)
        // A renewal tells which of those under way are lost.
        state.withLock { $0.needsHeartbeat = true }
        lookForWork()
        return count
    }

    /// Sends dead letters again.
    ///
    /// - Returns: how many.
    @discardableResult
    public func retry(_ selection: JobSelection) async throws(QueueError) -> Int {
        let count = try await store.retry(selection)
        lookForWork()
        return count
    }

    /// The results that wait, because there is no handler for their kind; oldest first.
    ///
    /// - Parameters:
    ///   - selection: of which jobs.
    ///   - limit: how many at most.
    public func results(
        _ selection: JobSelection = .all, limit: Int = 100
    ) async throws(QueueError) -> [(job: Job, result: JobResult)] {
        var answered = selection
        answered.states = [.answered]
        var results: [(job: Job, result: JobResult)] = []
        for record in try await store.jobs(answered, after: 0, limit: limit) {
            if let whole = try await store.job(record.job.id), let result = whole.result {
                results.append((whole.job, result))
            }
        }
        return results
    }

    /// Acknowledges results that wait: their jobs are done.
    ///
    /// - Returns: how many.
    @discardableResult
    public func acknowledge(_ selection: JobSelection) async throws(QueueError) -> Int {
        let count = try await store.acknowledge(selection)
        lookForWork()
        return count
    }

    /// The dead letters with their errors, oldest first, without the bytes of their bodies.
    ///
    /// - Parameters:
    ///   - position: ``JobRecord/position`` of the last one of the page before; 0 for the first page.
    ///   - limit: how many at most.
    public func deadLetters(after position: Int64 = 0, limit: Int = 100) async throws(QueueError) -> [JobRecord] {
        try await store.jobs(JobSelection(states: [.dead]), after: position, limit: limit)
    }

    /// Deletes finished jobs, dead letters among them.
    ///
    /// - Returns: how many.
    @discardableResult
    public func delete(_ selection: JobSelection) async throws(QueueError) -> Int { try await store.delete(selection) }

    /// How many jobs there are, by kind and state.
    public func status() async throws(QueueError) -> QueueStatus { try await store.status() }
}
