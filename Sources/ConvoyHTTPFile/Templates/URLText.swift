// URLs that are assembled from texts and values of responses.
import Convoy

extension StringProtocol {
    /// The index after the first `://`; nil without one.
    var schemeEnd: Index? { utf8.firstRange(of: "://".utf8)?.upperBound }
}

extension Substring {
    var authority: Substring {
        let end = utf8.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#") }
        return self[..<(end ?? endIndex)]
    }
}

extension String {
    var isBehindAuthority: Bool { self[(schemeEnd ?? startIndex)...].unicodeScalars.contains(where: \.endsAuthority) }

    /// Whether a value between the texts `host` and `next` cannot change the host.
    ///
    /// The function compares scalars, because Swift treats a slash with a combining mark as one character, but a server
    /// sees a slash.
    func mayFollow(host: Substring, before next: String) -> Bool {
        let continues = next.unicodeScalars.first.map { !$0.endsAuthority && $0 != ":" } ?? false
        if continues {
            return utf8.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5A).contains($0 & 0xDF) || $0 == 0x2D }
        }
        if !host.isEmpty { return utf8.isEmpty || utf8.first == 0x2F }
        return !unicodeScalars.contains { $0.endsAuthority || $0 == "@" }
    }

    var hashesEncoded: String {
        guard utf8.contains(UInt8(ascii: "#")) else { return self }
        return unicodeScalars.reduce(into: "") { $0 += $1 == "#" ? "%23" : String($1) }
    }

    /// The scheme, host and port of the URL; nil if the URL is invalid.
    var originText: String? { try? requestURL?.origin.get() }
}

extension Unicode.Scalar {
    var endsAuthority: Bool {
        switch self {
        case "/", "?", "#", "\\": true
        default: false
        }
    }
}
