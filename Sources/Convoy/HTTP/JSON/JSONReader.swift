// The grammar of JSON (RFC 8259).
import Foundation

/// Reads JSON in UTF-8, without recursion.
///
/// - Complexity: O(*n*) for *n* bytes.
package struct JSONReader {
    /// The first error and its position.
    package struct Defect: Error, CustomStringConvertible {
        package let what: String
        /// The line, from 1.
        package let line: Int
        /// The column in characters, from 1.
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

    /// An array or object whose end has not been read.
    private struct Container {
        let isObject: Bool
        var elements: [JSONValue] = []
        var members: [JSONValue.Member] = []
        /// The name of the member that is being read.
        var name = ""

        var value: JSONValue { isObject ? .object(members) : .array(elements) }

        mutating func append(_ value: JSONValue) {
            if isObject { members.append(.init(name: name, value: value)) } else { elements.append(value) }
        }
    }

    let bytes: UnsafeRawBufferPointer
    /// Whether values are stored.
    ///
    /// If false, only the syntax is checked, and the returned value is a placeholder.
    let keepsValues: Bool
    private let maxDepth: Int
    var index = 0
    private var open: [Container] = []
    /// The first escape of half a surrogate pair, which is no character; nil if there is none.
    var loneSurrogate: Defect?

    /// Reads a text with or without a byte order mark.
    ///
    /// - Parameter maxDepth: the maximum nesting. Deeper values are rejected, because recursive code needs stack for
    ///   each level.
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

    /// The first error in a text that a decoder has rejected; nil if the text is JSON.
    ///
    /// JSON beyond the depth limit of Foundation's decoder, 512 levels, also counts as an error. The method does not
    /// check that strings are valid UTF-8.
    package static func firstDefect(in text: Data) -> Defect? {
        text.withUnsafeBytes { bytes in
            var reader = JSONReader(bytes: bytes, keepsValues: false, maxDepth: 512)
            do throws(Defect) { _ = try reader.read() } catch { return error }
            return nil
        }
    }

    /// The first escape of half a surrogate pair in valid JSON, which Foundation's decoder rejects; nil if there is none.
    package static func firstLoneSurrogate(in text: Data) -> Defect? {
        text.withUnsafeBytes { bytes in
            var reader = JSONReader(bytes: bytes, keepsValues: false, maxDepth: 512)
            _ = try? reader.read()
            return reader.loneSurrogate
        }
    }

    /// The position of the first byte that is not valid UTF-8; nil if all bytes are valid.
    package static func firstInvalidByte(in text: some Sequence<UInt8>) -> Int? {
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

    private init(bytes: UnsafeRawBufferPointer, keepsValues: Bool, maxDepth: Int) {
        (self.bytes, self.keepsValues, self.maxDepth) = (bytes, keepsValues, maxDepth)
    }

    private mutating func read() throws(Defect) -> JSONValue {
        var (root, expected) = (JSONValue.null, Expected.value)
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
            case (.value, UInt8(ascii: "[")), (.valueOrEnd, UInt8(ascii: "[")):
                try begin(isObject: false)
                expected = .valueOrEnd
            case (.value, UInt8(ascii: "{")), (.valueOrEnd, UInt8(ascii: "{")):
                try begin(isObject: true)
                expected = .nameOrEnd
            case (.valueOrEnd, UInt8(ascii: "]")), (.nameOrEnd, UInt8(ascii: "}")): value = end()
            case (.commaOrEnd, UInt8(ascii: "]")) where open.last?.isObject == false,
                (.commaOrEnd, UInt8(ascii: "}")) where open.last?.isObject == true:
                value = end()
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
                guard let scalar = try scalar(byte) else { throw unexpected(expected) }
                value = scalar
            default: throw unexpected(expected)
            }
            guard let value else { continue }
            if open.isEmpty {
                (root, expected) = (value, .nothing)
            } else {
                if keepsValues { open[open.count - 1].append(value) }
                expected = .commaOrEnd
            }
        }
    }

    private mutating func begin(isObject: Bool) throws(Defect) {
        index += 1
        guard open.count < maxDepth else { throw defect("it is nested deeper than \(maxDepth)") }
        open.append(Container(isObject: isObject))
    }

    private mutating func end() -> JSONValue? {
        index += 1
        return open.popLast()?.value
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
    /// Reads a text; nil when it is not JSON.
    package init?(json bytes: some Sequence<UInt8>) {
        guard let value = try? JSONReader.read(Array(bytes)) else { return nil }
        self = value
    }
}
