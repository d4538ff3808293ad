// A connection to the SQLite index.
import Foundation

#if os(Linux)
    import CSQLite
#else
    import SQLite3
#endif

/// The SQLite result code of a failed statement.
struct DatabaseError: Error {
    let code: Int32

    /// The index has another schema version.
    static let otherSchema: Int32 = -1

    /// Another process uses the index or its lock.
    static let busy: Int32 = 5

    /// The content of the index is impossible.
    static let corrupt: Int32 = 11

    /// The file may not be opened.
    static let cannotOpen: Int32 = 14

    /// The write-ahead log is shorter than the connection expects.
    ///
    /// Another process truncated the log while it was open.
    private static let shortRead: Int32 = 10 | 2 << 8

    /// Whether the file is damaged, is not a database, or has another schema and must be removed.
    ///
    /// A constraint violation (19) means that the identifier of a new entry already exists, so the totals are damaged.
    var isDamage: Bool {
        [Self.otherSchema, Self.shortRead].contains(code) || [Self.corrupt, 19, 26].contains(code & 0xFF)
    }
}

/// A connection with its prepared statements.
final class Database: @unchecked Sendable {
    // @unchecked: the store passes a connection to one thread at a time, under a lock.

    enum Value {
        case integer(Int64)
        case text(String)
        case blob(Data)
        case null
    }

    private static let copies = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    private let handle: OpaquePointer
    private var statements: [String: OpaquePointer] = [:]

    /// Opens a database file, and creates it if it is missing.
    ///
    /// No other thread may open the file at the same time. Closing any descriptor of the file releases all POSIX locks
    /// of the process on that file.
    init(_ path: String, busyMilliseconds: Int32) throws(DatabaseError) {
        // Only the owner may access the file. SQLite gives its log the same permissions.
        let made = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if made >= 0 { close(made) }
        var opened: OpaquePointer?
        // The flags READWRITE, CREATE and NOMUTEX.
        let code = sqlite3_open_v2(path, &opened, 0x0000_0002 | 0x0000_0004 | 0x0000_8000, nil)
        guard let opened else { throw DatabaseError(code: 7) }
        guard code == 0 else {
            sqlite3_close_v2(opened)
            throw DatabaseError(code: code)
        }
        handle = opened
        sqlite3_busy_timeout(handle, busyMilliseconds)
    }

    deinit {
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close_v2(handle)
    }

    /// Runs statements without caching them.
    func execute(_ sql: String) throws(DatabaseError) {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        if code != 0 { throw failure() }
    }

    /// Sends an operation to the file of the database (`sqlite3_file_control`), and returns the result code.
    @discardableResult
    func control(_ name: String, _ operation: Int32, _ argument: UnsafeMutableRawPointer) -> Int32 {
        sqlite3_file_control(handle, name, operation, argument)
    }

    /// Keeps the file of the write-ahead log when the last connection is closed.
    ///
    /// Otherwise SQLite would remove the file by its name. If another process has replaced the index, that name belongs
    /// to the log of the new index. With a `journal_size_limit`, SQLite empties the kept file through its descriptor.
    func keepLog() {
        var isKept: Int32 = 1
        // SQLITE_FCNTL_PERSIST_WAL
        control("main", 10, &isKept)
    }

    /// The error of the last call of SQLite.
    private func failure() -> DatabaseError { DatabaseError(code: sqlite3_extended_errcode(handle)) }

    /// Runs a statement without rows, and returns the number of changed rows.
    @discardableResult
    func run(_ sql: String, _ values: Value...) throws(DatabaseError) -> Int {
        let statement = try prepared(sql, values)
        defer { sqlite3_reset(statement) }
        let code = sqlite3_step(statement)
        guard code == 101 || code == 100 else { throw failure() }
        return Int(sqlite3_changes(handle))
    }

    /// Runs a query and makes a value of each row, except where `make` returns nil.
    func rows<Row>(_ sql: String, _ values: Value..., make: (Columns) -> Row?) throws(DatabaseError) -> [Row] {
        var rows: [Row] = []
        try each(sql, values) { if let row = make($0) { rows.append(row) } }
        return rows
    }

    /// Runs a query and passes each row to a closure.
    func each(_ sql: String, _ values: [Value] = [], _ take: (Columns) -> Void) throws(DatabaseError) {
        let statement = try prepared(sql, values)
        defer { sqlite3_reset(statement) }
        while true {
            let code = sqlite3_step(statement)
            if code == 101 { return }
            guard code == 100 else { throw failure() }
            take(Columns(statement: statement))
        }
    }

    /// Runs statements in one transaction, which a failure rolls back.
    func transaction(_ body: () throws(DatabaseError) -> Void) throws(DatabaseError) {
        try run("BEGIN IMMEDIATE")
        do throws(DatabaseError) {
            try body()
            try run("COMMIT")
        } catch {
            // SQLite has already rolled back after some failures.
            if sqlite3_get_autocommit(handle) == 0 { _ = try? run("ROLLBACK") }
            throw error
        }
    }

    private func prepared(_ sql: String, _ values: [Value]) throws(DatabaseError) -> OpaquePointer {
        let statement = if let kept = statements[sql] { kept } else { try prepare(sql) }
        for (index, value) in values.enumerated() {
            let code = Self.bind(value, to: statement, at: Int32(index + 1))
            if code != 0 { throw DatabaseError(code: code) }
        }
        return statement
    }

    private func prepare(_ sql: String) throws(DatabaseError) -> OpaquePointer {
        var made: OpaquePointer?
        let code = sqlite3_prepare_v2(handle, sql, -1, &made, nil)
        guard code == 0, let made else { throw failure() }
        statements[sql] = made
        return made
    }

    private static func bind(_ value: Value, to statement: OpaquePointer, at index: Int32) -> Int32 {
        switch value {
        case .null: return sqlite3_bind_null(statement, index)
        case .integer(let number): return sqlite3_bind_int64(statement, index, number)
        case .text(var text):
            return text.withUTF8 { bytes in
                bytes.withMemoryRebound(to: CChar.self) { bytes in
                    sqlite3_bind_text(statement, index, bytes.baseAddress, Int32(clamping: bytes.count), copies)
                }
            }
        case .blob(let data):
            // SQLite would bind a nil address as NULL.
            if data.isEmpty { return sqlite3_bind_blob(statement, index, "", 0, copies) }
            return data.withUnsafeBytes {
                sqlite3_bind_blob(statement, index, $0.baseAddress, Int32(clamping: $0.count), copies)
            }
        }
    }

    /// The current row of a statement.
    struct Columns {
        fileprivate let statement: OpaquePointer

        func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(statement, column) }

        /// The text of a column; nil for NULL.
        func text(_ column: Int32) -> String? {
            guard let text = sqlite3_column_text(statement, column) else { return nil }
            let count = Int(sqlite3_column_bytes(statement, column))
            return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
        }

        /// The bytes of a column; nil for NULL.
        func blob(_ column: Int32) -> Data? {
            guard sqlite3_column_type(statement, column) != 5 else { return nil }
            let count = Int(sqlite3_column_bytes(statement, column))
            guard count > 0, let bytes = sqlite3_column_blob(statement, column) else { return Data() }
            return Data(bytes: bytes, count: count)
        }
    }
}
