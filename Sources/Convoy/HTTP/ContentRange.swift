// The part of a representation that a response contains: the Content-Range field, RFC 9110, section 14.4.
import Foundation

package struct ContentRange: Equatable, Sendable {
    /// The positions of the bytes; nil when the server has none of the requested bytes (`bytes */100`).
    package let range: Range<Int64>?
    /// The length of the complete representation; nil when the server does not know it (`bytes 5-9/*`).
    package let totalBytes: Int64?

    package init?(_ text: String) {
        let parts = text.trimmedBlanks.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        let halves = parts.last?.split(separator: "/", omittingEmptySubsequences: false) ?? []
        guard parts.count == 2, String(parts[0]).equalsIgnoringCase("bytes"), halves.count == 2 else { return nil }
        totalBytes = Int64(digits: halves[1])
        guard (halves[1] == "*") == (totalBytes == nil) else { return nil }
        if halves[0] == "*" {
            range = nil
            if totalBytes == nil { return nil }
            return
        }
        let positions = halves[0].split(separator: "-", omittingEmptySubsequences: false).map { Int64(digits: $0) }
        // Without a total, the last position must be below `Int64.max`, because the end of `range` is one higher.
        guard positions.count == 2, let first = positions[0], let last = positions[1], first <= last,
            last < totalBytes ?? .max
        else { return nil }
        range = first..<last + 1
    }
}

extension Int64 {
    /// Nil for anything but ASCII digits: no sign.
    fileprivate init?(digits: Substring) {
        guard digits.utf8.allSatisfy(\.isDigit) else { return nil }
        self.init(digits)
    }
}

package enum ByteRange: Sendable, Equatable {
    /// From a first position to a last one; nil means the end of the representation.
    case from(Int64, through: Int64?)
    /// This many bytes at the end of the representation.
    case suffix(Int64)

    package init?(_ text: String) {
        let text = text.trimmingBlanks
        guard text.lowercased().hasPrefix("bytes=") else { return nil }
        let parts = text.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, !text.contains(",") else { return nil }
        let (first, last) = (Int64(digits: parts[0].trimmedBlanks), Int64(digits: parts[1].trimmedBlanks))
        if parts[0].isEmpty {
            guard let last else { return nil }
            self = .suffix(last)
        } else {
            guard let first, parts[1].isEmpty || last != nil, first <= last ?? .max else { return nil }
            self = .from(first, through: last)
        }
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

    /// It must begin with the first requested byte and have no byte after the last one; a server may send fewer bytes
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
