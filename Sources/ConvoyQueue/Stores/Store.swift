// What a queue asks of its database.
import Foundation

/// Where jobs are kept: SQLite, PostgreSQL, or a store of yours.
///
/// An instance is an **owner**: what it claims is its own until it is settled, given back, or its lease ends because it was not
/// renewed in time. Any number of instances, in any number of processes, work on the same jobs. Each call is one transaction, or a
/// part of one that fails by itself: it happens whole, and when it returns what it did is durable; when it throws nothing of it has happened.
///
/// Time is the store's own affair, measured by what it was made with. Durations (leases, ``JobVerdict/retry(after:)``) run on a
/// clock that is never set; dates (``Job/notBefore``, ``Job/expires``) are compared with the calendar.
///
/// One suite, `StoreConformanceTests`, holds every store to this, and to ``JobLife``.
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
    /// The name of this instance as an owner of leases, unlike that of any other.
    var owner: String { get }

    /// Adds jobs, all or none, in their order.
    ///
    /// A job whose id is there already is not added; see ``JobAddition``. A job that depends on cancelled ones is added as
    /// cancelled.
    ///
    /// - Throws: `.unknownJob` for a dependency that is neither there nor earlier in `jobs`.
    func add(_ jobs: [Job]) async throws(QueueError) -> [JobAddition]

    /// Settles claimed jobs, then claims others: one transaction, so that a queue has one commit a turn.
    ///
    /// Before claiming, jobs whose expiry has passed become dead letters, and those of owners that have gone are given back.
    /// An expired job of ``ClaimRequest/answeredKinds`` waits for its handler instead, with ``JobRecord/expired`` as the failure of
    /// its result.
    /// Claimed are jobs that may be sent, highest priority first, then those that were never tried before those that were, then
    /// in the order they were added, no more of a host than it has room; and those whose
    /// result waits for a handler. Of suspects, ``JobLife/suspectLapseCount``, an instance has one at a time; it is claimed first.
    ///
    /// - Parameters:
    ///   - settlements: what came of jobs that were claimed by this instance.
    ///   - request: which jobs are claimed; nil for none.
    func exchange(_ settlements: [Settlement], claiming request: ClaimRequest?) async throws(QueueError) -> Exchange

    /// Renews the leases of this instance: the heartbeat.
    ///
    /// - Parameters:
    ///   - claims: what the caller believes to have.
    ///   - lease: how long the leases last from now on.
    /// - Returns: those of the claims that are lost: cancelled, or taken by another because the lease had ended.
    func renew(_ claims: [Claim], for lease: Duration) async throws(QueueError) -> [Claim]

    /// Gives back every job that this instance has claimed.
    func release() async throws(QueueError)

    /// Cancels unfinished and dead jobs, and the jobs that depend on them.
    ///
    /// - Returns: how many were cancelled, dependents included.
    func cancel(_ selection: JobSelection) async throws(QueueError) -> Int

    /// Sends dead letters again, their attempts kept and counted anew; an expiry that has passed is forgotten.
    ///
    /// - Returns: how many.
    func retry(_ selection: JobSelection) async throws(QueueError) -> Int

    /// Acknowledges results that wait for a handler.
    ///
    /// - Returns: how many jobs are done by it.
    func acknowledge(_ selection: JobSelection) async throws(QueueError) -> Int

    /// Deletes finished jobs, dead letters among them; jobs that depend on a dead one are cancelled.
    ///
    /// - Returns: how many were deleted.
    func delete(_ selection: JobSelection) async throws(QueueError) -> Int

    /// Deletes jobs that were done or cancelled this long ago; not dead letters.
    ///
    /// - Returns: how many; at most some thousands a call, to be called again while it is not 0.
    func purge(olderThan age: Duration) async throws(QueueError) -> Int

    /// A job with everything that is known of it; nil when there is none with this id.
    func job(_ id: String) async throws(QueueError) -> JobRecord?

    /// The jobs of a selection in the order they were added, without the bytes of their bodies and results.
    ///
    /// - Parameters:
    ///   - selection: which jobs.
    ///   - position: ``JobRecord/position`` of the last one of the page before; 0 for the first page.
    ///   - limit: how many at most.
    func jobs(_ selection: JobSelection, after position: Int64, limit: Int) async throws(QueueError) -> [JobRecord]

    /// What a blocked job waits for, at most a hundred of them; empty for one that is not blocked.
    func blockers(of id: String) async throws(QueueError) -> [JobBlocker]

    /// How many jobs there are, by kind and state.
    ///
    /// - Complexity: does not grow with the number of jobs.
    func status() async throws(QueueError) -> QueueStatus

    /// Tells of new work: an element whenever a job may have become one that can be claimed, through any instance.
    ///
    /// Elements that are not read in time become one. Where a store cannot be told everything it says so by ``pollInterval``.
    /// The stream ends when the store is closed.
    func changes() -> AsyncStream<Void>

    /// How often to look for work all the same; nil when ``changes()`` misses nothing.
    var pollInterval: Duration? { get }

    /// Gives back what is claimed, and lets go of the database; again: no effect.
    func close() async
}
