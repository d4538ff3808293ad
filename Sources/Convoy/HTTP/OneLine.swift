// Text of others on one line.

extension String {
    /// The text as one line: what a server, a decoder or a caller gave may have line ends, or move the cursor of a
    /// terminal.
    var oneLine: String { String(UnicodeScalarView(unicodeScalars.map { $0.isControl ? " " : $0 })) }
}

extension Unicode.Scalar {
    /// Whether this is a control character or one that ends a line.
    var isControl: Bool {
        if isASCII { return value < 0x20 || value == 0x7F }
        return properties.generalCategory == .control || properties.generalCategory == .lineSeparator
            || properties.generalCategory == .paragraphSeparator
    }
}
