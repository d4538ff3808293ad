// Scheme, host and port of a URL; the URL without credentials.
import Foundation

extension URL {
    /// Why no request can go to a URL.
    package struct Defect: Error {
        /// The URL without its secrets.
        let url: String
        /// What is wrong, without the URL: "has no host".
        package let words: String

        var reason: String { "the URL \(url) \(words)" }
    }

    /// Scheme, host and port of this absolute URL in one spelling, or why no request can go there.
    package var origin: Result<String, Defect> {
        if let usualOrigin { return .success(usualOrigin) }
        func failure(_ words: String) -> Result<String, Defect> {
            .failure(Defect(url: redactedString, words: words))
        }
        guard let scheme = scheme?.lowercased(), scheme == "http" || scheme == "https" else {
            return failure("is neither http nor https")
        }
        guard let host = host(percentEncoded: true), !host.isEmpty else { return failure("has no host") }
        // Foundation leaves out the brackets, around whatever they stand.
        let hasBrackets = URLReference(absoluteString).authority?.contains("[") == true && !host.hasPrefix("[")
        // Loaders undo escapes, and would send what they stand for as it is in the `Host` field.
        guard let name = HostName(hasBrackets ? "[\(host)]" : host) else {
            return failure("has a host that is no name")
        }
        // A port out of range reaches some loaders as another port; one beyond Int reads as none.
        let port = port ?? (hasPortText ? -1 : scheme == "https" ? 443 : 80)
        guard (0...65_535).contains(port) else { return failure("has no valid port") }
        return .success("\(scheme)://\(name.text):\(port)")
    }

    /// The origin of a URL in its usual form (lower case, a name or an address of IPv4, no user name), read from its bytes; nil
    /// where Foundation has to be asked, which costs ten times as much.
    var usualOrigin: String? {
        var text = absoluteString
        return text.withUTF8 { bytes in
            guard let (end, hasPort) = Self.usualAuthority(bytes) else { return nil }
            let origin = String(decoding: bytes[..<end], as: UTF8.self)
            // The fifth byte tells http from https.
            return hasPort ? origin : origin + (bytes[4] == UInt8(ascii: ":") ? ":80" : ":443")
        }
    }

    /// Where the origin of a URL ends, in its usual form, and whether it names its port.
    static func usualAuthority(_ bytes: UnsafeBufferPointer<UInt8>) -> (end: Int, hasPort: Bool)? {
        let start = bytes.starts(with: "http://".utf8) ? 7 : bytes.starts(with: "https://".utf8) ? 8 : 0
        let isName: (UInt8) -> Bool = { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), 0x2D, 0x2E: true
            default: false
            }
        }
        let host = bytes[start...].prefix(while: isName)
        guard start > 0, isUsual(host) else { return nil }
        let rest = bytes[host.endIndex...]
        guard rest.first == UInt8(ascii: ":") else {
            return rest.isEmpty || "/?#".utf8.contains(rest[rest.startIndex]) ? (host.endIndex, false) : nil
        }
        let digits = rest.dropFirst().prefix { (0x30...0x39).contains($0) }
        let end = bytes[digits.endIndex...]
        // A first digit of 0 is another spelling of a port.
        guard (1...5).contains(digits.count), digits.first != 0x30,
            digits.reduce(0, { $0 * 10 + Int($1 - 0x30) }) <= 65_535,
            end.isEmpty || "/?#".utf8.contains(end[end.startIndex])
        else { return nil }
        return (digits.endIndex, true)
    }

    /// Whether a host of these bytes has no other spelling: a name that ends in no number, or four decimal numbers.
    private static func isUsual(_ host: Slice<UnsafeBufferPointer<UInt8>>) -> Bool {
        // `xn--` begins what may be no name.
        guard !zip(host, host.dropFirst()).contains(where: { $0 == 0x2D && $1 == 0x2D }),
            let last = host.last, last != UInt8(ascii: ".")
        else { return false }
        let label = host.lastIndex(of: UInt8(ascii: ".")).map { host.index(after: $0) } ?? host.startIndex
        guard (0x30...0x39).contains(host[label]) else { return true }
        var (dots, value, digits) = (0, 0, 0)
        for byte in host {
            if byte == UInt8(ascii: ".") {
                guard digits > 0 else { return false }
                (dots, value, digits) = (dots + 1, 0, 0)
            } else {
                // A first digit of 0 is another spelling of a number.
                guard (0x30...0x39).contains(byte), digits == 0 || value > 0 else { return false }
                (value, digits) = (value * 10 + Int(byte - 0x30), digits + 1)
                guard value <= 255 else { return false }
            }
        }
        return dots == 3
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
