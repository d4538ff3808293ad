// What a request can be addressed to.
import Foundation

/// Something a request can be addressed to: a `URL`, or a `String` that is one.
///
/// A string's characters that a URL may not contain are percent-encoded in UTF-8.
public protocol RequestURL {
    /// The URL, or nil when there is none to be made of it.
    var requestURL: URL? { get }
}

extension URL: RequestURL {
    /// The URL itself.
    public var requestURL: URL? { self }
}

extension String: RequestURL {
    /// The URL the string spells, with unsafe characters percent-encoded; nil when it cannot be one.
    public var requestURL: URL? {
        if let url = URL(string: self, encodingInvalidCharacters: false) { return url }
        // Foundation encodes the percent signs of escapes too, once anything has to be encoded.
        guard contains("%") else { return URL(string: self, encodingInvalidCharacters: true) }
        return URL(string: encodingUnsafe(), encodingInvalidCharacters: false)
    }

    /// The string with what no URL may contain percent-encoded in UTF-8; escapes that are there stay.
    ///
    /// Brackets stand around an address of IPv6 only (RFC 3986, section 3.2.2); in `page[size]=10` they are encoded.
    private func encodingUnsafe() -> String {
        var reference = URLReference(self)
        reference.path = reference.path.encodingUnsafeBytes(keepsBrackets: false)
        reference.query = reference.query?.encodingUnsafeBytes(keepsBrackets: false)
        reference.fragment = reference.fragment?.encodingUnsafeBytes(keepsBrackets: false)
        reference.authority = reference.authority?.encodingUnsafeBytes(keepsBrackets: true)
        return reference.text
    }

    private func encodingUnsafeBytes(keepsBrackets: Bool) -> String {
        let bytes = Array(utf8)
        return bytes.indices.map { index -> String in
            let byte = bytes[index]
            let isEscape =
                byte == UInt8(ascii: "%") && bytes.dropFirst(index + 1).prefix(2).count(where: \.isHexDigit) == 2
            let scalar = Unicode.Scalar(byte)
            let isBracket = byte == UInt8(ascii: "[") || byte == UInt8(ascii: "]")
            let isSafe = isBracket ? keepsBrackets : CharacterSet.urlCharacters.contains(scalar)
            guard isEscape || byte != UInt8(ascii: "%") && isSafe else {
                return "%" + String(byte >> 4, radix: 16, uppercase: true)
                    + String(byte & 15, radix: 16, uppercase: true)
            }
            return String(scalar)
        }.joined()
    }
}

extension CharacterSet {
    /// Reserved and unreserved characters (RFC 3986, sections 2.2 and 2.3).
    fileprivate static let urlCharacters = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!$&'()*+,;=")
}

extension UInt8 {
    fileprivate var isHexDigit: Bool { Character(Unicode.Scalar(self)).isHexDigit }
}
