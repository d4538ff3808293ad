// What a server would call a file: the Content-Disposition field, RFC 6266.

extension HeaderFields {
    /// The name that the server proposes for the file; nil when none can be told.
    ///
    /// It is the server's text, decoded and otherwise as it came: a path, a name that begins with a dot, control
    /// characters. What is to name a file goes through ``FileName/safe(_:limitBytes:)``.
    var proposedFileName: String? {
        values(of: "Content-Disposition").lazy.compactMap { DispositionParser.proposedFileName(in: $0) }.first
    }
}

/// Reads the parameters of a disposition in one pass; what cannot be read is passed over.
private struct DispositionParser: FieldParser {
    let bytes: [UInt8]
    var position = 0
    // Of each the first counts, readable or not. No bytes are no name.
    private var fileName: [UInt8]?
    private var extendedFileName: [UInt8]?

    static func proposedFileName(in text: String) -> String? {
        var parser = DispositionParser(bytes: text.bytesSent)
        // The type, whichever it is.
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

    /// A quoted string, or what there is up to the next semicolon: many servers do not quote names with blanks.
    private mutating func takeValue() -> [UInt8] {
        skip(\.isBlank)
        if peek == UInt8(ascii: "\"") { return bytes.quotedString(at: &position) ?? [] }
        let value = takeTrimmed { $0 != UInt8(ascii: ";") }
        // One that has quotes is not meant like that.
        return value.contains(UInt8(ascii: "\"")) ? [] : Array(value)
    }

    /// Goes to the next semicolon that is not in a quoted string.
    private mutating func skipRest() {
        while let next = peek, next != UInt8(ascii: ";") {
            if next == UInt8(ascii: "\"") { _ = bytes.quotedString(at: &position) } else { position += 1 }
        }
    }

    /// The bytes that belong, without the blanks around them.
    private mutating func takeTrimmed(_ belongs: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        let start = position
        skip(belongs)
        let taken = bytes[start..<position]
        guard let last = taken.lastIndex(where: { !$0.isBlank }) else { return [] }
        return taken[...last].drop(while: \.isBlank)
    }

    /// Reads an extended value, `UTF-8'en'na%C3%AFve` (RFC 8187, section 3.2); nil when it is none.
    private static func decoded(_ bytes: [UInt8]) -> String? {
        let parts = bytes.split(separator: UInt8(ascii: "'"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let value = percentDecoded(parts[2]) else { return nil }
        let charset = String(decoding: parts[0], as: UTF8.self)
        // The second name is no registered one, and is met.
        if charset.equalsIgnoringCase("UTF-8") || charset.equalsIgnoringCase("UTF8") {
            return String(validating: value, as: UTF8.self)
        }
        // What is not escaped here has to be ASCII: it may be in any character set.
        guard charset.equalsIgnoringCase("ISO-8859-1"), parts[2].allSatisfy({ $0 < 0x80 }) else { return nil }
        return String(String.UnicodeScalarView(value.map { Unicode.Scalar($0) }))
    }

    /// The bytes without escapes; nil when one of them is none.
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
    /// The value in UTF-8, also when a loader took UTF-8 for Latin-1: some take every field for that.
    ///
    /// Latin-1 that happens to be UTF-8 as well makes no words.
    fileprivate var bytesSent: [UInt8] {
        let latin = unicodeScalars.compactMap { UInt8(exactly: $0.value) }
        guard latin.count == unicodeScalars.count, String(validating: latin, as: UTF8.self) != nil else {
            return Array(utf8)
        }
        return latin
    }
}
