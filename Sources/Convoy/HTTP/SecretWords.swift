// The names of secrets: of header fields, parameters, members and variables.
import Foundation

/// Logs, archives, messages, imports and variables all use this rule.
package struct SecretWords: Sendable {
    package static let standardWords: Set<String> = [
        "accesskey", "apikey", "assertion", "authkey", "authorization", "bearer", "credential", "customerkey",
        "encryptionkey", "functionskey", "masterkey", "passphrase", "passwd", "password", "privatekey", "samlresponse",
        "passcode", "secret", "sessid", "session", "signature", "subscriptionkey", "token", "verifier",
        "auth", "code", "cred", "jwt", "key", "otp", "pass", "pin", "pwd", "sid", "sig",
    ]
    package static let standard = SecretWords(standardWords)
    static let placeholder = "<redacted>"
    /// A word with fewer letters must be a complete word of a name: "key" is a secret, "keyboard" is not.
    private static let shortestPart = 5
    /// Short words that may also end a word of the name: "stripekey" is a secret.
    private static let endings = ["pass", "key", "auth", "otp"]
    /// Words for a property of a secret, for example its length; the property is not secret.
    private static let describingWords: Set<String> = [
        "count", "id", "length", "marker", "name", "size", "type", "uri", "url", "word",
    ]
    /// The words before `key` in the names of keys that give no access, for example `primary_key`.
    private static let kindsOfOpenKeys: Set<String> = [
        "cache", "foreign", "idempotency", "issue", "object", "partition", "primary", "public", "record", "row",
        "socket", "sort", "surrogate", "websocket",
    ]
    private static let ordinaryWords: Set<String> = [
        "monkey", "donkey", "turkey", "whiskey", "jockey", "hockey", "hotkey", "turnkey", "startkey", "endkey",
        "compass", "encompass", "bypass", "trespass", "surpass", "overpass", "underpass",
    ]

    private let parts: [[UInt8]]
    private let shortWords: [[UInt8]]
    private let names: Set<String>

    package init(_ words: some Sequence<String>) {
        let words = words.map(Self.bare).filter { !$0.isEmpty }
        parts = words.filter { $0.count >= Self.shortestPart }
        shortWords = words.filter { $0.count < Self.shortestPart }
        names = Set(words.map { String(decoding: $0, as: UTF8.self) })
    }

    // Each word of the name counts: `db_pass`, `STRIPE_KEY_LIVE`, `OTPCode` and `stripekey` are secret. `key_id`,
    // `auth_url`, `sort_key` and `monkey` are not. A long word counts anywhere, also in `page_token_count`, because a
    // value that is hidden needlessly does no harm.
    package func isSecret(_ name: String) -> Bool {
        let bare = Self.bare(name)
        if isSecret(bare: bare) { return true }
        // Most names contain no short word, so they are not divided.
        guard shortWords.contains(where: { bare.contains(bytes: $0) }) else { return false }
        let words = Self.words(of: name)
        if let last = words.last, Self.isDescribing(last) { return false }
        return words.indices.contains { index in
            let next = index + 1 < words.count && Self.isDescribing(words[index + 1])
            return !next && isSecretWord(words[index], after: index > 0 ? words[index - 1] : "")
        }
    }

    /// For sentences, in which a short word such as `pass` or `key` has another meaning.
    package func isSecret(sentence: String) -> Bool { isSecret(bare: Self.bare(sentence)) }

    private func isSecret(bare: [UInt8]) -> Bool {
        names.contains(String(decoding: bare, as: UTF8.self)) || parts.contains { bare.contains(bytes: $0) }
    }

    private func isSecretWord(_ word: String, after previous: String) -> Bool {
        guard let word = Self.singular(word).first(where: isShortSecret) else { return false }
        guard word.hasSuffix("key") else { return true }
        return !Self.kindsOfOpenKeys.contains(word == "key" ? previous : String(word.dropLast(3)))
    }

    private func isShortSecret(_ word: String) -> Bool {
        // `code` is a secret only as a complete name.
        if word == "code" || Self.ordinaryWords.contains(word) { return false }
        return names.contains(word) || Self.endings.contains { names.contains($0) && word.hasSuffix($0) }
    }

    private static func isDescribing(_ word: String) -> Bool {
        singular(word).contains { describingWords.contains($0) }
    }

    private static func singular(_ word: String) -> [String] {
        word.hasSuffix("s") ? [word, String(word.dropLast())] : [word]
    }

    /// The words of a name in lower case: those of `signingKey`, `signing_key` and `Signing-Key` are the same.
    private static func words(of name: String) -> [String] {
        let bytes = Array(name.utf8)
        var (words, word, wasSmall) = ([String](), [UInt8](), false)
        for (index, byte) in bytes.enumerated() {
            let isCapital = (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
            // The last capital of several begins the next word: `OTPCode`.
            let isBeforeSmall = index + 1 < bytes.count && bytes[index + 1].isASCIILetter
            if !isCapital && !byte.isASCIILetter || isCapital && (wasSmall || isBeforeSmall) {
                words.append(String(decoding: word, as: UTF8.self))
                word = []
            }
            if isCapital || byte.isASCIILetter { word.append(byte | 0x20) }
            wasSmall = byte.isASCIILetter
        }
        words.append(String(decoding: word, as: UTF8.self))
        return words.filter { !$0.isEmpty }
    }

    package func redacted(query: String) -> String {
        query.split(separator: "&", omittingEmptySubsequences: false).map { item in
            let pair = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count > 1, !pair[1].isEmpty, isSecret(pair[0].formDecoded) else { return String(item) }
            return "\(pair[0])=%3Credacted%3E"
        }.joined(separator: "&")
    }

    /// A reference is between `<` and `>` (RFC 8288).
    package func redacted(links: String) -> String {
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

    /// The letters and digits of a name, in lower case: `api_key` and `apiKey` are the same name.
    private static func bare(_ name: String) -> [UInt8] {
        name.lowercased().utf8.filter { $0.isASCIILetter || $0.isDigit }
    }
}

extension Substring {
    fileprivate var formDecoded: String {
        guard utf8.contains(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "%") }) else { return String(self) }
        let text = replacingOccurrences(of: "+", with: " ")
        return text.removingPercentEncoding ?? text
    }
}

extension [UInt8] {
    func contains(bytes: [UInt8]) -> Bool {
        guard let first = bytes.first, count >= bytes.count else { return false }
        return (0...count - bytes.count).contains { self[$0] == first && self[$0...].starts(with: bytes) }
    }
}
