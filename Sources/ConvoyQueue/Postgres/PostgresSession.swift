// Transactions on a connection that is made again when it is lost.
import Convoy
import Foundation

/// The time as the database has it.
struct PostgresTime: Sendable {
    /// Microseconds, for leases and delays.
    var now: Int64
    /// Seconds since 2001, for dates of the calendar.
    var date: Double
}

/// A transaction that is open: what its statements run on.
struct PostgresTransaction {
    let connection: PostgresConnection
    let time: PostgresTime

    @discardableResult
    func run(_ statement: String, _ parameters: [PostgresValue] = []) throws(PostgresError) -> PostgresRows {
        try connection.run(statement, parameters)
    }
}

/// One connection at a time, with a queue of its own that may wait for it.
///
/// Every call is one transaction: repeated where the server says that it got in the way of another, and on a new connection
/// where the old one was lost. Each that writes begins with a row of a random number of its own, `convoy_commits`: when the
/// connection was lost during COMMIT, that row tells the repetition whether the first has taken effect. After a failover the
/// number of a transaction would tell of somebody else's.
final class PostgresSession: Sendable {
    /// What is used on the queue only.
    private final class State: @unchecked Sendable {
        // @unchecked: see above.
        var connection: PostgresConnection?
    }

    /// How long new connections are tried within one call, unless told otherwise; and the bound of each.
    static let usualPatience = Duration.seconds(15)
    private static let maxConflicts = 20

    private let address: String
    private let patience: Duration
    private let givenTime: (@Sendable () -> PostgresTime)?
    private let queue: DispatchQueue
    private let state = State()
    /// Signalled for ever when the session is closed.
    private let closing = Closing()

    init(_ address: String, name: String, patience: Duration, time: (@Sendable () -> PostgresTime)?) {
        self.address = address
        self.patience = patience
        givenTime = time
        queue = DispatchQueue(label: "convoy.postgres.\(name)")
    }

    /// Runs a transaction; an error of its own ends it without effect.
    ///
    /// - Parameter isReading: whether nothing is written, so that a repetition harms nobody.
    func transaction<Result: Sendable>(
        isReading: Bool = false, _ body: @escaping @Sendable (PostgresTransaction) throws -> Result
    ) async throws(QueueError) -> Result {
        let result = await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: self.perform(isReading ? nil : UUID().uuidString, body)) }
        }
        return try result.get()
    }

    /// Ends the connection; what is called later throws `.closed`.
    func close() async {
        closing.close()
        await withCheckedContinuation { continuation in
            queue.async {
                self.state.connection = nil
                continuation.resume()
            }
        }
    }

    /// - Parameter number: of a transaction that writes.
    private func perform<Result: Sendable>(
        _ number: String?, _ body: (PostgresTransaction) throws -> Result
    ) -> Swift.Result<Result, QueueError> {
        let end = ContinuousClock.now + patience
        var conflicts = 0
        var pause = Duration.milliseconds(10)
        // What a transaction has come to whose COMMIT was not answered.
        var open: Result?
        while true {
            guard !closing.isClosed else { return .failure(QueueError(.closed, "the store was closed")) }
            do {
                let connection = try connected()
                return .success(try transact(connection, number, open, body) { open = $0 })
            } catch let error as QueueError {
                return .failure(error)
            } catch let error as PostgresError where error.isConflict && conflicts < Self.maxConflicts {
                conflicts += 1
                closing.wait(.microseconds(Int64.random(in: 0...(2_000 * Int64(conflicts)))))
            } catch let error as PostgresError where error.asksForConnection && ContinuousClock.now < end {
                state.connection = nil
                closing.wait(pause)
                pause = min(pause * 2, .seconds(1))
            } catch {
                if (error as? PostgresError)?.asksForConnection == true { state.connection = nil }
                return .failure(Self.queueError(error, mayHaveTakenEffect: open != nil))
            }
        }
    }

    private func connected() throws -> PostgresConnection {
        if let connection = state.connection, connection.ending == nil { return connection }
        let connection = try PostgresConnection(address, within: Self.usualPatience)
        try connection.prepareForQueue()
        try connection.checkEncoding()
        do { try connection.migrate() } catch { throw connection.explaining(error) }
        state.connection = connection
        return connection
    }

    /// - Parameters:
    ///   - earlier: what the transaction has come to whose COMMIT was not answered.
    ///   - committing: told of what this one has come to, before its COMMIT.
    private func transact<Result>(
        _ connection: PostgresConnection, _ number: String?, _ earlier: Result?,
        _ body: (PostgresTransaction) throws -> Result, committing: (Result) -> Void
    ) throws -> Result {
        try connection.run("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE")
        do {
            let start = try connection.begin(number)
            if start.isRepetition, let earlier {
                // This COMMIT waits for standbys as the first did: what it says they have, too.
                try connection.run("COMMIT")
                return earlier
            }
            let result = try body(PostgresTransaction(connection: connection, time: givenTime?() ?? start.time))
            if number != nil { committing(result) }
            try connection.run("COMMIT")
            return result
        } catch {
            if connection.ending == nil, (try? connection.run("ROLLBACK")) == nil {
                _ = connection.lost("a transaction stays open")
            }
            throw error
        }
    }

    static func queueError(_ error: any Error, mayHaveTakenEffect: Bool = false) -> QueueError {
        guard let error = error as? PostgresError else { return QueueError(.failed, "\(error)") }
        let note = mayHaveTakenEffect ? "; whether the last change took effect is not known" : ""
        let code: QueueError.Code =
            switch error.kind {
            case .libraryMissing, .unreachable, .lost: .unavailable
            case .addressInvalid, .answerInvalid: .failed
            case .refused(let state):
                switch state {
                case "53100": .diskFull
                case "42501", "25006": .notPermitted
                case "40001", "40P01", "55P03", "57014": .busy
                case "XX001", "XX002": .damaged
                case "22021": .invalidJob
                case "42P01", "42703", "42P07": .foreignFile
                default: state.hasPrefix("57P") || state == "53300" ? .unavailable : .failed
                }
            }
        return QueueError(code, error.description + note)
    }
}

/// Whether something was closed, and a pause that closing ends.
private final class Closing: @unchecked Sendable {
    // @unchecked: the flag is used under the condition's lock only.
    private let condition = NSCondition()
    private var flag = false

    var isClosed: Bool { condition.withLock { flag } }

    func close() {
        condition.withLock {
            flag = true
            condition.broadcast()
        }
    }

    func wait(_ duration: Duration) {
        let end = Date(timeIntervalSinceNow: duration / .seconds(1))
        condition.withLock { while !flag, condition.wait(until: end) {} }
    }
}

extension PostgresConnection {
    /// Notes the number of a transaction; the time, and whether an earlier one with the number has been committed.
    ///
    /// Waits for an earlier one that has not ended.
    fileprivate func begin(_ number: String?) throws -> (time: PostgresTime, isRepetition: Bool) {
        let mark = """
            WITH mark AS (INSERT INTO convoy_commits AS c (number, made)
                VALUES ($1, (extract(epoch FROM clock_timestamp()) * 1000000)::int8)
                ON CONFLICT (number) DO UPDATE SET count = c.count + 1 RETURNING count)
            """
        let start = try run(
            """
            \(number == nil ? "" : mark)
            SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8,
                (extract(epoch FROM clock_timestamp()) - 978307200)::float8,
                \(number == nil ? "1::int8" : "(SELECT count FROM mark)")
            """, number.map { [.text($0)] } ?? [])
        let time = PostgresTime(now: try start.int(0, 0) ?? 0, date: try start.double(0, 1) ?? 0)
        return (time, try start.int(0, 2) ?? 1 > 1)
    }

    /// What every session of a queue needs of the server.
    func prepareForQueue() throws {
        let version = library.serverVersion(handle)
        guard version >= 130_000 else {
            throw QueueError(.unavailable, "the server is PostgreSQL \(version / 10_000); the queue needs 13 or newer")
        }
        // Durable commits even where the server's default is not; no transaction of a process that stands still keeps others
        // waiting; and plans by the indexes, because the statistics of a queue are always out of date.
        try run(
            """
            SELECT set_config(name, value, false) FROM (VALUES
                ('idle_in_transaction_session_timeout', '60s'), ('lock_timeout', '20s'), ('jit', 'off'),
                ('plan_cache_mode', 'force_generic_plan'), ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'),
                ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'),
                ('synchronous_commit', CASE current_setting('synchronous_commit')
                    WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END)
            ) AS settings(name, value)
            """)
    }
}
