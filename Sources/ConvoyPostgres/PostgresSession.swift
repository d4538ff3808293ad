import CPostgres
import Convoy
import ConvoyQueue
import Foundation

struct PostgresTime: Sendable {
    var now: Int64
    var date: Double
}

extension PostgresTime {
    init(_ rows: PostgresRows) throws {
        self.init(now: try rows.int(0, 0) ?? 0, date: try rows.double(0, 1) ?? 0)
    }
}

struct PostgresTransaction {
    let connection: PostgresConnection
    let time: PostgresTime
    let number: String

    @discardableResult
    func run(_ statement: String, _ parameters: [PostgresValue] = []) throws(PostgresError) -> PostgresRows {
        try connection.run(statement, parameters)
    }

    @discardableResult
    func run(_ statement: PostgresStatement) throws(PostgresError) -> PostgresRows {
        try connection.run(statement.text, statement.parameters)
    }

    func later(_ statement: PostgresStatement) { connection.later(statement) }
}

struct PostgresWork<Result: Sendable>: Sendable {
    struct Whole: Sendable {
        /// The statements between the recording of the transaction's number (`mark`) and COMMIT.
        let statements: [PostgresStatement]
        let read: @Sendable (_ rows: [PostgresRows], _ time: PostgresTime) throws -> Result
        let recover: @Sendable (_ transaction: PostgresTransaction, _ number: String) throws -> Result
    }

    // Nil when statements depend on rows of earlier ones. If the server rejects these, the work is repeated step by
    // step.
    var whole: (@Sendable (_ number: String, _ given: PostgresTime?) throws -> Whole)?
    let steps: @Sendable (PostgresTransaction) throws -> Result
    var unknown: (@Sendable (_ number: String) -> Void)?

    /// Notifies other instances if the steps bring work.
    static func changing(_ body: @escaping @Sendable (inout PostgresRules) throws -> Result) -> PostgresWork {
        PostgresWork { transaction in
            var rules = PostgresRules(transaction)
            let result = try body(&rules)
            rules.notify()
            return result
        }
    }
}

// The session runs one transaction at a time, on its own blocking queue. It repeats a transaction after a serialization
// failure, and on a new connection if the connection was lost.
// A writing transaction first inserts a random number into `convoy_commits`: if the connection was lost during COMMIT,
// the repetition finds that row only if the first attempt took effect. The server's transaction id is unsuitable,
// because after a failover it may belong to another transaction.
final class PostgresSession: Sendable {
    private final class State: @unchecked Sendable {
        // @unchecked: only the serial queue of the session uses the connection.
        var connection: PostgresConnection?
    }

    static let usualPatience = Duration.seconds(15)
    private static let maxConflicts = 20

    private let address: String
    private let patience: Duration
    private let givenTime: (@Sendable () -> PostgresTime)?
    private let library: Swift.Result<convoy_pg_functions, PostgresError>
    private let queue: DispatchQueue
    private let state = State()
    private let isClosed = Locked(false)
    /// Ends a pause of the session.
    private let closed = DispatchSemaphore(value: 0)

    init(
        _ address: String, name: String, patience: Duration, time: (@Sendable () -> PostgresTime)?,
        library: Swift.Result<convoy_pg_functions, PostgresError>
    ) {
        self.address = address
        self.library = library
        self.patience = patience
        givenTime = time
        queue = DispatchQueue(label: "convoy.postgres.\(name)")
    }

    /// An error of `body` rolls back the transaction.
    func change<Result: Sendable>(
        _ body: @escaping @Sendable (inout PostgresRules) throws -> Result
    ) async throws(QueueError) -> Result {
        try await perform(.changing(body))
    }

    func perform<Result: Sendable>(_ work: PostgresWork<Result>) async throws(QueueError) -> Result {
        let result = await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: self.write(work)) }
        }
        return try result.get()
    }

    func read<Result: Sendable>(
        _ statement: PostgresStatement,
        _ body: @escaping @Sendable (_ rows: PostgresRows, _ time: PostgresTime) throws -> Result
    ) async throws(QueueError) -> Result {
        let result = await withCheckedContinuation { continuation in
            queue.async {
                let result = self.repeating { connection in
                    let all = try connection.transact(
                        [PostgresConnection.time, statement], begin: PostgresConnection.beginReading)
                    return try body(all[1], try self.givenTime?() ?? PostgresTime(all[0]))
                }
                continuation.resume(returning: result)
            }
        }
        return try result.get()
    }

    func connect() async -> Swift.Result<Void, QueueError> {
        await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: self.repeating { _ in }) }
        }
    }

    /// Later calls throw `.closed`.
    func close() async {
        isClosed.withLock { $0 = true }
        closed.signal()
        await withCheckedContinuation { continuation in
            queue.async {
                self.state.connection = nil
                continuation.resume()
            }
        }
    }

    /// `mayHaveTakenEffect` says after a failure whether an attempt may have been committed.
    private func repeating<Result: Sendable>(
        mayHaveTakenEffect: () -> Bool = { false }, _ body: (PostgresConnection) throws -> Result
    ) -> Swift.Result<Result, QueueError> {
        let end = ContinuousClock.now + patience
        var conflicts = 0
        var pause = Duration.milliseconds(10)
        while true {
            guard !isClosed.withLock({ $0 }) else { return .failure(QueueError(.closed, "the store was closed")) }
            do {
                return .success(try body(try connected()))
            } catch let error as QueueError {
                return .failure(error)
            } catch let error as PostgresError where error.isConflict && conflicts < Self.maxConflicts {
                conflicts += 1
                wait(.microseconds(Int64.random(in: 0...(2_000 * Int64(conflicts)))))
            } catch let error as PostgresError where error.asksForConnection && ContinuousClock.now < end {
                state.connection = nil
                wait(pause)
                pause = min(pause * 2, .seconds(1))
            } catch {
                if (error as? PostgresError)?.asksForConnection == true { state.connection = nil }
                return .failure(Self.queueError(error, mayHaveTakenEffect: mayHaveTakenEffect()))
            }
        }
    }

    private func wait(_ duration: Duration) { _ = closed.wait(timeout: .now() + duration / .seconds(1)) }

    private func connected() throws -> PostgresConnection {
        if let connection = state.connection, connection.ending == nil { return connection }
        let connection = try PostgresConnection(address, within: Self.usualPatience, library: library)
        try connection.prepareForQueue()
        state.connection = connection
        return connection
    }

    private func write<Result: Sendable>(_ work: PostgresWork<Result>) -> Swift.Result<Result, QueueError> {
        let number = UUID().uuidString
        var whole: PostgresWork<Result>.Whole?
        do { whole = try work.whole?(number, givenTime?()) } catch { return .failure(Self.queueError(error)) }
        // `isOpen`: whether an attempt may have been committed, although its COMMIT did not succeed. `result`: the
        // result of that attempt, if known.
        var (isOpen, result) = (false, Result?.none)
        let outcome = repeating(mayHaveTakenEffect: { isOpen }) { connection in
            if let tried = whole, !isOpen {
                do {
                    let all = try connection.transact([PostgresConnection.mark(number)] + tried.statements)
                    return try tried.read(Array(all.dropFirst()), try self.givenTime?() ?? PostgresTime(all[0]))
                } catch let error as PostgresError {
                    if error.kind == .lost { isOpen = true }
                    guard case .refused = error.kind, !error.isConflict, !error.asksForConnection else { throw error }
                    // The work is repeated step by step, which succeeds or fails with a specific error.
                    whole = nil
                }
            }
            return try self.transact(
                connection, number, work.steps,
                isOpen ? (result.map { result in { _, _ in result } } ?? whole?.recover) : nil
            ) {
                (isOpen, result) = (true, $0)
            }
        }
        if case .failure = outcome, isOpen { work.unknown?(number) }
        return outcome
    }

    // `recover` returns the result of an earlier attempt whose COMMIT did not succeed. `committing` receives the
    // result of this attempt before its COMMIT.
    private func transact<Result>(
        _ connection: PostgresConnection, _ number: String, _ steps: (PostgresTransaction) throws -> Result,
        _ recover: ((PostgresTransaction, String) throws -> Result)?, committing: (Result) -> Void
    ) throws -> Result {
        do {
            let start = try connection.run([PostgresConnection.begin, PostgresConnection.mark(number)])[1]
            let time = try givenTime?() ?? PostgresTime(start)
            let transaction = PostgresTransaction(connection: connection, time: time, number: number)
            if try start.int(0, 3) ?? 1 > 1, let recover {
                let result = try recover(transaction, number)
                // With synchronous replication, this COMMIT also waits until the standbys have the earlier attempt.
                try connection.run("COMMIT")
                return result
            }
            let result = try steps(transaction)
            committing(result)
            try connection.run("COMMIT")
            return result
        } catch {
            connection.rollBack()
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
                case "42501": .notPermitted
                case "40001", "40P01", "55P03", "57014": .busy
                case "XX001", "XX002": .damaged
                case "22021": .invalidJob
                case "42P01", "42703", "42P07": .foreignFile
                case "0A000", "25006", "26000", "3F000", "42P05", "53300": .unavailable
                default: state.hasPrefix("57P") ? .unavailable : .failed
                }
            }
        return QueueError(code, error.description + (error.advice.map { "; " + $0 } ?? "") + note)
    }
}
