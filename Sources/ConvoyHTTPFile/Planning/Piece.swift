// Text whose variables have their values; answers are still to come.

/// A piece of a text of a request.
package struct Piece: Sendable {
    package enum Source: Sendable {
        case text(String)
        /// Made when the request is.
        case system(SystemVariable)
        /// Of a request that has ended before.
        case answer(Reference)
        /// Of the row for which the request is made.
        case column(String)
    }

    package var source: Source
    /// What may be shown of it: values of private environments and of secret names stay as they are written.
    package var shown: String
    var encoding = ValueEncoding.byPlace

    /// The text; nil where it is not known yet.
    var text: String? { if case .text(let text) = source { text } else { nil } }
    var reference: Reference? { if case .answer(let reference) = source { reference } else { nil } }
    var isSecret: Bool { text != shown }
}

extension [Piece] {
    /// The text, where all of it is known.
    var knownText: String? {
        var text = ""
        for piece in self {
            guard let next = piece.text else { return nil }
            text += next
        }
        return text
    }

    /// The text before the first piece that is not known.
    var leadingText: String { prefix { $0.text != nil }.compactMap(\.text).joined() }

    package var shown: String { map(\.shown).joined() }

    static func plain(_ text: String) -> [Piece] { [Piece(source: .text(text), shown: text)] }
}

extension String {
    /// Whether a variable of this name is likely to hold what others must not see.
    var namesSecret: Bool {
        let name = lowercased()
        return ["pass", "secret", "token", "key", "auth", "credential", "otp", "signature"].contains {
            name.contains($0)
        }
    }

    /// With everything but letters, digits, -, ., _ and ~ percent-encoded.
    var percentEncoded: String { encoded { $0.isUnreserved } }

    /// With what no URL may hold percent-encoded; escapes that are there stay.
    var encodedForURL: String {
        encoded { $0.isUnreserved || ":/?#[]@!$&'()*+,;=%".utf8.contains($0) }
    }

    private func encoded(_ isKept: (UInt8) -> Bool) -> String {
        guard !utf8.allSatisfy({ isKept($0) && $0 != 0x25 }) else { return self }
        let bytes = Array(utf8)
        return bytes.indices.map { index in
            let byte = bytes[index]
            // A percent sign without two digits behind it is itself.
            let isEscape = byte == 0x25 && bytes[(index + 1)...].prefix(2).count(where: \.isHexDigit) == 2
            return isKept(byte) && (byte != 0x25 || isEscape)
                ? String(Unicode.Scalar(byte))
                : "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
        }.joined()
    }
}

extension UInt8 {
    fileprivate var isHexDigit: Bool { Character(Unicode.Scalar(self)).isHexDigit }

    fileprivate var isUnreserved: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: true
        default: false
        }
    }
}
