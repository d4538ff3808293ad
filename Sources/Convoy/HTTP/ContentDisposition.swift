// The file name that a server proposes: the Content-Disposition field, RFC 6266.

extension HeaderFields {
    /// The file name that the server proposes; nil when there is none.
    ///
    /// The name is the server's text, decoded but not checked. The text may be a path, begin with a dot or have control
    /// characters. Pass it through ``FileName/safe(_:limitBytes:)`` before you name a file with it.
    var proposedFileName: String? {
        values(of: "Content-Disposition").lazy.compactMap { ProposedName.read($0) }.first
    }
}

private enum ProposedName {
    static func read(_ text: String) -> String? {
        let parameters = ParameterParser(text.bytesSent).values
        if let name = parameters["filename*"].flatMap(decoded), !name.isEmpty { return name }
        guard let name = parameters["filename"], !name.isEmpty else { return nil }
        return String(decoding: name, as: UTF8.self)
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
