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
    var depth = 0
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
    var knownText: String? { allSatisfy { $0.text != nil } ? leadingText : nil }

    var leadingText: String { prefix { $0.text != nil }.compactMap(\.text).joined() }

    package var shown: String { map(\.shown).joined() }

    static func plain(_ text: String) -> [Piece] { [Piece(source: .text(text), shown: text)] }
}

extension String {
    var namesSecret: Bool { SecretWords.standard.isSecret(self) }
}
