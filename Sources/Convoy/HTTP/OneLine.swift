// Text of other programs on one line.

extension String {
    /// The text as one line.
    ///
    /// Text from a server, a decoder or a caller may have line ends, or control sequences that move a terminal's
    /// cursor.
    var oneLine: String { String(UnicodeScalarView(unicodeScalars.map { $0.isControl ? " " : $0 })) }
}

extension Unicode.Scalar {
    /// Whether this is a control character or a line end.
    var isControl: Bool {
        if isASCII { return value < 0x20 || value == 0x7F }
        return properties.generalCategory == .control || properties.generalCategory == .lineSeparator
            || properties.generalCategory == .paragraphSeparator
    }
}
