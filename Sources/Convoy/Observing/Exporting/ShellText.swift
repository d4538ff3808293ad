// Words for a POSIX shell that reach a program as they are: Shell Command Language, section 2.2.

extension String {
    /// The text as one word of a shell command, on one line: what is typed or pasted is what the program gets, in dash,
    /// bash and zsh, at a prompt with history expansion too.
    ///
    /// A control character at a prompt edits the line, or ends it; so do those that a paste brings. It is written as an
    /// escape that `printf` undoes. A word cannot contain NUL.
    var shellWord: String {
        guard unicodeScalars.contains(where: \.isUnsafeAtPrompt) else {
            // Nothing is special between single quotes but the quote itself.
            // By scalars: a quote and a combining mark behind it are one character, which is not the quote.
            var word = String.UnicodeScalarView("'".unicodeScalars)
            for scalar in unicodeScalars {
                if scalar == "'" { word.append(contentsOf: #"'\''"#.unicodeScalars) } else { word.append(scalar) }
            }
            word.append("'")
            return String(word)
        }
        // A command substitution drops the line feeds at its end.
        var rest = self[...]
        while rest.unicodeScalars.last == "\n" { rest.unicodeScalars.removeLast() }
        let lineFeeds = String(repeating: "\n", count: unicodeScalars.count - rest.unicodeScalars.count)
        let start = rest.isEmpty ? "" : "\"$(printf \(rest.utf8.printfFormat))\""
        return start + (lineFeeds.isEmpty ? "" : "'\(lineFeeds)'")
    }
}

extension Sequence<UInt8> {
    /// A quoted format that makes `printf` write these bytes, whatever they are.
    ///
    /// - Complexity: O(*n*); up to four characters a byte.
    var printfFormat: String {
        var format = "'"
        for (index, byte) in enumerated() {
            switch byte {
            case UInt8(ascii: "%"): format += "%%"
            // An option begins with a minus, and history expansion with an exclamation mark.
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
    /// Whether it does something at a prompt, or to the look of a line, instead of standing there.
    var isUnsafeAtPrompt: Bool { isControl || (!isASCII && properties.generalCategory == .format) }
}
