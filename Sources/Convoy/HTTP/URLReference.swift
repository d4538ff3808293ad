// URI references and their resolution: RFC 3986, section 5.
import Foundation

/// Foundation does not remove the dot segments of absolute and network-path references, and its `URLComponents` traps
/// when a part is set to an invalid value.
struct URLReference {
    var scheme: String?
    var authority: String?
    var path: String
    var query: String?
    var fragment: String?

    /// RFC 3986, appendix B; succeeds for every text.
    init(_ text: String) {
        var rest = text[...]
        fragment = rest.cutOff(from: UInt8(ascii: "#"))
        query = rest.cutOff(from: UInt8(ascii: "?"))
        if let colon = rest.utf8.firstIndex(of: UInt8(ascii: ":")), rest[..<colon].isScheme {
            scheme = String(rest[..<colon])
            rest = rest[rest.utf8.index(after: colon)...]
        }
        if rest.hasPrefix("//") {
            rest = rest.dropFirst(2)
            let end = rest.utf8.firstIndex(of: UInt8(ascii: "/")) ?? rest.endIndex
            authority = String(rest[..<end])
            rest = rest[end...]
        }
        path = String(rest)
    }

    var text: String {
        (scheme.map { $0 + ":" } ?? "") + (authority.map { "//" + $0 } ?? "") + path
            + (query.map { "?" + $0 } ?? "") + (fragment.map { "#" + $0 } ?? "")
    }

    /// The reference resolved against an absolute base URL (RFC 3986, section 5.2.2, strict).
    func resolved(against base: URLReference) -> URLReference {
        var target = self
        target.scheme = scheme ?? base.scheme
        if scheme != nil || authority != nil {
            target.path = path.removingDotSegments
            return target
        }
        target.authority = base.authority
        if path.isEmpty {
            (target.path, target.query) = (base.path, query ?? base.query)
        } else {
            target.path = (path.hasPrefix("/") ? path : base.merged(with: path)).removingDotSegments
        }
        return target
    }

    /// The base's path up to its last slash, followed by another path (RFC 3986, section 5.2.3).
    private func merged(with other: String) -> String {
        if authority != nil, path.isEmpty { return "/" + other }
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return other }
        return path[...slash] + other
    }

    mutating func dropUserInfo() {
        guard let given = authority, let sign = given.utf8.lastIndex(of: UInt8(ascii: "@")) else { return }
        authority = String(given[given.utf8.index(after: sign)...])
    }

    mutating func takeUserInfo(of other: URLReference?) {
        guard let authority, !authority.contains("@"), let given = other?.authority,
            let sign = given.utf8.lastIndex(of: UInt8(ascii: "@"))
        else { return }
        self.authority = given[...sign] + authority
    }

    var url: URL? { URL(string: text, encodingInvalidCharacters: false) }

    // The library, the command and its files all read URLs with this property. Existing escapes stay. Brackets are
    // encoded, for example in `page[size]=10`, except around an IPv6 address (RFC 3986, section 3.2.2). Nil for a
    // backslash or a control character before the path, because programs disagree on the host of such a URL.
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
        let bracket = place.utf8.lastIndex(of: UInt8(ascii: "]")) ?? place.startIndex
        let end = place[bracket...].utf8.firstIndex(of: UInt8(ascii: ":")) ?? place.endIndex
        // Neither an invalid host is changed, because `URL.origin` rejects it with the reason, nor capital letters.
        let name = HostName(place[..<end])?.text
        let isUsual = name == nil || name == place[..<end].lowercased()
        spelled.authority = (user ?? "") + (isUsual ? String(place[..<end]) : name ?? "") + place[end...]
        return spelled
    }
}

extension String {
    // Everything up to the last `@` goes between the scheme with its slashes and the next slash, `?` or `#`, even if
    // the text is not an authority. Mistyped URLs such as `ada:pw@example.com/x` and `http:/ada:pw@h` contain a
    // password too.
    package var withoutUserInfo: String {
        guard utf8.contains(UInt8(ascii: "@")) else { return self }
        var start = startIndex
        if let colon = utf8.firstIndex(of: UInt8(ascii: ":")), self[..<colon].isScheme {
            let (scheme, rest) = (self[..<colon].lowercased(), utf8[colon...].dropFirst())
            if scheme == "file" { return self }
            let isWeb = ["http", "https", "ws", "wss"].contains(scheme)
            if isWeb || rest.first?.isSlash == true { start = rest.startIndex }
        }
        start = utf8[start...].firstIndex { !$0.isSlash } ?? endIndex
        let end = utf8[start...].firstIndex { $0.isSlash || "?#".utf8.contains($0) } ?? endIndex
        guard let sign = utf8[start..<end].lastIndex(of: UInt8(ascii: "@")) else { return self }
        return String(self[..<start] + self[utf8.index(after: sign)...])
    }

    /// RFC 3986, section 5.2.4; other paths than absolute ones are unchanged.
    var removingDotSegments: String {
        guard hasPrefix("/"), utf8.contains(UInt8(ascii: ".")) else { return self }
        var kept: [Substring] = []
        var endsWithSlash = false
        for segment in dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
            endsWithSlash = segment == "." || segment == ".."
            // At the root, `..` has no effect.
            if segment == ".." { _ = kept.popLast() }
            if !endsWithSlash { kept.append(segment) }
        }
        if endsWithSlash { kept.append("") }
        return "/" + kept.joined(separator: "/")
    }

    // If false, the URL must be parsed. Invalid characters are not checked here, because
    // `URL(string:encodingInvalidCharacters:)` rejects them.
    fileprivate var isSpelledAsSent: Bool {
        var text = self
        return text.withUTF8 { bytes in
            guard URL.usualAuthority(bytes) != nil else { return false }
            for index in 1..<bytes.count where bytes[index] == 0x2E && bytes[index - 1] == 0x2F { return false }
            return true
        }
    }
}

extension Substring {
    fileprivate mutating func cutOff(from byte: UInt8) -> String? {
        guard let index = utf8.firstIndex(of: byte) else { return nil }
        defer { self = self[..<index] }
        return String(self[utf8.index(after: index)...])
    }

    /// Whether this is a scheme: a letter, then letters, digits, plus, minus and dot (RFC 3986, section 3.1).
    fileprivate var isScheme: Bool {
        guard let first = utf8.first, (first | 0x20).isASCIILetter else { return false }
        return utf8.allSatisfy { ($0 | 0x20).isASCIILetter || $0.isDigit || "+-.".utf8.contains($0) }
    }
}

extension URL {
    package struct Defect: Error {
        let url: String
        /// The defect, without the URL, for example "has no host".
        package let words: String

        var reason: String { "the URL \(url) \(words)" }
    }

    /// Scheme, host and port of this absolute URL in canonical spelling, or why no request can go to the URL.
    package var origin: Result<String, Defect> {
        if let sharedOrigin { return .success(sharedOrigin) }
        func failure(_ words: String) -> Result<String, Defect> { .failure(Defect(url: redactedString, words: words)) }
        guard let scheme = scheme?.lowercased(), scheme == "http" || scheme == "https" else {
            return failure("is neither http nor https")
        }
        guard let host = host(percentEncoded: true), !host.isEmpty else { return failure("has no host") }
        // Foundation removes brackets around any host, so the text of the URL shows whether there were any.
        let authority = URLReference(absoluteString).authority ?? ""
        let hasBrackets = authority.contains("[") && !host.hasPrefix("[")
        // Transports would decode escapes in an invalid host and send the result in the `Host` field.
        guard let name = HostName(hasBrackets ? "[\(host)]" : host) else {
            return failure("has an invalid host")
        }
        // Some transports read a port out of range as another port. Foundation returns nil for a port beyond `Int`.
        let hasPortText = authority.last != ":" && authority.last { ":]@".contains($0) } == ":"
        let port = port ?? (hasPortText ? -1 : scheme == "https" ? 443 : 80)
        guard (0...65_535).contains(port) else { return failure("has no valid port") }
        return .success("\(scheme)://\(name.text):\(port)")
    }

    private static let lastOrigin = ThreadSlot<String>()

    // Of a name in lower case or an IPv4 address, no user name; for other spellings, Foundation costs ten times. Many
    // requests to one host may be queued, and each stores its origin. So each thread remembers the last one it read.
    var sharedOrigin: String? {
        var text = absoluteString
        return text.withUTF8 { bytes in
            guard let (end, hasPort) = Self.usualAuthority(bytes) else { return nil }
            // The fifth byte distinguishes http from https.
            let port = hasPort ? "" : bytes[4] == UInt8(ascii: ":") ? ":80" : ":443"
            if let last = Self.lastOrigin.value, last.utf8.count == end + port.utf8.count,
                last.utf8.starts(with: bytes[..<end]), last.utf8.dropFirst(end).elementsEqual(port.utf8)
            {
                return last
            }
            let origin = String(decoding: bytes[..<end], as: UTF8.self) + port
            Self.lastOrigin.value = origin
            return origin
        }
    }

    /// Runs twice for each request, so it reads the bytes in one pass.
    package static func usualAuthority(_ bytes: UnsafeBufferPointer<UInt8>) -> (end: Int, hasPort: Bool)? {
        // `http://` or `https://` in lower case.
        guard bytes.count >= 8, bytes[0] == 0x68, bytes[1] == 0x74, bytes[2] == 0x74, bytes[3] == 0x70 else {
            return nil
        }
        let colon = bytes[4] == 0x73 ? 5 : 4
        guard bytes[colon] == 0x3A, bytes[colon + 1] == 0x2F, bytes[colon + 2] == 0x2F else { return nil }
        let start = colon + 3
        var (end, label, last) = (start, start, UInt8(0))
        host: while end < bytes.count {
            switch bytes[end] {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), 0x30...0x39: break
            case UInt8(ascii: "."): label = end + 1
            // Two hyphens may belong to an encoded label (`xn--`), which has to be checked.
            case UInt8(ascii: "-"): if last == UInt8(ascii: "-") { return nil }
            default: break host
            }
            last = bytes[end]
            end += 1
        }
        guard end > start, last != UInt8(ascii: ".") else { return nil }
        // A host whose last label begins with a digit is in the usual spelling only if it is an IPv4 address.
        if (0x30...0x39).contains(bytes[label]) {
            var address = in_addr()
            guard inet_pton(AF_INET, String(decoding: bytes[start..<end], as: UTF8.self), &address) == 1 else {
                return nil
            }
        }
        let endsAuthority: (Int) -> Bool = { index in
            index == bytes.count || bytes[index] == 0x2F || bytes[index] == 0x3F || bytes[index] == 0x23
        }
        guard end < bytes.count, bytes[end] == UInt8(ascii: ":") else { return endsAuthority(end) ? (end, false) : nil }
        let first = end + 1
        var (next, port) = (first, 0)
        while next < bytes.count, next < first + 5, (0x30...0x39).contains(bytes[next]) {
            port = port * 10 + Int(bytes[next] - 0x30)
            next += 1
        }
        // A port with a leading zero is not in the usual spelling.
        guard next > first, bytes[first] != 0x30, port <= 65_535, endsAuthority(next) else { return nil }
        return (next, true)
    }

    /// Without user name and password, and without values whose names indicate a secret.
    package var redactedString: String { SecretWords.standard.redacted(reference: absoluteString) }
}

/// A type that can be the URL of a request: `URL`, or `String`, whose other characters are percent-encoded in UTF-8.
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
    /// browsers and curl. An empty string is a relative URL, which means its base.
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
