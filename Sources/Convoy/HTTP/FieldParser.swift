// Reads the value of a header field byte by byte.

/// A parser that reads the value of a header field from its first byte to its last.
protocol FieldParser {
    var bytes: [UInt8] { get }
    var position: Int { get set }
}

extension FieldParser {
    /// The byte at the position; nil at the end.
    var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    /// Skips bytes while they satisfy the predicate.
    mutating func skip(_ belongs: (UInt8) -> Bool) {
        while position < bytes.count, belongs(bytes[position]) { position += 1 }
    }

    /// Skips bytes while they satisfy the predicate, and returns them as text.
    mutating func take(_ belongs: (UInt8) -> Bool) -> String {
        let start = position
        skip(belongs)
        return String(decoding: bytes[start..<position], as: UTF8.self)
    }
}

extension UInt8 {
    /// Whether the byte is a space or a tab: optional white space (RFC 9110, section 5.6.3).
    var isBlank: Bool { self == 0x20 || self == 0x09 }
}
