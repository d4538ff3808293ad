// The part of a representation that a response contains: the Content-Range field, RFC 9110, section 14.4.

/// The range of bytes that a response contains, and the total length.
package struct ContentRange: Equatable, Sendable {
    /// The positions of the bytes; nil when the server has none of the requested bytes (`bytes */100`).
    package let range: Range<Int64>?
    /// The length of the complete representation; nil when the server does not know it (`bytes 5-9/*`).
    package let totalBytes: Int64?

    /// Reads the value of a field such as `bytes 5-9/100` or `bytes */100`; nil if it is invalid.
    ///
    /// - Complexity: O(*n*).
    package init?(_ text: String) {
        let text = text.trimmingBlanks
        guard let blank = text.utf8.firstIndex(of: UInt8(ascii: " ")),
            String(text[..<blank]).equalsIgnoringCase("bytes")
        else { return nil }
        let rest = text.utf8[text.utf8.index(after: blank)...]
        let parts = rest.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let (isTotalKnown, isSatisfied) = (!parts[1].isAsterisk, !parts[0].isAsterisk)
        totalBytes = Self.number(parts[1])
        guard isTotalKnown == (totalBytes != nil) else { return nil }
        guard isSatisfied else {
            range = nil
            if !isTotalKnown { return nil }
            return
        }
        let positions = parts[0].split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        // Without a total, the last position must be below `Int64.max`, because the end of `range` is one higher.
        guard positions.count == 2, let first = Self.number(positions[0]), let last = Self.number(positions[1]),
            first <= last, last < totalBytes ?? .max
        else { return nil }
        range = first..<last + 1
    }

    /// Reads a decimal number without a sign; nil for any other text, and for a number beyond `Int64`.
    private static func number(_ digits: Substring.UTF8View) -> Int64? {
        guard digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        return Int64(Substring(digits))
    }
}

extension Substring.UTF8View {
    fileprivate var isAsterisk: Bool { elementsEqual("*".utf8) }
}
