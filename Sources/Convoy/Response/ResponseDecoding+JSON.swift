// JSON in any encoding, and its errors.
import Foundation

extension ResponseDecoding {
    /// Decodes JSON.
    ///
    /// UTF-8, UTF-16 or UTF-32 is recognised by the first bytes, not by the content type (RFC 8259, section 8.1). A
    /// charset parameter is used only for a body that is not valid UTF-8. This function converts the body to UTF-8,
    /// because Foundation's decoder mistakes the byte order mark of little-endian UTF-32 for that of UTF-16. On Linux
    /// the decoder does not report what is wrong with a text, so `JSONReader` finds the first defect.
    static func json<Output: Decodable>(
        _ type: Output.Type, _ body: Data, _ head: ResponseHead, _ decoder: JSONDecoder
    ) throws -> Output {
        guard !body.isEmpty else { throw DecodingError.emptyBody }
        let text = try inUTF8(body)
        do {
            return try decoder.decode(type, from: text)
        } catch DecodingError.dataCorrupted(let context) where context.debugDescription.contains("not valid JSON") {
            if let position = JSONReader.firstInvalidByte(in: text) {
                guard let converted = converted(body, head) else {
                    throw DecodingError.corrupted("byte \(position) is not valid UTF-8", context.underlyingError)
                }
                return try json(type, converted, ResponseHead(statusCode: head.statusCode), decoder)
            }
            let defect = JSONReader.firstDefect(in: text) ?? JSONReader.firstLoneSurrogate(in: text)
            throw DecodingError.corrupted(
                defect?.description
                    ?? "it is JSON, but a value does not fit its type, for example a number that is too large",
                context.underlyingError)
        }
    }

    /// The body converted to UTF-8 by the charset of its content type; nil when the content type names no usable
    /// charset.
    private static func converted(_ body: Data, _ head: ResponseHead) -> Data? {
        guard let name = head.headerFields["Content-Type"]?.parameter("charset"),
            let encoding = encoding(named: name), encoding != .utf8
        else { return nil }
        return string(body, encoding).map { Data($0.utf8) }
    }

    /// The body as JSON in UTF-8 without a byte order mark, copied only if necessary.
    private static func inUTF8(_ body: Data) throws -> Data {
        let first = Array(body.prefix(4))
        let zeros = first.map { $0 == 0 }
        let (encoding, markLength, name): (String.Encoding, Int, String) =
            if first.starts(with: [0xEF, 0xBB, 0xBF]) {
                (.utf8, 3, "UTF-8")
            } else if first == [0xFF, 0xFE, 0, 0] {
                (.utf32LittleEndian, 4, "UTF-32")
            } else if first == [0, 0, 0xFE, 0xFF] {
                (.utf32BigEndian, 4, "UTF-32")
            } else if first.starts(with: [0xFF, 0xFE]) {
                (.utf16LittleEndian, 2, "UTF-16")
            } else if first.starts(with: [0xFE, 0xFF]) {
                (.utf16BigEndian, 2, "UTF-16")
            } else if zeros == [false, true, true, true] {
                (.utf32LittleEndian, 0, "UTF-32")
            } else if zeros == [true, true, true, false] {
                (.utf32BigEndian, 0, "UTF-32")
            } else if zeros.count >= 2, zeros.starts(with: [false, true]), body.count.isMultiple(of: 2) {
                (.utf16LittleEndian, 0, "UTF-16")
            } else if zeros.count >= 2, zeros.starts(with: [true, false]), body.count.isMultiple(of: 2) {
                (.utf16BigEndian, 0, "UTF-16")
            } else {
                (.utf8, 0, "UTF-8")
            }
        if encoding == .utf8 { return markLength == 0 ? body : Data(body.dropFirst(markLength)) }
        guard let text = string(body.dropFirst(markLength), encoding) else {
            throw DecodingError.corrupted("its bytes are not valid \(name)", nil)
        }
        return Data(text.utf8)
    }
}

extension DecodingError {
    /// The error for an empty body when a value is required.
    static var emptyBody: DecodingError { corrupted("the body is empty; an optional output allows that", nil) }

    static func corrupted(_ problem: String, _ underlying: (any Error)?) -> DecodingError {
        .dataCorrupted(Context(codingPath: [], debugDescription: problem, underlyingError: underlying))
    }
}
