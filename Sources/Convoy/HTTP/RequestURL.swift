// The types that can be the URL of a request.
import Foundation

/// A type that can be the URL of a request: `URL` or `String`.
///
/// Characters of a string that a URL may not contain are percent-encoded in UTF-8.
public protocol RequestURL {
    /// The URL; nil when the value is not a valid URL.
    var requestURL: URL? { get }
}

extension URL: RequestURL {
    /// The URL itself.
    public var requestURL: URL? { self }
}

extension String: RequestURL {
    /// The URL of the string, with unsafe characters percent-encoded; nil when it is not a valid URL.
    ///
    /// For http and https the host is converted to the form of DNS, and dot segments are removed from the path, as in
    /// browsers and curl. A `URL` value is not changed. An empty string is a relative URL, which means its base.
    public var requestURL: URL? {
        // `URL(string:)` rejects the empty reference.
        if isEmpty { return URLComponents().url }
        if isSpelledAsSent, let url = URL(string: self, encodingInvalidCharacters: false) { return url }
        return URLReference(self).spelled?.url
    }

    /// The URL that the string means relative to a base, for example a `Location`; nil when it is not a valid URL.
    package func requestURL(at base: URL) -> URL? {
        guard let reference = requestURL?.relativeString else { return nil }
        return URLReference(reference).resolved(against: URLReference(base.absoluteString)).url
    }
}

extension URLReference {
    /// The reference with invalid characters encoded.
    ///
    /// The library, the command and its files all read URLs with this property.
    ///
    /// Existing escapes are not changed. Brackets are encoded, for example in `page[size]=10`, except around an IPv6
    /// address (RFC 3986, section 3.2.2). Nil for a backslash or a control character before the path, because programs
    /// disagree on the host of such a URL.
    fileprivate var spelled: URLReference? {
        var spelled = self
        spelled.query = query.map(PercentEscaper.url.escaped)
        spelled.fragment = fragment.map(PercentEscaper.url.escaped)
        let isWeb = scheme.map { ["http", "https"].contains($0.lowercased()) } ?? true
        guard let authority, isWeb else {
            spelled.path = PercentEscaper.url.escaped(path)
            return spelled
        }
        spelled.path = PercentEscaper.url.escaped(path.removingDotSegments)
        guard !authority.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F || $0 == UInt8(ascii: "\\") }) else {
            return nil
        }
        let sign = authority.utf8.lastIndex(of: UInt8(ascii: "@"))
        let user = sign.map { PercentEscaper.userInfo.escaped(String(authority[..<$0])) + "@" }
        let place = sign.map { authority[authority.utf8.index(after: $0)...] } ?? authority[...]
        spelled.authority = (user ?? "") + place.spelledHostAndPort
        return spelled
    }
}

extension Substring {
    /// The host in canonical spelling, followed by the port.
    fileprivate var spelledHostAndPort: String {
        let bracket = utf8.lastIndex(of: UInt8(ascii: "]"))
        let end = self[(bracket ?? startIndex)...].utf8.firstIndex(of: UInt8(ascii: ":")) ?? endIndex
        let host = self[..<end]
        // An invalid host is not changed, because `URL.origin` rejects it with the reason.
        guard let name = HostName(host), name.text != host.lowercased() else { return String(self) }
        return name.text + self[end...]
    }
}

extension String {
    /// Whether the host is in lower-case ASCII form, and no segment of the path begins with a dot.
    ///
    /// If false, the URL must be parsed. Invalid characters are not checked here, because
    /// `URL(string:encodingInvalidCharacters:)` rejects them.
    fileprivate var isSpelledAsSent: Bool {
        var text = self
        return text.withUTF8 { bytes in
            guard URL.usualAuthority(bytes) != nil else { return false }
            for index in 1..<bytes.count where bytes[index] == 0x2E && bytes[index - 1] == 0x2F { return false }
            return true
        }
    }
}
