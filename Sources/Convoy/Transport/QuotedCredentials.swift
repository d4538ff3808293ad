// Removes user names and passwords from libcurl's error messages.
import Foundation

// libcurl quotes a URL or a proxy variable that it cannot use: completely, in parts, or truncated at its buffer of 256
// bytes. It may parse a malformed URL in any way; in `bob:a/b@proxy` it reads `bob` as the host. So every part of a
// user name or password is searched for, and a message that still contains one is dropped.
struct QuotedCredentials {
    /// The URLs and variables that libcurl may quote completely.
    private let quotable: [String]
    private var secrets: Set<String> = []

    init(
        of url: URL?, _ options: ConnectionOptions? = nil,
        environment: (String) -> String? = { getenv($0).map { String(cString: $0) } }
    ) {
        var quotable = Self.variables.compactMap(environment).filter { !$0.isEmpty }
        for value in quotable { secrets.formUnion(Self.secretParts(of: value)) }
        if let url, url.user != nil || url.password != nil {
            quotable.append(url.absoluteString)
            secrets.formUnion(Self.secretParts(of: url.absoluteString))
        }
        if case .server(_, let userName, let password) = options?.proxy {
            secrets.formUnion([userName, password].compactMap { $0 }.flatMap(Self.parts))
        }
        if let password = options?.clientCertificate?.password { secrets.formUnion(Self.parts(of: password)) }
        self.quotable = quotable.filter { !Self.secretParts(of: $0).isEmpty }
    }

    private static let variables = [
        "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
    ]

    /// The message without credentials; nil when a credential cannot be removed.
    func removed(from text: String) -> String? {
        guard !secrets.isEmpty else { return Self.withoutUserInfo(text) }
        // libcurl truncates messages at 256 bytes. A message of almost this size may be truncated, and its end may be
        // the beginning of a secret.
        guard text.utf8.count < 200 else { return nil }
        var text = text
        for value in quotable { text = text.replacingOccurrences(of: value, with: "<redacted>") }
        text = Self.withoutUserInfo(text)
        let words = Set(Self.parts(of: text).map { $0.lowercased() })
        let lowercased = text.lowercased()
        let shows = secrets.contains { secret in
            let secret = secret.lowercased()
            // A short secret would be found inside many words.
            return secret.count < 4 ? words.contains(secret) : lowercased.contains(secret)
        }
        return shows ? nil : text
    }

    /// Replaces the text before an `@`, back to the previous blank, quote or `//`.
    private static func withoutUserInfo(_ text: String) -> String {
        guard let at = text.lastIndex(of: "@") else { return text }
        let start = text[..<at].lastIndex { " '\"".contains($0) }.map(text.index(after:)) ?? text.startIndex
        let head = text[start..<at]
        let userInfo = head.range(of: "//")?.upperBound ?? start
        return withoutUserInfo(String(text[..<userInfo])) + "<redacted>" + text[at...]
    }

    /// The parts before the last `@`, or all without one; none for hosts with an optional port.
    private static func secretParts(of value: String) -> [String] {
        let rest = value.range(of: "://").map { value[$0.upperBound...] } ?? value[...]
        if let at = rest.lastIndex(of: "@") { return parts(of: String(rest[..<at])) }
        return rest.wholeMatch(of: #/(\[[0-9A-Fa-f:.%]*\]|[A-Za-z0-9._*, -]*)(:[0-9]*)?/?/#) == nil
            ? parts(of: String(rest)) : []
    }

    private static func parts(of text: String) -> [String] {
        [text, text.removingPercentEncoding ?? text].flatMap { text in
            text.split { !$0.isLetter && !$0.isNumber }.map(String.init)
        }
    }
}
