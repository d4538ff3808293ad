// The queue's store on a PostgreSQL server.
import CPostgres
import Convoy
import Foundation

/// Jobs in a PostgreSQL database, for any number of processes on any number of machines.
///
/// ```swift
/// let store = try await PostgresStore("postgres://queue@db.example/orders")
/// ```
///
/// The system's libpq is opened when the first store is made; nothing has to be installed to build a program. The tables, whose
/// names begin with `convoy_`, are made in the first schema of the role's search path by the first process. The server is
/// PostgreSQL 13 or newer. Time is the server's: the clocks of the machines may be wrong. A connection that is lost is made
/// again, for 15 s within each call.
///
/// The database has the encoding UTF8. A body has 256 MiB at most, and no text of a job has a NUL: adding others throws
/// `.invalidJob`; in the reason of a dead letter a NUL is kept as `␀`.
///
/// ## Concurrency
/// A call waits for the server once where nothing in the database stands against it; that needs libpq 14. Two connections for
/// calls, one for claims and heartbeats and one for everything else, each with a queue of its own that
/// blocks; and one that listens, while ``changes()`` is read.
///
/// ## Topics
/// - ``init(_:)``
/// - ``owner``
/// - ``pollInterval``
public final class PostgresStore: Store {
    /// The name of this instance as an owner of leases.
    public let owner = UUID().uuidString

    /// A minute: a message is missed while the connection that listens is made again.
    public let pollInterval: Duration? = .seconds(60)

    /// For claims, settlements and heartbeats: they do not wait behind a long list of additions.
    let workers: PostgresSession
    let callers: PostgresSession
    let additions: PostgresAdditions
    private let listener: PostgresListener
    /// The numbers of exchanges that may have claimed jobs of which the caller was not told.
    let unknownExchanges = Locked([String]())
    /// Until when exchanges go step by step: the last one in one round trip was refused.
    let stepsUntil = Locked(ContinuousClock.now)

    /// Connects, and makes the tables where there are none.
    ///
    /// - Parameter address: `postgres://user@host:port/database`, or libpq's `key=value …`. A password is better in a file,
    ///   `~/.pgpass`, or in `PGPASSWORD`. A pooler between must keep a session to one connection.
    /// - Throws: `.unavailable` without a server or libpq and for a database that is not UTF8, `.newerSchema`, `.foreignFile` for
    ///   tables of another program, `.notPermitted` for a role that may not make or read them.
    public convenience init(_ address: String) async throws(QueueError) { try await self.init(address, time: nil) }

    /// - Parameters:
    ///   - time: in place of the server's.
    ///   - patience: how long a connection is tried for within one call.
    ///   - library: libpq.
    init(
        _ address: String, time: (@Sendable () -> PostgresTime)?, patience: Duration = PostgresSession.usualPatience,
        library: Result<convoy_pg_functions, PostgresError> = PostgresLibrary.shared
    ) async throws(QueueError) {
        workers = PostgresSession(address, name: "work", patience: patience, time: time, library: library)
        callers = PostgresSession(address, name: "calls", patience: patience, time: time, library: library)
        listener = PostgresListener(address)
        additions = PostgresAdditions(on: callers)
        async let other = callers.connect()
        let results = (await workers.connect(), await other)
        try results.0.get()
        try results.1.get()
    }

    deinit { listener.close() }

    /// Tells of new work, by `LISTEN`.
    public func changes() -> AsyncStream<Void> { listener.changes() }

    /// Gives back what is claimed, and ends the connections; again: no effect.
    public func close() async {
        try? await release()
        listener.close()
        await workers.close()
        await callers.close()
    }
}
