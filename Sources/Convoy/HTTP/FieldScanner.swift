// Reads the value of a header field byte by byte.

struct FieldScanner {
    let bytes: [UInt8]
    var position = 0

    init(_ bytes: some Sequence<UInt8>) { self.bytes = Array(bytes) }

    var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    func isNext(_ character: Unicode.Scalar) -> Bool { peek == UInt8(ascii: character) }

    mutating func skip(_ belongs: (UInt8) -> Bool) {
        while position < bytes.count, belongs(bytes[position]) { position += 1 }
    }

    /// Skips blanks, the character and more blanks; false if another character follows the first blanks.
    mutating func skip(past character: Unicode.Scalar) -> Bool {
        skip(\.isBlank)
        guard isNext(character) else { return false }
        position += 1
        skip(\.isBlank)
        return true
    }

    mutating func skip(to separator: Unicode.Scalar) {
        while let byte = peek, byte != UInt8(ascii: separator) {
            if isNext("\"") { _ = quotedString() } else { position += 1 }
        }
    }

    mutating func take(_ belongs: (UInt8) -> Bool) -> String {
        let start = position
        skip(belongs)
        return String(decoding: bytes[start..<position], as: UTF8.self)
    }

    /// A quoted string, or the text up to a blank or a separator; nil if the string has no closing quote.
    mutating func takeValue(upTo separators: String) -> (text: String, isQuoted: Bool)? {
        if isNext("\"") { return quotedString().map { (String(decoding: $0, as: UTF8.self), true) } }
        return (take { !$0.isBlank && !separators.utf8.contains($0) }, false)
    }

    /// The position, which is at the first quote, moves after the string; nil when the string has no closing quote.
    mutating func quotedString() -> [UInt8]? {
        var text: [UInt8] = []
        var isEscaped = false
        position += 1
        while let byte = peek {
            position += 1
            if !isEscaped, byte == UInt8(ascii: "\"") { return text }
            isEscaped = !isEscaped && byte == UInt8(ascii: "\\")
            if !isEscaped { text.append(byte) }
        }
        return nil
    }

    /// Many servers do not quote values with blanks; empty for a malformed value.
    fileprivate mutating func parameterValue() -> [UInt8] {
        if isNext("\"") { return quotedString() ?? [] }
        let value = takeTrimmed(";")
        // A value with a quote inside is malformed.
        return value.contains(UInt8(ascii: "\"")) ? [] : Array(value)
    }

    fileprivate mutating func takeTrimmed(_ ends: String) -> ArraySlice<UInt8> {
        let start = position
        skip { !ends.utf8.contains($0) }
        let taken = bytes[start..<position]
        guard let last = taken.lastIndex(where: { !$0.isBlank }) else { return [] }
        return taken[...last].drop(while: \.isBlank)
    }
}

extension Sequence<UInt8> {
    // Of `text/plain; charset=utf-8` and the like, by names in lower case: the first value, empty if unreadable.
    var parameters: [String: [UInt8]] {
        var (scanner, values) = (FieldScanner(self), [String: [UInt8]]())
        repeat {
            // The type before the parameters has no equals sign, so it is skipped. Some servers omit the type.
            let name = String(decoding: scanner.takeTrimmed("=;\""), as: UTF8.self).lowercased()
            if scanner.skip(past: "=") {
                let value = scanner.parameterValue()
                values[name] = values[name] ?? value
            }
            scanner.skip(to: ";")
            scanner.position += 1
        } while scanner.position < scanner.bytes.count
        return values
    }
}

extension String {
    // Without quotes; nil if it is missing, empty or unreadable. The name is in lower case.
    package func parameter(_ name: String) -> String? {
        let value = utf8.parameters[name] ?? []
        return value.isEmpty ? nil : String(decoding: value, as: UTF8.self)
    }

    var isHTTPToken: Bool { !isEmpty && utf8.allSatisfy(\.isTokenByte) }

    /// Control characters and line ends of a server, a decoder or a caller could move a terminal's cursor.
    package var oneLine: String { String(UnicodeScalarView(unicodeScalars.map { $0.isControl ? " " : $0 })) }
}

extension UInt8 {
    var isBlank: Bool { self == 0x20 || self == 0x09 }
    var isSlash: Bool { self == UInt8(ascii: "/") || self == UInt8(ascii: "\\") }
    var isDigit: Bool { (0x30...0x39).contains(self) }
    var isASCIILetter: Bool { (0x61...0x7A).contains(self) }
    var lowercasedASCII: UInt8 { (0x41...0x5A).contains(self) ? self | 0x20 : self }

    package var isTokenByte: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: true
        case 0x21, 0x23...0x27, 0x2a, 0x2b, 0x2d, 0x2e, 0x5e...0x60, 0x7c, 0x7e: true
        default: false
        }
    }

    var hexadecimalValue: UInt8? {
        switch self {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): self - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): self - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): self - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}

extension Unicode.Scalar {
    package var isControl: Bool {
        if isASCII { return value < 0x20 || value == 0x7F }
        return properties.generalCategory == .control || properties.generalCategory == .lineSeparator
            || properties.generalCategory == .paragraphSeparator
    }
}
