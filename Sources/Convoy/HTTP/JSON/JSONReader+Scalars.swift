// Reads strings, numbers, `true`, `false` and `null`.

extension JSONReader {
    /// The string, number or literal at the index; nil when there is none.
    mutating func scalar(_ byte: UInt8) throws(Defect) -> JSONValue? {
        switch byte {
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number(try number())
        case UInt8(ascii: "t"): return take("true") ? .bool(true) : nil
        case UInt8(ascii: "f"): return take("false") ? .bool(false) : nil
        case UInt8(ascii: "n"): return take("null") ? .null : nil
        default: return nil
        }
    }

    private var next: UInt8? { index < bytes.count ? bytes[index] : nil }

    private mutating func take(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        let isWord = word.withUTF8Buffer { bytes[index...].starts(with: $0) }
        if isWord { index += count }
        return isWord
    }

    private mutating func number() throws(Defect) -> String {
        let start = index
        _ = take("-")
        let first = next
        let count = skipDigits()
        guard count > 0 else { throw defect("a number has no digits") }
        if first == UInt8(ascii: "0"), count > 1 { throw defect("a number begins with a zero") }
        if take(".") {
            guard skipDigits() > 0 else { throw defect("a number has no digits after its point") }
        }
        if take("e") || take("E") {
            if !take("+") { _ = take("-") }
            guard skipDigits() > 0 else { throw defect("a number has no digits in its exponent") }
        }
        return keepsValues ? text(from: start, to: index) : ""
    }

    private mutating func skipDigits() -> Int {
        let start = index
        while let byte = next, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { index += 1 }
        return index - start
    }

    mutating func string() throws(Defect) -> String {
        index += 1
        var start = index
        // The decoded text, up to and including the last escape.
        var text: [UInt8] = []
        while let byte = next {
            switch byte {
            case UInt8(ascii: "\""):
                let end = index
                index += 1
                guard keepsValues else { return "" }
                if text.isEmpty { return self.text(from: start, to: end) }
                return String(decoding: text + bytes[start..<end], as: UTF8.self)
            case UInt8(ascii: "\\"):
                if keepsValues { text += bytes[start..<index] }
                let scalar = try escape()
                if keepsValues { text += UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter }
                start = index
            case ..<0x20: throw defect("a string contains a control character")
            default: index += 1
            }
        }
        throw defect("it ends in the middle of a string")
    }

    private func text(from start: Int, to end: Int) -> String {
        String(decoding: UnsafeRawBufferPointer(rebasing: bytes[start..<end]), as: UTF8.self)
    }

    private mutating func escape() throws(Defect) -> Unicode.Scalar {
        let start = index
        guard index + 1 < bytes.count else { throw defect("it ends in the middle of a string") }
        index += 2
        switch bytes[start + 1] {
        case UInt8(ascii: "\""): return "\""
        case UInt8(ascii: "\\"): return "\\"
        case UInt8(ascii: "/"): return "/"
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            guard let high = unit() else {
                index = start
                throw defect("an escape in a string is not complete")
            }
            if let scalar = Unicode.Scalar(high) { return scalar }
            let end = index
            if high & 0xFC00 == 0xD800, take("\\u"), let low = unit(), low & 0xFC00 == 0xDC00,
                let scalar = Unicode.Scalar(0x10000 + (high & 0x3FF) << 10 + (low & 0x3FF))
            {
                return scalar
            }
            // Half of a surrogate pair is not a character, so U+FFFD replaces it.
            if loneSurrogate == nil {
                index = start
                loneSurrogate = defect("a string contains \\u\(String(high, radix: 16)), half of a surrogate pair,")
            }
            index = end
            return "\u{FFFD}"
        default:
            index = start
            throw defect("a string has an escape that does not exist")
        }
    }

    /// Reads four hexadecimal digits; nil for anything else.
    ///
    /// The method checks each digit, because an integer initializer would accept `+041`.
    private mutating func unit() -> UInt32? {
        guard index + 4 <= bytes.count else { return nil }
        var unit: UInt32 = 0
        for byte in bytes[index..<index + 4] {
            guard let digit = Character(Unicode.Scalar(byte)).hexDigitValue else { return nil }
            unit = unit << 4 | UInt32(digit)
        }
        index += 4
        return unit
    }
}
