// Runs several statements, with libpq 14 or newer in one round trip.
import CPostgres
import Foundation

struct PostgresStatement: Sendable {
    let text: String
    let parameters: [PostgresValue]

    init(_ text: String, _ parameters: [PostgresValue] = []) {
        self.text = text
        self.parameters = parameters
    }
}

extension PostgresConnection {
    /// Queues a statement, which the next call of `run` sends first.
    ///
    /// The caller does not receive the rows of a queued statement.
    func later(_ statement: PostgresStatement) { waiting.append(statement) }

    /// Runs statements in order.
    ///
    /// Returns the rows of each statement.
    ///
    /// After the first failure, the remaining statements are not run. libpq 14 and newer sends the statements together,
    /// in one round trip (pipeline mode). Older versions of libpq send one after another.
    func run(
        _ statements: [PostgresStatement], within bound: Duration = usualBound
    ) throws(PostgresError) -> [PostgresRows] {
        if let ending { throw ending }
        let all = waiting + statements
        let own = all.count - statements.count
        waiting = []
        // The time limit is one second longer for each MiB of parameters.
        let byteCount = all.reduce(0) { $0 + $1.parameters.reduce(0) { $0 + ($1.bytes?.count ?? 0) } }
        let end = ContinuousClock.now + bound + .seconds(byteCount >> 20)
        guard library.enterPipelineMode?(handle) == 1 else {
            var answers: [PostgresRows] = []
            for statement in all { answers.append(try answer(to: statement, until: end)) }
            return Array(answers.dropFirst(own))
        }
        let answers = try answersInPipeline(to: all, until: end)
        guard library.exitPipelineMode?(handle) == 1 else { throw lost(message) }
        if let failure = answers.failure { throw failure }
        guard answers.rows.count == all.count else { throw lost("a result is missing") }
        return Array(answers.rows.dropFirst(own))
    }

    // MARK: In a pipeline

    private func answersInPipeline(
        to statements: [PostgresStatement], until end: ContinuousClock.Instant
    ) throws(PostgresError) -> (rows: [PostgresRows], failure: PostgresError?) {
        // The results to expect, in order: the text and name of a statement that the server parses, or nil for its
        // rows.
        var expected: [(text: String, name: String)?] = []
        var names: [String: String] = [:]
        for statement in statements {
            let known = prepared[statement.text] ?? names[statement.text]
            let name = known ?? makeName()
            if known == nil {
                guard sendParse(statement, name) == 1 else { throw lost(message) }
                names[statement.text] = name
                expected.append((statement.text, name))
            }
            guard sendExecution(of: statement, name) == 1 else { throw lost(message) }
            expected.append(nil)
        }
        guard library.pipelineSync?(handle) == 1 else { throw lost(message) }
        try flush(until: end)
        var rows: [PostgresRows] = []
        var failure: PostgresError?
        for parsed in expected {
            guard let answer = try next(until: end) else { throw lost(message) }
            switch library.resultStatus(answer) {
            case Int32(CONVOY_PG_COMMAND_OK), Int32(CONVOY_PG_TUPLES_OK):
                let own = PostgresRows(library: library, result: answer)
                if let parsed { prepared[parsed.text] = parsed.name } else { rows.append(own) }
            case Int32(CONVOY_PG_PIPELINE_ABORTED): library.clear(answer)
            default:
                if failure == nil { failure = self.failure(answer) }
                library.clear(answer)
                if let ending { throw ending }
            }
            while let rest = try next(until: end) { library.clear(rest) }
        }
        guard let sync = try next(until: end) else { throw lost(message) }
        defer { library.clear(sync) }
        guard library.resultStatus(sync) == CONVOY_PG_PIPELINE_SYNC else { throw lost(message) }
        return (rows, failure)
    }

    /// The next result of the server; nil after the last result of one send function, for example `sendPrepare`.
    private func next(until end: ContinuousClock.Instant) throws(PostgresError) -> OpaquePointer? {
        while library.isBusy(handle) == 1 { try receive(until: end) }
        return library.getResult(handle)
    }

    // MARK: Without a pipeline

    private func answer(
        to statement: PostgresStatement, until end: ContinuousClock.Instant
    ) throws(PostgresError) -> PostgresRows {
        if prepared[statement.text] == nil {
            let name = makeName()
            _ = try answer(until: end) { sendParse(statement, name) }
            prepared[statement.text] = name
        }
        let name = prepared[statement.text] ?? ""
        return try answer(until: end) { sendExecution(of: statement, name) }
    }

    /// Calls a send function of libpq and waits for all results of the send.
    ///
    /// Returns the rows of the last result.
    private func answer(
        until end: ContinuousClock.Instant, to send: () -> Int32
    ) throws(PostgresError) -> PostgresRows {
        guard send() == 1 else { throw lost(message) }
        try flush(until: end)
        var answer: OpaquePointer?
        while let next = try next(until: end) {
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

    // MARK: Messages

    private func makeName() -> String {
        nameCount += 1
        return "convoy_\(nameCount)"
    }

    private func sendParse(_ statement: PostgresStatement, _ name: String) -> Int32 {
        let types = statement.parameters.map(\.type)
        return library.sendPrepare(handle, name, statement.text, Int32(types.count), types)
    }

    private func sendExecution(of statement: PostgresStatement, _ name: String) -> Int32 {
        Self.withBytes(statement.parameters) { values, lengths, formats in
            library.sendQueryPrepared(handle, name, Int32(statement.parameters.count), values, lengths, formats, 1)
        }
    }

    /// Calls a body with the parameters in libpq's form: pointers, lengths, and 1 for the binary format.
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
        // The extra byte gives an empty value an address, because libpq reads a null pointer as NULL.
        bytes.append(0)
        return bytes.withUnsafeBytes { buffer in
            let start = buffer.baseAddress?.assumingMemoryBound(to: CChar.self)
            return body(offsets.map { $0.flatMap { offset in start.map { $0 + offset } } }, lengths, formats)
        }
    }
}
