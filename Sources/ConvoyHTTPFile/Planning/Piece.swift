// Text after variables were replaced. Values of answers are still missing.
import Convoy

/// A piece of a request's text.
package struct Piece: Sendable {
    package enum Source: Sendable {
        case text(String)
        /// A value that is made when the request is built.
        case system(SystemVariable)
        /// A value of an earlier request's answer.
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
    /// More names than in recordings: `db_pass`, `signingKey`, `stripekey` and `X-Auth` too. `keyword`, `author` and
    /// `monkey` are none.
    var namesSecret: Bool { SecretWords.standard.isSecret(self) || nameWords.contains { $0.endsAsSecret } }

    private var endsAsSecret: Bool {
        let others = ["monkey", "donkey", "turkey", "hotkey", "compass", "bypass"]
        return ["pass", "key", "auth", "otp"].contains { hasSuffix($0) } && !others.contains(self)
    }

    /// The words of a name in lower case: those of `signingKey`, `signing_key` and `Signing-Key` are the same.
    private var nameWords: [String] {
        var words = [""]
        var wasLowercase = false
        for character in self {
            if !character.isLetter || character.isUppercase && wasLowercase { words.append("") }
            if character.isLetter { words[words.count - 1] += character.lowercased() }
            wasLowercase = character.isLowercase
        }
        return words
    }
}
