// Which values of queries, forms and header fields are redacted in recordings.
import Foundation

/// The words that mark a name as the name of a secret.
package struct SecretWords: Sendable {
    /// The default words.
    static let standardWords: Set<String> = [
        "accesskey", "apikey", "assertion", "authkey", "authorization", "bearer", "credential", "customerkey",
        "encryptionkey", "functionskey", "masterkey", "passphrase", "passwd", "password", "privatekey", "samlresponse",
        "secret", "sessid", "session", "signature", "subscriptionkey", "token", "verifier",
        "auth", "code", "jwt", "key", "otp", "pass", "pin", "pwd", "sid", "sig",
    ]
    package static let standard = SecretWords(standardWords)
    static let placeholder = "<redacted>"
    /// Shorter words must match the complete name: "key" is a secret, "monkey" is not.
    private static let shortestPart = 5

    private let parts: [[UInt8]]
    private let names: Set<[UInt8]>

    init(_ words: some Sequence<String>) {
        let words = words.map(Self.bare)
        parts = words.filter { $0.count >= Self.shortestPart }
        names = Set(words.filter { !$0.isEmpty })
    }

    /// Whether the value of a parameter or field of that name is a secret.
    package func isSecret(_ name: String) -> Bool {
        let name = Self.bare(name)
        return names.contains(name) || parts.contains { name.contains(bytes: $0) }
    }

    /// A query or form with the values of secrets replaced.
    ///
    /// Every other byte is unchanged.
    func redacted(query: String) -> String {
        query.split(separator: "&", omittingEmptySubsequences: false).map { item in
            let pair = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count > 1, !pair[1].isEmpty, isSecret(pair[0].formDecoded) else { return String(item) }
            return "\(pair[0])=%3Credacted%3E"
        }.joined(separator: "&")
    }

    /// The value of a `Link` field with the secrets in its references replaced.
    ///
    /// A reference is between `<` and `>` (RFC 8288).
    func redacted(links: String) -> String {
        var (shown, rest) = ("", links[...])
        while let start = rest.firstIndex(of: "<"), let end = rest[start...].firstIndex(of: ">") {
            let target = rest.index(after: start)
            shown += rest[..<target] + redacted(reference: String(rest[target..<end]))
            rest = rest[end...]
        }
        return shown + rest
    }

    /// A URL or reference without user name and password, and with the secrets in its query and fragment replaced.
    package func redacted(reference text: String) -> String {
        var reference = URLReference(text.withoutUserInfo)
        reference.query = reference.query.map(redacted(query:))
        // OAuth's implicit grant puts the token into the fragment.
        reference.fragment = reference.fragment.map(redacted(query:))
        return reference.text
    }

    /// Letters and digits in lower case: `X-Api-Key`, `api_key` and `apiKey` are one name.
    private static func bare(_ name: String) -> [UInt8] {
        name.lowercased().utf8.filter { $0.isASCIILetter || (0x30...0x39).contains($0) }
    }
}

extension Substring {
    /// The text with plus signs as blanks and percent escapes decoded, if the result is valid text.
    fileprivate var formDecoded: String {
        guard utf8.contains(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "%") }) else { return String(self) }
        let text = replacingOccurrences(of: "+", with: " ")
        return text.removingPercentEncoding ?? text
    }
}

extension [UInt8] {
    /// Whether the array contains these bytes in a row.
    fileprivate func contains(bytes: [UInt8]) -> Bool {
        guard let first = bytes.first, count >= bytes.count else { return false }
        return (0...count - bytes.count).contains { self[$0] == first && self[$0...].starts(with: bytes) }
    }
}
