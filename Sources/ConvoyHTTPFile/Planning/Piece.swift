// Text whose variables have their values; answers are still to come.
import Convoy

/// A piece of a text of a request.
package struct Piece: Sendable {
    package enum Source: Sendable {
        case text(String)
        /// Made when the request is.
        case system(SystemVariable)
        /// Of a request that has ended before.
        case answer(Reference)
        /// Of the row for which the request is made.
        case column(String)
    }

    package var source: Source
    /// What may be shown of it: values of private environments and of secret names stay as they are written.
    package var shown: String
    var encoding = ValueEncoding.byPlace

    /// The text; nil where it is not known yet.
    var text: String? { if case .text(let text) = source { text } else { nil } }
    var reference: Reference? { if case .answer(let reference) = source { reference } else { nil } }
    var isSecret: Bool { text != shown }
}

extension [Piece] {
    /// The text, where all of it is known.
    var knownText: String? {
        var text = ""
        for piece in self {
            guard let next = piece.text else { return nil }
            text += next
        }
        return text
    }

    /// The text before the first piece that is not known.
    var leadingText: String { prefix { $0.text != nil }.compactMap(\.text).joined() }

    package var shown: String { map(\.shown).joined() }

    static func plain(_ text: String) -> [Piece] { [Piece(source: .text(text), shown: text)] }
}

extension String {
    /// Whether a variable of this name is likely to hold what others must not see.
    var namesSecret: Bool {
        let name = lowercased()
        return ["pass", "secret", "token", "key", "auth", "credential", "otp", "signature"].contains {
            name.contains($0)
        }
    }
}
