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
/// The system's libpq is loaded when the first store is made, so building a program does not require it. The first
/// process creates the tables, whose names begin with `convoy_`, in the first schema of the role's search path. The
/// server must be PostgreSQL 13 or newer. The store uses the server's time, so the clocks of the machines do not
/// matter. Each call tries for 15 seconds to reopen a lost connection.
///
/// The database must have the encoding UTF8. A body larger than 256 MiB, or a NUL in a text of a job, throws
/// `.invalidJob`. In the reason of a dead letter a NUL is stored as `␀`.
///
/// ## Concurrency
/// With libpq 14 or newer, an addition, an exchange or a read usually takes one round trip. Other calls take several.
/// There is one connection for claims and heartbeats and one for all other calls, each with its own blocking queue.
/// Another connection listens from the first call of ``changes()`` until the store is closed.
///
/// ## Topics
/// - ``init(_:)``
/// - ``owner``
/// - ``pollInterval``
public final class PostgresStore: Store {
    /// The name of this instance as an owner of leases.
    public let owner = UUID().uuidString

    /// How often a queue polls: every minute, because notifications are missed while the connection is reopened.
    public let pollInterval: Duration? = .seconds(60)

    /// The session for claims, settlements and heartbeats.
    ///
    /// They must not wait for a long list of additions, which runs on the session `callers`.
    let workers: PostgresSession
    let callers: PostgresSession
    let additions: PostgresAdditions
    private let listener: PostgresListener
    /// The transaction numbers of exchanges that failed, although they may have claimed jobs.
    let unknownExchanges = Locked([String]())
    /// Exchanges run step by step until this instant, a second after an exchange failed to run in one round trip.
    let stepsUntil = Locked(ContinuousClock.now)

    /// Connects, and creates the tables if there are none.
    ///
    /// - Parameter address: `postgres://user@host:port/database`, or libpq's `key=value …`. Put a password into
    ///   `~/.pgpass` or `PGPASSWORD` instead of the address. A pooler must use session mode.
    /// - Throws: `.unavailable` without a server or libpq, for a server older than PostgreSQL 13, for a database that is
    ///   not UTF8, without a schema for the tables, and behind a pooler in transaction mode; `.newerSchema`; `.foreignFile` for tables of another program; `.notPermitted` for a role
    ///   that may not create or read the tables; `.failed` for an invalid address.
    public convenience init(_ address: String) async throws(QueueError) { try await self.init(address, time: nil) }

    /// - Parameters:
    ///   - time: returns the time to use instead of the server's; nil uses the server's time.
    ///   - patience: how long a call tries to connect.
    ///   - library: the functions of libpq, or why they could not be loaded.
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

    /// A stream with an element whenever an instance may have made a job claimable, or has cancelled a job.
    public func changes() -> AsyncStream<Void> { listener.changes() }

    /// Releases all claims and closes the connections.
    ///
    /// A second call has no effect.
    public func close() async {
        try? await release()
        listener.close()
        await workers.close()
        await callers.close()
    }
}
