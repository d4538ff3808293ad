// Decodes a complete body to Data, String or a Decodable.
import CoreFoundation
import Foundation

enum ResponseDecoding {
    // Raw bytes for `Data`, text for `String`, JSON for all other types; nil for an empty body and an `Optional` type.
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

    // By its byte order mark, or else by the charset of the content type. Text is decoded as UTF-8 if it has no charset.
    // The same holds for valid UTF-8 whose charset is unknown or wrong.
    static func text(_ body: Data, _ head: ResponseHead) throws -> String {
        if let (encoding, name, rest) = marked(body) {
            if let text = string(rest, encoding) { return text }
            throw DecodingError.corrupted("its bytes are not valid \(name)")
        }
        let name = head.headerFields["Content-Type"]?.parameter("charset")
        let encoding = name.map(encoding(named:)) ?? .utf8
        if let text = encoding.flatMap({ string(body, $0) }) ?? string(body, .utf8) { return text }
        guard encoding != nil else {
            throw DecodingError.corrupted(
                "its charset \((name ?? "").debugDescription) is unknown, and its bytes are not valid UTF-8")
        }
        throw DecodingError.corrupted("its bytes are not valid \(name ?? "UTF-8")")
    }

    private static let marks: [(bytes: [UInt8], encoding: String.Encoding, name: String)] = [
        ([0xEF, 0xBB, 0xBF], .utf8, "UTF-8"),
        ([0xFF, 0xFE, 0, 0], .utf32LittleEndian, "UTF-32"), ([0, 0, 0xFE, 0xFF], .utf32BigEndian, "UTF-32"),
        ([0xFF, 0xFE], .utf16LittleEndian, "UTF-16"), ([0xFE, 0xFF], .utf16BigEndian, "UTF-16"),
    ]

    /// The encoding by the byte order mark, and the body after it; nil without a mark.
    private static func marked(_ body: Data) -> (encoding: String.Encoding, name: String, rest: Data)? {
        marks.first { body.starts(with: $0.bytes) }
            .map { ($0.encoding, $0.name, Data(body.dropFirst($0.bytes.count))) }
    }

    // Nil for invalid bytes. The length is checked because Foundation drops an incomplete code unit at the end.
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

    // UTF-8, UTF-16 or UTF-32 is recognised by the first bytes, not by the content type (RFC 8259, section 8.1). A
    // charset parameter is used only for a body that is not valid UTF-8. This function converts the body to UTF-8,
    // because Foundation's decoder mistakes the byte order mark of little-endian UTF-32 for that of UTF-16.
    static func json<Output: Decodable>(
        _ type: Output.Type, _ body: Data, _ head: ResponseHead, _ decoder: JSONDecoder
    ) throws -> Output {
        guard !body.isEmpty else { throw DecodingError.corrupted("the body is empty; an optional output allows that") }
        let text = try inUTF8(body)
        do {
            return try decoder.decode(type, from: text)
        } catch DecodingError.dataCorrupted(let context) where context.debugDescription.contains("not valid JSON") {
            if String(validating: text, as: UTF8.self) == nil {
                guard let converted = converted(body, head) else {
                    throw DecodingError.corrupted("its bytes are not valid UTF-8", context.underlyingError)
                }
                return try json(type, converted, ResponseHead(statusCode: head.statusCode), decoder)
            }
            throw DecodingError.corrupted(
                defect(ofJSON: text)
                    ?? "it is JSON, but a value does not fit its type, for example a number that is too large, or a text with half of a surrogate pair",
                context.underlyingError)
        }
    }

    /// On Linux the decoder does not report what is wrong with a text; `JSONSerialization` does.
    private static func defect(ofJSON text: Data) -> String? {
        do {
            _ = try JSONSerialization.jsonObject(with: text, options: .fragmentsAllowed)
            return nil
        } catch {
            let words = (error as NSError).userInfo["NSDebugDescription"].map { ": \($0)" } ?? ""
            return "it is not valid JSON\(words)"
        }
    }

    private static func converted(_ body: Data, _ head: ResponseHead) -> Data? {
        guard let name = head.headerFields["Content-Type"]?.parameter("charset"),
            let encoding = encoding(named: name), encoding != .utf8
        else { return nil }
        return string(body, encoding).map { Data($0.utf8) }
    }

    /// The body as JSON in UTF-8 without a byte order mark, copied only if necessary.
    private static func inUTF8(_ body: Data) throws -> Data {
        let zeros = body.prefix(4).map { $0 == 0 }
        let (encoding, name, rest): (String.Encoding, String, Data) =
            switch (marked(body), zeros, zeros.prefix(2)) {
            case (let marked?, _, _): marked
            case (_, [false, true, true, true], _): (.utf32LittleEndian, "UTF-32", body)
            case (_, [true, true, true, false], _): (.utf32BigEndian, "UTF-32", body)
            case (_, _, [false, true]) where body.count.isMultiple(of: 2): (.utf16LittleEndian, "UTF-16", body)
            case (_, _, [true, false]) where body.count.isMultiple(of: 2): (.utf16BigEndian, "UTF-16", body)
            default: (.utf8, "UTF-8", body)
            }
        if encoding == .utf8 { return rest }
        guard let text = string(rest, encoding) else {
            throw DecodingError.corrupted("its bytes are not valid \(name)")
        }
        return Data(text.utf8)
    }
}

extension DecodingError {
    static func corrupted(_ problem: String, _ underlying: (any Error)? = nil) -> DecodingError {
        .dataCorrupted(Context(codingPath: [], debugDescription: problem, underlyingError: underlying))
    }

    /// Decoders report `[String: Any]` and `[Any]` for an object and an array, which have these names in JSON.
    fileprivate static func name(_ type: any Any.Type) -> String {
        if type == [String: Any].self { return "an object" }
        return type == [Any].self ? "an array" : String(String(describing: type).prefix(100))
    }
}

extension Error {
    /// A decoding error as text: the place in the body, the expected and the found value; or the error's description.
    var decodingWords: String {
        switch self as? DecodingError {
        case .typeMismatch(let type, let context)?:
            context.place + "expected \(DecodingError.name(type))"
                + (context.found.map { ", found \($0)" } ?? ": \(context.shortDescription)")
        case .valueNotFound(let type, let context)?: context.place + "expected \(DecodingError.name(type)), found null"
        case .keyNotFound(let key, let context)?:
            context.place + "the key \(String(key.stringValue.prefix(64)).debugDescription) is missing"
        case .dataCorrupted(let context)?: context.place + context.shortDescription
        default: "\(self)"
        }
    }
}

extension DecodingError.Context {
    // For example `at user.tags[2]: `; empty for the complete body. Keys can be of any length, so a long path is cut.
    fileprivate var place: String {
        if codingPath.isEmpty { return "" }
        var path = ""
        for key in codingPath {
            let name = String(key.stringValue.prefix(64))
            if let index = key.intValue {
                path += "[\(index)]"
            } else if name.allSatisfy({ $0.isLetter || $0.isNumber || $0 == "_" || $0 == "-" }), !name.isEmpty {
                path += path.isEmpty ? name : ".\(name)"
            } else {
                path += "[\(name.debugDescription)]"
            }
            if path.count > 200 { return "at \(path)…: " }
        }
        return "at \(path): "
    }

    fileprivate var found: String? {
        guard let start = debugDescription.range(of: " but found ")?.upperBound,
            let end = debugDescription.range(of: " instead", range: start..<debugDescription.endIndex)?.lowerBound
        else { return nil }
        return String(debugDescription[start..<end].prefix(100))
    }

    /// The decoder's description, shortened because it may contain a value of the body.
    fileprivate var shortDescription: String { String(debugDescription.prefix(300)) }
}
