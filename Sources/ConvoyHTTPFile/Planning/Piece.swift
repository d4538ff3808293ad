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
    /// The last word decides: `db_pass`, `signingKeys`, `OTPCode` and `stripekey` are secret. `key_id`, `sort_key` and
    /// `monkey` are not. A value with a secret name is hidden, and is not sent to a server that a response names.
    var namesSecret: Bool {
        if SecretWords.standard.isSecret(self) { return true }
        // These words may follow the word that decides, as in `token_value`.
        var words = nameWords
        while let last = words.last, Self.trailingWords.contains(last) { words.removeLast() }
        guard let last = words.last else { return false }
        let word = [last, String(last.dropLast(last.hasSuffix("s") ? 1 : 0))].first(where: \.isSecretWord)
        guard let word else { return false }
        guard word.hasSuffix("key") else { return true }
        let kind = word == "key" ? words.dropLast().last ?? "" : String(word.dropLast(3))
        return !Self.kindsOfOpenKeys.contains(kind)
    }

    /// The keys of rows, caches and requests, which give no access.
    private static let kindsOfOpenKeys: Set<String> = [
        "cache", "foreign", "idempotency", "issue", "object", "partition", "primary", "public", "record", "row", "sort",
        "surrogate", "websocket",
    ]
    private static let trailingWords: Set<String> = ["code", "header", "headers", "info", "value"]
    private static let ordinaryWords: Set<String> = [
        "monkey", "donkey", "turkey", "whiskey", "jockey", "hockey", "hotkey", "turnkey", "compass", "encompass",
        "bypass", "trespass", "surpass", "overpass", "underpass",
    ]

    private var isSecretWord: Bool {
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
