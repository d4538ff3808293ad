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

// Calls block, at most for their time limit; use a thread that may block, not one of Swift's cooperative pool. Only
// the system's resolver limits the time in which libpq resolves the host's name.
final class PostgresConnection {
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
    var ending: PostgresError?

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

    /// libpq's message may contain parts of a password: with a second @ in the address, libpq would read a part of the
    /// password as the host's name.
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

    static let usualBound = Duration.seconds(30)

    /// After the error `lost`, the connection cannot be used again.
    @discardableResult
    func run(
        _ statement: String, _ parameters: [PostgresValue] = [], within bound: Duration = usualBound
    ) throws(PostgresError) -> PostgresRows {
        let all = try run([PostgresStatement(statement, parameters)], within: bound)
        guard let rows = all.last else { throw lost("a result is missing") }
        return rows
    }

    /// If the rollback fails, the connection is marked as unusable.
    func rollBack(within bound: Duration = usualBound) {
        waiting = []
        if ending == nil, (try? run("ROLLBACK", within: bound)) == nil {
            _ = lost("a transaction could not be rolled back")
        }
    }

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

    func failure(_ answer: OpaquePointer) -> PostgresError {
        let text = library.resultErrorField(answer, Int32(CONVOY_PG_DIAG_MESSAGE)).map { String(cString: $0) }
        let state = library.resultErrorField(answer, Int32(CONVOY_PG_DIAG_SQLSTATE)).map { String(cString: $0) }
        guard let state, library.status(handle) != CONVOY_PG_CONNECTION_BAD else { return lost(text ?? message) }
        // After an error with one of these states the connection is lost, for example because the server shuts down.
        if state.hasPrefix("57P") { return lost(text ?? state) }
        return PostgresError(.refused(state: state), "the database reports: \(text ?? message) (SQLSTATE \(state))")
    }

    /// Receives bytes meanwhile, because a server that waits until it can send does not read.
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

    /// The next call of `run` sends it first; the caller does not receive its rows.
    func later(_ statement: PostgresStatement) { waiting.append(statement) }

    // After the first failure, the remaining statements are not run. libpq 14 and newer sends the statements together,
    // in one round trip (pipeline mode).
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

    static let beginReading = PostgresStatement("BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY")

    // The settings end with the transaction, because a pooler may give the session to other clients.
    // `synchronous_commit` makes commits durable even if the server's default is `off`. The first timeout ends the
    // transaction of a stopped process, which would block others. The planner uses indexes, because the statistics of a
    // queue are soon outdated.
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

    static let time = PostgresStatement(
        """

        SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8,
            (extract(epoch FROM clock_timestamp()) - 978307200)::float8, \(settings)
        """)

    // The number is a random UUID. The returned count is 1 for a new number; a larger count shows a repetition of the
    // transaction that an earlier attempt was committed. The statement waits for an earlier transaction with the same
    // number that has not ended.
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

    /// One round trip with libpq 14 and newer.
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

/// Only for the thread of the connection.
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

    var indices: Range<Int> { 0..<count }

    func texts(_ column: Int = 0) throws -> [String] { try indices.compactMap { try text($0, column) } }
    func ints(_ column: Int = 0) throws -> [Int64] { try indices.compactMap { try int($0, column) } }

    /// Nil for a number that is not a state.
    func state(_ row: Int, _ column: Int) throws -> JobState? {
        let number = Int(try int(row, column) ?? -1)
        return PostgresSchema.states.indices.contains(number) ? PostgresSchema.states[number] : nil
    }

    var changedCount: Int { library.cmdTuples(result).flatMap { Int(String(cString: $0)) } ?? 0 }

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

    func bytes(_ row: Int, _ column: Int) throws(PostgresError) -> [UInt8]? {
        try read(row, column) { bytes throws(PostgresError) in Array(bytes) }
    }

    func text(_ row: Int, _ column: Int) throws(PostgresError) -> String? {
        try read(row, column) { bytes throws(PostgresError) in String(decoding: bytes, as: UTF8.self) }
    }

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

    /// Limited to ±2⁶¹, so that the sum of two does not overflow: a row that was edited by hand may have any value.
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

struct PostgresValue: Sendable {
    let type: UInt32
    let bytes: [UInt8]?

    /// The numbers of the server's types.
    private enum Kind: UInt32 {
        case bool = 16
        case bytes = 17
        case int = 20
        case text = 25
        case double = 701

        var array: UInt32 {
            switch self {
            case .bool: 1000
            case .bytes: 1001
            case .text: 1009
            case .int: 1016
            case .double: 1022
            }
        }
    }

    private init(_ kind: Kind, _ bytes: [UInt8]?) { (type, self.bytes) = (kind.rawValue, bytes) }

    static func bool(_ value: Bool?) -> Self { Self(.bool, value.map { [$0 ? 1 : 0] }) }
    static func int(_ value: Int64?) -> Self { Self(.int, value.map(bigEndian)) }
    static func int(_ value: Int) -> Self { int(Int64(value)) }
    static func double(_ value: Double?) -> Self { Self(.double, value.map { bigEndian($0.bitPattern) }) }
    static func text(_ value: String?) -> Self { Self(.text, value.map { Array($0.utf8) }) }
    static func bytes(_ value: [UInt8]?) -> Self { Self(.bytes, value) }

    static func bools(_ values: [Bool]) -> Self { Self(arrayOf: .bool, values.map { bool($0).bytes }) }
    static func ints(_ values: [Int64?]) -> Self { Self(arrayOf: .int, values.map { int($0).bytes }) }
    static func doubles(_ values: [Double?]) -> Self { Self(arrayOf: .double, values.map { double($0).bytes }) }
    static func texts(_ values: [String?]) -> Self { Self(arrayOf: .text, values.map { text($0).bytes }) }
    static func blobs(_ values: [(some Collection<UInt8>)?]) -> Self { Self(arrayOf: .bytes, values) }

    /// The binary format of `array_recv`: number of dimensions, whether there are NULLs, type, count, first index,
    /// elements.
    private init(arrayOf kind: Kind, _ elements: [(some Collection<UInt8>)?]) {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(20 + elements.reduce(0) { $0 + 4 + ($1?.count ?? 0) })
        bytes += Self.bigEndian(Int32(elements.isEmpty ? 0 : 1))
        bytes += Self.bigEndian(Int32(elements.contains { $0 == nil } ? 1 : 0))
        bytes += Self.bigEndian(kind.rawValue)
        if !elements.isEmpty { bytes += Self.bigEndian(Int32(clamping: elements.count)) + Self.bigEndian(Int32(1)) }
        for element in elements {
            bytes += Self.bigEndian(Int32(clamping: element?.count ?? -1))
            if let element { bytes += element }
        }
        (type, self.bytes) = (kind.array, bytes)
    }

    private static func bigEndian<Integer: FixedWidthInteger>(_ value: Integer) -> [UInt8] {
        withUnsafeBytes(of: value.bigEndian) { Array($0) }
    }
}

struct PostgresError: Error, Sendable, CustomStringConvertible {
    enum Kind: Sendable, Equatable {
        case libraryMissing
        /// Another attempt does not help.
        case addressInvalid
        /// No statement was sent to the server.
        case unreachable
        /// The statement may have taken effect.
        case lost
        /// The server rejected the statement, which had no effect.
        case refused(state: String)
        case answerInvalid
    }

    let kind: Kind
    let description: String

    init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }

    var state: String? {
        if case .refused(let state) = kind { state } else { nil }
    }

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

    // A standby rejects a transaction that may write (0A000), or a statement that writes (25006). With 0A000 a server
    // also rejects a prepared statement whose result has changed; a new connection prepares it again.
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
