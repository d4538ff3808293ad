// The queue, the main object of the library.
import Convoy
import Foundation

/// Stores requests and sends them until their outcome has been acknowledged, across crashes, reboots and days without
/// a network.
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
/// ``add(_:)`` returns when the job is on the disk. Each job is sent at least once. All its attempts have the same
/// `Idempotency-Key`, so that a server can recognise repetitions and process the job once. Any number of queues in any
/// number of processes may work on the same jobs. Each queue needs its own store instance, which owns the jobs that the
/// queue claims.
///
/// ## Concurrency
/// A queue may be used from any thread. Handlers run concurrently, each in its own task.
///
/// ## Topics
/// - ``init(at:manager:configuration:)``
/// - ``start(_:otherwise:)``
/// - ``add(_:)``
/// - ``drain()``
/// - ``why(_:)``
public final class DurableQueue: Sendable {
    /// Handles the outcome of a job and decides how it continues.
    ///
    /// The queue may call a handler more than once for a job. For example, if the process ends before the decision is
    /// on the disk, the job is sent again.
    public typealias Handler = @Sendable (Job, JobResult) async -> JobDecision

    /// The store of the jobs.
    public let store: any Store
    /// The manager that sends the jobs.
    public let manager: RequestManager
    /// The settings of the queue.
    public let configuration: Configuration

    let state = Locked(DurableQueueState())
    /// Each element wakes the loop that exchanges jobs with the store.
    ///
    /// Elements that arrive during a turn of the loop are merged into one.
    let wakeUps: AsyncStream<Void>
    let wakeUp: AsyncStream<Void>.Continuation

    /// Makes a queue with a store.
    public init(store: any Store, manager: RequestManager, configuration: Configuration = Configuration()) {
        self.store = store
        self.manager = manager
        self.configuration = configuration
        (wakeUps, wakeUp) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Makes a queue with an SQLite database in a file, which is created if it does not exist.
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
        let (listener, timers) = state.withLock { ($0.listener, [$0.workTimer, $0.heartbeat, $0.silenceTimer]) }
        listener?.cancel()
        for timer in timers { timer?.cancel() }
    }

    // MARK: Jobs

    /// Adds a job.
    ///
    /// When this function returns, the job is on the disk.
    ///
    /// - Throws: `.invalidJob` for a job that cannot be sent or contains a secret, and errors of the store. If the
    ///   commit itself failed, the job may have been added; a second call with the same id is safe.
    @discardableResult
    public func add(_ job: Job) async throws(QueueError) -> JobAddition {
        try await add(contentsOf: [job]).first ?? JobAddition(id: job.id, outcome: .added)
    }

    /// Adds all jobs or none, in one transaction.
    ///
    /// - Throws: as ``add(_:)``.
    @discardableResult
    public func add(contentsOf jobs: [Job]) async throws(QueueError) -> [JobAddition] {
        for job in jobs {
            if let defect = job.defect {
                throw QueueError(.invalidJob, "\(job.id.shownID) (\(job.request)): \(defect)")
            }
        }
        let additions = try await store.add(jobs)
        if jobs.contains(where: { $0.uniqueness?.policy == .replace }) {
            // This queue may be running the replaced job. The next turn of the loop therefore renews the leases, and
            // learns that the claim of the replaced job is lost.
            state.withLock { state in
                state.needsHeartbeat = true
                state.resume()
            }
            wakeUp.yield()
        }
        return additions
    }

    /// Cancels jobs and the jobs that depend on them.
    ///
    /// Running requests are cancelled too.
    ///
    /// - Returns: the number of cancelled jobs.
    @discardableResult
    public func cancel(_ selection: JobSelection) async throws(QueueError) -> Int {
        let count = try await store.cancel(selection)
        // The next turn of the loop renews the leases, and so learns which running jobs were cancelled.
        state.withLock { $0.needsHeartbeat = true }
        lookForWork()
        return count
    }

    /// Sends dead letters again.
    ///
    /// - Returns: the number of retried jobs.
    @discardableResult
    public func retry(_ selection: JobSelection) async throws(QueueError) -> Int {
        let count = try await store.retry(selection)
        lookForWork()
        return count
    }

    /// The results that wait because their kind has no handler, oldest first.
    ///
    /// - Parameters:
    ///   - selection: the selection of jobs.
    ///   - limit: the maximum number of results.
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

    /// Acknowledges waiting results.
    ///
    /// The jobs of acknowledged results are done.
    ///
    /// - Returns: the number of acknowledged jobs.
    @discardableResult
    public func acknowledge(_ selection: JobSelection) async throws(QueueError) -> Int {
        let count = try await store.acknowledge(selection)
        lookForWork()
        return count
    }

    /// The dead letters with their errors, oldest first, without the bytes of their bodies.
    ///
    /// - Parameters:
    ///   - position: ``JobRecord/position`` of the last job of the previous page; 0 for the first page.
    ///   - limit: the maximum number of dead letters.
    public func deadLetters(after position: Int64 = 0, limit: Int = 100) async throws(QueueError) -> [JobRecord] {
        try await store.jobs(JobSelection(states: [.dead]), after: position, limit: limit)
    }

    /// Deletes finished jobs, including dead letters.
    ///
    /// - Returns: the number of deleted jobs.
    @discardableResult
    public func delete(_ selection: JobSelection) async throws(QueueError) -> Int { try await store.delete(selection) }

    /// The number of jobs by kind and state.
    public func status() async throws(QueueError) -> QueueStatus { try await store.status() }
}
