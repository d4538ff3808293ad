// Text after variables were replaced. Values of responses are still missing.
import Convoy

package struct Piece: Sendable {
    package enum Source: Sendable {
        case text(String)
        case system(SystemVariable)
        case answer(Reference)
        case column(String)
    }

    package var source: Source
    /// Values from private environments, and of variables with secret names, are shown as placeholders.
    package var shown: String
    var encoding = ValueEncoding.byPlace
    /// The number of placeholders around the piece; 0 for the text of the request itself.
    var depth = 0
    /// The outermost placeholder around the piece; nil for the text of the request itself.
    var placeholder: Placeholder?

    var text: String? { if case .text(let text) = source { text } else { nil } }
    var reference: Reference? { if case .answer(let reference) = source { reference } else { nil } }
    var isSecret: Bool { text != shown }
    var isKnown: Bool {
        switch source {
        case .text, .system: true
        case .answer, .column: false
        }
    }

    func inside(_ placeholder: Placeholder) -> Piece {
        var piece = self
        piece.depth += 1
        piece.placeholder = placeholder
        return piece
    }
}

extension [Piece] {
    /// The text, if it is completely known.
    var knownText: String? { allSatisfy { $0.text != nil } ? leadingText : nil }

    /// The text before the first unknown piece.
    var leadingText: String { prefix { $0.text != nil }.compactMap(\.text).joined() }

    package var shown: String { map(\.shown).joined() }

    static func plain(_ text: String) -> [Piece] { [Piece(source: .text(text), shown: text)] }
}

extension String {
    /// The value of such a variable or field is hidden, and is not sent to a server that only a response names.
    var namesSecret: Bool { SecretWords.standard.isSecret(self) }
}
