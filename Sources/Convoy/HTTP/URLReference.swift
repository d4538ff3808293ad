// URI references and their resolution: RFC 3986, section 5.
import Foundation

/// A URI reference in its five parts.
///
/// Convoy uses this type instead of Foundation's. Foundation does not remove the dot segments of absolute and
/// network-path references. Its `URLComponents` traps when a part is set to an invalid value.
struct URLReference {
    var scheme: String?
    var authority: String?
    var path: String
    var query: String?
    var fragment: String?

    /// Parses a reference as in RFC 3986, appendix B.
    ///
    /// The initializer succeeds for every text.
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

    /// The reference as text (RFC 3986, section 5.3).
    var text: String {
        (scheme.map { $0 + ":" } ?? "") + (authority.map { "//" + $0 } ?? "") + path
            + (query.map { "?" + $0 } ?? "") + (fragment.map { "#" + $0 } ?? "")
    }

    /// The reference resolved against an absolute base URL (RFC 3986, section 5.2.2, strict).
    func resolved(against base: URLReference) -> URLReference {
        var target = self
        if scheme != nil || authority != nil {
            target.scheme = scheme ?? base.scheme
            target.path = path.removingDotSegments
            return target
        }
        target.scheme = base.scheme
        target.authority = base.authority
        if path.isEmpty {
            target.path = base.path
            target.query = query ?? base.query
        } else if path.hasPrefix("/") {
            target.path = path.removingDotSegments
        } else {
            target.path = base.merged(with: path).removingDotSegments
        }
        return target
    }

    /// The base's path up to its last slash, followed by another path (RFC 3986, section 5.2.3).
    private func merged(with other: String) -> String {
        if authority != nil, path.isEmpty { return "/" + other }
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return other }
        return path[...slash] + other
    }

    /// Removes user name and password (RFC 3986, section 3.2.1).
    mutating func dropUserInfo() {
        guard let given = authority, let sign = given.utf8.lastIndex(of: UInt8(ascii: "@")) else { return }
        authority = String(given[given.utf8.index(after: sign)...])
    }

    /// Copies the user name and password of another reference, unless this reference has its own.
    mutating func takeUserInfo(of other: URLReference?) {
        guard let authority, !authority.contains("@"), let given = other?.authority,
            let sign = given.utf8.lastIndex(of: UInt8(ascii: "@"))
        else { return }
        self.authority = given[...sign] + authority
    }

    /// The reference as a URL; nil when the text is not a valid URL.
    var url: URL? { URL(string: text, encodingInvalidCharacters: false) }
}

extension String {
    /// The URL or reference without user name and password, for people and logs.
    ///
    /// The property looks at the text between the scheme with its slashes and the next slash, `?` or `#`. In this text
    /// it removes everything up to the last `@`, even if the text is not an authority. Mistyped URLs such as
    /// `ada:pw@example.com/x` and `http:/ada:pw@h` contain a password too.
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
}

extension UInt8 {
    fileprivate var isSlash: Bool { self == UInt8(ascii: "/") || self == UInt8(ascii: "\\") }
}

extension Substring {
    /// Removes the text from the first occurrence of a byte on.
    ///
    /// Returns the text after that byte, or nil when the byte does not occur.
    fileprivate mutating func cutOff(from byte: UInt8) -> String? {
        guard let index = utf8.firstIndex(of: byte) else { return nil }
        defer { self = self[..<index] }
        return String(self[utf8.index(after: index)...])
    }

    /// Whether this is a scheme: a letter, then letters, digits, plus, minus and dot (RFC 3986, section 3.1).
    fileprivate var isScheme: Bool {
        guard let first = utf8.first, (first | 0x20).isASCIILetter else { return false }
        return utf8.allSatisfy { byte in
            (byte | 0x20).isASCIILetter || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || "+-.".utf8.contains(byte)
        }
    }
}

extension String {
    /// An absolute path without its `.` and `..` segments (RFC 3986, section 5.2.4).
    ///
    /// Other paths are unchanged.
    ///
    /// - Complexity: O(*n*).
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
}
