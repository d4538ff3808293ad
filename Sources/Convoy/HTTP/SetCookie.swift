// The Set-Cookie field: RFC 6265bis, section 5.6.
import Foundation

package struct SetCookie {
    package let name: String
    package let value: String
    package var expires: Date? { maxAge ?? expiryDate }
    /// The domain in lower case, without a leading dot; empty for none.
    package private(set) var domain = ""
    /// The path; nil without a Path attribute, empty when the attribute means the default path.
    package private(set) var path: String?
    package private(set) var isSecure = false
    package private(set) var isHTTPOnly = false
    private(set) var sameSite: String?

    /// The expiry by Max-Age, which takes precedence over `expiryDate` (RFC 6265bis, section 5.7, step 6).
    private var maxAge: Date?
    private var expiryDate: Date?

    /// The maximum lifetime of a cookie in seconds: 400 days (RFC 6265bis, section 5.5).
    static let longestLife: TimeInterval = 400 * 86_400

    // Nil when the field must be ignored. An invalid attribute, or one with a value of more than `maxAttributeBytes`,
    // is ignored. `maxCookieBytes` limits name and value together. O(*n*) for *n* bytes.
    package init?(_ text: Substring, maxCookieBytes: Int64, maxAttributeBytes: Int64, now: Date) {
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

    /// It replaces an earlier attribute of the same name (RFC 6265bis, section 5.7), unless it cannot be read.
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

    private static func halves(_ text: Substring) -> (name: Substring, value: Substring?) {
        guard let equals = text.utf8.firstIndex(of: UInt8(ascii: "=")) else { return (text.trimmedBlanks, nil) }
        return (text[..<equals].trimmedBlanks, text[text.utf8.index(after: equals)...].trimmedBlanks)
    }

    /// When a Max-Age ends; nil if it is not a number (RFC 6265bis, section 5.6.2).
    private static func end(afterSeconds text: Substring, from now: Date) -> Date? {
        let isNegative = text.utf8.first == UInt8(ascii: "-")
        let digits = text.utf8.dropFirst(isNegative ? 1 : 0)
        guard !digits.isEmpty, digits.allSatisfy(\.isDigit) else { return nil }
        // The number is limited to the longest lifetime, so that any number of digits cannot overflow.
        let seconds = digits.reduce(0) { min($0 * 10 + Double($1 - 0x30), longestLife) }
        return isNegative || seconds == 0 ? .distantPast : now + seconds
    }

    // Splits what URLSession has joined with `", "` if a name and `=` follow, which never happens in a date. A value
    // that contains `, b=c` is split by mistake, and a cookie without a name after a comma is not found. O(*n*) for *n*
    // bytes.
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

// The algorithm of RFC 6265bis. A `DateFormatter` reads fewer spellings, and costs more than the rest of the cookie.
enum CookieDate {
    static func parse(_ text: Substring) -> Date? {
        var (time, day, month, year): (Int?, Int?, Int?, Int?)
        // RFC 6265bis, section 5.1.1, step 2: the first token in the form of a time supplies the time. Day, month and
        // year are found in the same way.
        for token in text.utf8.split(whereSeparator: isDelimiter) {
            if time == nil, let found = seconds(token) {
                time = found
            } else if day == nil, let found = number(token, digits: 1...2) {
                day = found
            } else if month == nil, let found = HTTPDate.months.firstIndex(where: { isMonth(token, $0) }) {
                month = found + 1
            } else if year == nil, let found = number(token, digits: 2...4) {
                year = found
            }
        }
        guard let time, let day, let month, var year, time >= 0 else { return nil }
        if (70...99).contains(year) { year += 1900 }
        if (0...69).contains(year) { year += 2000 }
        guard year >= 1601, let days = HTTPDate.daysSince1970(year, month, day) else { return nil }
        return Date(timeIntervalSince1970: Double(days) * 86_400 + Double(time))
    }

    private static func isDelimiter(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x09, 0x20...0x2F, 0x3B...0x40, 0x5B...0x60, 0x7B...0x7E: true
        default: false
        }
    }

    /// Text after the number is ignored; nil if its count of digits is not in the range.
    private static func number(_ token: Substring.UTF8View, digits: ClosedRange<Int>) -> Int? {
        let run = token.prefix(while: \.isDigit).prefix(digits.upperBound + 1)
        return digits.contains(run.count) ? run.reduce(0) { $0 * 10 + Int($1 - 0x30) } : nil
    }

    // Nil if the token does not have the form of a time such as `08:49:37`, -1 if the time does not exist. With nil for
    // the latter, the parser would read `25:00:00` as the day 25.
    private static func seconds(_ token: Substring.UTF8View) -> Int? {
        let fields = token.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
        guard fields.count == 3, fields[0].allSatisfy(\.isDigit), fields[1].allSatisfy(\.isDigit),
            let hour = number(fields[0], digits: 1...2), let minute = number(fields[1], digits: 1...2),
            let second = number(fields[2], digits: 1...2)
        else { return nil }
        return hour <= 23 && minute <= 59 && second <= 59 ? (hour * 60 + minute) * 60 + second : -1
    }

    private static func isMonth(_ token: Substring.UTF8View, _ name: String) -> Bool {
        token.prefix(3).elementsEqual(name.utf8) { $0.lowercasedASCII == $1.lowercasedASCII }
    }
}

enum CookieDomain {
    static func host(of url: URL) -> String? {
        guard let encoded = url.host(percentEncoded: true), !encoded.isEmpty else { return nil }
        // `URL.host` spells an international name in Punycode, as a server's Domain attribute does. `URL.host` also
        // decodes percent escapes, so the result is used only if it is a plain name without `/` or NUL.
        guard encoded.utf8.contains(UInt8(ascii: "%")), let plain = url.host, plain.utf8.allSatisfy(isNameByte) else {
            return encoded.lowercased()
        }
        return plain.lowercased()
    }

    // RFC 6265bis, section 5.6.3. Only ASCII: `lowercased()` would turn the kelvin sign into the ASCII letter k.
    static func lowercased(_ domain: some StringProtocol, droppingDot: Bool) -> String {
        let bytes = domain.utf8.dropFirst(droppingDot && domain.utf8.first == UInt8(ascii: ".") ? 1 : 0)
        return String(decoding: bytes.map(\.lowercasedASCII), as: UTF8.self)
    }

    // Not an IP address, and at most 253 octets (RFC 1035, section 3.1), which also limits the number of parent
    // lookups. A name whose last label is a number is an address (WHATWG URL, section 3.5).
    static func isHostName(_ host: String) -> Bool {
        host.utf8.count <= 253 && !host.utf8.contains(UInt8(ascii: ":")) && !HostName.endsInNumber(host)
            && host.utf8.contains { $0 != UInt8(ascii: ".") }
    }

    /// Whether a host domain-matches a domain (RFC 6265bis, section 5.1.3).
    static func matches(_ host: String, _ domain: String) -> Bool {
        let (whole, end) = (host.utf8, domain.utf8)
        if whole.count <= end.count { return whole.elementsEqual(end) }
        return whole.suffix(end.count).elementsEqual(end)
            && whole.dropLast(end.count).last == UInt8(ascii: ".") && isHostName(host)
    }

    // The domain needs two non-empty labels and must not be a public suffix. Empty labels are rejected because `com.`
    // is the same top-level domain as `com`.
    static func mayBeShared(_ domain: String) -> Bool {
        let labels = domain.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        return labels.allSatisfy { !$0.isEmpty } && isHostName(domain) && !PublicSuffixes.contains(domain)
    }

    static func domains(of host: String) -> [String] {
        var domains = [host]
        var rest = host[...]
        let site = PublicSuffixes.site(of: host)
        while rest.utf8.count > site.utf8.count, let dot = rest.utf8.firstIndex(of: UInt8(ascii: ".")) {
            rest = rest[rest.utf8.index(after: dot)...]
            domains.append(String(rest))
        }
        return domains
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        byte.isASCIILetter || (byte | 0x20).isASCIILetter || byte.isDigit || "-._".utf8.contains(byte)
    }
}

/// In octets, because `hasPrefix` treats a composed and a decomposed `é` as equal.
enum CookiePath {
    /// The path of a cookie without a Path attribute: the URL's path before its last `/`, or else `/`.
    static func standard(for path: String) -> String {
        guard path.utf8.first == UInt8(ascii: "/"), let last = path.utf8.lastIndex(of: UInt8(ascii: "/")),
            last > path.startIndex
        else { return "/" }
        return String(path[..<last])
    }

    static func matches(_ path: String, _ cookiePath: String) -> Bool {
        guard path.utf8.starts(with: cookiePath.utf8) else { return false }
        let rest = path.utf8.dropFirst(cookiePath.utf8.count)
        return rest.isEmpty || cookiePath.utf8.last == UInt8(ascii: "/") || rest.first == UInt8(ascii: "/")
    }
}
