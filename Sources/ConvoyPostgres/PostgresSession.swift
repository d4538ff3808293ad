import CPostgres
import Convoy
import ConvoyQueue
import Foundation

struct PostgresTime: Sendable {
    var now: Int64
    var date: Double
}

struct PostgresWork<Result: Sendable>: Sendable {
    struct Whole: Sendable {
        /// The statements between the recording of the transaction's number (`mark`) and COMMIT.
        let statements: [PostgresStatement]
        /// The indices of the statements whose rows are read.
        let wanted: [Int]
        /// Return the same rows in a later transaction, after a COMMIT whose success was not reported.
        let recovery: [PostgresStatement]
        let read: @Sendable (_ rows: [PostgresRows], _ time: PostgresTime) throws -> Result
    }

    // Nil when statements depend on rows of earlier ones. If the server rejects these, the work is repeated step by
    // step.
    var whole: (@Sendable (_ number: String, _ given: PostgresTime?) throws -> Whole)?
    let steps: @Sendable (inout PostgresRules) throws -> Result
}

// The session runs one transaction at a time, on its own blocking queue. It repeats a transaction after a serialization
// failure, and on a new connection if the connection was lost.
// A writing transaction first inserts a random number into `convoy_commits`: if the connection was lost during COMMIT,
// the repetition finds that row only if the first attempt took effect. The server's transaction id is unsuitable,
// because after a failover it may belong to another transaction.
final class PostgresSession: @unchecked Sendable {
    // @unchecked: only the serial queue uses `connection`; all other properties are constants.
    static let usualPatience = Duration.seconds(15)

    private let address: String
    private let patience: Duration
    private let givenTime: (@Sendable () -> PostgresTime)?
    private let library: Swift.Result<convoy_pg_functions, PostgresError>
    private let queue: DispatchQueue
    private var connection: PostgresConnection?
    private let isClosed = Locked(false)
    /// Ends a pause of the session.
    private let closed = DispatchSemaphore(value: 0)
    /// The numbers of failed transactions that may have taken effect.
    let unknown = Locked([String]())

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

    private func onQueue<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in queue.async { continuation.resume(returning: body()) } }
    }

    /// An error of `steps` rolls back the transaction.
    func change<Result: Sendable>(
        _ steps: @escaping @Sendable (inout PostgresRules) throws -> Result
    ) async throws(QueueError) -> Result {
        try await perform(PostgresWork(steps: steps))
    }

    func perform<Result: Sendable>(_ work: PostgresWork<Result>) async throws(QueueError) -> Result {
        try await onQueue { self.write(work) }.get()
    }

    func read<Result: Sendable>(
        _ statement: PostgresStatement,
        _ body: @escaping @Sendable (_ rows: PostgresRows, _ time: PostgresTime) throws -> Result
    ) async throws(QueueError) -> Result {
        try await onQueue {
            self.repeating { connection in
                let all = try connection.transact(
                    [PostgresConnection.time, statement], begin: PostgresConnection.beginReading)
                return try body(all[1], self.time(all[0]))
            }
        }.get()
    }

    func connect() async -> Swift.Result<Void, QueueError> { await onQueue { self.repeating { _ in } } }

    /// Later calls throw `.closed`.
    func close() async {
        isClosed.withLock { $0 = true }
        closed.signal()
        await onQueue { self.connection = nil }
    }

    private func time(_ rows: PostgresRows) throws -> PostgresTime {
        try givenTime?() ?? PostgresTime(now: rows.int(0, 0) ?? 0, date: rows.double(0, 1) ?? 0)
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
            } catch let error as PostgresError where error.isConflict && conflicts < 20 {
                conflicts += 1
                wait(.microseconds(Int64.random(in: 0...(2_000 * Int64(conflicts)))))
            } catch let error as PostgresError where error.asksForConnection && ContinuousClock.now < end {
                connection = nil
                wait(pause)
                pause = min(pause * 2, .seconds(1))
            } catch {
                if (error as? PostgresError)?.asksForConnection == true { connection = nil }
                return .failure(Self.queueError(error, mayHaveTakenEffect: mayHaveTakenEffect()))
            }
        }
    }

    private func wait(_ duration: Duration) { _ = closed.wait(timeout: .now() + duration / .seconds(1)) }

    private func connected() throws -> PostgresConnection {
        if let connection, connection.ending == nil { return connection }
        let made = try PostgresConnection(address, within: Self.usualPatience, library: library)
        try made.prepareForQueue()
        connection = made
        return made
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
                    return try tried.read(tried.wanted.map { all[$0 + 1] }, self.time(all[0]))
                } catch let error as PostgresError {
                    if error.kind == .lost { isOpen = true }
                    guard case .refused = error.kind, !error.isConflict, !error.asksForConnection else { throw error }
                    // The work is repeated step by step, which succeeds or fails with a specific error.
                    whole = nil
                }
            }
            return try connection.rollingBack {
                let start = try connection.run([PostgresConnection.begin, PostgresConnection.mark(number)])[1]
                var rules = PostgresRules(connection: connection, time: try self.time(start), number: number)
                // After an attempt that took effect, only its result is read. With synchronous replication, this COMMIT
                // also waits until the standbys have that attempt.
                if try !isOpen || start.int(0, 3) ?? 1 == 1 {
                    result = try work.steps(&rules)
                } else if result == nil {
                    result = try whole.map { try $0.read(connection.run($0.recovery), rules.time) }
                }
                guard let known = result else { throw PostgresError(.answerInvalid, "a transaction has no result") }
                if rules.bringsWork { rules.later(PostgresRules.notification) }
                isOpen = true
                try connection.run("COMMIT")
                return known
            }
        }
        // Bounded, because only the workers' numbers are taken out again.
        if case .failure = outcome, isOpen { unknown.withLock { if $0.count < 1_000 { $0.append(number) } } }
        return outcome
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
