// One connection to a PostgreSQL server. Opening, waiting and closing have time limits.
import CPostgres
import ConvoyQueue
import Foundation

struct PostgresStatement: Sendable {
    let text: String
    let parameters: [PostgresValue]

    init(_ text: String, _ parameters: [PostgresValue] = []) {
        self.text = text
        self.parameters = parameters
    }
}

/// A connection to a PostgreSQL server.
///
/// Calls block, at most for their time limit. Use a connection on one thread that may block, not on one of Swift's
/// cooperative pool. Only the system's resolver limits the time in which libpq resolves the host's name.
final class PostgresConnection {
    /// How a wait ended: the socket is ready, the time limit was reached, or the wakeup is readable.
    enum Wait {
        case ready
        case timedOut
        case woken
    }

    let library: convoy_pg_functions
    let handle: OpaquePointer
    var prepared: [String: String] = [:]
    var nameCount = 0
    var waiting: [PostgresStatement] = []
    /// Why the connection can no longer be used; nil while it is usable.
    var ending: PostgresError?

    /// Connects to the server.
    ///
    /// - Parameters:
    ///   - address: `postgres://user@host:port/database`, or libpq's `key=value …`.
    ///   - library: libpq, with or without its functions for pipelines.
    init(
        _ address: String, within bound: Duration,
        library: Result<convoy_pg_functions, PostgresError> = PostgresLibrary.shared
    ) throws(PostgresError) {
        self.library = try library.get()
        let library = self.library
        try Self.check(address, library)
        // The address overrides the parameters before it. The parameters after it override the address.
        let parameters = [
            ("fallback_application_name", "convoy"), ("keepalives_idle", "30"), ("keepalives_interval", "10"),
            ("keepalives_count", "3"), ("dbname", address), ("client_encoding", "UTF8"),
        ]
        let started = Self.withStrings(parameters.map(\.0)) { keywords in
            Self.withStrings(parameters.map(\.1)) { library.connectStartParams(keywords, $0, 1) }
        }
        guard let started else { throw PostgresError(.unreachable, "no memory is left for a connection") }
        handle = started
        // Without this processor, libpq prints the server's notices.
        _ = library.setNoticeProcessor(handle, { _, _ in }, nil)
        try connect(until: .now + bound)
        _ = library.setnonblocking(handle, 1)
    }

    deinit { library.finish(handle) }

    /// Rejects an invalid address without libpq's message, which may contain parts of a password.
    ///
    /// With a second @ in the address, libpq would read a part of the password as the host's name.
    private static func check(_ address: String, _ library: convoy_pg_functions) throws(PostgresError) {
        var reason: UnsafeMutablePointer<CChar>?
        let list = library.conninfoParse(address, &reason)
        library.conninfoFree(list)
        library.freemem(reason)
        let parts = address.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false).dropFirst(2)
        let authority = parts.first?.prefix { $0 != "/" && $0 != "?" } ?? ""
        // An @ after the host means that the password contains a slash or a question mark. libpq would read a part of
        // the password as a port, a database or a parameter.
        let isSplit = address.hasPrefix("postgres") && parts.first?.dropFirst(authority.count).contains("@") ?? false
        guard list == nil || isSplit || authority.count(where: { $0 == "@" }) > 1 else { return }
        throw PostgresError(
            .addressInvalid,
            "the address of the database cannot be read; it has the form postgres://user@host:port/database, "
                + "with %40 for a @ and %2F for a / in a name or password")
    }

    private func connect(until end: ContinuousClock.Instant) throws(PostgresError) {
        var state = Int32(CONVOY_PG_POLLING_WRITING)
        while state != CONVOY_PG_POLLING_OK {
            guard state != CONVOY_PG_POLLING_FAILED, library.status(handle) != CONVOY_PG_CONNECTION_BAD else {
                throw PostgresError(.unreachable, "no connection to the database: \(message)")
            }
            let events = state == CONVOY_PG_POLLING_READING ? POLLIN : POLLOUT
            if try wait(for: Int16(events), until: end) == .timedOut {
                throw PostgresError(.unreachable, "no connection to the database: the server does not respond")
            }
            state = library.connectPoll(handle)
        }
    }

    var message: String {
        let text = library.errorMessage(handle).map { String(cString: $0) } ?? ""
        return text.split(whereSeparator: \.isNewline).map { $0.trimmingPrefix(while: \.isWhitespace) }
            .joined(separator: " ")
    }

    func wait(
        for events: Int16, until end: ContinuousClock.Instant, wakeup: Int32 = -1
    ) throws(PostgresError) -> Wait {
        while true {
            let descriptor = library.socket(handle)
            guard descriptor >= 0 else { throw lost(message) }
            var waits = [
                pollfd(fd: descriptor, events: events, revents: 0),
                pollfd(fd: wakeup, events: Int16(POLLIN), revents: 0),
            ]
            let rest = ContinuousClock.now.duration(to: end)
            // The wait is rounded up, so that the loop does not spin at the end.
            let milliseconds = max(0, min(60_000, rest / .milliseconds(1) + 1))
            let count = poll(&waits, 2, rest > .zero ? Int32(milliseconds) : 0)
            if count < 0, errno != EINTR { throw lost(String(cString: strerror(errno))) }
            if count > 0 { return waits.last?.revents != 0 ? .woken : .ready }
            if rest <= .zero { return .timedOut }
        }
    }

    func lost(_ reason: String) -> PostgresError {
        let error = ending ?? PostgresError(.lost, "the connection to the database is lost: \(reason)")
        ending = error
        return error
    }

    private static func withStrings<Result>(
        _ strings: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Result
    ) -> Result {
        let copies = strings.map { strdup($0) }
        defer { for copy in copies { free(copy) } }
        let pointers = copies.map { UnsafePointer($0) } + [nil]
        return pointers.withUnsafeBufferPointer { body($0.baseAddress) }
    }

    // MARK: Statements and notifications

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

    /// Rolls back a transaction.
    ///
    /// If the rollback fails, the connection is marked as unusable.
    func rollBack(within bound: Duration = usualBound) {
        waiting = []
        if ending == nil, (try? run("ROLLBACK", within: bound)) == nil {
            _ = lost("a transaction could not be rolled back")
        }
    }

    /// Waits for a notification on the channels that the connection listens to, and takes all that have arrived.
    ///
    /// Returns false if the time limit ended the wait, or if the descriptor `wakeup` became readable.
    func isNotified(within bound: Duration, wakeup: Int32 = -1) throws(PostgresError) -> Bool {
        if let ending { throw ending }
        let end = ContinuousClock.now + bound
        while true {
            var isNotified = false
            while let next = library.notifies(handle) {
                isNotified = true
                library.freemem(next)
            }
            if isNotified { return true }
            guard try wait(for: Int16(POLLIN), until: end, wakeup: wakeup) == .ready else { return false }
            guard library.consumeInput(handle) == 1 else { throw lost(message) }
        }
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

    // MARK: Transactions of a queue

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

    func prepareForQueue() throws {
        let version = library.serverVersion(handle)
        guard version >= 130_000 else {
            throw QueueError(.unavailable, "the server is PostgreSQL \(version / 10_000); the queue needs 13 or newer")
        }
        try checkEncoding()
        do { try migrate() } catch { throw explaining(error) }
    }
}

/// The rows of a result, and the number of changed rows.
///
/// Use the rows only on the thread of the connection.
final class PostgresRows {
    private let library: convoy_pg_functions
    private let result: OpaquePointer
    let count: Int
    private let columnCount: Int

    init(library: convoy_pg_functions, result: OpaquePointer) {
        self.library = library
        self.result = result
        count = Int(library.ntuples(result))
        columnCount = Int(library.nfields(result))
    }

    deinit { library.clear(result) }

    var changedCount: Int { library.cmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0 }

    /// Reads the bytes of a column without a copy; `nil` for NULL.
    private func read<Value>(
        _ row: Int, _ column: Int, _ body: (UnsafeRawBufferPointer) throws(PostgresError) -> Value
    ) throws(PostgresError) -> Value? {
        guard row >= 0, row < count, column >= 0, column < columnCount else {
            throw PostgresError(.answerInvalid, "the result has no row \(row), column \(column)")
        }
        let (row, column) = (Int32(row), Int32(column))
        guard library.getisnull(result, row, column) == 0, let value = library.getvalue(result, row, column) else {
            return nil
        }
        return try body(UnsafeRawBufferPointer(start: value, count: Int(library.getlength(result, row, column))))
    }

    /// The bytes of a column; `nil` for NULL.
    func bytes(_ row: Int, _ column: Int) throws(PostgresError) -> [UInt8]? {
        try read(row, column) { bytes throws(PostgresError) in Array(bytes) }
    }

    func text(_ row: Int, _ column: Int) throws(PostgresError) -> String? {
        try read(row, column) { bytes throws(PostgresError) in String(decoding: bytes, as: UTF8.self) }
    }

    /// The integer in a column, of any width; nil for NULL.
    func int(_ row: Int, _ column: Int) throws(PostgresError) -> Int64? {
        try read(row, column) { bytes throws(PostgresError) in
            switch bytes.count {
            case 2: return Int64(Int16(truncatingIfNeeded: Self.number(bytes)))
            case 4: return Int64(Int32(truncatingIfNeeded: Self.number(bytes)))
            case 8: return Int64(bitPattern: Self.number(bytes))
            default:
                throw PostgresError(.answerInvalid, "column \(column) is not an integer: it has \(bytes.count) bytes")
            }
        }
    }

    /// The integer in a column, limited to ±2⁶¹, so that the sum of two does not overflow; nil for NULL.
    ///
    /// A row that was edited by hand may have any value.
    func bounded(_ row: Int, _ column: Int) throws(PostgresError) -> Int64? {
        try int(row, column).map { max(-1 << 61, min(1 << 61, $0)) }
    }

    func bool(_ row: Int, _ column: Int) throws(PostgresError) -> Bool? {
        try read(row, column) { bytes throws(PostgresError) in bytes.first == 1 }
    }

    func double(_ row: Int, _ column: Int) throws(PostgresError) -> Double? {
        try read(row, column) { bytes throws(PostgresError) in
            guard bytes.count == 8 else { throw PostgresError(.answerInvalid, "column \(column) is not a number") }
            return Double(bitPattern: Self.number(bytes))
        }
    }

    /// The texts in an array column, whose elements are not NULL; nil if the column itself is NULL.
    func texts(_ row: Int, _ column: Int) throws(PostgresError) -> [String]? {
        guard let bytes = try bytes(row, column) else { return nil }
        var texts: [String] = []
        // The first 20 bytes are the header of the array; `PostgresValue` documents the format.
        var rest = bytes.dropFirst(20)
        while rest.count >= 4 {
            let length = Int(Self.number(rest.prefix(4)))
            rest = rest.dropFirst(4)
            guard length <= rest.count else {
                throw PostgresError(.answerInvalid, "column \(column) is not a list of texts")
            }
            texts.append(String(decoding: rest.prefix(length), as: UTF8.self))
            rest = rest.dropFirst(length)
        }
        return texts
    }

    private static func number(_ bytes: some Sequence<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
}

/// A parameter of a statement: type and bytes.
struct PostgresValue: Sendable {
    let type: UInt32
    /// The value in binary format; nil for NULL.
    let bytes: [UInt8]?

    private enum Kind {
        static let bool: UInt32 = 16
        static let bytes: UInt32 = 17
        static let int: UInt32 = 20
        static let text: UInt32 = 25
        static let double: UInt32 = 701
        static let arrayOfDoubles: UInt32 = 1022
        static let arrayOfBools: UInt32 = 1000
        static let arrayOfBytes: UInt32 = 1001
        static let arrayOfText: UInt32 = 1009
        static let arrayOfInts: UInt32 = 1016
    }

    static func bool(_ value: Bool?) -> Self { Self(type: Kind.bool, bytes: value.map { [$0 ? 1 : 0] }) }
    static func int(_ value: Int64?) -> Self { Self(type: Kind.int, bytes: value.map(bigEndian)) }
    static func int(_ value: Int) -> Self { int(Int64(value)) }
    static func double(_ value: Double?) -> Self {
        Self(type: Kind.double, bytes: value.map { bigEndian($0.bitPattern) })
    }
    static func text(_ value: String?) -> Self { Self(type: Kind.text, bytes: value.map { Array($0.utf8) }) }
    static func bytes(_ value: [UInt8]?) -> Self { Self(type: Kind.bytes, bytes: value) }

    static func bools(_ values: [Bool]) -> Self {
        Self(type: Kind.arrayOfBools, bytes: array(of: Kind.bool, values.map { [$0 ? 1 : 0] }))
    }
    static func ints(_ values: [Int64?]) -> Self {
        Self(type: Kind.arrayOfInts, bytes: array(of: Kind.int, values.map { $0.map(bigEndian) }))
    }
    static func doubles(_ values: [Double?]) -> Self {
        Self(
            type: Kind.arrayOfDoubles, bytes: array(of: Kind.double, values.map { $0.map { bigEndian($0.bitPattern) } })
        )
    }
    static func texts(_ values: [String?]) -> Self {
        Self(type: Kind.arrayOfText, bytes: array(of: Kind.text, values.map { $0.map { Array($0.utf8) } }))
    }
    static func blobs(_ values: [(some Collection<UInt8>)?]) -> Self {
        Self(type: Kind.arrayOfBytes, bytes: array(of: Kind.bytes, values))
    }

    /// Encodes an array in the binary format that the server function `array_recv` reads.
    ///
    /// The format is: number of dimensions, whether there are NULLs, type, count, first index, elements.
    private static func array(of type: UInt32, _ elements: [(some Collection<UInt8>)?]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(20 + elements.reduce(0) { $0 + 4 + ($1?.count ?? 0) })
        bytes += bigEndian(Int32(elements.isEmpty ? 0 : 1))
        bytes += bigEndian(Int32(elements.contains { $0 == nil } ? 1 : 0))
        bytes += bigEndian(type)
        guard !elements.isEmpty else { return bytes }
        bytes += bigEndian(Int32(clamping: elements.count))
        bytes += bigEndian(Int32(1))
        for element in elements {
            bytes += bigEndian(Int32(clamping: element?.count ?? -1))
            if let element { bytes += element }
        }
        return bytes
    }

    private static func bigEndian<Integer: FixedWidthInteger>(_ value: Integer) -> [UInt8] {
        withUnsafeBytes(of: value.bigEndian) { Array($0) }
    }
}

struct PostgresError: Error, Sendable, CustomStringConvertible {
    enum Kind: Sendable, Equatable {
        /// libpq is not installed.
        case libraryMissing
        /// The address of the database is invalid, so another attempt does not help.
        case addressInvalid
        /// No connection could be opened.
        ///
        /// No statement was sent to the server.
        case unreachable
        /// The connection ended, or the server did not respond in time.
        ///
        /// The statement may have taken effect.
        case lost
        /// The server rejected the statement with this SQLSTATE.
        ///
        /// The statement had no effect.
        case refused(state: String)
        /// The server's result has an unexpected form.
        case answerInvalid
    }

    let kind: Kind
    /// What was tried, what happened, and what to do if known.
    let description: String

    init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }

    /// The SQLSTATE of a rejected statement (PostgreSQL manual, appendix A); nil for other failures.
    var state: String? {
        if case .refused(let state) = kind { state } else { nil }
    }

    /// What to do about a rejected statement, where the server's message does not say it.
    var advice: String? {
        switch state {
        case "0A000", "25006": "if the server is a standby, it takes no changes: use the address of the primary"
        case "26000", "42P05":
            "a pooler in transaction mode mixes up the prepared statements of its clients: let the pooler use session mode, "
                + "or connect to the server directly"
        case "3F000":
            "create the schema with CREATE SCHEMA, grant the role USAGE and CREATE on it, or correct the search_path of the "
                + "address or the role"
        default: nil
        }
    }

    /// Whether the same transaction may succeed when it is repeated at once on the same connection.
    var isConflict: Bool { state == "40001" || state == "40P01" }

    /// Whether another connection may work later: the server is unreachable, starting, stopping, full, or a standby.
    ///
    /// A standby rejects a transaction that may write (0A000), or a statement that writes (25006). With 0A000 a server
    /// also rejects a prepared statement whose result has changed; a new connection prepares it again.
    var asksForConnection: Bool {
        switch kind {
        case .unreachable, .lost: true
        case .libraryMissing, .addressInvalid, .answerInvalid: false
        case .refused(let state):
            state.hasPrefix("08") || state.hasPrefix("57P") || ["0A000", "25006", "53300"].contains(state)
        }
    }
}

enum PostgresLibrary {
    #if canImport(Darwin)
        private static let names = [
            "libpq.5.dylib", "/opt/homebrew/opt/libpq/lib/libpq.5.dylib", "/usr/local/opt/libpq/lib/libpq.5.dylib",
        ]
        private static let advice = "brew install libpq"
    #else
        private static let names = ["libpq.so.5"]
        private static let advice = "apt-get install libpq5"
    #endif

    /// The library, which is loaded once in the process.
    ///
    /// After a failure, the process does not try again to load the library.
    static let shared = Result { () throws(PostgresError) in try open(names) }

    static func open(_ names: [String]) throws(PostgresError) -> convoy_pg_functions {
        var reasons: [String] = []
        for name in names {
            var missing: UnsafePointer<CChar>?
            if let functions = convoy_pg_open(name, &missing) { return functions.pointee }
            let reason = missing.map { String(cString: $0) } ?? "no memory is left"
            reasons.append(reason.hasPrefix("PQ") ? "\(name) has no \(reason)" : reason)
        }
        throw PostgresError(
            .libraryMissing,
            "PostgreSQL needs \(names.first ?? "libpq"); \(advice) (\(reasons.joined(separator: "; ")))")
    }
}
