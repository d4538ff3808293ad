// The file name that a server proposes: the Content-Disposition field, RFC 6266.

extension HeaderFields {
    /// The file name that the server proposes; nil when there is none.
    ///
    /// The name is the server's text, decoded but not checked. The text may be a path, begin with a dot or have control
    /// characters. Pass it through ``FileName/safe(_:limitBytes:)`` before you name a file with it.
    var proposedFileName: String? {
        values(of: "Content-Disposition").lazy.compactMap { DispositionParser.proposedFileName(in: $0) }.first
    }
}

/// Reads the parameters of a disposition in one pass.
///
/// Unreadable parameters are ignored.
private struct DispositionParser: FieldParser {
    let bytes: [UInt8]
    var position = 0
    // The first value of each parameter; an unreadable value is stored as an empty array.
    private var fileName: [UInt8]?
    private var extendedFileName: [UInt8]?

    static func proposedFileName(in text: String) -> String? {
        var parser = DispositionParser(bytes: text.bytesSent)
        // Skips the disposition type.
        parser.skipRest()
        while parser.position < parser.bytes.count {
            parser.position += 1
            parser.readParameter()
            parser.skipRest()
        }
        if let name = parser.extendedFileName.flatMap(decoded), !name.isEmpty { return name }
        guard let name = parser.fileName, !name.isEmpty else { return nil }
        return String(decoding: name, as: UTF8.self)
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    private mutating func readParameter() {
        let name = String(decoding: takeTrimmed { $0 != UInt8(ascii: "=") && $0 != UInt8(ascii: ";") }, as: UTF8.self)
        guard peek == UInt8(ascii: "=") else { return }
        position += 1
        let value = takeValue()
        if name.equalsIgnoringCase("filename") { fileName = fileName ?? value }
        if name.equalsIgnoringCase("filename*") { extendedFileName = extendedFileName ?? value }
    }

    /// Takes the value of a parameter: a quoted string, or the text up to the next semicolon.
    ///
    /// Many servers do not quote names with blanks. The result is empty for a malformed value.
    private mutating func takeValue() -> [UInt8] {
        skip(\.isBlank)
        if peek == UInt8(ascii: "\"") { return bytes.quotedString(at: &position) ?? [] }
        let value = takeTrimmed { $0 != UInt8(ascii: ";") }
        // A value with a quote inside is malformed.
        return value.contains(UInt8(ascii: "\"")) ? [] : Array(value)
    }

    /// Moves to the next semicolon outside a quoted string.
    private mutating func skipRest() {
        while let next = peek, next != UInt8(ascii: ";") {
            if next == UInt8(ascii: "\"") { _ = bytes.quotedString(at: &position) } else { position += 1 }
        }
    }

    /// Takes bytes while they satisfy the predicate, and returns them without the blanks around them.
    private mutating func takeTrimmed(_ belongs: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        let start = position
        skip(belongs)
        let taken = bytes[start..<position]
        guard let last = taken.lastIndex(where: { !$0.isBlank }) else { return [] }
        return taken[...last].drop(while: \.isBlank)
    }

    /// Reads an extended value, `UTF-8'en'na%C3%AFve` (RFC 8187, section 3.2); nil when it is malformed or in an
    /// unsupported character set.
    private static func decoded(_ bytes: [UInt8]) -> String? {
        let parts = bytes.split(separator: UInt8(ascii: "'"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let value = percentDecoded(parts[2]) else { return nil }
        let charset = String(decoding: parts[0], as: UTF8.self)
        // `UTF8` is not a registered name, but servers send it.
        if charset.equalsIgnoringCase("UTF-8") || charset.equalsIgnoringCase("UTF8") {
            return String(validating: value, as: UTF8.self)
        }
        // An unescaped byte beyond ASCII is rejected, because it need not be in ISO-8859-1.
        guard charset.equalsIgnoringCase("ISO-8859-1"), parts[2].allSatisfy({ $0 < 0x80 }) else { return nil }
        return String(String.UnicodeScalarView(value.map { Unicode.Scalar($0) }))
    }

    /// The bytes with percent escapes decoded; nil when an escape is malformed.
    private static func percentDecoded(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        var decoded: [UInt8] = []
        var rest = bytes
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                decoded.append(byte)
                continue
            }
            guard let high = rest.popFirst()?.hexadecimalValue, let low = rest.popFirst()?.hexadecimalValue else {
                return nil
            }
            decoded.append(high << 4 | low)
        }
        return decoded
    }
}

extension String {
    /// The bytes of the value as the server sent them.
    ///
    /// Some transports decode every field as Latin-1. If the bytes are valid UTF-8, this property undoes that decoding.
    ///
    /// Text that was sent in Latin-1 and is not ASCII is in practice never valid UTF-8.
    fileprivate var bytesSent: [UInt8] {
        let latin = unicodeScalars.compactMap { UInt8(exactly: $0.value) }
        guard latin.count == unicodeScalars.count, String(validating: latin, as: UTF8.self) != nil else {
            return Array(utf8)
        }
        return latin
    }
}
