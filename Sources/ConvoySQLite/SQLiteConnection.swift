import Convoy
import Foundation

#if os(Linux)
    import CSQLite
#else
    import SQLite3
#endif

package struct SQLiteError: Error {
    package let code: Int32
    package let system: Int32
    package let message: String

    package init(code: Int32, system: Int32 = 0, message: String = "") {
        (self.code, self.system, self.message) = (code, system, message)
    }
}

package enum SQLiteValue: Sendable {
    case null
    case integer(Int64)
    case text(String)
    case blob(Data)

    package init(_ text: String?) { self = text.map(SQLiteValue.text) ?? .null }
    package init(_ number: Int64?) { self = number.map(SQLiteValue.integer) ?? .null }
}

/// @unchecked: the user passes the connection to one thread at a time, under a lock or on a serial queue.
package final class SQLiteConnection: @unchecked Sendable {
    private static let tooBig: Int32 = 18
    private static let copies = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
    private static let making = Locked(())

    package let path: String
    private let handle: OpaquePointer
    private var statements: [String: OpaquePointer] = [:]
    /// True if the last transaction may have taken effect although its COMMIT failed.
    package private(set) var isCommitUnknown = false

    /// A new file is accessible only for the current user.
    package init(_ path: String, busyMilliseconds: Int32 = 10_000) throws {
        self.path = path
        // SQLite gives the log the same permissions.
        //
        // Calls run one at a time. Otherwise, closing the file could release POSIX locks that another connection of
        // this process has just set.
        Self.making.withLock { _ in
            let made = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
            if made >= 0 { close(made) }
        }
        var opened: OpaquePointer?
        // READWRITE, CREATE, NOMUTEX.
        let code = sqlite3_open_v2(path, &opened, 0x0000_0002 | 0x0000_0004 | 0x0000_8000, nil)
        guard let opened else { throw SQLiteError(code: 7, message: "memory allocation failed") }
        guard code == 0 else {
            defer { sqlite3_close_v2(opened) }
            throw SQLiteError(code: code, system: sqlite3_system_errno(opened))
        }
        handle = opened
        sqlite3_extended_result_codes(handle, 1)
        sqlite3_busy_timeout(handle, busyMilliseconds)
    }

    deinit {
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close_v2(handle)
    }

    package func execute(_ sql: String) throws {
        errno = 0
        let code = sqlite3_exec(handle, sql, nil, nil, nil)
        if code != 0 { throw error(code) }
    }

    /// Returns the number of changed rows.
    @discardableResult
    package func run(_ sql: String, _ values: SQLiteValue...) throws -> Int { try run(sql, values) }

    @discardableResult
    package func run(_ sql: String, _ values: [SQLiteValue]) throws -> Int {
        try forEachRow(sql, values) { _ in false }
        return Int(sqlite3_changes(handle))
    }

    package func forEachRow(
        _ sql: String, _ values: [SQLiteValue] = [], _ body: (SQLiteRow) throws -> Bool
    ) throws {
        let statement = try prepared(sql, values)
        defer { sqlite3_reset(statement) }
        while true {
            errno = 0
            let code = sqlite3_step(statement)
            if code == 101 { return }
            guard code == 100 else { throw error(code) }
            guard try body(SQLiteRow(statement: statement)) else { return }
        }
    }

    package func rows<Value>(
        _ sql: String, _ values: [SQLiteValue] = [], _ make: (SQLiteRow) throws -> Value?
    ) throws -> [Value] {
        var made: [Value] = []
        try forEachRow(sql, values) { row in
            if let value = try make(row) { made.append(value) }
            return true
        }
        return made
    }

    package func row<Value>(
        _ sql: String, _ values: SQLiteValue..., make: (SQLiteRow) throws -> Value?
    ) throws -> Value? {
        try rows(sql, values, make).first
    }

    package func number(_ sql: String, _ values: SQLiteValue...) throws -> Int64? {
        try rows(sql, values) { $0.integer(0) }.first
    }

    package func transaction<Result>(_ body: () throws -> Result) throws -> Result {
        isCommitUnknown = false
        try run("BEGIN IMMEDIATE")
        do {
            let result = try body()
            do { try run("COMMIT") } catch let error as SQLiteError {
                // If the write to the disk failed, for example on a full disk, the log may contain the commit
                // nevertheless.
                isCommitUnknown = error.code & 0xFF == 10
                throw error
            }
            return result
        } catch {
            // After some failures SQLite has already rolled back.
            if sqlite3_get_autocommit(handle) == 0 { _ = try? run("ROLLBACK") }
            throw error
        }
    }

    /// After a failure, the changes of the part are rolled back, and the transaction continues; a thrown error ends all
    /// of it.
    package func part<Value>(_ body: () throws -> Value) throws -> Result<Value, any Error> {
        try run("SAVEPOINT part")
        do {
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

    // Otherwise SQLite would remove the log by its name, which belongs to the new log if another process has replaced
    // the database. With a `journal_size_limit`, SQLite empties the kept file through its descriptor.
    package func keepLog() {
        var isKept: Int32 = 1
        // SQLITE_FCNTL_PERSIST_WAL
        sqlite3_file_control(handle, "main", 10, &isKept)
    }

    /// Only Linux reads the memory, because only Linux was tested.
    package var sharedMemory: UnsafeRawPointer? {
        #if os(Linux)
            var file: UnsafeMutablePointer<sqlite3_file>?
            // SQLITE_FCNTL_FILE_POINTER
            guard sqlite3_file_control(handle, "main", 7, &file) == 0, let file, let methods = file.pointee.pMethods,
                methods.pointee.iVersion >= 2, let map = methods.pointee.xShmMap
            else { return nil }
            var memory: UnsafeMutableRawPointer?
            guard map(file, 0, 32_768, 0, &memory) == 0 else { return nil }
            return memory.map { UnsafeRawPointer($0) }
        #else
            nil
        #endif
    }

    private func prepared(_ sql: String, _ values: [SQLiteValue]) throws -> OpaquePointer {
        let statement = if let kept = statements[sql] { kept } else { try prepare(sql) }
        for (index, value) in values.enumerated() {
            let code = bind(value, to: statement, at: Int32(index + 1))
            if code != 0 { throw error(code) }
        }
        return statement
    }

    private func prepare(_ sql: String) throws -> OpaquePointer {
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
            // SQLite would bind a nil address as NULL.
            if data.isEmpty { return sqlite3_bind_blob(statement, index, "", 0, Self.copies) }
            return data.withUnsafeBytes { bytes in
                guard let count = Int32(exactly: bytes.count) else { return Self.tooBig }
                return sqlite3_bind_blob(statement, index, bytes.baseAddress, count, Self.copies)
            }
        }
    }

    private func error(_ code: Int32) -> SQLiteError {
        // SQLite's recorded `errno` may belong to an earlier failure, and a failed commit records none. `errno` itself
        // still belongs to the failed call.
        let last = errno
        return SQLiteError(
            code: code, system: last != 0 ? last : sqlite3_system_errno(handle),
            message: String(cString: sqlite3_errmsg(handle)))
    }
}

package struct SQLiteRow {
    fileprivate let statement: OpaquePointer

    /// Limited to ±2⁶¹, so that the sum of two does not overflow: a row that was edited by hand may contain any number.
    package func integer(_ column: Int32) -> Int64? {
        guard sqlite3_column_type(statement, column) != 5 else { return nil }
        return max(-1 << 61, min(1 << 61, sqlite3_column_int64(statement, column)))
    }

    package func number(_ column: Int32) -> Int64 { sqlite3_column_int64(statement, column) }

    package func text(_ column: Int32) -> String? {
        guard let text = sqlite3_column_text(statement, column) else { return nil }
        let count = Int(sqlite3_column_bytes(statement, column))
        return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
    }

    package func blob(_ column: Int32) -> Data? {
        guard sqlite3_column_type(statement, column) != 5 else { return nil }
        let count = Int(sqlite3_column_bytes(statement, column))
        guard count > 0, let bytes = sqlite3_column_blob(statement, column) else { return Data() }
        return Data(bytes: bytes, count: count)
    }
}
