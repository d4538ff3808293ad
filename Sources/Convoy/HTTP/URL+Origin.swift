// Scheme, host and port of a URL; the URL without credentials.
import Foundation

extension URL {
    /// Why no request can go to a URL.
    struct Defect: Error {
        let reason: String
    }

    /// Scheme, host and port of this absolute URL in one spelling, or why no request can go there.
    var origin: Result<String, Defect> {
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

    /// Whether a port is written in the authority, readable or not.
    private var hasPortText: Bool {
        let text = absoluteString
        guard let start = text.range(of: "//")?.upperBound else { return false }
        let authority = text[start...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard let last = authority.lastIndex(where: { $0 == ":" || $0 == "]" || $0 == "@" }) else { return false }
        return authority[last] == ":" && authority.index(after: last) < authority.endIndex
    }

    /// The URL without user name and password, for people and logs.
    var redactedString: String {
        guard user(percentEncoded: true) != nil || password(percentEncoded: true) != nil,
            var components = URLComponents(url: self, resolvingAgainstBaseURL: true)
        else { return absoluteString }
        components.user = nil
        components.password = nil
        return components.string ?? "<URL with credentials>"
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
