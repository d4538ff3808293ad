import Convoy
import Foundation

/// Jobs in an SQLite database: one file, no server.
///
/// SQLite creates `FILE-wal` and `FILE-shm` beside `FILE`. The directory `FILE-convoy` has bodies above 64 KiB and a
/// lock file for each open store. Move or copy these files and the directory together, while no process uses them.
///
/// When a function returns, its changes are on the disk. The database's log is synced at each commit
/// (`journal_mode=WAL`, `synchronous=FULL`). Any number of processes on one machine may use a file. Do not use a
/// network file system, where SQLite's locks are unreliable.
///
/// ## Concurrency
/// One serial queue (`convoy.queue.sqlite`) owns the connection. Only the initializers block the calling thread.
public final class SQLiteStore: Store {
    /// The name of this instance as an owner of leases.
    public let owner: String
    /// How often a queue polls this store: nil if the system reports changes of other processes, else ten seconds.
    public let pollInterval: Duration?
    /// The file of the database.
    public let file: URL

    private let bell: SQLiteBell
    private let worker: SQLiteWorker
    private let queue: DispatchQueue
    private let additions: AdditionGroup

    /// Opens a database, and creates it if it does not exist.
    ///
    /// Blocks the calling thread while it commits a few transactions.
    ///
    /// - Parameters:
    ///   - file: a file URL; its directory must exist.
    ///   - clock: the clock for leases, back-off and dates.
    /// - Throws: an error that names the file and says what to do: `.notPermitted`, `.foreignFile`, `.damaged`,
    ///   `.newerSchema`, `.diskFull`, `.busy`.
    public convenience init(at file: URL, clock: any RequestClock = SystemClock.shared) throws(QueueError) {
        try self.init(at: file, clock: clock, boot: Boot.name ?? "")
    }

    init(at file: URL, clock: any RequestClock, boot: String) throws(QueueError) {
        guard file.isFileURL else { throw QueueError(.notPermitted, "\(file) is not a file URL") }
        self.file = file
        worker = try SQLiteWorker(file: file, clock: clock, boot: boot)
        owner = worker.owners.name
        bell = SQLiteBell(in: worker.owners.directory)
        pollInterval = bell.isHeard ? nil : .seconds(10)
        let queue = DispatchQueue(label: "convoy.queue.sqlite")
        self.queue = queue
        additions = AdditionGroup { [worker, bell] lists, done in
            queue.async {
                done(worker.add(lists))
                if worker.takeRing() { bell.ring() }
            }
        }
    }

    private func perform<Value: Sendable>(
        _ body: @escaping @Sendable (SQLiteWorker) throws -> Value
    ) async throws(QueueError) -> Value {
        let result: Result<Value, QueueError> = await withCheckedContinuation { continuation in
            queue.async { [worker, bell] in
                continuation.resume(returning: worker.result(body))
                if worker.takeRing() { bell.ring() }
            }
        }
        return try result.get()
    }

    /// Adds all jobs or none, in order.
    ///
    /// Calls that arrive during a transaction share the next one.
    public func add(_ jobs: [Job]) async throws(QueueError) -> [JobAddition] { try await additions.add(jobs) }

    /// Settles claimed jobs, then claims others.
    public func exchange(
        _ settlements: [Settlement], claiming request: ClaimRequest?
    ) async throws(QueueError) -> Exchange {
        try await perform { try $0.exchange(settlements, request) }
    }

    /// Renews the leases of this instance.
    public func renew(_ claims: [Claim], for lease: Duration) async throws(QueueError) -> [Claim] {
        try await perform { try $0.renew(claims, lease) }
    }

    /// Releases all jobs that this instance has claimed.
    public func release() async throws(QueueError) { try await perform { try $0.release() } }

    /// Cancels unfinished and dead jobs, and the jobs that depend on them.
    public func cancel(_ selection: JobSelection) async throws(QueueError) -> Int {
        try await perform { try $0.cancel(selection) }
    }

    /// Sends dead letters again.
    public func retry(_ selection: JobSelection) async throws(QueueError) -> Int {
        try await perform { try $0.retry(selection) }
    }

    /// Acknowledges results that wait for a handler.
    public func acknowledge(_ selection: JobSelection) async throws(QueueError) -> Int {
        try await perform { try $0.acknowledge(selection) }
    }

    /// Deletes finished jobs, including dead letters.
    public func delete(_ selection: JobSelection) async throws(QueueError) -> Int {
        try await perform { try $0.delete(selection) }
    }

    /// Deletes up to 5,000 jobs that were done or cancelled at least this long ago, but no dead letters.
    public func purge(olderThan age: Duration) async throws(QueueError) -> Int {
        try await perform { try $0.purge(age) }
    }

    /// A job with all stored details.
    public func job(_ id: String) async throws(QueueError) -> JobRecord? { try await perform { try $0.job(id) } }

    /// The jobs of a selection in the order of ``JobRecord/position``, without the bytes of their bodies and results.
    public func jobs(
        _ selection: JobSelection, after position: Int64, limit: Int
    ) async throws(QueueError) -> [JobRecord] {
        try await perform { try $0.jobs(selection, position, limit) }
    }

    /// The jobs that block a job, at most a hundred.
    public func blockers(of id: String) async throws(QueueError) -> [JobBlocker] {
        try await perform { try $0.blockers(id) }
    }

    /// The number of jobs by kind and state.
    public func status() async throws(QueueError) -> QueueStatus { try await perform { try $0.status() } }

    /// A stream with an element whenever an instance on this machine may have made a job claimable, or has cancelled a
    /// job.
    public func changes() -> AsyncStream<Void> { bell.listen() }

    /// Releases all claims and closes the database.
    public func close() async {
        bell.shutDown()
        _ = try? await perform { try $0.close() }
    }
}
