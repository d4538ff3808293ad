// Percent-encoding, in UTF-8: RFC 3986, section 2.1.
import Foundation

package struct PercentEscaper: Sendable {
    private let isAllowed: [Bool]
    private let writesSpaceAsPlus: Bool
    private let keepsEscapes: Bool

    init(allowed: String, writesSpaceAsPlus: Bool = false, keepsEscapes: Bool = false) {
        self.keepsEscapes = keepsEscapes
        let staying = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789\(allowed)".utf8)
        isAllowed = (0..<128).map(staying.contains)
        self.writesSpaceAsPlus = writesSpaceAsPlus
    }

    /// Escapes all but the unreserved characters (RFC 3986, section 2.3).
    package static let unreserved = PercentEscaper(allowed: "-._~")
    /// The encoding of form fields in browsers (WHATWG URL, section 5.2).
    static let form = PercentEscaper(allowed: "*-._", writesSpaceAsPlus: true)

    /// Escapes neither existing escapes nor what may be in a path, a query and a fragment (sections 3.3 to 3.5).
    package static let url = PercentEscaper(allowed: "-._~:/?@!$&'()*+,;=", keepsEscapes: true)
    /// Escapes neither existing escapes nor what may be in a user name and a password (RFC 3986, section 3.2.1).
    static let userInfo = PercentEscaper(allowed: "-._~:!$&'()*+,;=", keepsEscapes: true)

    func escape(_ text: String, into result: inout String) {
        let bytes = text.utf8
        for (index, byte) in zip(bytes.indices, bytes) {
            let isEscape =
                keepsEscapes && byte == UInt8(ascii: "%")
                && bytes[index...].dropFirst().prefix(2).count(where: { $0.hexadecimalValue != nil }) == 2
            if isEscape || byte < 128 && isAllowed[Int(byte)] {
                result.unicodeScalars.append(Unicode.Scalar(byte))
            } else if byte == UInt8(ascii: " "), writesSpaceAsPlus {
                result += "+"
            } else {
                result += byte < 16 ? "%0" : "%"
                result += String(byte, radix: 16, uppercase: true)
            }
        }
    }

    package func escaped(_ text: String) -> String {
        var result = ""
        escape(text, into: &result)
        return result
    }
}

extension URLQueryItem {
    var percentEncoded: String { name.percentEncoded + (value.map { "=" + $0.percentEncoded } ?? "") }
}

extension String {
    /// The string with everything but unreserved characters (RFC 3986, section 2.3) percent-encoded in UTF-8.
    package var percentEncoded: String { PercentEscaper.unreserved.escaped(self) }
}
