// The escapes of URLs, JSON and HTML in one text, decoded step by step for a search.

/// A text that knows the place of each decoded byte in the original.
struct EscapedText {
    private static let backslash = UInt8(ascii: "\\")
    private static let controls = ["n": 10, "t": 9, "r": 13, "b": 8, "f": 12] as [Character: UInt8]
    private static let entities = ["amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'"]
    /// The length of the longest entity that is decoded: `&#x0010FFFF;`.
    private static let entityLength = 12
    /// At the end of a clipped text, the beginning of a secret counts if it has at least this many bytes.
    private static let clippedLength = 8

    private var bytes: [UInt8]
    /// For each decoded byte, the offset in the original at which it or its escape starts.
    ///
    /// The last element is the length of the original.
    private var starts: [Int]

    init(_ text: String) {
        bytes = Array(text.utf8)
        starts = Array(0...bytes.count)
    }

    /// The places of a secret in the original.
    ///
    /// A beginning of the secret counts if the text was clipped after it: the text ends there, or continues with three
    /// dots.
    func ranges(of secret: [UInt8]) -> [Range<Int>] {
        guard let first = secret.first else { return [] }
        return bytes.indices.compactMap { (start) -> Range<Int>? in
            guard bytes[start] == first else { return nil }
            var length = 1
            while length < secret.count, start + length < bytes.count, bytes[start + length] == secret[length] {
                length += 1
            }
            let isClipped = length < secret.count && length >= Self.clippedLength && isClipped(at: start + length)
            return length == secret.count || isClipped ? starts[start]..<starts[start + length] : nil
        }
    }

    /// Whether the text ends at an offset, perhaps inside an escape, or has three dots there.
    private func isClipped(at start: Int) -> Bool {
        var end = start
        func skip(atMost count: Int, _ isMeant: (UInt8) -> Bool) {
            for byte in bytes[end...].prefix(count) {
                guard isMeant(byte) else { return }
                end += 1
            }
        }
        let isHex = { (byte: UInt8) in Character(UnicodeScalar(byte)).isHexDigit }
        switch bytes[end...].first {
        case UInt8(ascii: "%"):
            end += 1
            skip(atMost: 1, isHex)
        case Self.backslash:
            end += 1
            skip(atMost: 1) { $0 == UInt8(ascii: "u") }
            skip(atMost: 3, isHex)
        case UInt8(ascii: "&"):
            end += 1
            skip(atMost: Self.entityLength - 2) { $0 == UInt8(ascii: "#") || $0.isASCIILetter || isHex($0) }
        default: break
        }
        return bytes[end...].isEmpty || bytes[end...].starts(with: "...".utf8)
    }

    /// Decodes each escape once.
    ///
    /// - Returns: whether the text had an escape.
    mutating func decode() -> Bool {
        var (decoded, places, index) = ([UInt8](), [Int](), 0)
        while index < bytes.count {
            let escape = escape(at: index)
            if let escape { decoded += escape.bytes } else { decoded.append(bytes[index]) }
            while places.count < decoded.count { places.append(starts[index]) }
            index += escape?.length ?? 1
        }
        defer { (bytes, starts) = (decoded, places + starts.suffix(1)) }
        return decoded.count < bytes.count
    }

    private func escape(at index: Int) -> (bytes: [UInt8], length: Int)? {
        switch bytes[index] {
        case UInt8(ascii: "%"):
            return number(index + 1, digits: 2).map { ([UInt8(truncatingIfNeeded: $0)], 3) }
        case Self.backslash:
            guard index + 1 < bytes.count else { return nil }
            let letter = bytes[index + 1]
            if letter == UInt8(ascii: "u") { return number(index + 2, digits: 4).flatMap(Self.utf8).map { ($0, 6) } }
            if let control = Self.controls[Character(UnicodeScalar(letter))] { return ([control], 2) }
            return "/\"\\".utf8.contains(letter) ? ([letter], 2) : nil
        case UInt8(ascii: "&"):
            let place = bytes[index...].prefix(Self.entityLength)
            guard let end = place.firstIndex(of: UInt8(ascii: ";")) else { return nil }
            return Self.entity(String(decoding: bytes[(index + 1)..<end], as: UTF8.self)).map { ($0, end + 1 - index) }
        default: return nil
        }
    }

    private func number(_ start: Int, digits: Int) -> UInt32? {
        guard start + digits <= bytes.count else { return nil }
        let text = String(decoding: bytes[start..<(start + digits)], as: UTF8.self)
        return text.allSatisfy(\.isHexDigit) ? UInt32(text, radix: 16) : nil
    }

    private static func entity(_ name: String) -> [UInt8]? {
        if let text = entities[name] { return Array(text.utf8) }
        guard name.hasPrefix("#") else { return nil }
        let isHex = name.lowercased().hasPrefix("#x")
        return UInt32(name.dropFirst(isHex ? 2 : 1), radix: isHex ? 16 : 10).flatMap(utf8)
    }

    private static func utf8(_ number: UInt32) -> [UInt8]? { Unicode.Scalar(number).map { Array(String($0).utf8) } }
}
