// Splits the text of a handler into tokens.
import Convoy

/// Splits a script into tokens with their positions.
struct ScriptLexer {
    enum Token: Hashable {
        case name(String)
        case number(String)
        case text(String)
        /// A template literal: texts, and the sources of expressions with their positions.
        case template([TemplatePart])
        case mark(String)
        case end
    }

    enum TemplatePart: Hashable {
        case text(String)
        case source(String, Position)
    }

    struct Placed {
        var token: Token
        var position: Position
        /// The index after the last character of the token.
        var end: Int
        var start: Int
    }

    private static let marks = [
        "===", "!==", "...", "=>", "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "(", ")", "{", "}", "[", "]", ".",
        ",",
        ";", ":", "?", "!", "<", ">", "=", "+", "-", "*", "/",
    ]

    let characters: [Character]
    private var index = 0
    private var line: Int
    /// The index of the line's first character.
    ///
    /// The index is zero or negative for the first line, which starts before this text in the file.
    private var lineStart: Int

    init(_ text: String, at position: Position) {
        characters = Array(text)
        (line, lineStart) = (position.line, 1 - position.column)
    }

    static func tokens(_ text: String, at position: Position) throws(Problem) -> [Placed] {
        var lexer = ScriptLexer(text, at: position)
        var tokens: [Placed] = []
        repeat { tokens.append(try lexer.next()) } while tokens.last?.token != .end
        return tokens
    }

    private var position: Position { Position(line: line, column: index - lineStart + 1) }
    private var character: Character? { index < characters.count ? characters[index] : nil }

    private func starts(with text: String) -> Bool { characters[index...].starts(with: text) }

    private mutating func step() {
        if characters[index].isNewline { (line, lineStart) = (line + 1, index + 1) }
        index += 1
    }

    private mutating func skipBlanks() throws(Problem) {
        while let next = character {
            if next.isWhitespace {
                step()
            } else if starts(with: "//") {
                while let next = character, !next.isNewline { step() }
            } else if starts(with: "/*") {
                let place = position
                index += 2
                while index < characters.count, !starts(with: "*/") { step() }
                guard index < characters.count else { throw Script.problem(place, "a comment is not closed") }
                index += 2
            } else {
                return
            }
        }
    }

    private mutating func next() throws(Problem) -> Placed {
        try skipBlanks()
        let (place, start) = (position, index)
        func placed(_ token: Token) -> Placed { Placed(token: token, position: place, end: index, start: start) }
        guard let first = character else { return placed(.end) }
        if first.isLetter || "_$".contains(first) {
            while let next = character, next.isLetter || next.isNumber || "_$".contains(next) { index += 1 }
            return placed(.name(String(characters[start..<index])))
        }
        if first.isASCIIDigit {
            while let next = character, next.isASCIIDigit || next == "." { index += 1 }
            let digits = String(characters[start..<index])
            guard character?.isLetter != true, case .number? = JSONValue(json: digits.utf8) else {
                throw Script.problem(place, "\(digits.shown) is not a supported number")
            }
            return placed(.number(digits))
        }
        if first == "\"" || first == "'" { return placed(.text(try text(first, place))) }
        if first == "`" { return placed(.template(try template(place))) }
        guard let mark = Self.marks.first(where: { starts(with: $0) }) else {
            throw Script.problem(place, "\(String(first).shown) is not supported")
        }
        index += mark.count
        return placed(.mark(mark))
    }

    private mutating func text(_ quote: Character, _ place: Position) throws(Problem) -> String {
        index += 1
        var text = ""
        while let next = character, next != quote {
            guard !next.isNewline else { throw Script.problem(place, "a string is not closed on its line") }
            text.append(try taken())
        }
        guard character == quote else { throw Script.problem(place, "a string is not closed") }
        index += 1
        return text
    }

    private mutating func template(_ place: Position) throws(Problem) -> [TemplatePart] {
        index += 1
        var (parts, text) = ([TemplatePart](), "")
        while let next = character, next != "`" {
            guard starts(with: "${") else {
                text.append(try taken())
                continue
            }
            index += 2
            let (inner, start) = (position, index)
            while let next = character, next != "}" {
                guard !"`{".contains(next) else {
                    throw Script.problem(position, "a string inside a template string is not supported")
                }
                step()
            }
            guard character == "}" else { break }
            if !text.isEmpty { parts.append(.text(text)) }
            text = ""
            parts.append(.source(String(characters[start..<index]), inner))
            index += 1
        }
        guard character == "`" else { throw Script.problem(place, "a string is not closed") }
        index += 1
        return parts + (text.isEmpty ? [] : [.text(text)])
    }

    /// The next character of a text, with its escape decoded.
    private mutating func taken() throws(Problem) -> Character {
        let next = characters[index]
        guard next == "\\", index + 1 < characters.count else {
            step()
            return next
        }
        index += 1
        let letter = characters[index]
        if letter == "u" || letter == "x" {
            throw Script.problem(position, "an escape with digits is not supported; write the character itself")
        }
        step()
        return ["n": "\n", "t": "\t", "r": "\r"][letter] ?? letter
    }
}

extension Script {
    static func problem(_ position: Position, _ what: String) -> Problem {
        Problem(position, what, advice, kind: .script)
    }

    static let advice =
        "without a script engine, handlers support only client.global.set, test, assert and log; give "
        + "--skip-scripts to skip it"
}
