// URLs that are put together of texts and of values of answers.
import Convoy

extension StringProtocol {
    /// The place behind the first `://`; nil without one.
    var schemeEnd: Index? {
        var rest = utf8[...]
        while let colon = rest.firstIndex(of: UInt8(ascii: ":")) {
            rest = rest[colon...]
            if rest.starts(with: "://".utf8) { return utf8.index(colon, offsetBy: 3) }
            rest = rest.dropFirst()
        }
        return nil
    }
}

extension String {
    /// The beginning of the host and port that what follows goes on with; nil where it does not.
    var openAuthority: Substring? {
        guard let start = schemeEnd, !self[start...].unicodeScalars.contains(where: \.endsAuthority)
        else { return nil }
        return self[start...]
    }

    /// Whether what follows is a part of a path, a query or a fragment.
    var isBehindAuthority: Bool { self[(schemeEnd ?? startIndex)...].unicodeScalars.contains(where: \.endsAuthority) }

    /// Whether a value of an answer may stand between these without leading to another host than the text says.
    ///
    /// Compared by scalars: a slash with a mark that combines with it is one character, and a slash for a server.
    func mayFollow(host: Substring, before next: String) -> Bool {
        let goesOn = next.unicodeScalars.first.map { !$0.endsAuthority && $0 != ":" } ?? false
        if goesOn {
            return utf8.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x5A).contains($0 & 0xDF) || $0 == 0x2D }
        }
        if !host.isEmpty { return utf8.isEmpty || utf8.first == 0x2F }
        return !unicodeScalars.contains { $0.endsAuthority || $0 == "@" }
    }

    var hashesEncoded: String {
        unicodeScalars.reduce(into: "") { $0 += $1 == "#" ? "%23" : String($1) }
    }

    /// Scheme, host and port.
    var originText: String? { try? requestURL?.origin.get() }

    func count(of text: String) -> Int { ranges(of: text).count }
}

extension Unicode.Scalar {
    var endsAuthority: Bool { "/?#\\".unicodeScalars.contains(self) }
}
