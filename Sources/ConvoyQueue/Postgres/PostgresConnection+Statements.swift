// Asking the server.
import CPostgres
import Foundation

extension PostgresConnection {
    /// A message of a channel that the connection listens to.
    struct Notification: Sendable, Equatable {
        let channel: String
        let payload: String
    }

    /// The bound of a statement unless it has its own.
    static let usualBound = Duration.seconds(30)

    /// Runs one statement, prepared when it is first run; its parameters are `$1`, `$2` and so on.
    ///
    /// After a `lost` the connection is of no more use, and after any other error it is as before.
    @discardableResult
    func run(
        _ statement: String, _ parameters: [PostgresValue] = [], within bound: Duration = usualBound
    ) throws(PostgresError) -> PostgresRows {
        if let ending { throw ending }
        // A large body has a second more for each MiB.
        let byteCount = parameters.reduce(0) { $0 + ($1.bytes?.count ?? 0) }
        let end = ContinuousClock.now + bound + .seconds(byteCount >> 20)
        let name = try prepare(statement, parameters.map(\.type), until: end)
        return try answer(until: end) {
            Self.withBytes(parameters) { values, lengths, formats in
                library.sendQueryPrepared(handle, name, Int32(parameters.count), values, lengths, formats, 1)
            }
        }
    }

    /// Runs a body between BEGIN and COMMIT; its error is thrown after a ROLLBACK.
    ///
    /// When COMMIT ends in `lost`, it may have taken effect.
    func transaction<Result>(
        within bound: Duration = usualBound, _ body: () throws(PostgresError) -> Result
    ) throws(PostgresError) -> Result {
        try run("BEGIN", within: bound)
        do {
            let result = try body()
            try run("COMMIT", within: bound)
            return result
        } catch {
            // A transaction that cannot be rolled back ends with its connection.
            if ending == nil, (try? run("ROLLBACK", within: bound)) == nil { _ = lost("a transaction stays open") }
            throw error
        }
    }

    /// Waits for messages of the channels that are listened to; none when the bound or the wakeup ended the wait.
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

    /// The statement's name at the server.
    private func prepare(
        _ statement: String, _ types: [UInt32], until end: ContinuousClock.Instant
    ) throws(PostgresError) -> String {
        if let name = prepared[statement] { return name }
        let name = "convoy_\(prepared.count)"
        _ = try answer(until: end) { library.sendPrepare(handle, name, statement, Int32(types.count), types) }
        prepared[statement] = name
        return name
    }

    /// Sends something and waits for all that is answered.
    private func answer(
        until end: ContinuousClock.Instant, to send: () -> Int32
    ) throws(PostgresError) -> PostgresRows {
        guard send() == 1 else { throw lost(message) }
        try flush(until: end)
        var answer: OpaquePointer?
        while true {
            while library.isBusy(handle) == 1 { try receive(until: end) }
            guard let next = library.getResult(handle) else { break }
            library.clear(answer)
            answer = next
        }
        guard let answer else { throw lost(message) }
        let rows = PostgresRows(library: library, result: answer)
        switch library.resultStatus(answer) {
        case Int32(CONVOY_PG_COMMAND_OK), Int32(CONVOY_PG_TUPLES_OK): return rows
        default: throw failure(answer)
        }
    }

    /// The error of an answer.
    private func failure(_ answer: OpaquePointer) -> PostgresError {
        let text = library.resultErrorField(answer, Int32(CONVOY_PG_DIAG_MESSAGE)).map { String(cString: $0) }
        let state = library.resultErrorField(answer, Int32(CONVOY_PG_DIAG_SQLSTATE)).map { String(cString: $0) }
        guard let state, library.status(handle) != CONVOY_PG_CONNECTION_BAD else { return lost(text ?? message) }
        // What the server ends with; the statement was not run, or was rolled back.
        if state.hasPrefix("57P") { return lost(text ?? state) }
        return PostgresError(.refused(state: state), "the database refused: \(text ?? message) (SQLSTATE \(state))")
    }

    /// Sends what is to be sent, and takes what comes meanwhile: a server that cannot send does not read.
    private func flush(until end: ContinuousClock.Instant) throws(PostgresError) {
        while true {
            let rest = library.flush(handle)
            guard rest >= 0 else { throw lost(message) }
            guard rest > 0 else { return }
            guard try wait(for: Int16(POLLIN | POLLOUT), until: end) == .ready else { throw silent() }
            guard library.consumeInput(handle) == 1 else { throw lost(message) }
        }
    }

    private func receive(until end: ContinuousClock.Instant) throws(PostgresError) {
        guard try wait(for: Int16(POLLIN), until: end) == .ready else { throw silent() }
        guard library.consumeInput(handle) == 1 else { throw lost(message) }
    }

    private func silent() -> PostgresError { lost("the server does not answer in time") }

    /// Calls a body with the parameters as libpq takes them: pointers, lengths, and 1 for the binary format.
    private static func withBytes<Result>(
        _ parameters: [PostgresValue],
        _ body: (UnsafePointer<UnsafePointer<CChar>?>, UnsafePointer<Int32>, UnsafePointer<Int32>) -> Result
    ) -> Result {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(1 + parameters.reduce(0) { $0 + ($1.bytes?.count ?? 0) })
        var lengths: [Int32] = []
        var offsets: [Int?] = []
        for parameter in parameters {
            lengths.append(Int32(clamping: parameter.bytes?.count ?? 0))
            offsets.append(parameter.bytes == nil ? nil : bytes.count)
            bytes += parameter.bytes ?? []
        }
        let formats = [Int32](repeating: 1, count: parameters.count)
        // One byte more: an empty value has an address too.
        bytes.append(0)
        return bytes.withUnsafeBytes { buffer in
            let start = buffer.baseAddress?.assumingMemoryBound(to: CChar.self)
            return body(offsets.map { $0.flatMap { offset in start.map { $0 + offset } } }, lengths, formats)
        }
    }
}
