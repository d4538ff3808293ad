// The secrets of a request, which a server may repeat in its response.
import Foundation

/// Replaces secrets in texts that a server or a proxy has chosen.
///
/// All logs, reports and messages use this type.
///
/// A secret may be encoded for a URL, for JSON or for HTML, even several times. The type therefore searches the text as
/// it is, then decodes the text step by step and searches it again.
package struct SentSecrets: Sendable {
    private static let placeholder = Array(SecretWords.placeholder.utf8)
    /// The maximum number of times that a text is decoded.
    ///
    /// Without a limit, a text of nested escapes would take quadratic time.
    private static let decodingCount = 3

    /// Each secret as sent and percent-decoded, and again with plus signs for blanks, as in a form.
    private let secrets: [[UInt8]]

    /// Searches for these secrets.
    ///
    /// Texts of up to three bytes, `true`, `false` and `null` are left out, because ordinary text contains them.
    package init(_ secrets: Set<String>) {
        let decoded = secrets.union(secrets.compactMap(\.removingPercentEncoding))
        let spelled = decoded.union(decoded.map { $0.replacing(" ", with: "+") })
        self.secrets = spelled.subtracting(["true", "false", "null"]).map { Array($0.utf8) }.filter { $0.count > 3 }
    }

    /// Searches for the secrets that requests have sent, and for further ones.
    package init(of requests: some Sequence<PreparedRequest>, and others: Set<String> = []) {
        self.init(requests.reduce(into: others) { $0.formUnion($1.repeatedSecrets) })
    }

    /// The URL for people, without the secrets that its server may repeat.
    package func shown(_ url: URL) -> String { hidden(inURL: url.redactedString) }

    /// The URL with each secret replaced by a text that a URL may contain.
    func hidden(inURL text: String) -> String {
        hidden(in: text).replacing(SecretWords.placeholder, with: "%3Credacted%3E")
    }

    /// The text with each secret replaced, also where the text was clipped inside a secret.
    package func hidden(in text: String) -> String {
        guard !secrets.isEmpty else { return text }
        var escaped = EscapedText(text)
        var found = secrets.flatMap(escaped.ranges)
        for _ in 1...Self.decodingCount where escaped.decode() { found += secrets.flatMap(escaped.ranges) }
        guard !found.isEmpty else { return text }
        let bytes = Array(text.utf8)
        var (shown, end) = ([UInt8](), 0)
        for range in found.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            if range.lowerBound >= end { shown += bytes[end..<range.lowerBound] + Self.placeholder }
            end = max(end, range.upperBound)
        }
        return String(decoding: shown + bytes[end...], as: UTF8.self)
    }
}

extension PreparedRequest {
    /// The secrets that the request sends.
    ///
    /// These are the password of the URL, or its user name without one, and the values of parameters, header fields and
    /// body members whose names suggest a secret. The values of the `Digest` scheme are left out, because they are
    /// valid for one request only.
    package func secrets(_ words: SecretWords = .standard) -> Set<String> {
        let parts = URLComponents(url: url, resolvingAgainstBaseURL: true)
        let items = (parts?.queryItems ?? []) + (parts?.percentEncodedQueryItems ?? [])
        let values = items.filter { words.isSecret($0.name) }.map(\.value)
        // A form sends a blank as a plus sign.
        let formValues = values.map { $0?.replacing("+", with: " ") }
        let fields = headerFields.filter {
            (HeaderFields.isSecret($0.name) || words.isSecret($0.name)) && !$0.isDigest
        }
        var secrets = parts?.userInfoSecrets ?? []
        for value in values + formValues { if let value { secrets.insert(value) } }
        for word in fields.flatMap(\.secretWordsOfValue) { secrets.insert(word.trimmingCharacters(in: ["\""])) }
        return secrets.union(body?.secrets(words, contentType: headerFields["Content-Type"] ?? "") ?? [])
    }

    /// The secrets that a message must not quote when a server repeats them.
    ///
    /// Values of at most five bytes are left out, because they are mostly ordinary words, as in the cookie
    /// `theme=plain`.
    package var repeatedSecrets: Set<String> { secrets().filter { $0.utf8.count > 5 } }
}

extension URLComponents {
    /// The password, and the credentials as the `Basic` scheme sends them.
    ///
    /// A user name without a password is usually a token, so it is a secret too.
    var userInfoSecrets: Set<String> {
        guard user != nil || password != nil else { return [] }
        let basic = Data("\(user ?? ""):\(password ?? "")".utf8).base64EncodedString()
        let secret = password.flatMap { $0.isEmpty ? nil : $0 } ?? user
        return Set([secret, percentEncodedPassword, basic].compactMap(\.self)).subtracting([""])
    }
}

extension HeaderFields.Field {
    /// Whether the value has credentials of the `Digest` scheme.
    fileprivate var isDigest: Bool {
        name.lowercased().hasSuffix("authorization") && value.lowercased().hasPrefix("digest ")
    }

    /// The words of the value, without the names of cookies and without the scheme of credentials.
    fileprivate var secretWordsOfValue: [Substring] {
        let words = value.split { " ;,".contains($0) }
        if name.equalsIgnoringCase("Cookie") { return words.flatMap(\.valuesOfPair) }
        guard name.lowercased().hasSuffix("authorization"), words.count > 1 else {
            return words + words.flatMap { $0.split(separator: "=") }
        }
        // A word with an equals sign is a parameter, or a token that contains one.
        let credentials = Array(words.dropFirst()) + words.dropFirst().flatMap(\.valuesOfPair)
        guard words[0].lowercased() == "basic", let data = Data(base64Encoded: String(words[1])) else {
            return credentials
        }
        let password = String(decoding: data, as: UTF8.self).split(
            separator: ":", maxSplits: 1, omittingEmptySubsequences: false
        ).dropFirst()
        return credentials + password
    }
}

extension Substring {
    /// The parts of the text between equals signs, without the first part.
    ///
    /// A text without an equals sign is returned complete.
    fileprivate var valuesOfPair: ArraySlice<Substring> {
        let parts = split(separator: "=")
        return parts.count > 1 ? parts.dropFirst() : parts[...]
    }
}
