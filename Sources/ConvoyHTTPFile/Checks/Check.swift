// Checks of a response: `# @expect status 2xx`.

/// A condition that a response must satisfy.
package struct Check: Hashable, Sendable {
    package enum Subject: Hashable, Sendable {
        case status
        case header(String)
        /// The body, or the first node that a path selects in the body.
        case body(JSONPath?)
        /// Milliseconds from the start of the transfer to its end.
        case time
    }

    package enum Condition: Hashable, Sendable {
        case exists(Bool)
        /// A class of status codes, such as `2xx`.
        case statusClass(Int)
        case compares(Comparison, String)
        case contains(String)
        case begins(String)
        case ends(String)
    }

    package enum Comparison: String, Hashable, Sendable, CaseIterable {
        case equal = "=="
        case unequal = "!="
        case atMost = "<="
        case atLeast = ">="
        case less = "<"
        case more = ">"
    }

    package var subject: Subject
    package var condition: Condition
    /// The text of the check in the file.
    package var source: String
    package var position: Position

    static let examples = "write status 2xx, status == 200, header Name contains text, body.$.id exists or time < 500ms"

    init(_ source: String, at position: Position) throws(Problem) {
        func problem(_ what: String, _ advice: String = Self.examples) -> Problem { Problem(position, what, advice) }
        (self.source, self.position) = (source, position)
        let subjectWord = String(source.prefix { !$0.isWhitespace })
        var rest = source.dropFirst(subjectWord.count).trimmed
        switch subjectWord {
        case "status": subject = .status
        case "time", "duration": subject = .time
        case "body": subject = .body(nil)
        case "header":
            let name = String(rest.prefix { !$0.isWhitespace })
            guard name.isFieldName else { throw problem("header needs the name of a field") }
            subject = .header(name)
            rest = rest.dropFirst(name.count).trimmed
        case _ where subjectWord.hasPrefix("body.") || subjectWord.hasPrefix("body["):
            // A JSONPath may contain blanks in quotes, so it may be more than one word.
            let path = Self.path(in: source.dropFirst(4))
            rest = source.dropFirst(4 + path.count).trimmed
            let text = path.hasPrefix(".$") ? path.dropFirst() : "$" + path
            do throws(JSONPath.Defect) { subject = .body(try JSONPath(String(text))) } catch {
                throw problem("\(text.description.shown) is not a JSONPath: \(error.what)", error.advice)
            }
        default: throw problem("\(subjectWord.shown) cannot be checked")
        }
        condition = try Self.condition(rest, subject, problem)
    }

    /// The JSONPath at the start of a text: it ends before the first blank outside of brackets.
    private static func path(in text: Substring) -> String {
        var (path, depth, quote) = ("", 0, Character?.none)
        for character in text {
            if quote == nil, depth == 0, character.isWhitespace { break }
            if let open = quote {
                if character == open { quote = nil }
            } else if depth > 0, "'\"".contains(character) {
                quote = character
            } else if character == "[" {
                depth += 1
            } else if character == "]" {
                depth -= 1
            }
            path.append(character)
        }
        return path
    }

    private static func condition(
        _ text: String, _ subject: Subject, _ problem: (String, String) -> Problem
    ) throws(Problem) -> Condition {
        if text.isEmpty || text == "exists" { return .exists(true) }
        if ["!exists", "not exists"].contains(text) { return .exists(false) }
        if subject == .status, text.count == 3, text.lowercased().hasSuffix("xx"),
            let digit = text.first?.wholeNumberValue
        {
            return .statusClass(digit)
        }
        if subject == .status, Int(text) != nil { return .compares(.equal, text) }
        let word = String(text.prefix { !$0.isWhitespace })
        let rest = unquoted(text.dropFirst(word.count).trimmed)
        switch word {
        case "contains", "includes": if !rest.isEmpty { return .contains(rest) }
        case "startsWith": if !rest.isEmpty { return .begins(rest) }
        case "endsWith": if !rest.isEmpty { return .ends(rest) }
        default: break
        }
        for comparison in Comparison.allCases where text.hasPrefix(comparison.rawValue) {
            let value = unquoted(text.dropFirst(comparison.rawValue.count).trimmed)
            if value.isEmpty { throw problem("no value follows \(comparison.rawValue)", examples) }
            if subject == .time, milliseconds(value) == nil {
                throw problem("\(value.shown) is not a time", "write 500ms or 2s")
            }
            if subject == .status, Int(value) == nil {
                throw problem("\(value.shown) is not a status", "write status == 200")
            }
            return .compares(comparison, value)
        }
        throw problem("\(text.shown) is not a condition", examples)
    }

    private static func unquoted(_ text: String) -> String {
        guard text.count > 1, let first = text.first, "'\"".contains(first), text.last == first else { return text }
        return String(text.dropFirst().dropLast())
    }

    /// Parses `500ms`, `2s`, or a plain number of milliseconds.
    package static func milliseconds(_ text: String) -> Double? {
        let digits = text.prefix { $0.isASCIIDigit || $0 == "." }
        guard let number = Double(digits) else { return nil }
        switch text.dropFirst(digits.count).trimmed {
        case "", "ms": return number
        case "s": return number * 1_000
        default: return nil
        }
    }
}
