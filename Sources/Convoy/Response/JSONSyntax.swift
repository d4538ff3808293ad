// Where a text stops being JSON, in words.
import Foundation

/// Reads JSON (RFC 8259) for its syntax only; asked when a decoder has refused a text, to say why.
///
/// - Complexity: O(*n*) for *n* bytes, without recursion.
struct JSONSyntax {
    private enum Expected: String {
        case value = "a value"
        case valueOrEnd = "a value or ]"
        case key = "a name in quotation marks"
        case keyOrEnd = "a name in quotation marks or }"
        case colon = "a colon"
        case commaOrEnd = "a comma or the end of the array or object"
        case nothing = "nothing more"
    }

    /// How deep Foundation's decoder goes.
    private static let maxDepth = 512

    private let bytes: UnsafeRawBufferPointer
    private var index = 0
    /// What is open: true for an object.
    private var open: [Bool] = []

    private init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    /// What is wrong first and where, or nil for JSON.
    static func firstProblem(in text: Data) -> String? {
        text.withUnsafeBytes { bytes in
            var syntax = JSONSyntax(bytes: bytes)
            return syntax.read().map { "\($0) in \(syntax.place)" }
        }
    }

    /// The position of the first byte that is not valid UTF-8.
    static func firstInvalidByte(in text: Data) -> Int? {
        var parser = Unicode.UTF8.ForwardParser()
        var bytes = text.makeIterator()
        var position = 0
        while true {
            switch parser.parseScalar(from: &bytes) {
            case .valid(let scalar): position += scalar.count
            case .error: return position
            case .emptyInput: return nil
            }
        }
    }

    /// Line and column of where reading stopped, from 1.
    private var place: String {
        let before = bytes[..<min(index, bytes.count)]
        let line = before.count { $0 == UInt8(ascii: "\n") } + 1
        let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        // Bytes that go on with a character are not counted.
        let column = bytes[start..<before.endIndex].count { $0 & 0xC0 != 0x80 } + 1
        return "line \(line), column \(column)"
    }

    private mutating func read() -> String? {
        var expected = Expected.value
        while true {
            while index < bytes.count, [0x20, 0x09, 0x0A, 0x0D].contains(bytes[index]) { index += 1 }
            guard index < bytes.count else {
                return expected == .nothing ? nil : "it ends where \(expected.rawValue) should come"
            }
            switch (expected, bytes[index]) {
            case (.value, UInt8(ascii: "[")), (.valueOrEnd, UInt8(ascii: "[")):
                open.append(false)
                expected = .valueOrEnd
                index += 1
            case (.value, UInt8(ascii: "{")), (.valueOrEnd, UInt8(ascii: "{")):
                open.append(true)
                expected = .keyOrEnd
                index += 1
            case (.valueOrEnd, UInt8(ascii: "]")), (.keyOrEnd, UInt8(ascii: "}")):
                close(&expected)
            case (.commaOrEnd, UInt8(ascii: "]")) where open.last == false,
                (.commaOrEnd, UInt8(ascii: "}")) where open.last == true:
                close(&expected)
            case (.commaOrEnd, UInt8(ascii: ",")):
                expected = open.last == true ? .key : .value
                index += 1
            case (.colon, UInt8(ascii: ":")):
                expected = .value
                index += 1
            case (.key, UInt8(ascii: "\"")), (.keyOrEnd, UInt8(ascii: "\"")):
                if let problem = readString() { return problem }
                expected = .colon
            case (.value, _), (.valueOrEnd, _):
                if let problem = readScalar(expected) { return problem }
                expected = open.isEmpty ? .nothing : .commaOrEnd
            default: return unexpected(expected)
            }
            if open.count > Self.maxDepth { return "it is nested deeper than \(Self.maxDepth)" }
        }
    }

    private mutating func close(_ expected: inout Expected) {
        open.removeLast()
        index += 1
        expected = open.isEmpty ? .nothing : .commaOrEnd
    }

    private func unexpected(_ expected: Expected) -> String {
        let byte = bytes[index]
        let found =
            switch byte {
            case 0x21..<0x7F: String(Unicode.Scalar(byte))
            case 0x80...: "a character that is not ASCII"
            default: "a control character"
            }
        return "\(found) stands where \(expected.rawValue) should"
    }

    private mutating func readScalar(_ expected: Expected) -> String? {
        if bytes[index] == UInt8(ascii: "\"") { return readString() }
        for word in ["true", "false", "null"] where bytes[index...].starts(with: word.utf8) {
            index += word.utf8.count
            return nil
        }
        return readNumber(expected)
    }

    private mutating func readNumber(_ expected: Expected) -> String? {
        let start = index
        func isAt(_ characters: String) -> Bool { index < bytes.count && characters.utf8.contains(bytes[index]) }
        func skipDigits() -> Bool {
            let first = index
            while isAt("0123456789") { index += 1 }
            return index > first
        }
        if isAt("-") { index += 1 }
        let hasLeadingZero = isAt("0")
        guard skipDigits() else {
            if index == start { return unexpected(expected) }
            return "a number has no digits"
        }
        if hasLeadingZero, index - start > (bytes[start] == UInt8(ascii: "-") ? 2 : 1) {
            return "a number begins with a zero"
        }
        if isAt(".") {
            index += 1
            guard skipDigits() else { return "a number has no digits after its point" }
        }
        if isAt("eE") {
            index += 1
            if isAt("+-") { index += 1 }
            guard skipDigits() else { return "a number has no digits in its exponent" }
        }
        return nil
    }

    private mutating func readString() -> String? {
        index += 1
        while index < bytes.count {
            let byte = bytes[index]
            if byte < 0x20 { return "a control character stands in a string" }
            if byte == UInt8(ascii: "\"") {
                index += 1
                return nil
            }
            if byte == UInt8(ascii: "\\") {
                let rest = bytes[(index + 1)...].prefix(5)
                guard let kind = rest.first else { break }
                if kind == UInt8(ascii: "u") {
                    guard rest.count == 5, rest.dropFirst().allSatisfy({ Character(Unicode.Scalar($0)).isHexDigit })
                    else { return "an escape in a string is not complete" }
                } else if !#""\/bfnrt"#.utf8.contains(kind) {
                    return "a string has an escape that does not exist"
                }
                index += 1
            }
            index += 1
        }
        return "it ends in the middle of a string"
    }
}
