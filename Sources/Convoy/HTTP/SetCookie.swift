// The Set-Cookie field: RFC 6265bis, section 5.6.
import Foundation

/// The content of a `Set-Cookie` field, before the checks of its attributes.
struct SetCookie {
    let name: String
    let value: String
    /// When the cookie expires; nil for a session cookie.
    var expires: Date? { maxAge ?? expiryDate }
    /// The domain in lower case, without a leading dot; empty for none.
    private(set) var domain = ""
    /// The path; nil without a Path attribute, empty when the attribute means the default path.
    private(set) var path: String?
    private(set) var isSecure = false
    private(set) var isHTTPOnly = false
    /// `Strict`, `Lax` or `None`; nil for anything else.
    private(set) var sameSite: String?

    /// The expiry by Max-Age, which takes precedence over `expiryDate` (RFC 6265bis, section 5.7, step 6).
    private var maxAge: Date?
    private var expiryDate: Date?

    /// The maximum lifetime of a cookie in seconds: 400 days (RFC 6265bis, section 5.5).
    static let longestLife: TimeInterval = 400 * 86_400

    /// Reads a field's value; nil when the field must be ignored.
    ///
    /// Invalid attributes are ignored.
    ///
    /// - Parameters:
    ///   - maxCookieBytes: the maximum length of name and value together.
    ///   - maxAttributeBytes: the maximum length of an attribute's value. A longer attribute is ignored.
    /// - Complexity: O(*n*) for *n* bytes.
    init?(_ text: Substring, maxCookieBytes: Int64, maxAttributeBytes: Int64, now: Date) {
        guard !text.utf8.contains(where: { ($0 < 0x20 && $0 != 0x09) || $0 == 0x7F }) else { return nil }
        var parts = text.utf8.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)[...]
        guard let first = parts.popFirst() else { return nil }
        let pair = Self.halves(Substring(first))
        // Without `=`, the complete text is the value.
        (name, value) = pair.value.map { (String(pair.name), String($0)) } ?? ("", String(pair.name))
        guard !(name.isEmpty && value.isEmpty), Int64(name.utf8.count + value.utf8.count) <= maxCookieBytes
        else { return nil }
        for part in parts {
            let attribute = Self.halves(Substring(part))
            let value = attribute.value ?? ""
            if Int64(value.utf8.count) <= maxAttributeBytes { apply(String(attribute.name), value, now) }
        }
    }

    /// Applies one attribute; it replaces an earlier one of the same name (RFC 6265bis, section 5.7).
    ///
    /// An Expires or Max-Age that cannot be read is ignored.
    private mutating func apply(_ name: String, _ value: Substring, _ now: Date) {
        switch name.lowercased() {
        case "expires": expiryDate = CookieDate.parse(value) ?? expiryDate
        case "max-age": maxAge = Self.end(afterSeconds: value, from: now) ?? maxAge
        case "domain": domain = CookieDomain.lowercased(value, droppingDot: true)
        case "path": path = value.utf8.first == UInt8(ascii: "/") ? String(value) : ""
        case "secure": isSecure = true
        case "httponly": isHTTPOnly = true
        case "samesite": sameSite = ["Strict", "Lax", "None"].first { $0.equalsIgnoringCase(String(value)) }
        default: break
        }
    }

    /// The two sides of the first `=`, trimmed.
    ///
    /// The value is nil without a `=`.
    private static func halves(_ text: Substring) -> (name: Substring, value: Substring?) {
        guard let equals = text.utf8.firstIndex(of: UInt8(ascii: "=")) else { return (text.trimmedBlanks, nil) }
        return (text[..<equals].trimmedBlanks, text[text.utf8.index(after: equals)...].trimmedBlanks)
    }

    /// When a Max-Age ends; nil if it is not a number (RFC 6265bis, section 5.6.2).
    private static func end(afterSeconds text: Substring, from now: Date) -> Date? {
        let isNegative = text.utf8.first == UInt8(ascii: "-")
        let digits = text.utf8.dropFirst(isNegative ? 1 : 0)
        guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        // The number is limited to the longest lifetime, so that any number of digits cannot overflow.
        let seconds = digits.reduce(0) { min($0 * 10 + Double($1 - 0x30), longestLife) }
        return isNegative || seconds == 0 ? .distantPast : now + seconds
    }
}

extension SetCookie {
    /// The maximum number of cookies read from one response.
    ///
    /// The limit bounds the work that a hostile server can cause.
    static let maxPerAnswer = 256

    /// Separates the values that URLSession has joined with `", "` into one field.
    ///
    /// The method splits at a comma and a space if a name and `=` follow, which never happens in a date. A value that
    /// contains `, b=c` is split by mistake, and a cookie without a name after a comma is not found.
    ///
    /// - Complexity: O(*n*) for *n* bytes.
    static func apart(_ joined: String) -> [Substring] {
        let bytes = joined.utf8
        var texts: [Substring] = []
        var start = joined.startIndex
        var position = start
        while let comma = bytes[position...].firstIndex(of: UInt8(ascii: ",")) {
            position = bytes.index(after: comma)
            guard position < bytes.endIndex, bytes[position] == UInt8(ascii: " ") else { continue }
            let name = bytes.index(after: position)
            guard let end = bytes[name...].firstIndex(where: "=;, \t".utf8.contains), end > name,
                bytes[end] == UInt8(ascii: "=")
            else { continue }
            texts.append(joined[start..<comma])
            (start, position) = (name, end)
        }
        texts.append(joined[start...])
        return texts
    }
}
