// Reads the value of a header field byte by byte.

protocol FieldParser {
    var bytes: [UInt8] { get }
    var position: Int { get set }
}

extension FieldParser {
    var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    mutating func skip(_ belongs: (UInt8) -> Bool) {
        while position < bytes.count, belongs(bytes[position]) { position += 1 }
    }

    mutating func take(_ belongs: (UInt8) -> Bool) -> String {
        let start = position
        skip(belongs)
        return String(decoding: bytes[start..<position], as: UTF8.self)
    }
}

/// For values such as `text/plain; charset=utf-8`; unreadable parameters are ignored.
struct ParameterParser: FieldParser {
    let bytes: [UInt8]
    var position = 0
    /// The first value of each parameter, by its name in lower case; an unreadable value is an empty array.
    private(set) var values: [String: [UInt8]] = [:]

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
        repeat {
            // The type before the parameters has no equals sign, so it is skipped. Some servers omit the type.
            readParameter()
            skipRest()
            position += 1
        } while position < bytes.count
    }

    private mutating func readParameter() {
        let name = String(decoding: takeTrimmed { !"=;\"".utf8.contains($0) }, as: UTF8.self).lowercased()
        guard peek == UInt8(ascii: "=") else { return }
        position += 1
        let value = takeValue()
        values[name] = values[name] ?? value
    }

    /// Many servers do not quote values with blanks; empty for a malformed value.
    private mutating func takeValue() -> [UInt8] {
        skip(\.isBlank)
        if peek == UInt8(ascii: "\"") { return bytes.quotedString(at: &position) ?? [] }
        let value = takeTrimmed { $0 != UInt8(ascii: ";") }
        // A value with a quote inside is malformed.
        return value.contains(UInt8(ascii: "\"")) ? [] : Array(value)
    }

    private mutating func skipRest() {
        while let next = peek, next != UInt8(ascii: ";") {
            if next == UInt8(ascii: "\"") { _ = bytes.quotedString(at: &position) } else { position += 1 }
        }
    }

    private mutating func takeTrimmed(_ belongs: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        let start = position
        skip(belongs)
        let taken = bytes[start..<position]
        guard let last = taken.lastIndex(where: { !$0.isBlank }) else { return [] }
        return taken[...last].drop(while: \.isBlank)
    }
}

extension String {
    // Without quotes; nil if it is missing, empty or unreadable. The name is in lower case.
    package func parameter(_ name: String) -> String? {
        let value = ParameterParser(Array(utf8)).values[name] ?? []
        return value.isEmpty ? nil : String(decoding: value, as: UTF8.self)
    }
}

extension UInt8 {
    /// Whether the byte is a space or a tab: optional white space (RFC 9110, section 5.6.3).
    var isBlank: Bool { self == 0x20 || self == 0x09 }
}

extension [UInt8] {
    /// Moves `position`, which is at the first quote, after the string; nil when the string has no closing quote.
    func quotedString(at position: inout Int) -> [UInt8]? {
        var text: [UInt8] = []
        var isEscaped = false
        while position + 1 < count {
            position += 1
            let byte = self[position]
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\"") {
                position += 1
                return text
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
                continue
            }
            text.append(byte)
        }
        position = count
        return nil
    }
}

extension String {
    /// Control characters and line ends of a server, a decoder or a caller could move a terminal's cursor.
    package var oneLine: String { String(UnicodeScalarView(unicodeScalars.map { $0.isControl ? " " : $0 })) }
}

extension Unicode.Scalar {
    package var isControl: Bool {
        if isASCII { return value < 0x20 || value == 0x7F }
        return properties.generalCategory == .control || properties.generalCategory == .lineSeparator
            || properties.generalCategory == .paragraphSeparator
    }
}
