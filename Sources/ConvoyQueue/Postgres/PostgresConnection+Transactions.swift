// The start of a queue's transactions, and the checks of their connection.
import Foundation

extension PostgresTime {
    /// Reads the first row of a result of `PostgresConnection.mark` or `time`.
    init(_ rows: PostgresRows) throws {
        self.init(now: try rows.int(0, 0) ?? 0, date: try rows.double(0, 1) ?? 0)
    }
}

extension PostgresConnection {
    static let begin = PostgresStatement("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE")

    /// A transaction that only reads, which a standby accepts too.
    static let beginReading = PostgresStatement("BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY")

    /// The expression that sets parameters of the server until the transaction ends.
    ///
    /// The session itself keeps its parameters, because a pooler may give it to other clients.
    ///
    /// `synchronous_commit` makes commits durable even if the server's default is `off`. The first timeout ends the
    /// transaction of a stopped process, which would block other transactions. The settings of the planner make plans
    /// use indexes, because the statistics of a queue are soon outdated.
    private static let settings =
        """
        (SELECT count(set_config(name, value, true)) FROM (VALUES
            ('idle_in_transaction_session_timeout', '60s'), ('lock_timeout', '20s'), ('jit', 'off'),
            ('plan_cache_mode', 'force_generic_plan'), ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'),
            ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'),
            ('synchronous_commit', CASE current_setting('synchronous_commit')
                WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END)
        ) AS settings(name, value))
        """

    /// The statement that applies the settings and reads the time of the server.
    static let time = PostgresStatement(
        """

        SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8,
            (extract(epoch FROM clock_timestamp()) - 978307200)::float8, \(settings)
        """)

    /// The statement that applies the settings and records the number of a transaction, a random UUID.
    ///
    /// The returned row has the server's time, the number of settings and a count. The count is 1 for a new number. A
    /// larger count shows a repetition of the transaction that an earlier attempt was committed.
    ///
    /// The statement waits for an earlier transaction with the same number that has not ended.
    static func mark(_ number: String) -> PostgresStatement {
        PostgresStatement(
            """

            WITH mark AS (INSERT INTO convoy_commits AS c (number, made)
                VALUES ($1, (extract(epoch FROM clock_timestamp()) * 1000000)::int8)
                ON CONFLICT (number) DO UPDATE SET count = c.count + 1 RETURNING count)
            SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8,
                (extract(epoch FROM clock_timestamp()) - 978307200)::float8, \(settings), (SELECT count FROM mark)
            """, [.text(number)])
    }

    /// Runs statements as one transaction, with libpq 14 and newer in one round trip.
    ///
    /// Returns the rows of each statement.
    func transact(
        _ statements: [PostgresStatement], begin: PostgresStatement = begin
    ) throws(PostgresError) -> [PostgresRows] {
        do {
            return try run([begin] + statements + [PostgresStatement("COMMIT")]).dropFirst().dropLast()
        } catch {
            rollBack()
            throw error
        }
    }

    /// Checks the server and the database, and creates or migrates the tables.
    func prepareForQueue() throws {
        let version = library.serverVersion(handle)
        guard version >= 130_000 else {
            throw QueueError(.unavailable, "the server is PostgreSQL \(version / 10_000); the queue needs 13 or newer")
        }
        try checkEncoding()
        do { try migrate() } catch { throw explaining(error) }
    }
}
