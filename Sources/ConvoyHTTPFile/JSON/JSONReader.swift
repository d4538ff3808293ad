// The grammar of JSON (RFC 8259).

/// Reads JSON from bytes; what is wrong has its place in them.
struct JSONReader {
    struct Defect: Error {
        var what: String
        /// How many bytes stand before it.
        var offset: Int
    }

    /// Deeper values are refused: they come from servers, and each level takes stack.
    private static let mostLevels = 128

    private let bytes: [UInt8]
    private var index = 0

    private init(_ bytes: [UInt8]) { self.bytes = bytes }

    static func read(_ bytes: [UInt8]) throws(Defect) -> JSONValue {
        guard String(validating: bytes, as: UTF8.self) != nil else { throw Defect(what: "it is not UTF-8", offset: 0) }
        var reader = JSONReader(bytes)
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { reader.index = 3 }
        let value = try reader.value(level: 0)
        reader.skipBlanks()
        guard reader.index == bytes.count else { throw reader.defect("something stands behind its end") }
        return value
    }

    private var next: UInt8? { index < bytes.count ? bytes[index] : nil }

    private mutating func value(level: Int) throws(Defect) -> JSONValue {
        guard level < Self.mostLevels else { throw defect("it is nested more than \(Self.mostLevels) levels deep") }
        skipBlanks()
        switch next {
        case UInt8(ascii: "{"): return try object(level)
        case UInt8(ascii: "["): return try array(level)
        case UInt8(ascii: "\""): return .string(try string())
        case let byte? where byte == UInt8(ascii: "-") || (0x30...0x39).contains(byte): return .number(try number())
        default:
            for (word, value) in [("true", JSONValue.bool(true)), ("false", .bool(false)), ("null", .null)]
            where bytes[index...].starts(with: word.utf8) {
                index += word.utf8.count
                return value
            }
            throw defect(next == nil ? "it ends too early" : "there is no value")
        }
    }

    private mutating func object(_ level: Int) throws(Defect) -> JSONValue {
        index += 1
        var members: [JSONValue.Member] = []
        skipBlanks()
        if take("}") { return .object([]) }
        while true {
            skipBlanks()
            guard next == UInt8(ascii: "\"") else { throw defect("there is no name in quotes") }
            let name = try string()
            skipBlanks()
            guard take(":") else { throw defect("there is no colon behind a name") }
            members.append(JSONValue.Member(name: name, value: try value(level: level + 1)))
            skipBlanks()
            if take("}") { return .object(members) }
            guard take(",") else { throw defect("there is neither a comma nor a } behind a value") }
        }
    }

    private mutating func array(_ level: Int) throws(Defect) -> JSONValue {
        index += 1
        var elements: [JSONValue] = []
        skipBlanks()
        if take("]") { return .array([]) }
        while true {
            elements.append(try value(level: level + 1))
            skipBlanks()
            if take("]") { return .array(elements) }
            guard take(",") else { throw defect("there is neither a comma nor a ] behind a value") }
        }
    }

    private mutating func number() throws(Defect) -> String {
        let start = index
        _ = take("-")
        let whole = digits()
        guard whole == 1 || (whole > 1 && bytes[index - whole] != UInt8(ascii: "0")) else {
            throw defect("that is no number")
        }
        if take(".") { guard digits() > 0 else { throw defect("that is no number") } }
        if take("e") || take("E") {
            if !take("+") { _ = take("-") }
            guard digits() > 0 else { throw defect("that is no number") }
        }
        return String(decoding: bytes[start..<index], as: UTF8.self)
    }

    private mutating func digits() -> Int {
        let start = index
        while let byte = next, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { index += 1 }
        return index - start
    }

    private mutating func string() throws(Defect) -> String {
        index += 1
        var text: [UInt8] = []
        while let byte = next, byte != UInt8(ascii: "\"") {
            guard byte >= 0x20 else { throw defect("a control character stands in a string") }
            index += 1
            if byte == UInt8(ascii: "\\") {
                text += String(try escape()).utf8
            } else {
                text.append(byte)
            }
        }
        guard take("\"") else { throw defect("a string is not closed") }
        return String(decoding: text, as: UTF8.self)
    }

    private mutating func escape() throws(Defect) -> Unicode.Scalar {
        guard let letter = next else { throw defect("a string is not closed") }
        index += 1
        switch letter {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): return Unicode.Scalar(letter)
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{C}"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "u"):
            let unit = try unit()
            guard (0xD800...0xDBFF).contains(unit) else { return Unicode.Scalar(unit) ?? "\u{FFFD}" }
            guard bytes[index...].starts(with: "\\u".utf8) else { return "\u{FFFD}" }
            let before = index
            index += 2
            let low = try self.unit()
            guard (0xDC00...0xDFFF).contains(low) else {
                index = before
                return "\u{FFFD}"
            }
            return Unicode.Scalar(0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00)) ?? "\u{FFFD}"
        default: throw defect("that is no escape")
        }
    }

    private mutating func unit() throws(Defect) -> UInt32 {
        let digits = bytes[index...].prefix(4)
        guard digits.count == 4, digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }),
            let unit = UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
        else { throw defect("\\u has no four digits behind it") }
        index += 4
        return unit
    }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: character) else { return false }
        index += 1
        return true
    }

    private mutating func skipBlanks() {
        while let byte = next, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { index += 1 }
    }

    private func defect(_ what: String) -> Defect { Defect(what: what, offset: index) }
}

extension JSONValue {
    /// Reads a text; nil where it is no JSON.
    package init?(json bytes: some Sequence<UInt8>) {
        guard let value = try? JSONReader.read(Array(bytes)) else { return nil }
        self = value
    }
}
