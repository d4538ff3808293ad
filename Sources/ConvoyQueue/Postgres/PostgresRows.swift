// The result of a statement.
import CPostgres

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

    /// The number of rows that were inserted, updated, deleted or selected.
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
