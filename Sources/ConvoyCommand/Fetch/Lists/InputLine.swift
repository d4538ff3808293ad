// One line of a list of URLs.
import Convoy
import Foundation

/// What a line of a list asks for: `URL`, `URL<TAB>NAME`, `URL<TAB>NAME<TAB>DIGEST`, nothing, or something that cannot be
/// sent.
enum InputLine: Equatable {
    case blank
    case request(URL, name: String?, digest: FileDigest? = nil)
    case broken(reason: String)

    /// Reads a line of a list.
    ///
    /// - Parameter base: where the files are of lines that have a name only.
    init(_ line: some StringProtocol, base: URL? = nil) {
        let text = String(line).trimmed
        guard !text.isEmpty, !text.hasPrefix("#") else {
            self = .blank
            return
        }
        let columns = text.split(separator: "\t", maxSplits: 2, omittingEmptySubsequences: false)
            .map { String($0).trimmed }
        let (name, digits) = (columns.dropFirst().first ?? "", columns.dropFirst(2).first ?? "")
        let digest = digits.isEmpty ? nil : FileDigest(digits)
        guard digits.isEmpty || digest != nil else {
            self = .broken(
                reason: columns.dropFirst().allSatisfy { $0.contains("://") }
                    ? "it has more than two URLs of one file; leave all but the first two out"
                    : "its third column is no digest, which is sha256: and 64 hexadecimal digits, or sha512: and 128")
            return
        }
        // Further URLs of the same file, as aria2 has them.
        let isName = !name.isEmpty && !name.contains("://")
        if let base, columns[0].withScheme == columns[0], !columns[0].contains("://") {
            self = .request(base.appending(path: columns[0]), name: isName ? name : nil, digest: digest)
        } else if columns[0].contains(" ") {
            self = .broken(reason: Self.blank(in: columns[0]))
        } else {
            self.init(url: columns[0], name: isName ? name : nil, digest: digest)
        }
    }

    private static func blank(in text: String) -> String {
        text.withScheme.contains("://")
            ? "a blank stands behind its URL: put a tab before the name, or %20 for a blank of the URL"
            : "it is not a URL"
    }

    /// Checks a URL as a request will.
    ///
    /// What is no URL at all is not repeated: it may hold a password.
    init(url text: String, name: String? = nil, digest: FileDigest? = nil) {
        guard !text.isEmpty else {
            self = .blank
            return
        }
        guard let url = text.withScheme.requestURL else {
            self = .broken(reason: "it is not a URL")
            return
        }
        guard url.scheme != nil, text.contains("://") || url.host() != nil else {
            let isDash = text == "-"
            self = .broken(
                reason: isDash
                    ? "a list on standard input is read with -i -"
                    : "it is not an absolute URL: write https:// and the host before it")
            return
        }
        if let defect = Request<Data>.get(url).defect {
            self = .broken(reason: defect)
        } else {
            self = .request(url, name: name, digest: digest)
        }
    }
}

extension InputLine {
    /// The URL that an option was given.
    static func url(_ text: String) throws(UsageError) -> URL {
        switch InputLine(url: text) {
        case .request(let url, _, _): return url
        case .broken(let reason): throw UsageError("takes a URL: \(reason)")
        case .blank: throw UsageError("takes a URL, and got none")
        }
    }
}

extension String {
    /// The text with a scheme where it has none and begins with a host: http for this machine, else https.
    ///
    /// A host is told by its dots or its port: a single word is none.
    var withScheme: String {
        guard !contains("://") else { return self }
        let authority = prefix { !"/?#".contains($0) }
        let place = authority.split(separator: "@", omittingEmptySubsequences: false).last ?? ""
        if place.hasPrefix("[::1]") { return "http://\(self)" }
        let parts = place.split(separator: ":", omittingEmptySubsequences: false)
        let (host, port) = (parts.first?.lowercased() ?? "", parts.dropFirst().first)
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        let areLabels = labels.allSatisfy { label in
            !label.isEmpty
                && label.unicodeScalars.allSatisfy {
                    $0.properties.isAlphabetic || "0123456789-_".contains(Character($0))
                }
        }
        let hasPort = port.map { !$0.isEmpty && $0.allSatisfy(\.isNumber) }
        let isLocal = host == "localhost" || labels.last == "localhost"
        guard areLabels, parts.count <= 2, hasPort != false, isLocal || labels.count > 1 || hasPort == true else {
            return self
        }
        let isThisMachine = isLocal || (labels.count == 4 && labels[0] == "127")
        return (isThisMachine ? "http://" : "https://") + self
    }

    /// Without the white space around it; mostly there is none, which is seen without Foundation's long way.
    var trimmed: String {
        let isVisible = { (byte: UInt8?) in byte.map { (0x21...0x7E).contains($0) } ?? true }
        return isVisible(utf8.first) && isVisible(utf8.last) ? self : trimmingCharacters(in: .whitespacesAndNewlines)
    }
}

extension URL {
    /// The URL without user name and password, for people and logs.
    var withoutCredentials: String {
        guard user(percentEncoded: true) != nil || password(percentEncoded: true) != nil else { return absoluteString }
        guard var components = URLComponents(url: self, resolvingAgainstBaseURL: true) else { return "<URL>" }
        components.user = nil
        components.password = nil
        return components.string ?? "<URL>"
    }
}
