// The words of a command as cmd.exe takes it apart.

/// Takes a command of Windows apart: carets, quotation marks, and lines that go on.
///
/// Browsers write `^"`, `^\^"` and `^` before each mark; older ones write `"` and `""` alone.
struct WindowsWords {
    private(set) var words: [Word] = []
    /// The line behind the command.
    private(set) var line: Int
    /// Whether the command is one of cmd.exe; the words are empty otherwise.
    let isWindows: Bool

    init(_ lines: [String], from first: Int) {
        line = first
        let text = lines[first]
        let behind = text.trimmed.drop { !$0.isWhitespace }.trimmed
        // Two marks within others are one there; in other shells they are none.
        let doublesQuotes = text.contains("\"\"") && !text.contains("'") && text.last != "\\"
        isWindows =
            !behind.hasPrefix("'")
            && (text.trimmed.lowercased().hasPrefix("curl.exe") || text.contains("^\"") || text.last == "^"
                || doublesQuotes)
        guard isWindows else { return }
        read(Self.withoutCarets(lines, &line), at: Position(line: first + 1, column: 1))
    }

    /// The text of the command, on as many lines as it has.
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
            // A line end that is escaped is none; the one behind it is what browsers mean by a line end.
            guard goesOn else { break }
            if line < lines.count, lines[line].isEmpty {
                text.append("\n")
                line += 1
            }
        }
        return text
    }

    /// As programs of Windows read their arguments.
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
                if isWord || !word.isEmpty { words.append(Word(text: word, position: position)) }
                (word, isWord) = ("", false)
            default: word.append(character)
            }
        }
        if isWord || !word.isEmpty { words.append(Word(text: word, position: position)) }
    }
}
