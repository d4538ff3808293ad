// Scheme, host and port of a URL; the URL without credentials.
import Foundation

extension URL {
    /// Why no request can go to a URL.
    struct Defect: Error {
        let reason: String
    }

    /// Scheme, host and port of this absolute URL in one spelling, or why no request can go there.
    var origin: Result<String, Defect> {
        if let usualOrigin { return .success(usualOrigin) }
        guard let scheme = scheme?.lowercased(), scheme == "http" || scheme == "https" else {
            return .failure(Defect(reason: "the URL \(redactedString) is neither http nor https"))
        }
        guard let host = host(percentEncoded: true)?.lowercased(), !host.isEmpty else {
            return .failure(Defect(reason: "the URL \(redactedString) has no host"))
        }
        guard !host.hidesDelimiters else {
            return .failure(Defect(reason: "the URL \(redactedString) has a host that is no name"))
        }
        // A port out of range reaches some loaders as another port; one beyond Int reads as none.
        let port = port ?? (hasPortText ? -1 : scheme == "https" ? 443 : 80)
        guard (0...65_535).contains(port) else {
            return .failure(Defect(reason: "the URL \(redactedString) has no valid port"))
        }
        return .success("\(scheme)://\(host):\(port)")
    }

    /// The origin of a URL in its usual form (lower case, a name or an address of IPv4, no user name), read from its bytes; nil
    /// where Foundation has to be asked, which costs ten times as much.
    private var usualOrigin: String? {
        var text = absoluteString
        return text.withUTF8 { bytes in
            let start = bytes.starts(with: "http://".utf8) ? 7 : bytes.starts(with: "https://".utf8) ? 8 : 0
            let isName: (UInt8) -> Bool = { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), 0x2D, 0x2E: true
                default: false
                }
            }
            let host = bytes[start...].prefix(while: isName)
            guard start > 0, !host.isEmpty else { return nil }
            let rest = bytes[host.endIndex...]
            guard rest.first == UInt8(ascii: ":") else {
                guard rest.isEmpty || "/?#".utf8.contains(rest[rest.startIndex]) else { return nil }
                return String(decoding: bytes[..<host.endIndex], as: UTF8.self) + (start == 7 ? ":80" : ":443")
            }
            let digits = rest.dropFirst().prefix { (0x30...0x39).contains($0) }
            let end = bytes[digits.endIndex...]
            // A first digit of 0 is another spelling of a port.
            guard (1...5).contains(digits.count), digits.first != 0x30,
                digits.reduce(0, { $0 * 10 + Int($1 - 0x30) }) <= 65_535,
                end.isEmpty || "/?#".utf8.contains(end[end.startIndex])
            else { return nil }
            return String(decoding: bytes[..<digits.endIndex], as: UTF8.self)
        }
    }

    /// Whether a port is written in the authority, readable or not.
    private var hasPortText: Bool {
        let text = absoluteString
        guard let start = text.range(of: "//")?.upperBound else { return false }
        let authority = text[start...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard let last = authority.lastIndex(where: { $0 == ":" || $0 == "]" || $0 == "@" }) else { return false }
        return authority[last] == ":" && authority.index(after: last) < authority.endIndex
    }

    /// The URL for people and logs: without user name and password, and without values whose names tell of a secret.
    package var redactedString: String {
        let text = absoluteString
        let hasParameters = text.utf8.contains { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }
        return hasParameters ? SecretWords.standard.redacted(reference: text) : text.withoutUserInfo
    }
}

extension String {
    /// Whether this host has in escapes what no name of a host holds: loaders decode them, and would send it as it is in the
    /// `Host` field.
    ///
    /// Those are control characters, blanks, and what means something in a URL (the forbidden domain code points of the URL
    /// standard). An address of IPv6 may name its zone behind a percent sign.
    fileprivate var hidesDelimiters: Bool {
        guard utf8.contains(UInt8(ascii: "%")), !utf8.contains(UInt8(ascii: ":")) else { return false }
        guard let decoded = removingPercentEncoding else { return true }
        return decoded.utf8.contains { $0 <= 0x20 || $0 == 0x7F || "#%/:<>?@[\\]^|".utf8.contains($0) }
    }
}
