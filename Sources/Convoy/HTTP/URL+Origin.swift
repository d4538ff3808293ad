// Scheme, host and port of a URL; the URL without credentials.
import Foundation

extension URL {
    /// Why no request can go to a URL.
    package struct Defect: Error {
        /// The URL without its secrets.
        let url: String
        /// The defect, without the URL, for example "has no host".
        package let words: String

        var reason: String { "the URL \(url) \(words)" }
    }

    /// Scheme, host and port of this absolute URL in canonical spelling, or why no request can go to the URL.
    package var origin: Result<String, Defect> {
        if let usualOrigin { return .success(usualOrigin) }
        func failure(_ words: String) -> Result<String, Defect> {
            .failure(Defect(url: redactedString, words: words))
        }
        guard let scheme = scheme?.lowercased(), scheme == "http" || scheme == "https" else {
            return failure("is neither http nor https")
        }
        guard let host = host(percentEncoded: true), !host.isEmpty else { return failure("has no host") }
        // Foundation removes brackets around any host, so the text of the URL shows whether there were any.
        let hasBrackets = URLReference(absoluteString).authority?.contains("[") == true && !host.hasPrefix("[")
        // Transports would decode escapes in an invalid host and send the result in the `Host` field.
        guard let name = HostName(hasBrackets ? "[\(host)]" : host) else {
            return failure("has an invalid host")
        }
        // Some transports read a port out of range as another port. Foundation returns nil for a port beyond `Int`.
        let port = port ?? (hasPortText ? -1 : scheme == "https" ? 443 : 80)
        guard (0...65_535).contains(port) else { return failure("has no valid port") }
        return .success("\(scheme)://\(name.text):\(port)")
    }

    /// The origin of a URL in the usual spelling (lower case, a name or an IPv4 address, no user name), read from its
    /// bytes.
    ///
    /// Nil for other spellings, which need Foundation at ten times the cost.
    var usualOrigin: String? {
        var text = absoluteString
        return text.withUTF8 { bytes in
            guard let (end, hasPort) = Self.usualAuthority(bytes) else { return nil }
            let origin = String(decoding: bytes[..<end], as: UTF8.self)
            // The fifth byte distinguishes http from https.
            return hasPort ? origin : origin + (bytes[4] == UInt8(ascii: ":") ? ":80" : ":443")
        }
    }

    /// The end of the origin of a URL in the usual spelling, and whether it has a port.
    ///
    /// The method runs twice for each request, so it reads the bytes in one pass.
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
        if (0x30...0x39).contains(bytes[label]), !isUsualAddress(bytes, start, end) { return nil }
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

    /// Whether the host between two offsets consists of four decimal numbers up to 255.
    private static func isUsualAddress(_ bytes: UnsafeBufferPointer<UInt8>, _ start: Int, _ end: Int) -> Bool {
        var (dots, value, digits) = (0, 0, 0)
        for index in start..<end {
            let byte = bytes[index]
            if byte == UInt8(ascii: ".") {
                guard digits > 0 else { return false }
                (dots, value, digits) = (dots + 1, 0, 0)
            } else {
                // A number with a leading zero is not in the usual spelling.
                guard (0x30...0x39).contains(byte), digits == 0 || value > 0 else { return false }
                (value, digits) = (value * 10 + Int(byte - 0x30), digits + 1)
                guard value <= 255 else { return false }
            }
        }
        return dots == 3
    }

    /// Whether the authority contains a port, valid or not.
    private var hasPortText: Bool {
        let text = absoluteString
        guard let start = text.range(of: "//")?.upperBound else { return false }
        let authority = text[start...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        guard let last = authority.lastIndex(where: { $0 == ":" || $0 == "]" || $0 == "@" }) else { return false }
        return authority[last] == ":" && authority.index(after: last) < authority.endIndex
    }

    /// The URL for people and logs: without user name and password, and without values whose names indicate a secret.
    package var redactedString: String {
        let text = absoluteString
        let hasParameters = text.utf8.contains { $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }
        return hasParameters ? SecretWords.standard.redacted(reference: text) : text.withoutUserInfo
    }
}
