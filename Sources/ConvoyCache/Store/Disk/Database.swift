// A connection to the index.
import Foundation

#if os(Linux)
    import CSQLite
#else
    import SQLite3
#endif

/// Why a statement has failed: a result code of SQLite.
struct DatabaseError: Error {
    let code: Int32

    /// The index has another schema than this one's.
    static let otherSchema: Int32 = -1

    /// The log is shorter than the connections to it know: it was cut beside a process that has it open.
    private static let shortRead: Int32 = 10 | 2 << 8

    /// Whether the file is damaged, is no database, or one that has to go.
    var isDamage: Bool { [Self.otherSchema, Self.shortRead].contains(code) || [11, 26].contains(code & 0xFF) }
}

/// A connection with its prepared statements.
final class Database: @unchecked Sendable {
    // @unchecked: one thread at a time uses it. The store hands it out, and takes it back, under a lock.

    enum Value {
        case integer(Int64)
        case text(String)
        case blob(Data)
        case null
    }

    private static let copies = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    private let handle: OpaquePointer
    private var statements: [String: OpaquePointer] = [:]

    /// Opens a file, and makes it when there is none.
    init(_ path: String, busyMilliseconds: Int32) throws(DatabaseError) {
        // For its owner alone; SQLite gives its log the same permissions.
        let made = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if made >= 0 { close(made) }
        var opened: OpaquePointer?
        // READWRITE, CREATE, NOMUTEX.
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

    /// Runs statements that are needed once.
    func execute(_ sql: String) throws(DatabaseError) {
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        if code != 0 { throw failure() }
    }

    /// Why the last call has failed.
    private func failure() -> DatabaseError { DatabaseError(code: sqlite3_extended_errcode(handle)) }

    /// Runs a statement that gives no row; how many rows it has changed.
    @discardableResult
    func run(_ sql: String, _ values: Value...) throws(DatabaseError) -> Int {
        let statement = try prepared(sql, values)
        defer { sqlite3_reset(statement) }
        let code = sqlite3_step(statement)
        guard code == 101 || code == 100 else { throw failure() }
        return Int(sqlite3_changes(handle))
    }

    /// The rows of a query, each made into a value; nil leaves a row out.
    func rows<Row>(_ sql: String, _ values: Value..., make: (Columns) -> Row?) throws(DatabaseError) -> [Row] {
        let statement = try prepared(sql, values)
        defer { sqlite3_reset(statement) }
        var rows: [Row] = []
        while true {
            let code = sqlite3_step(statement)
            if code == 101 { return rows }
            guard code == 100 else { throw failure() }
            if let row = make(Columns(statement: statement)) { rows.append(row) }
        }
    }

    /// All or nothing.
    func transaction(_ body: () throws(DatabaseError) -> Void) throws(DatabaseError) {
        try run("BEGIN IMMEDIATE")
        do throws(DatabaseError) {
            try body()
            try run("COMMIT")
        } catch {
            // Some failures have rolled back already.
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
            // Without an address it would be NULL.
            if data.isEmpty { return sqlite3_bind_blob(statement, index, "", 0, copies) }
            return data.withUnsafeBytes {
                sqlite3_bind_blob(statement, index, $0.baseAddress, Int32(clamping: $0.count), copies)
            }
        }
    }

    /// The row that a statement stands at.
    struct Columns {
        fileprivate let statement: OpaquePointer

        func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(statement, column) }

        /// Nil for NULL.
        func text(_ column: Int32) -> String? {
            guard let text = sqlite3_column_text(statement, column) else { return nil }
            let count = Int(sqlite3_column_bytes(statement, column))
            return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
        }

        /// Nil for NULL.
        func blob(_ column: Int32) -> Data? {
            guard sqlite3_column_type(statement, column) != 5 else { return nil }
            let count = Int(sqlite3_column_bytes(statement, column))
            guard count > 0, let bytes = sqlite3_column_blob(statement, column) else { return Data() }
            return Data(bytes: bytes, count: count)
        }
    }
}
