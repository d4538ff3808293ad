import Foundation

/// The storage of jobs: SQLite, PostgreSQL, or your own store.
///
/// An instance is an **owner**. It owns claimed jobs until they are settled or released, or until another instance finds
/// that the lease has ended because it was not renewed in time. Any number of instances in any number of processes may use the same jobs.
///
/// Each call is atomic: one transaction, or a part of a transaction that can fail without the other parts. When a call
/// returns, its changes are durable. When a call throws, nothing has changed. There is one exception: if the commit
/// itself failed, for example because the connection was lost, the changes may be durable.
///
/// Each store uses its own clock for durations (leases, ``JobVerdict/retry(after:)``). The clock of ``SQLiteStore`` is
/// independent of the calendar; `PostgresStore` uses the clock of the server. Dates (``Job/notBefore``,
/// ``Job/expires``) are compared with the calendar.
///
/// `StoreConformanceTests` checks these rules and ``JobLife`` for every store.
///
/// ## Concurrency
/// Every function may be called from any task, several at a time.
///
/// ## Topics
/// - ``add(_:)``
/// - ``exchange(_:claiming:)``
/// - ``renew(_:for:)``
/// - ``changes()``
public protocol Store: Sendable {
    /// The name of this instance as an owner of leases, different for each instance.
    var owner: String { get }

    /// Adds all jobs or none, in order.
    ///
    /// A job whose id already exists is not added; see ``JobAddition``. A job that depends on a cancelled one is
    /// added as cancelled.
    ///
    /// - Throws: `.unknownJob` for a dependency that neither exists nor is earlier in `jobs`.
    func add(_ jobs: [Job]) async throws(QueueError) -> [JobAddition]

    /// Settles claimed jobs, then claims others, in one transaction.
    ///
    /// Before claiming, the store turns expired jobs into dead letters. An expired job of
    /// ``ClaimRequest/answeredKinds`` waits for its handler instead, with ``JobRecord/expired`` as the failure of its
    /// result. The store also releases the jobs of other owners whose lease has ended. ``SQLiteStore`` releases the jobs of
    /// owners that no longer exist too, although their leases have not ended.
    ///
    /// The call claims ready jobs, limited for each host, and jobs whose result waits for a handler. Ready jobs are
    /// ordered by priority, then untried before tried ones, then by the order of adding. An instance has at most one
    /// suspect (``JobLife/suspectLapseCount``) at a time, which is claimed first.
    ///
    /// - Parameters:
    ///   - settlements: the outcomes of jobs that this instance claimed.
    ///   - request: which jobs to claim; nil for none.
    func exchange(_ settlements: [Settlement], claiming request: ClaimRequest?) async throws(QueueError) -> Exchange

    /// Renews the leases of this instance: the heartbeat.
    ///
    /// - Parameters:
    ///   - claims: the claims that the caller still works on.
    ///   - lease: the duration of the leases from now on.
    /// - Returns: the lost claims. The job of a lost claim was cancelled or deleted, or another instance has found that
    ///   the lease had ended.
    func renew(_ claims: [Claim], for lease: Duration) async throws(QueueError) -> [Claim]

    /// Releases all jobs that this instance has claimed.
    func release() async throws(QueueError)

    /// Cancels unfinished and dead jobs, and the jobs that depend on them.
    ///
    /// - Returns: the number of cancelled jobs, including dependents.
    func cancel(_ selection: JobSelection) async throws(QueueError) -> Int

    /// Sends dead letters again.
    ///
    /// The recorded attempts remain, but the count of attempts restarts at zero. An expiry in the past is removed.
    ///
    /// - Returns: the number of retried jobs.
    func retry(_ selection: JobSelection) async throws(QueueError) -> Int

    /// Acknowledges results that wait for a handler.
    ///
    /// - Returns: the number of acknowledged jobs, which are then done.
    func acknowledge(_ selection: JobSelection) async throws(QueueError) -> Int

    /// Deletes finished jobs, including dead letters.
    ///
    /// Jobs that depend on a deleted dead letter are cancelled.
    ///
    /// - Returns: the number of deleted jobs.
    func delete(_ selection: JobSelection) async throws(QueueError) -> Int

    /// Deletes jobs that were done or cancelled at least this long ago, but no dead letters.
    ///
    /// - Returns: the number of deleted jobs. One call of ``SQLiteStore`` or `PostgresStore` deletes at most 5,000
    ///   jobs. Call the function again until the result is 0.
    func purge(olderThan age: Duration) async throws(QueueError) -> Int

    /// A job with all stored details; nil when no job has this id.
    func job(_ id: String) async throws(QueueError) -> JobRecord?

    /// The jobs of a selection in the order of ``JobRecord/position``, without the bytes of their bodies and results.
    ///
    /// - Parameters:
    ///   - selection: the selection of jobs.
    ///   - position: ``JobRecord/position`` of the last job of the previous page; 0 for the first page.
    ///   - limit: the maximum number of jobs.
    func jobs(_ selection: JobSelection, after position: Int64, limit: Int) async throws(QueueError) -> [JobRecord]

    /// The jobs that block a job, at most a hundred; empty for a job that is not blocked.
    func blockers(of id: String) async throws(QueueError) -> [JobBlocker]

    /// The number of jobs by kind and state.
    ///
    /// - Complexity: independent of the number of jobs, except that ``SQLiteStore`` counts the claimed jobs.
    func status() async throws(QueueError) -> QueueStatus

    /// A stream with an element whenever any instance may have made a job claimable, or has cancelled a job.
    ///
    /// Unread elements are merged into one. If the store may miss changes, it sets ``pollInterval``. The stream ends
    /// when the store is closed.
    func changes() -> AsyncStream<Void>

    /// How often a queue polls in addition to ``changes()``; nil when that stream misses no change.
    var pollInterval: Duration? { get }

    /// Releases all claims and closes the database; a second call has no effect.
    func close() async
}
