// A check whether a text is one line.

extension String {
    /// Whether the text is one line without a control character.
    var isOneLine: Bool {
        unicodeScalars.allSatisfy { !$0.properties.isWhitespace || $0 == " " || $0 == "\u{A0}" }
            && unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    }
}
