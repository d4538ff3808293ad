// Quoting for a POSIX shell: Shell Command Language, section 2.2.

extension String {
    /// The text as one word of a shell command, on one line unless it ends in a line feed.
    ///
    /// The program receives exactly this text in dash, bash and zsh, also at a prompt with history expansion.
    ///
    /// A typed or pasted control character would edit or end the line at a prompt. So a text with control characters is
    /// written with escapes, which `printf` decodes. A word cannot contain NUL.
    var shellWord: String {
        guard unicodeScalars.contains(where: \.isUnsafeAtPrompt) else {
            // Between single quotes only the quote itself is special. The loop uses scalars, because a quote and a
            // combining mark after it form one character.
            var word = String.UnicodeScalarView("'".unicodeScalars)
            for scalar in unicodeScalars {
                if scalar == "'" { word.append(contentsOf: #"'\''"#.unicodeScalars) } else { word.append(scalar) }
            }
            word.append("'")
            return String(word)
        }
        // Line feeds at the end are handled separately, because a command substitution drops them.
        var rest = self[...]
        while rest.unicodeScalars.last == "\n" { rest.unicodeScalars.removeLast() }
        let lineFeeds = String(repeating: "\n", count: unicodeScalars.count - rest.unicodeScalars.count)
        let start = rest.isEmpty ? "" : "\"$(printf \(rest.utf8.printfFormat))\""
        return start + (lineFeeds.isEmpty ? "" : "'\(lineFeeds)'")
    }
}

extension Sequence<UInt8> {
    /// A quoted format with which `printf` writes exactly these bytes.
    ///
    /// - Complexity: O(*n*); up to four characters a byte.
    var printfFormat: String {
        var format = "'"
        for (index, byte) in enumerated() {
            switch byte {
            case UInt8(ascii: "%"): format += "%%"
            // A minus at the start would begin an option, and an exclamation mark a history expansion.
            case UInt8(ascii: "-") where index == 0, UInt8(ascii: "'"), UInt8(ascii: "!"), UInt8(ascii: "\\"), ..<0x20,
                0x7F...:
                let octal = String(byte, radix: 8)
                format += "\\" + String(repeating: "0", count: 3 - octal.count) + octal
            default: format.unicodeScalars.append(Unicode.Scalar(byte))
            }
        }
        return format + "'"
    }
}

extension Unicode.Scalar {
    /// Whether the character could change the input at a prompt or the display of a line.
    var isUnsafeAtPrompt: Bool { isControl || (!isASCII && properties.generalCategory == .format) }
}
