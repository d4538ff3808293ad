// Running statements, and reading notifications.
import CPostgres
import Foundation

extension PostgresConnection {
    /// A notification on a channel that the connection listens to.
    struct Notification: Sendable, Equatable {
        let channel: String
        let payload: String
    }

    /// The default time limit of a statement.
    static let usualBound = Duration.seconds(30)

    /// Runs one statement, and prepares it when it is first run.
    ///
    /// In the text, the parameters are `$1`, `$2` and so on.
    ///
    /// After the error `lost`, the connection cannot be used again. After other errors, the connection stays usable.
    @discardableResult
    func run(
        _ statement: String, _ parameters: [PostgresValue] = [], within bound: Duration = usualBound
    ) throws(PostgresError) -> PostgresRows {
        let all = try run([PostgresStatement(statement, parameters)], within: bound)
        guard let rows = all.last else { throw lost("a result is missing") }
        return rows
    }

    /// Runs a body between BEGIN and COMMIT.
    ///
    /// An error of the body is thrown after a ROLLBACK.
    ///
    /// If COMMIT fails with `lost`, the transaction may have taken effect.
    func transaction<Result>(
        within bound: Duration = usualBound, _ body: () throws(PostgresError) -> Result
    ) throws(PostgresError) -> Result {
        try run("BEGIN", within: bound)
        do {
            let result = try body()
            try run("COMMIT", within: bound)
            return result
        } catch {
            rollBack(within: bound)
            throw error
        }
    }

    /// Rolls back a transaction.
    ///
    /// If the rollback fails, the connection is marked as unusable.
    func rollBack(within bound: Duration = usualBound) {
        waiting = []
        if ending == nil, (try? run("ROLLBACK", within: bound)) == nil {
            _ = lost("a transaction could not be rolled back")
        }
    }

    /// Waits for notifications on the channels that the connection listens to.
    ///
    /// The array is empty if the time limit ended the wait, or if the descriptor `wakeup` became readable.
    func notifications(
        within bound: Duration, wakeup: Int32 = -1
    ) throws(PostgresError) -> [Notification] {
        if let ending { throw ending }
        let end = ContinuousClock.now + bound
        while true {
            let notifications = takeNotifications()
            guard notifications.isEmpty else { return notifications }
            guard try wait(for: Int16(POLLIN), until: end, wakeup: wakeup) == .ready else { return [] }
            guard library.consumeInput(handle) == 1 else { throw lost(message) }
        }
    }

    private func takeNotifications() -> [Notification] {
        var notifications: [Notification] = []
        while let next = library.notifies(handle) {
            let (channel, payload) = (String(cString: next.pointee.channel), String(cString: next.pointee.payload))
            notifications.append(Notification(channel: channel, payload: payload))
            library.freemem(next)
        }
        return notifications
    }

    /// Converts a failed result to an error, and marks the connection as unusable if the server has ended it.
    func failure(_ answer: OpaquePointer) -> PostgresError {
        let text = library.resultErrorField(answer, Int32(CONVOY_PG_DIAG_MESSAGE)).map { String(cString: $0) }
        let state = library.resultErrorField(answer, Int32(CONVOY_PG_DIAG_SQLSTATE)).map { String(cString: $0) }
        guard let state, library.status(handle) != CONVOY_PG_CONNECTION_BAD else { return lost(text ?? message) }
        // After an error with one of these states the connection is lost, for example because the server shuts down.
        if state.hasPrefix("57P") { return lost(text ?? state) }
        return PostgresError(.refused(state: state), "the database reports: \(text ?? message) (SQLSTATE \(state))")
    }

    /// Sends all queued bytes, and meanwhile receives the bytes that the server sends.
    ///
    /// A server that waits until it can send does not read.
    func flush(until end: ContinuousClock.Instant) throws(PostgresError) {
        while true {
            let rest = library.flush(handle)
            guard rest >= 0 else { throw lost(message) }
            guard rest > 0 else { return }
            guard try wait(for: Int16(POLLIN | POLLOUT), until: end) == .ready else { throw silent() }
            guard library.consumeInput(handle) == 1 else { throw lost(message) }
        }
    }

    func receive(until end: ContinuousClock.Instant) throws(PostgresError) {
        guard try wait(for: Int16(POLLIN), until: end) == .ready else { throw silent() }
        guard library.consumeInput(handle) == 1 else { throw lost(message) }
    }

    private func silent() -> PostgresError { lost("the server does not respond in time") }
}
