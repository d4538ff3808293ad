package struct PlannedRequest: Sendable {
    package enum Part: Sendable {
        case text([Piece])
        case file(String, Position)
    }

    package var request: FileRequest
    package var label = ""
    package var target: [Piece] = []
    package var fields: [(name: String, value: [Piece])] = []
    package var body: [Part] = []
    package var graphQLVariables: [Part] = []
    package var output: (path: [Piece], replaces: Bool)?
    var globals: [String: Piece] = [:]
    package var built: BuiltRequest?
    package var needs: [Int] = []
    /// The indices of the requests that must run before this one, with any outcome.
    package var follows: [Int] = []
    /// A body that no reference, check, handler or output needs is discarded while it arrives.
    package var keepsBody = false

    package var method: String { request.method }

    package var shownTarget: String {
        let text = target.shown
        guard text.utf8.contains(where: { $0 == UInt8(ascii: "=") || $0 == UInt8(ascii: "@") }) else { return text }
        let mark = text.utf8.firstIndex(of: UInt8(ascii: "?")) ?? text.endIndex
        let (place, query) = (Self.withoutUser(text[..<mark]), text[mark...])
        guard query.utf8.contains(UInt8(ascii: "=")) else { return place + query }
        let items = query.utf8.dropFirst().split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false)
        let shown = items.map { item in
            let pair = item.split(separator: UInt8(ascii: "="), maxSplits: 1).map(Substring.init)
            guard pair.count > 1, !pair[1].hasPrefix("{{"), String(pair[0]).namesSecret else {
                return String(Substring(item))
            }
            return "\(pair[0])=***"
        }
        return place + "?" + shown.joined(separator: "&")
    }

    private static func withoutUser(_ text: Substring) -> String {
        guard let end = text.utf8.lastIndex(of: UInt8(ascii: "@")), let start = text.schemeEnd, start <= end,
            let at = text[start...].authority.utf8.lastIndex(of: UInt8(ascii: "@"))
        else { return String(text) }
        return text[..<start] + "***" + text[at...]
    }
    var references: [Reference] { (pieces + globals.values).compactMap(\.reference) }

    var isKnown: Bool { pieces.allSatisfy(\.isKnown) }

    var isFixed: Bool {
        pieces.allSatisfy { $0.text != nil }
            && (body + graphQLVariables).allSatisfy { if case .text = $0 { true } else { false } }
    }

    package var secrets: Set<String> { Set(pieces.filter(\.isSecret).compactMap(\.text)) }

    var pieces: [Piece] { target + fields.flatMap(\.value) + (output?.path ?? []) + bodyPieces }

    var bodyPieces: [Piece] {
        (body + graphQLVariables).flatMap { part -> [Piece] in if case .text(let text) = part { text } else { [] } }
    }

    var isSafe: Bool { ["GET", "HEAD", "OPTIONS", "TRACE", "QUERY", "SEARCH", "PROPFIND", "REPORT"].contains(method) }
}

extension [Piece] {
    var origin: String? {
        let text = leadingText
        guard let start = text.schemeEnd else { return nil }
        let authority = text[start...].authority
        guard authority.endIndex < text.endIndex || knownText != nil else { return nil }
        return String(text[..<authority.endIndex]).originText
    }
}
