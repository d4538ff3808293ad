// The Range field of a request: RFC 9110, section 14.1.
import Convoy
import Foundation

/// One range of bytes that a request asks for.
enum ByteRange: Sendable, Equatable {
    /// From a position on, to a last one if it is known.
    case from(Int64, through: Int64?)
    /// So many at the end.
    case suffix(Int64)

    /// Reads a field with one range; nil for several, for another unit, and for what is none.
    init?(_ text: String) {
        let text = text.trimmingBlanks
        guard text.lowercased().hasPrefix("bytes=") else { return nil }
        let parts = text.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, !text.contains(",") else { return nil }
        let (first, last) = (Self.number(parts[0]), Self.number(parts[1]))
        if parts[0].isEmpty {
            guard let last else { return nil }
            self = .suffix(last)
        } else {
            guard let first, parts[1].isEmpty || last != nil, first <= last ?? .max else { return nil }
            self = .from(first, through: last)
        }
    }

    private static func number(_ text: Substring) -> Int64? {
        let text = String(text).trimmingBlanks
        return text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int64(text) : nil
    }

    /// The positions it means of a representation; nil where it has none of them (416).
    func positions(in totalBytes: Int64) -> Range<Int64>? {
        switch self {
        case .from(let first, let last):
            guard first < totalBytes else { return nil }
            return first..<min(totalBytes, last.map { $0 == .max ? .max : $0 + 1 } ?? totalBytes)
        case .suffix(let count):
            guard count > 0, totalBytes > 0 else { return nil }
            return max(0, totalBytes - count)..<totalBytes
        }
    }
}
