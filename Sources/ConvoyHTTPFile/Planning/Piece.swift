// Text after variables were replaced. Values of responses are still missing.
import Convoy

/// A piece of a request's text.
package struct Piece: Sendable {
    package enum Source: Sendable {
        case text(String)
        /// A value that is made when the request is built.
        case system(SystemVariable)
        /// A value of an earlier request's response.
        case answer(Reference)
        /// A value of the row for which the request is sent.
        case column(String)
    }

    package var source: Source
    /// The text for display.
    ///
    /// Values of private environments and of secret names are shown as placeholders.
    package var shown: String
    var encoding = ValueEncoding.byPlace

    /// The text; nil while unknown.
    var text: String? { if case .text(let text) = source { text } else { nil } }
    var reference: Reference? { if case .answer(let reference) = source { reference } else { nil } }
    var isSecret: Bool { text != shown }
}

extension [Piece] {
    /// The text, if it is completely known.
    var knownText: String? {
        var text = ""
        for piece in self {
            guard let next = piece.text else { return nil }
            text += next
        }
        return text
    }

    /// The text before the first unknown piece.
    var leadingText: String { prefix { $0.text != nil }.compactMap(\.text).joined() }

    package var shown: String { map(\.shown).joined() }

    static func plain(_ text: String) -> [Piece] { [Piece(source: .text(text), shown: text)] }
}

extension String {
    /// Whether the name of a variable or a field suggests a secret.
    ///
    /// Each of its words counts: `db_pass`, `STRIPE_KEY_LIVE`, `OTPCode` and `stripekey` are secret. `key_id`, `auth_url`,
    /// `sort_key` and `monkey` are not. A value with such a name is hidden. It is not sent to a server that a response
    /// names.
    var namesSecret: Bool {
        if SecretWords.standard.isSecret(self) { return true }
        let words = nameWords
        if let last = words.last, last.isDescribing { return false }
        return words.indices.contains { index in
            let next = index + 1 < words.count && words[index + 1].isDescribing
            return !next && words[index].isSecretWord(after: index > 0 ? words[index - 1] : "")
        }
    }

    /// Words for something about a secret, which is none itself.
    private static let describingWords: Set<String> = [
        "count", "id", "length", "name", "size", "type", "uri", "url", "word",
    ]
    /// The keys of rows, caches and requests, which give no access.
    private static let kindsOfOpenKeys: Set<String> = [
        "cache", "foreign", "idempotency", "issue", "object", "partition", "primary", "public", "record", "row", "sort",
        "surrogate", "websocket",
    ]
    private static let ordinaryWords: Set<String> = [
        "monkey", "donkey", "turkey", "whiskey", "jockey", "hockey", "hotkey", "turnkey", "compass", "encompass",
        "bypass", "trespass", "surpass", "overpass", "underpass",
    ]

    private var isDescribing: Bool { singular.contains(where: Self.describingWords.contains) }

    /// The word, and the word without an `s` at its end.
    private var singular: [String] { [self, String(dropLast(hasSuffix("s") ? 1 : 0))] }

    private func isSecretWord(after previous: String) -> Bool {
        guard let word = singular.first(where: \.isSecretWord) else { return false }
        guard word.hasSuffix("key") else { return true }
        return !Self.kindsOfOpenKeys.contains(word == "key" ? previous : String(word.dropLast(3)))
    }

    private var isSecretWord: Bool {
        // `code` is a secret only as a complete name.
        if self == "code" { return false }
        if ["cred", "passcode"].contains(self) || SecretWords.standard.isSecret(self) { return true }
        return ["pass", "key", "auth", "otp"].contains { hasSuffix($0) } && !Self.ordinaryWords.contains(self)
    }

    /// The words of a name in lower case: those of `signingKey`, `signing_key` and `Signing-Key` are the same.
    private var nameWords: [String] {
        let characters = Array(self)
        var words = [""]
        var wasLowercase = false
        for (index, character) in characters.enumerated() {
            // The last capital of several begins the next word: `OTPCode`.
            let isLast = index + 1 < characters.count && characters[index + 1].isLowercase
            if !character.isLetter || character.isUppercase && (wasLowercase || isLast) { words.append("") }
            if character.isLetter { words[words.count - 1] += character.lowercased() }
            wasLowercase = character.isLowercase
        }
        return words.filter { !$0.isEmpty }
    }
}
