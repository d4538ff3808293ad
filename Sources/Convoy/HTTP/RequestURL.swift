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
    ///
    /// Of http and https the host is spelled as DNS has it, and dot segments are taken out of the path, as browsers and curl
    /// do. A `URL` stays as it is.
    public var requestURL: URL? {
        if isSpelledAsSent, let url = URL(string: self, encodingInvalidCharacters: false) { return url }
        return URLReference(self).spelled?.url
    }

    /// The URL that the string means where it is found at another one, in a `Location` for example; nil when it is none.
    package func requestURL(at base: URL) -> URL? {
        guard let reference = requestURL?.relativeString else { return nil }
        return URLReference(reference).resolved(against: URLReference(base.absoluteString)).url
    }
}

extension URLReference {
    /// The reference as a URL can hold it: the one reader of URLs for the library, the command and its files.
    ///
    /// Escapes that are there stay. Brackets stand around an address of IPv6 only (RFC 3986, section 3.2.2); in
    /// `page[size]=10` they are encoded. Nil where programs do not agree on the host: with a backslash or a control
    /// character before the path.
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
    /// A host, in the spelling in which it is sent where that is another one, and a port.
    fileprivate var spelledHostAndPort: String {
        let bracket = utf8.lastIndex(of: UInt8(ascii: "]"))
        let end = self[(bracket ?? startIndex)...].utf8.firstIndex(of: UInt8(ascii: ":")) ?? endIndex
        let host = self[..<end]
        // What is no host stays, and is refused with its reason.
        guard let name = HostName(host), name.text != host.lowercased() else { return String(self) }
        return name.text + self[end...]
    }
}

extension String {
    /// Whether nothing of a URL with this text is spelled anew: the usual case, told without taking it apart.
    fileprivate var isSpelledAsSent: Bool {
        var text = self
        return text.withUTF8 { bytes in
            guard URL.usualAuthority(bytes) != nil else { return false }
            for index in 1..<bytes.count where bytes[index] == 0x2E && bytes[index - 1] == 0x2F { return false }
            return true
        }
    }
}
