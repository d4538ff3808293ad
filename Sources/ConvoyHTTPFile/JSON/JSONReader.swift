/// The grammar of JSON (RFC 8259).
///
/// Without recursion, because nested input would exhaust the stack.
package struct JSONReader {
    package struct Defect: Error, CustomStringConvertible {
        package let what: String
        /// From 1, as the column, which counts characters.
        package let line: Int
        package let column: Int

        package var description: String { "\(what) in line \(line), column \(column)" }
    }

    private enum Expected: String {
        case value = "a value"
        case valueOrEnd = "a value or ]"
        case name = "a name in quotation marks"
        case nameOrEnd = "a name in quotation marks or }"
        case colon = "a colon"
        case commaOrEnd = "a comma or the end of the array or object"
        case nothing = "the end"
    }

    private struct Container {
        let isObject: Bool
        /// The elements of an array are members without names.
        var members: [JSONValue.Member] = []
        var name = ""

        var value: JSONValue { isObject ? .object(members) : .array(members.map(\.value)) }
    }

    let bytes: UnsafeRawBufferPointer
    /// If false, only the places of the elements are noted, and the returned value is a placeholder.
    let keepsValues: Bool
    private let maxDepth: Int
    var index = 0
    private var open: [Container] = []
    private var elements: [Range<Int>] = []

    /// Deeper values are rejected, because recursive code needs stack for each level.
    package static func read(_ text: [UInt8], maxDepth: Int = 128) throws(Defect) -> JSONValue {
        try text.withUnsafeBytes { bytes -> Result<JSONValue, Defect> in
            var reader = JSONReader(bytes: bytes, keepsValues: true, maxDepth: maxDepth)
            if String(validating: text, as: UTF8.self) == nil, let index = firstInvalidByte(in: text) {
                reader.index = index
                return .failure(reader.defect("it is not valid UTF-8"))
            }
            if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { reader.index = 3 }
            return Result { () throws(Defect) in try reader.read() }
        }.get()
    }

    private static func firstInvalidByte(in text: [UInt8]) -> Int? {
        var (parser, bytes, position) = (Unicode.UTF8.ForwardParser(), text.makeIterator(), 0)
        while true {
            switch parser.parseScalar(from: &bytes) {
            case .valid(let scalar): position += scalar.count
            case .error: return position
            case .emptyInput: return nil
            }
        }
    }

    /// The places of the elements of an array in valid UTF-8; deeper values than Foundation's decoder reads are rejected.
    package static func elements(of array: [UInt8]) throws(Defect) -> [Range<Int>] {
        try array.withUnsafeBytes { bytes -> Result<[Range<Int>], Defect> in
            var reader = JSONReader(bytes: bytes, keepsValues: false, maxDepth: 512)
            return Result { () throws(Defect) in
                _ = try reader.read()
                return reader.elements
            }
        }.get()
    }

    private init(bytes: UnsafeRawBufferPointer, keepsValues: Bool, maxDepth: Int) {
        (self.bytes, self.keepsValues, self.maxDepth) = (bytes, keepsValues, maxDepth)
    }

    private mutating func read() throws(Defect) -> JSONValue {
        var (root, expected, start) = (JSONValue.null, Expected.value, 0)
        while true {
            while index < bytes.count, bytes[index] <= 0x20, [0x20, 0x0A, 0x0D, 0x09].contains(bytes[index]) {
                index += 1
            }
            guard index < bytes.count else {
                guard expected == .nothing else { throw defect("it ends, but \(expected.rawValue) is missing") }
                return root
            }
            var value: JSONValue?
            switch (expected, bytes[index]) {
            case (.valueOrEnd, UInt8(ascii: "]")), (.nameOrEnd, UInt8(ascii: "}")),
                (.commaOrEnd, UInt8(ascii: "]")) where open.last?.isObject == false,
                (.commaOrEnd, UInt8(ascii: "}")) where open.last?.isObject == true:
                index += 1
                value = open.popLast()?.value
            case (.commaOrEnd, UInt8(ascii: ",")):
                index += 1
                expected = open.last?.isObject == true ? .name : .value
            case (.colon, UInt8(ascii: ":")):
                index += 1
                expected = .value
            case (.name, UInt8(ascii: "\"")), (.nameOrEnd, UInt8(ascii: "\"")):
                open[open.count - 1].name = try string()
                expected = .colon
            case (.value, let byte), (.valueOrEnd, let byte):
                if open.count == 1 { start = index }
                if byte == UInt8(ascii: "[") || byte == UInt8(ascii: "{") {
                    index += 1
                    guard open.count < maxDepth else { throw defect("it is nested deeper than \(maxDepth)") }
                    open.append(Container(isObject: byte == UInt8(ascii: "{")))
                    expected = byte == UInt8(ascii: "{") ? .nameOrEnd : .valueOrEnd
                } else {
                    value = try scalar(byte)
                    guard value != nil else { throw unexpected(expected) }
                }
            default: throw unexpected(expected)
            }
            guard let value else { continue }
            if open.isEmpty {
                (root, expected) = (value, .nothing)
            } else {
                if keepsValues {
                    open[open.count - 1].members.append(.init(name: open[open.count - 1].name, value: value))
                } else if open.count == 1 {
                    elements.append(start..<index)
                }
                expected = .commaOrEnd
            }
        }
    }

    private func unexpected(_ expected: Expected) -> Defect {
        let byte = bytes[index]
        let found =
            switch byte {
            case 0x21..<0x7F: String(Unicode.Scalar(byte))
            case 0x80...: "a character that is not ASCII"
            default: "a control character"
            }
        return defect("found \(found) instead of \(expected.rawValue)")
    }

    func defect(_ what: String) -> Defect {
        let before = bytes[..<min(index, bytes.count)]
        let line = before.count { $0 == UInt8(ascii: "\n") } + 1
        let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        // The column counts characters, so continuation bytes of UTF-8 are skipped.
        let column = bytes[start..<before.endIndex].count { $0 & 0xC0 != 0x80 } + 1
        return Defect(what: what, line: line, column: column)
    }
}

extension JSONValue {
    package init?(json bytes: some Sequence<UInt8>) {
        guard let value = try? JSONReader.read(Array(bytes)) else { return nil }
        self = value
    }
}

extension JSONReader {
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

    private static let escapes: [Unicode.Scalar: Unicode.Scalar] = [
        "\"": "\"", "\\": "\\", "/": "/", "b": "\u{8}", "f": "\u{C}", "n": "\n", "r": "\r", "t": "\t",
    ]

    private mutating func escape() throws(Defect) -> Unicode.Scalar {
        let start = index
        guard index + 1 < bytes.count else { throw defect("it ends in the middle of a string") }
        index += 2
        let escaped = Unicode.Scalar(bytes[start + 1])
        if let scalar = Self.escapes[escaped] { return scalar }
        guard escaped == "u", let high = unit() else {
            index = start
            throw defect(
                escaped == "u" ? "an escape in a string is not complete" : "a string has an escape that does not exist")
        }
        if let scalar = Unicode.Scalar(high) { return scalar }
        let end = index
        if high & 0xFC00 == 0xD800, take("\\u"), let low = unit(), low & 0xFC00 == 0xDC00,
            let scalar = Unicode.Scalar(0x10000 + (high & 0x3FF) << 10 + (low & 0x3FF))
        {
            return scalar
        }
        // Half of a surrogate pair is not a character, so U+FFFD replaces it.
        index = end
        return "\u{FFFD}"
    }

    /// Each digit is checked, because an integer initializer would accept `+041`.
    private mutating func unit() -> UInt32? {
        let digits = bytes[index...].prefix(4)
        guard digits.count == 4, digits.allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit }) else { return nil }
        index += 4
        return UInt32(String(decoding: digits, as: UTF8.self), radix: 16)
    }
}
