// Splits a command into words like a shell.

/// Splits a pasted command with quotes, backslashes and continued lines.
struct ShellWords {
    private let lines: [String]
    /// The index of the line with the next character; after reading, of the line after the command.
    private(set) var line: Int
    private var column = 0
    private let end: Int
    private(set) var words: [Word] = []
    private(set) var problem: Problem?

    /// Splits the command that begins in line `first` and ends before line `end`.
    init(_ lines: [String], from first: Int, to end: Int) {
        (self.lines, line, self.end) = (lines, first, end)
        characters = Array(lines[first])
        read()
    }

    private var characters: [Character]

    private var place: Position { Position(line: line + 1, column: column + 1) }

    private mutating func read() {
        while skipBlanks() {
            let start = place
            var (text, isQuoted) = ("", false)
            while column < characters.count, !characters[column].isWhitespace {
                isQuoted = isQuoted || "'\"\\".contains(characters[column])
                guard readPiece(into: &text, start) else {
                    line = end
                    return
                }
            }
            words.append(Word(text: text, position: start, isQuoted: isQuoted))
        }
        line = min(line + 1, end)
    }

    /// Moves to the next word.
    ///
    /// Returns false at the end of the command.
    private mutating func skipBlanks() -> Bool {
        while true {
            while column < characters.count, characters[column].isWhitespace { column += 1 }
            guard column < characters.count else { return false }
            let isLast = column == characters.count - 1
            // A final backslash, caret (cmd.exe) or backquote (PowerShell) continues the line.
            guard isLast, "\\^`".contains(characters[column]), nextLine() else { return true }
        }
    }

    private mutating func nextLine() -> Bool {
        guard line + 1 < end else { return false }
        line += 1
        column = 0
        characters = Array(lines[line])
        return true
    }

    /// Reads a quoted part, an escape or a character; false if a quote is not closed.
    private mutating func readPiece(into text: inout String, _ start: Position) -> Bool {
        let character = characters[column]
        column += 1
        switch character {
        case "'": return readQuoted(into: &text, "'", escapes: false, start)
        case "\"": return readQuoted(into: &text, "\"", escapes: true, start)
        case "$" where column < characters.count && characters[column] == "'":
            column += 1
            return readANSI(into: &text, start)
        case "\\":
            if column < characters.count {
                text.append(characters[column])
                column += 1
            } else if !nextLine() {
                text.append(character)
            }
        default: text.append(character)
        }
        return true
    }

    /// Takes the next character inside quotes, across line ends; nil if the quote is not closed.
    private mutating func nextQuoted(_ start: Position) -> Character? {
        if column < characters.count {
            column += 1
            return characters[column - 1]
        }
        guard nextLine() else {
            problem = Problem(start, "a quote in this word is not closed", "write the same quote after it")
            return nil
        }
        return "\n"
    }

    private mutating func readQuoted(into text: inout String, _ quote: Character, escapes: Bool, _ start: Position)
        -> Bool
    {
        while let character = nextQuoted(start) {
            if character == quote { return true }
            guard escapes, character == "\\" else {
                text.append(character)
                continue
            }
            guard let escaped = nextQuoted(start) else { return false }
            if escaped == "\n" { continue }
            if !"\"\\$`".contains(escaped) { text.append("\\") }
            text.append(escaped)
        }
        return false
    }

    /// Reads `$'…'`, which browsers use for requests with line ends.
    private mutating func readANSI(into text: inout String, _ start: Position) -> Bool {
        while let character = nextQuoted(start) {
            if character == "'" { return true }
            guard character == "\\" else {
                text.append(character)
                continue
            }
            guard let escaped = nextQuoted(start) else { return false }
            switch escaped {
            case "n": text.append("\n")
            case "r": text.append("\r")
            case "t": text.append("\t")
            case "a", "b", "e", "E", "f", "v":
                let values: [Character: Unicode.Scalar] = [
                    "a": "\u{7}", "b": "\u{8}", "e": "\u{1B}", "E": "\u{1B}", "f": "\u{C}",
                ]
                text.unicodeScalars.append(values[escaped] ?? "\u{B}")
            case _ where escaped.octalValue != nil:
                column -= 1
                text += readOctets()
            case "u": text.unicodeScalars.append(readUnit())
            case "U": appendScalar(digits(8), &text)
            case "x": appendScalar(digits(2), &text)
            default: text.append(escaped)
            }
        }
        return false
    }

    /// The text of consecutive octal escapes, each of which is a byte.
    ///
    /// The next character is the first digit. Bytes that are not UTF-8 are code points of Latin-1, as after `\x`.
    private mutating func readOctets() -> String {
        var bytes: [UInt8] = []
        while true {
            var (value, count) = (0, 0)
            while count < 3, column < characters.count, let digit = characters[column].octalValue {
                (value, count, column) = (value * 8 + digit, count + 1, column + 1)
            }
            bytes.append(UInt8(truncatingIfNeeded: value))
            guard column + 1 < characters.count, characters[column] == "\\", characters[column + 1].octalValue != nil
            else { break }
            column += 1
        }
        return String(validating: bytes, as: UTF8.self)
            ?? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    }

    /// Reads up to `most` hexadecimal digits and returns their value; nil if no digit follows.
    private mutating func digits(_ most: Int) -> UInt32? {
        var digits = ""
        while digits.count < most, column < characters.count, characters[column].isHexDigit {
            digits.append(characters[column])
            column += 1
        }
        return UInt32(digits, radix: 16)
    }

    private func appendScalar(_ value: UInt32?, _ text: inout String) {
        if let scalar = value.flatMap(Unicode.Scalar.init) { text.unicodeScalars.append(scalar) }
    }

    /// The scalar after `\u`, which may be a surrogate pair in two escapes, as browsers write it.
    private mutating func readUnit() -> Unicode.Scalar {
        let high = digits(4) ?? 0xFFFD
        if let scalar = Unicode.Scalar(high) { return scalar }
        let start = column
        if column + 1 < characters.count, characters[column] == "\\", characters[column + 1] == "u" {
            column += 2
            if let low = digits(4), (0xD800...0xDBFF).contains(high), (0xDC00...0xDFFF).contains(low),
                let scalar = Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00))
            {
                return scalar
            }
        }
        column = start
        return "\u{FFFD}"
    }
}

extension Character {
    fileprivate var octalValue: Int? { ("0"..."7").contains(self) ? wholeNumberValue : nil }
}
