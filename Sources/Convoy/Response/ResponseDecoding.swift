// Decodes a complete body to Data, String or a Decodable.
import Foundation

/// The standard decoders.
///
/// The decoders run on the operation's serial executor, on a complete body.
enum ResponseDecoding {
    /// Decodes to raw bytes for `Data`, text for `String`, and JSON for all other types.
    ///
    /// With an `Optional` type, an empty body is decoded to nil.
    ///
    /// - Parameter decoder: the decoder for JSON; nil for a plain `JSONDecoder`.
    static func standard<Output: Decodable & Sendable>(
        _ type: Output.Type, _ body: Data, _ head: ResponseHead, _ decoder: JSONDecoder?
    ) throws -> Output {
        if let nothing = absent(type, body) { return nothing }
        if let data = body as? Output { return data }
        if type == String.self || type == String?.self, let text = try text(body, head) as? Output { return text }
        return try json(type, body, head, decoder ?? JSONDecoder())
    }

    /// The value of an `Optional` type for an empty body; nil for other types and other bodies.
    static func absent<Output>(_ type: Output.Type, _ body: Data) -> Output? {
        guard body.isEmpty, let optional = type as? any ExpressibleByNilLiteral.Type else { return nil }
        return make(optional) as? Output
    }

    private static func make<Optional: ExpressibleByNilLiteral>(_: Optional.Type) -> Optional { nil }

    /// Decodes text by its byte order mark.
    ///
    /// Without a mark, the charset of the content type is used. Without a charset, the text is decoded as UTF-8.
    static func text(_ body: Data, _ head: ResponseHead) throws -> String {
        if body.starts(with: [0xEF, 0xBB, 0xBF]) {
            return try text(body.dropFirst(3), as: .utf8, named: "UTF-8")
        }
        if body.starts(with: [0xFF, 0xFE, 0, 0]) || body.starts(with: [0, 0, 0xFE, 0xFF]) {
            return try text(body, as: .utf32, named: "UTF-32")
        }
        if body.starts(with: [0xFF, 0xFE]) || body.starts(with: [0xFE, 0xFF]) {
            return try text(body, as: .utf16, named: "UTF-16")
        }
        guard let name = charset(of: head.headerFields["Content-Type"] ?? "") else {
            return try text(body, as: .utf8, named: "UTF-8")
        }
        guard let encoding = encoding(named: name) else {
            throw TextError(reason: "its charset \(name.debugDescription) is unknown")
        }
        return try text(body, as: encoding, named: name)
    }

    private static func text(_ body: Data, as encoding: String.Encoding, named name: String) throws -> String {
        guard let text = string(body, encoding) else { throw TextError(reason: "its bytes are not valid \(name)") }
        return text
    }

    /// The text of a body; nil if its bytes are invalid in the encoding.
    ///
    /// The length is checked because Foundation drops an incomplete code unit at the end.
    static func string(_ body: Data, _ encoding: String.Encoding) -> String? {
        let unitBytes =
            switch encoding {
            case .utf16, .utf16LittleEndian, .utf16BigEndian: 2
            case .utf32, .utf32LittleEndian, .utf32BigEndian: 4
            default: 1
            }
        return body.count.isMultiple(of: unitBytes) ? String(data: body, encoding: encoding) : nil
    }

    /// The charset parameter of a content type (RFC 9110, section 8.3), without its quotes.
    static func charset(of contentType: String) -> String? {
        for parameter in contentType.split(separator: ";").dropFirst() {
            let pair = parameter.split(separator: "=", maxSplits: 1)
            guard pair.count == 2, pair[0].trimmingCharacters(in: .whitespaces).equalsIgnoringCase("charset") else {
                continue
            }
            return pair[1].trimmingCharacters(in: CharacterSet(charactersIn: " \t\""))
        }
        return nil
    }

    static func encoding(named name: String) -> String.Encoding? { encodings[name.lowercased()] }

    private static let encodings: [String: String.Encoding] = [
        "utf-8": .utf8, "utf8": .utf8, "us-ascii": .ascii, "ascii": .ascii,
        "iso-8859-1": .isoLatin1, "latin1": .isoLatin1, "iso-8859-2": .isoLatin2, "windows-1250": .windowsCP1250,
        "windows-1251": .windowsCP1251, "windows-1252": .windowsCP1252, "windows-1253": .windowsCP1253,
        "windows-1254": .windowsCP1254, "utf-16": .utf16, "utf-16le": .utf16LittleEndian,
        "utf-16be": .utf16BigEndian, "utf-32": .utf32, "shift_jis": .shiftJIS,
    ]

    private struct TextError: Error, CustomStringConvertible {
        let reason: String
        var description: String { reason }
    }
}
