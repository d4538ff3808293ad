// Parameters of statements in binary format, which needs no quoting of texts.

/// A parameter of a statement: type and bytes.
struct PostgresValue: Sendable {
    /// The OID of the type in PostgreSQL's catalogue, the same in every database.
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
