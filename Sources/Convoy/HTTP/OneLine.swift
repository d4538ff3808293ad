// Text of other programs without line ends and control characters.

extension String {
    /// The text with a space in place of each control character and line end.
    ///
    /// Text from a server, a decoder or a caller may have line ends, or control sequences that move a terminal's
    /// cursor.
    package var oneLine: String { String(UnicodeScalarView(unicodeScalars.map { $0.isControl ? " " : $0 })) }
}

extension Unicode.Scalar {
    /// Whether this is a control character or a line end.
    var isControl: Bool {
        if isASCII { return value < 0x20 || value == 0x7F }
        return properties.generalCategory == .control || properties.generalCategory == .lineSeparator
            || properties.generalCategory == .paragraphSeparator
    }
}
