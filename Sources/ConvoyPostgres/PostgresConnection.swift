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
    private struct Message {
        let statement: PostgresStatement
        let name: String
        let isParse: Bool
    }

    private let library: convoy_pg_functions
    private let handle: OpaquePointer
    private var prepared: [String: String] = [:]
    private var nameCount = 0
    private var waiting: [PostgresStatement] = []
    private(set) var ending: PostgresError?

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
            guard try wait(for: events, until: end) else {
                throw PostgresError(.unreachable, "no connection to the database: the server does not respond")
            }
            state = library.connectPoll(handle)
        }
    }

    private var message: String {
        let text = library.errorMessage(handle).map { String(cString: $0) } ?? ""
        return text.split(whereSeparator: \.isNewline).map { $0.trimmingPrefix(while: \.isWhitespace) }
            .joined(separator: " ")
    }

    /// Returns false if the time limit ended the wait, or if the descriptor `wakeup` became readable.
    private func wait(
        for events: Int32, until end: ContinuousClock.Instant, wakeup: Int32 = -1
    ) throws(PostgresError) -> Bool {
        while true {
            let descriptor = library.socket(handle)
            guard descriptor >= 0 else { throw lost(message) }
            var waits = [
                pollfd(fd: descriptor, events: Int16(events), revents: 0),
                pollfd(fd: wakeup, events: Int16(POLLIN), revents: 0),
            ]
            let rest = ContinuousClock.now.duration(to: end)
            // The wait is rounded up, so that the loop does not spin at the end.
            let milliseconds = max(0, min(60_000, rest / .milliseconds(1) + 1))
            let count = poll(&waits, 2, rest > .zero ? Int32(milliseconds) : 0)
            if count < 0, errno != EINTR { throw lost(String(cString: strerror(errno))) }
            if count > 0 { return waits[1].revents == 0 }
            if rest <= .zero { return false }
        }
    }

    private func lost(_ reason: String) -> PostgresError {
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

    private func check(_ result: Int32?) throws(PostgresError) {
        if result != 1 { throw lost(message) }
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
            guard try wait(for: POLLIN, until: end, wakeup: wakeup) else { return false }
            try check(library.consumeInput(handle))
        }
    }

    private func failure(_ answer: OpaquePointer) -> PostgresError {
        let text = library.resultErrorField(answer, Int32(CONVOY_PG_DIAG_MESSAGE)).map { String(cString: $0) }
        let state = library.resultErrorField(answer, Int32(CONVOY_PG_DIAG_SQLSTATE)).map { String(cString: $0) }
        guard let state, library.status(handle) != CONVOY_PG_CONNECTION_BAD else { return lost(text ?? message) }
        // After an error with one of these states the connection is lost, for example because the server shuts down.
        if state.hasPrefix("57P") { return lost(text ?? state) }
        return PostgresError(.refused(state: state), "the database reports: \(text ?? message) (SQLSTATE \(state))")
    }

    /// Receives bytes meanwhile, because a server that waits until it can send does not read.
    private func flush(until end: ContinuousClock.Instant) throws(PostgresError) {
        while true {
            let rest = library.flush(handle)
            if rest == 0 { return }
            guard rest > 0 else { throw lost(message) }
            try receive(POLLIN | POLLOUT, until: end)
        }
    }

    private func receive(_ events: Int32, until end: ContinuousClock.Instant) throws(PostgresError) {
        guard try wait(for: events, until: end) else { throw lost("the server does not respond in time") }
        try check(library.consumeInput(handle))
    }

    /// The next call of `run` sends it first; the caller does not receive its rows.
    func later(_ statement: PostgresStatement) { waiting.append(statement) }

    // After the first failure, the remaining statements are not run. libpq 14 and newer sends the statements together,
    // in one round trip (pipeline mode).
    func run(
        _ statements: [PostgresStatement], within bound: Duration = usualBound
    ) throws(PostgresError) -> [PostgresRows] {
        if let ending { throw ending }
        let all = waiting + statements
        let own = waiting.count
        waiting = []
        // The time limit is one second longer for each MiB of parameters.
        let byteCount = all.reduce(0) { $0 + $1.parameters.reduce(0) { $0 + ($1.bytes?.count ?? 0) } }
        let end = ContinuousClock.now + bound + .seconds(byteCount >> 20)
        let messages = self.messages(of: all)
        let isPipelined = library.enterPipelineMode?(handle) == 1
        if isPipelined {
            for message in messages { try send(message) }
            try check(library.pipelineSync?(handle))
            try flush(until: end)
        }
        var rows: [PostgresRows] = []
        var failure: PostgresError?
        for message in messages where isPipelined || failure == nil {
            if !isPipelined {
                try send(message)
                try flush(until: end)
            }
            guard let answer = try next(until: end) else { throw lost(self.message) }
            switch library.resultStatus(answer) {
            case Int32(CONVOY_PG_COMMAND_OK), Int32(CONVOY_PG_TUPLES_OK):
                let own = PostgresRows(library: library, result: answer)
                if message.isParse { prepared[message.statement.text] = message.name } else { rows.append(own) }
            case Int32(CONVOY_PG_PIPELINE_ABORTED): library.clear(answer)
            default:
                if failure == nil { failure = self.failure(answer) }
                library.clear(answer)
                if let ending { throw ending }
            }
            while let rest = try next(until: end) { library.clear(rest) }
        }
        if isPipelined {
            let sync = try next(until: end)
            let isSynchronized = library.resultStatus(sync) == CONVOY_PG_PIPELINE_SYNC
            library.clear(sync)
            guard isSynchronized else { throw lost(message) }
            try check(library.exitPipelineMode?(handle))
        }
        if let failure { throw failure }
        guard rows.count == all.count else { throw lost("a result is missing") }
        return Array(rows.dropFirst(own))
    }

    private func messages(of statements: [PostgresStatement]) -> [Message] {
        var names: [String: String] = [:]
        return statements.flatMap { statement in
            let known = prepared[statement.text] ?? names[statement.text]
            if known == nil { nameCount += 1 }
            let name = known ?? "convoy_\(nameCount)"
            names[statement.text] = name
            let execution = Message(statement: statement, name: name, isParse: false)
            return known == nil ? [Message(statement: statement, name: name, isParse: true), execution] : [execution]
        }
    }

    private func send(_ message: Message) throws(PostgresError) {
        let (statement, name) = (message.statement, message.name)
        let count = Int32(statement.parameters.count)
        try check(
            message.isParse
                ? library.sendPrepare(handle, name, statement.text, count, statement.parameters.map(\.type))
                : Self.withBytes(statement.parameters) {
                    library.sendQueryPrepared(handle, name, count, $0, $1, $2, 1)
                })
    }

    private func next(until end: ContinuousClock.Instant) throws(PostgresError) -> OpaquePointer? {
        while library.isBusy(handle) == 1 { try receive(POLLIN, until: end) }
        return library.getResult(handle)
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

    private static let moment = """
        SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8,
            (extract(epoch FROM clock_timestamp()) - 978307200)::float8, \(settings)
        """

    static let time = PostgresStatement(moment)

    // The number is a random UUID. The returned count is 1 for a new number; a larger count shows a repetition of the
    // transaction that an earlier attempt was committed. The statement waits for an earlier transaction with the same
    // number that has not ended.
    static func mark(_ number: String) -> PostgresStatement {
        PostgresStatement(
            """
            WITH mark AS (INSERT INTO convoy_commits AS c (number, made)
                VALUES ($1, (extract(epoch FROM clock_timestamp()) * 1000000)::int8)
                ON CONFLICT (number) DO UPDATE SET count = c.count + 1 RETURNING count)
            \(moment), (SELECT count FROM mark)
            """, [.text(number)])
    }

    /// One round trip with libpq 14 and newer.
    func transact(_ statements: [PostgresStatement], begin: PostgresStatement = begin) throws -> [PostgresRows] {
        try rollingBack { try run([begin] + statements + [PostgresStatement("COMMIT")]).dropFirst().dropLast() }
    }

    // An error of `body` rolls the transaction back. If that fails, the connection is marked as unusable.
    func rollingBack<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch {
            waiting = []
            if ending == nil, (try? run("ROLLBACK")) == nil { _ = lost("a transaction could not be rolled back") }
            throw error
        }
    }

    func prepareForQueue() throws {
        let version = library.serverVersion(handle)
        guard version >= 130_000 else {
            throw QueueError(.unavailable, "the server is PostgreSQL \(version / 10_000); the queue needs 13 or newer")
        }
        let rows = try run("SELECT current_setting('server_encoding'), current_database()::text")
        let (encoding, name) = (try rows.text(0, 0) ?? "", try rows.text(0, 1) ?? "")
        guard encoding == "UTF8" else {
            throw QueueError(
                .unavailable,
                "the database \(name) has the encoding \(encoding), but the queue needs UTF8: create one with "
                    + "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0")
        }
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

    /// The bytes are those of the result, so they are valid as long as this object.
    private func value(_ row: Int, _ column: Int) throws(PostgresError) -> UnsafeRawBufferPointer? {
        guard indices.contains(row), (0..<columnCount).contains(column) else {
            throw PostgresError(.answerInvalid, "the result has no row \(row), column \(column)")
        }
        let (row, column) = (Int32(row), Int32(column))
        guard library.getisnull(result, row, column) == 0, let value = library.getvalue(result, row, column) else {
            return nil
        }
        return UnsafeRawBufferPointer(start: value, count: Int(library.getlength(result, row, column)))
    }

    func bytes(_ row: Int, _ column: Int) throws(PostgresError) -> [UInt8]? {
        try value(row, column).map { Array($0) }
    }

    func text(_ row: Int, _ column: Int) throws(PostgresError) -> String? {
        try value(row, column).map { String(decoding: $0, as: UTF8.self) }
    }

    func int(_ row: Int, _ column: Int) throws(PostgresError) -> Int64? {
        guard let bytes = try value(row, column) else { return nil }
        switch bytes.count {
        case 2: return Int64(Int16(truncatingIfNeeded: Self.number(bytes)))
        case 4: return Int64(Int32(truncatingIfNeeded: Self.number(bytes)))
        case 8: return Int64(bitPattern: Self.number(bytes))
        default:
            throw PostgresError(.answerInvalid, "column \(column) is not an integer: it has \(bytes.count) bytes")
        }
    }

    /// Limited to ±2⁶¹, so that the sum of two does not overflow: a row that was edited by hand may have any value.
    func bounded(_ row: Int, _ column: Int) throws(PostgresError) -> Int64? {
        try int(row, column).map { max(-1 << 61, min(1 << 61, $0)) }
    }

    func bool(_ row: Int, _ column: Int) throws(PostgresError) -> Bool? { try value(row, column).map { $0.first == 1 } }

    func double(_ row: Int, _ column: Int) throws(PostgresError) -> Double? {
        guard let bytes = try value(row, column) else { return nil }
        guard bytes.count == 8 else { throw PostgresError(.answerInvalid, "column \(column) is not a number") }
        return Double(bitPattern: Self.number(bytes))
    }

    func texts(_ row: Int, _ column: Int) throws(PostgresError) -> [String]? {
        // The first 20 bytes are the header of the array; `PostgresValue` documents the format.
        guard var rest = try bytes(row, column)?.dropFirst(20) else { return nil }
        var texts: [String] = []
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
    /// The number of the server's type, in its table `pg_type`.
    let type: UInt32
    let bytes: [UInt8]?

    static func bool(_ value: Bool) -> Self { Self(type: 16, bytes: [value ? 1 : 0]) }
    static func bytes(_ value: [UInt8]) -> Self { Self(type: 17, bytes: value) }
    static func int(_ value: Int64?) -> Self { Self(type: 20, bytes: value.map(bigEndian)) }
    static func int(_ value: Int) -> Self { int(Int64(value)) }
    static func text(_ value: String?) -> Self { Self(type: 25, bytes: value.map { Array($0.utf8) }) }
    static func double(_ value: Double?) -> Self { Self(type: 701, bytes: value.map { bigEndian($0.bitPattern) }) }

    static func bools(_ values: [Bool]) -> Self { array(1000, of: 16, values.map { bool($0).bytes }) }
    static func blobs(_ values: [Data?]) -> Self { array(1001, of: 17, values) }
    static func texts(_ values: [String?]) -> Self { array(1009, of: 25, values.map { text($0).bytes }) }
    static func ints(_ values: [Int64?]) -> Self { array(1016, of: 20, values.map { int($0).bytes }) }
    static func doubles(_ values: [Double?]) -> Self { array(1022, of: 701, values.map { double($0).bytes }) }

    /// The binary format of `array_recv`: number of dimensions, whether there are NULLs, type, count, first index,
    /// elements.
    private static func array(_ type: UInt32, of element: UInt32, _ elements: [(some Collection<UInt8>)?]) -> Self {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(20 + elements.reduce(0) { $0 + 4 + ($1?.count ?? 0) })
        bytes += bigEndian(Int32(elements.isEmpty ? 0 : 1))
        bytes += bigEndian(Int32(elements.contains { $0 == nil } ? 1 : 0))
        bytes += bigEndian(element)
        if !elements.isEmpty { bytes += bigEndian(Int32(clamping: elements.count)) + bigEndian(Int32(1)) }
        for value in elements {
            bytes += bigEndian(Int32(clamping: value?.count ?? -1))
            if let value { bytes += value }
        }
        return Self(type: type, bytes: bytes)
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
