// The Range field of a request: RFC 9110, section 14.1.
import Foundation

/// A single byte range of a request.
package enum ByteRange: Sendable, Equatable {
    /// From a first position to a last one; nil means the end of the representation.
    case from(Int64, through: Int64?)
    /// This many bytes at the end of the representation.
    case suffix(Int64)

    /// Parses a field with one range.
    ///
    /// The initializer returns nil for several ranges, another unit or invalid syntax.
    package init?(_ text: String) {
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

    /// The positions that the range selects in a representation; nil if none, for which a server answers 416.
    package func positions(in totalBytes: Int64) -> Range<Int64>? {
        switch self {
        case .from(let first, let last):
            guard first < totalBytes else { return nil }
            return first..<min(totalBytes, last.map { $0 == .max ? .max : $0 + 1 } ?? totalBytes)
        case .suffix(let count):
            guard count > 0, totalBytes > 0 else { return nil }
            return max(0, totalBytes - count)..<totalBytes
        }
    }

    /// Whether a partial response fits the range.
    ///
    /// It must begin with the first requested byte and have no byte after the last one. A server may send fewer bytes
    /// than requested (RFC 9110, section 15.3.7).
    func admits(_ content: ContentRange) -> Bool {
        guard let range = content.range else { return false }
        switch self {
        case .from(let first, let last): return range.lowerBound == first && range.upperBound - 1 <= last ?? .max
        // Any range fits, because servers answer a request for the last bytes in different ways.
        case .suffix: return true
        }
    }
}
