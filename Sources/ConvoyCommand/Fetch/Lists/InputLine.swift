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
    init(_ line: some StringProtocol) {
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
                reason: "its third column is no digest, which is sha256: and 64 hexadecimal digits, or sha512: and 128")
            return
        }
        self.init(url: columns[0], name: name.isEmpty ? nil : name, digest: digest)
    }

    /// Checks a URL as a request will.
    ///
    /// What is no URL at all is not repeated: it may hold a password.
    init(url text: String, name: String? = nil, digest: FileDigest? = nil) {
        guard !text.isEmpty else {
            self = .blank
            return
        }
        guard let url = text.requestURL else {
            self = .broken(reason: "it is not a URL")
            return
        }
        guard url.scheme != nil else {
            self = .broken(reason: "it is not an absolute URL, which begins with http:// or https://")
            return
        }
        if let defect = Request<Data>.get(url).defect {
            self = .broken(reason: defect)
        } else {
            self = .request(url, name: name, digest: digest)
        }
    }
}

extension String {
    /// Without the white space around it; mostly there is none, which is seen without Foundation's long way.
    fileprivate var trimmed: String {
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
