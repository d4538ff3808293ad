// Splits a command line as cmd.exe does.

/// Splits a Windows command line with carets, quotation marks and continuation lines.
///
/// Current browsers write `^"`, `^\^"` and `^` before special characters. Older browsers write only `"` and `""`.
struct WindowsWords {
    private(set) var words: [Word] = []
    /// The index of the line after the command.
    private(set) var line: Int
    /// Whether the command is for cmd.exe.
    ///
    /// If false, there are no words.
    let isWindows: Bool

    init(_ lines: [String], from first: Int) {
        line = first
        let text = lines[first]
        let behind = text.trimmed.drop { !$0.isWhitespace }.trimmed
        // In cmd.exe, two quotation marks inside quotes mean one. In other shells they have no effect.
        // A word of two quotation marks is an empty value in every shell.
        let isPOSIX = text.hasSingleQuoteOutsideDoubleQuotes || text.contains("\\$") || text.last == "\\"
        let doublesQuotes = (text + " ").replacing(" \"\" ", with: " ").contains("\"\"")
        isWindows =
            !behind.hasPrefix("'")
            && (text.trimmed.lowercased().hasPrefix("curl.exe") || behind.hasPrefix("^\"") || text.last == "^"
                || !isPOSIX && (text.contains(" ^\"") || doublesQuotes))
        guard isWindows else { return }
        read(Self.withoutCarets(lines, &line), at: Position(line: first + 1, column: 1))
    }

    /// Returns the text of the command without carets, and moves `line` to the line after the command.
    private static func withoutCarets(_ lines: [String], _ line: inout Int) -> String {
        var text = ""
        while line < lines.count {
            var goesOn = false
            var characters = lines[line][...]
            while let character = characters.popFirst() {
                guard character == "^" else {
                    text.append(character)
                    continue
                }
                if let next = characters.popFirst() { text.append(next) } else { goesOn = true }
            }
            line += 1
            // A caret escapes the line end. If an empty line follows, the browser has written a line end inside the
            // text.
            guard goesOn else { break }
            if line < lines.count, lines[line].isEmpty {
                text.append("\n")
                line += 1
            }
        }
        return text
    }

    /// Splits the text as Windows programs split their arguments.
    private mutating func read(_ text: String, at position: Position) {
        let characters = Array(text)
        var (word, isWord, isQuoted, index) = ("", false, false, 0)
        while index < characters.count {
            let character = characters[index]
            let next = index + 1 < characters.count ? characters[index + 1] : nil
            index += 1
            switch character {
            case "\\" where next == "\"" || next == "\\":
                word.append(next ?? "\\")
                index += 1
            case "\"" where isQuoted && next == "\"":
                word.append("\"")
                index += 1
            case "\"":
                isQuoted.toggle()
                isWord = true
            case _ where character.isWhitespace && !isQuoted:
                if isWord || !word.isEmpty { words.append(Word(text: word, position: position, isQuoted: isWord)) }
                (word, isWord) = ("", false)
            default: word.append(character)
            }
        }
        if isWord || !word.isEmpty { words.append(Word(text: word, position: position, isQuoted: isWord)) }
    }
}

extension String {
    /// Whether the text has a `'` outside of double quotes, which is a quote in shells other than cmd.exe.
    fileprivate var hasSingleQuoteOutsideDoubleQuotes: Bool {
        var isQuoted = false
        for character in self {
            if character == "\"" { isQuoted.toggle() }
            if character == "'", !isQuoted { return true }
        }
        return false
    }
}
