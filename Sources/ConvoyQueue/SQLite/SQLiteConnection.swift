// A connection to a database: statements, transactions, errors.
import Convoy
import Foundation

#if os(Linux)
    import CSQLite
#else
    import SQLite3
#endif

enum SQLiteValue {
    case null
    case integer(Int64)
    case text(String)
    case blob(Data)

    init(_ text: String?) { self = text.map(SQLiteValue.text) ?? .null }
    init(_ number: Int64?) { self = number.map(SQLiteValue.integer) ?? .null }
}

/// A connection with its prepared statements.
///
/// The connection is not thread-safe. The store uses it on one serial queue.
final class SQLiteConnection {
    private static let tooBig: Int32 = 18
    private static let copies = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    private static let making = Locked(())

    let file: URL
    private let handle: OpaquePointer
    private var statements: [String: OpaquePointer] = [:]
    /// The inode numbers of the database and its log when they were opened.
    ///
    /// They are compared before each commit. SQLite itself would continue to use files that were deleted or replaced.
    private var opened: [(path: String, number: UInt64)] = []
    /// Whether the last transaction may have taken effect although its COMMIT failed.
    private(set) var isCommitUnknown = false
    private var lastCode: Int32 = 0

    /// Opens a file, and creates it if it does not exist.
    init(at file: URL) throws(QueueError) {
        self.file = file
        // The permissions of a device, such as `/dev/null`, must not change.
        var status = stat()
        if stat(file.path, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
            throw QueueError(
                .notPermitted, "\(file.path) is not a regular file: name another file; this one was not changed")
        }
        Self.makePrivate(file.path)
        var opened: OpaquePointer?
        // READWRITE, CREATE, NOMUTEX: the store's queue replaces SQLite's mutex.
        let code = sqlite3_open_v2(file.path, &opened, 0x0000_0002 | 0x0000_0004 | 0x0000_8000, nil)
        guard let opened else {
            throw QueueError(.failed, "\(file.path) could not be opened: memory allocation failed")
        }
        guard code == 0 else {
            let error = QueueError(path: file.path, code: code, system: sqlite3_system_errno(opened), doing: "opened")
            sqlite3_close_v2(opened)
            throw error
        }
        handle = opened
        sqlite3_extended_result_codes(handle, 1)
        sqlite3_busy_timeout(handle, 10_000)
    }

    deinit {
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close_v2(handle)
    }

    /// Runs statements without caching them.
    func execute(_ sql: String) throws(QueueError) {
        errno = 0
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        if code != 0 { throw error(code) }
    }

    /// Runs a statement whose rows, if any, are not needed.
    ///
    /// Returns the number of changed rows.
    @discardableResult
    func run(_ sql: String, _ values: SQLiteValue...) throws(QueueError) -> Int {
        try run(sql, values)
    }

    @discardableResult
    func run(_ sql: String, _ values: [SQLiteValue]) throws(QueueError) -> Int {
        let statement = try prepared(sql, values)
        defer { sqlite3_reset(statement) }
        let code = step(statement)
        guard code == 101 || code == 100 else { throw error(code) }
        return Int(sqlite3_changes(handle))
    }

    /// Calls a function for each row of a query, until the function returns false.
    func forEachRow(
        _ sql: String, _ values: [SQLiteValue] = [], _ body: (SQLiteRow) throws(QueueError) -> Bool
    ) throws(QueueError) {
        let statement = try prepared(sql, values)
        defer { sqlite3_reset(statement) }
        while true {
            let code = step(statement)
            if code == 101 { return }
            guard code == 100 else { throw error(code) }
            guard try body(SQLiteRow(statement: statement)) else { return }
        }
    }

    /// The rows of a query, each converted to a value.
    func rows<Value>(
        _ sql: String, _ values: [SQLiteValue] = [], _ make: (SQLiteRow) throws(QueueError) -> Value
    ) throws(QueueError) -> [Value] {
        var made: [Value] = []
        try forEachRow(sql, values) { row throws(QueueError) in
            made.append(try make(row))
            return true
        }
        return made
    }

    /// The first row of a query; nil when there is none.
    func row<Value>(
        _ sql: String, _ values: SQLiteValue..., make: (SQLiteRow) throws(QueueError) -> Value
    ) throws(QueueError) -> Value? {
        var made: Value?
        try forEachRow(sql, values) { row throws(QueueError) in
            made = try make(row)
            return false
        }
        return made
    }

    /// The number in the first column of the first row; nil for no row or for NULL.
    func number(_ sql: String, _ values: SQLiteValue...) throws(QueueError) -> Int64? {
        try rows(sql, values) { row throws(QueueError) in row.integer(0) }.first ?? nil
    }

    /// Runs a transaction, which is on the disk when this function returns.
    func transaction<Result>(_ body: () throws(QueueError) -> Result) throws(QueueError) -> Result {
        isCommitUnknown = false
        try run("BEGIN IMMEDIATE")
        do throws(QueueError) {
            let result = try body()
            try checkPlace()
            try commit()
            return result
        } catch {
            // After some failures SQLite has already rolled back.
            if sqlite3_get_autocommit(handle) == 0 { _ = try? run("ROLLBACK") }
            throw error
        }
    }

    private func commit() throws(QueueError) {
        lastCode = 0
        do throws(QueueError) { try run("COMMIT") } catch {
            // If the write to the disk failed, for example on a full disk, the log may contain the commit nevertheless.
            isCommitUnknown = lastCode & 0xFF == 10
            throw error
        }
    }

    /// Runs a part of a transaction that may fail separately.
    ///
    /// After a failure, the changes of the part are rolled back, and the transaction continues.
    ///
    /// - Throws: an error that ends the complete transaction.
    func part<Value>(_ body: () throws(QueueError) -> Value) throws(QueueError) -> Result<Value, QueueError> {
        try run("SAVEPOINT part")
        do throws(QueueError) {
            let value = try body()
            try run("RELEASE part")
            return .success(value)
        } catch {
            guard sqlite3_get_autocommit(handle) == 0 else { throw error }
            try run("ROLLBACK TO part")
            try run("RELEASE part")
            return .failure(error)
        }
    }

    /// Creates the file if it does not exist, with access only for the current user.
    ///
    /// SQLite gives the log the same permissions.
    ///
    /// Calls run one at a time. Otherwise, closing the file could release POSIX locks that another connection of this
    /// process has just set.
    private static func makePrivate(_ path: String) {
        making.withLock { _ in
            let made = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            if made >= 0 { close(made) }
        }
    }

    /// Throws if the database or its log was moved, replaced or removed after ``watchPlace()``.
    func checkPlace() throws(QueueError) {
        for file in opened where Self.number(of: file.path) != file.number {
            throw QueueError(moved: file.path, of: self.file.path)
        }
    }

    /// Makes later commits fail if the database or its log is moved, replaced or removed.
    func watchPlace() {
        opened = [file.path, file.path + "-wal"].compactMap { path in Self.number(of: path).map { (path, $0) } }
    }

    private static func number(of path: String) -> UInt64? {
        var status = stat()
        return stat(path, &status) == 0 ? UInt64(status.st_ino) : nil
    }

    private func prepared(_ sql: String, _ values: [SQLiteValue]) throws(QueueError) -> OpaquePointer {
        let statement = if let kept = statements[sql] { kept } else { try prepare(sql) }
        for (index, value) in values.enumerated() {
            let code = bind(value, to: statement, at: Int32(index + 1))
            if code != 0 { throw error(code) }
        }
        return statement
    }

    private func prepare(_ sql: String) throws(QueueError) -> OpaquePointer {
        var made: OpaquePointer?
        let code = sqlite3_prepare_v2(handle, sql, -1, &made, nil)
        guard code == 0, let made else { throw error(code) }
        statements[sql] = made
        return made
    }

    private func bind(_ value: SQLiteValue, to statement: OpaquePointer, at index: Int32) -> Int32 {
        switch value {
        case .null: return sqlite3_bind_null(statement, index)
        case .integer(let number): return sqlite3_bind_int64(statement, index, number)
        case .text(var text):
            return text.withUTF8 { bytes in
                bytes.withMemoryRebound(to: CChar.self) { bytes in
                    guard let count = Int32(exactly: bytes.count) else { return Self.tooBig }
                    return sqlite3_bind_text(statement, index, bytes.baseAddress, count, Self.copies)
                }
            }
        case .blob(let data):
            return data.withUnsafeBytes { bytes in
                guard let count = Int32(exactly: bytes.count) else { return Self.tooBig }
                return sqlite3_bind_blob(statement, index, bytes.baseAddress, count, Self.copies)
            }
        }
    }

    private func step(_ statement: OpaquePointer) -> Int32 {
        errno = 0
        return sqlite3_step(statement)
    }

    private func error(_ code: Int32) -> QueueError {
        // SQLite's recorded `errno` may belong to an earlier failure, and a failed commit records none. `errno` itself
        // still belongs to the failed call.
        let last = errno
        lastCode = code
        return QueueError(
            path: file.path, code: code, system: last != 0 ? last : sqlite3_system_errno(handle),
            doing: "written or read",
            message: String(cString: sqlite3_errmsg(handle)))
    }
}

/// The current row of a statement.
struct SQLiteRow {
    fileprivate let statement: OpaquePointer

    /// The integer in a column; nil for NULL.
    ///
    /// The integer is limited to ±2⁶¹, so that the sum of two does not overflow. A row that was edited by hand may
    /// contain any number.
    func integer(_ column: Int32) -> Int64? {
        guard sqlite3_column_type(statement, column) != 5 else { return nil }
        return max(-1 << 61, min(1 << 61, sqlite3_column_int64(statement, column)))
    }

    /// The text in a column; nil for NULL.
    func text(_ column: Int32) -> String? {
        guard let text = sqlite3_column_text(statement, column) else { return nil }
        let count = Int(sqlite3_column_bytes(statement, column))
        return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
    }

    /// The bytes in a column; nil for NULL.
    func blob(_ column: Int32) -> Data? {
        guard sqlite3_column_type(statement, column) != 5 else { return nil }
        let count = Int(sqlite3_column_bytes(statement, column))
        guard count > 0, let bytes = sqlite3_column_blob(statement, column) else { return Data() }
        return Data(bytes: bytes, count: count)
    }
}
