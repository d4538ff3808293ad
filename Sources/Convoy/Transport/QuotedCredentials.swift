// User names and passwords in what libcurl says of a failure.
import Foundation

/// Takes user names and passwords out of texts that quote them.
///
/// libcurl quotes a URL or a proxy variable that it cannot use: whole, in parts, or cut where its buffer of 256 bytes ends.
/// What it makes of a malformed one is anything: of `bob:a/b@proxy` the host is `bob`. So every part of what was given is
/// looked for, and a text that still shows one is dropped.
struct QuotedCredentials {
    /// What may be quoted as a whole.
    private let quotable: [String]
    /// Parts of user names and passwords.
    private var secrets: Set<String> = []

    /// Whatever libcurl may have been given for a request.
    ///
    /// - Parameters:
    ///   - url: of the request.
    ///   - options: its proxy and the password of a key.
    ///   - environment: gives the value of a variable.
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

    /// A text without them; nil when it shows some in a way that cannot be cut out.
    func removed(from text: String) -> String? {
        guard !secrets.isEmpty else { return Self.withoutUserInfo(text) }
        // What has been cut may be the beginning of one.
        guard text.utf8.count < 200 else { return nil }
        var text = text
        for value in quotable { text = text.replacingOccurrences(of: value, with: "<redacted>") }
        text = Self.withoutUserInfo(text)
        let words = Set(Self.parts(of: text).map { $0.lowercased() })
        let lowercased = text.lowercased()
        let shows = secrets.contains { secret in
            let secret = secret.lowercased()
            // A short one would be found in many a word.
            return secret.count < 4 ? words.contains(secret) : lowercased.contains(secret)
        }
        return shows ? nil : text
    }

    /// Replaces what stands before an `@`, up to the next blank, quote or slash.
    private static func withoutUserInfo(_ text: String) -> String {
        guard let at = text.lastIndex(of: "@") else { return text }
        let start = text[..<at].lastIndex { " '\"".contains($0) }.map(text.index(after:)) ?? text.startIndex
        let head = text[start..<at]
        let userInfo = head.range(of: "//")?.upperBound ?? start
        return withoutUserInfo(String(text[..<userInfo])) + "<redacted>" + text[at...]
    }

    /// The parts of what may be a secret in a URL or a variable: what stands before the last `@`, or all of what is
    /// neither a host nor a host with a port.
    private static func secretParts(of value: String) -> [String] {
        let rest = value.range(of: "://").map { value[$0.upperBound...] } ?? value[...]
        if let at = rest.lastIndex(of: "@") { return parts(of: String(rest[..<at])) }
        return rest.wholeMatch(of: #/(\[[0-9A-Fa-f:.%]*\]|[A-Za-z0-9._*, -]*)(:[0-9]*)?/?/#) == nil
            ? parts(of: String(rest)) : []
    }

    /// As they stand and decoded.
    private static func parts(of text: String) -> [String] {
        [text, text.removingPercentEncoding ?? text].flatMap { text in
            text.split { !$0.isLetter && !$0.isNumber }.map(String.init)
        }
    }
}
