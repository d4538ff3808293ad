// Decodes a complete body to Data, String or a Decodable.
import CoreFoundation
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
    /// Without a mark, the charset of the content type is used. Text is decoded as UTF-8 if it has no charset. The same
    /// holds for valid UTF-8 whose charset is unknown or wrong.
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
        let name = head.headerFields["Content-Type"]?.parameter("charset")
        let encoding = name.map(encoding(named:)) ?? .utf8
        if let text = encoding.flatMap({ string(body, $0) }) ?? string(body, .utf8) { return text }
        guard encoding != nil else {
            throw TextError(
                reason: "its charset \((name ?? "").debugDescription) is unknown, and its bytes are not valid UTF-8")
        }
        throw TextError(reason: "its bytes are not valid \(name ?? "UTF-8")")
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
        guard body.count.isMultiple(of: unitBytes) else { return nil }
        // On Linux, `String` in Swift 6.3 decodes all of Mac OS Roman beyond ASCII to other characters.
        if encoding == .macOSRoman { return NSString(data: body, encoding: encoding.rawValue).map { "\($0)" } }
        return String(data: body, encoding: encoding)
    }

    /// The encoding of a charset in the registry of IANA; nil when Foundation does not know the charset.
    static func encoding(named name: String) -> String.Encoding? {
        if name.equalsIgnoringCase("utf-8") { return .utf8 }
        // An `x-` marks a name that was not registered when it came into use.
        let names = [name] + (name.lowercased().hasPrefix("x-") ? [String(name.dropFirst(2))] : [])
        let known = names.lazy.compactMap { CFStringCreateWithCString(nil, $0, CFStringBuiltInEncodings.UTF8.rawValue) }
            .map(CFStringConvertIANACharSetNameToEncoding).first { $0 != kCFStringEncodingInvalidId }
        return known.map {
            String.Encoding(rawValue: UInt(CFStringConvertEncodingToNSStringEncoding(supersets[$0] ?? $0)))
        }
    }

    /// Charsets whose names servers also give to text of a superset (WHATWG Encoding, section 4.2), and the supersets.
    private static let supersets: [CFStringEncoding: CFStringEncoding] = {
        let pairs: [(CFStringEncodings, CFStringEncodings)] = [
            (.EUC_CN, .GB_18030_2000), (.GB_2312_80, .GB_18030_2000), (.EUC_KR, .dosKorean), (.KSC_5601_87, .dosKorean),
        ]
        return Dictionary(
            uniqueKeysWithValues: pairs.map { (CFStringEncoding($0.rawValue), CFStringEncoding($1.rawValue)) })
    }()

    private struct TextError: Error, CustomStringConvertible {
        let reason: String
        var description: String { reason }
    }
}
