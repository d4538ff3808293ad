import Convoy

package struct Check: Hashable, Sendable {
    package enum Subject: Hashable, Sendable {
        case status
        case header(String)
        case body(JSONPath?)
        case time
    }

    package enum Condition: Hashable, Sendable {
        case exists(Bool)
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

    package static func milliseconds(_ text: String) -> Double? {
        let digits = text.prefix { $0.isASCIIDigit || $0 == "." }
        guard let number = Double(digits) else { return nil }
        switch text.dropFirst(digits.count).trimmed {
        case "", "ms": return number
        case "s": return number * 1_000
        default: return nil
        }
    }

    package func defect(in answer: CheckedAnswer) -> String? {
        guard let found = found(in: answer) else { return nil }
        let isRight =
            switch condition {
            case .exists(let isExpected): (found.value != nil) == isExpected
            case .statusClass(let digit): answer.statusCode / 100 == digit
            case .contains(let text): found.value?.contains(text) == true
            case .begins(let text): found.value?.hasPrefix(text) == true
            case .ends(let text): found.value?.hasSuffix(text) == true
            case .compares(let comparison, let text): found.value.map { compare($0, comparison, text) } ?? false
            }
        if isRight { return nil }
        let isHidden = found.value != nil && isOfSecret
        return "expected \(source), but found \(isHidden ? "another value, which may be secret" : found.shown())"
    }

    private var isOfSecret: Bool {
        switch subject {
        case .header(let name): isSecret(name) || HeaderFields.Field(name: name, value: "").isSecret
        case .body(let path?):
            path.segments.contains { segment in
                segment.selectors.contains { if case .name(let name) = $0 { isSecret(name) } else { false } }
            }
        case .status, .time, .body(nil): false
        }
    }

    private func isSecret(_ name: String) -> Bool { SecretWords.standard.isSecret(name) }

    private func found(in answer: CheckedAnswer) -> (value: String?, shown: () -> String)? {
        switch subject {
        case .status: return (String(answer.statusCode), { String(answer.statusCode) })
        case .time:
            guard let milliseconds = answer.milliseconds else { return nil }
            return (String(milliseconds), { "\(Int(milliseconds.rounded())) ms" })
        case .header(let name):
            let value = answer.field(name)
            return (value, { value?.shown ?? "no such field" })
        case .body(nil):
            let text = String(decoding: answer.body, as: UTF8.self)
            return (text.isEmpty ? nil : text, { text.isEmpty ? "no body" : text.withoutSecrets.shown })
        case .body(let path?):
            guard let json = JSONValue(json: answer.body) else { return (nil, { "a body that is not JSON" }) }
            return (
                path.nodes(in: json, atMost: 1).first?.text,
                { path.nodes(in: json.withoutSecrets(), atMost: 1).first?.json.shown ?? "no value" }
            )
        }
    }

    /// Texts such as `nan` and `0x10` are rejected, although `Double` reads them.
    private static func number(_ text: String) -> Double? {
        let digits = text.hasPrefix("-") ? text.dropFirst() : text[...]
        guard let first = digits.utf8.first, (0x30...0x39).contains(first),
            digits.utf8.allSatisfy({ "0123456789.eE+-".utf8.contains($0) }),
            first != 0x30 || digits.utf8.dropFirst().first.map({ ".eE".utf8.contains($0) }) ?? true
        else { return nil }
        return Double(text)
    }

    /// A number and another text are unequal; every other comparison of them is false.
    private func compare(_ found: String, _ comparison: Comparison, _ expected: String) -> Bool {
        guard let order = order(found, expected) else { return comparison == .unequal }
        switch comparison {
        case .equal: return order == 0
        case .unequal: return order != 0
        case .atMost: return order <= 0
        case .atLeast: return order >= 0
        case .less: return order < 0
        case .more: return order > 0
        }
    }

    private func order(_ found: String, _ expected: String) -> Int? {
        if found == expected { return 0 }
        let expectedNumber = subject == .time ? Check.milliseconds(expected) : Self.number(expected)
        guard let left = Self.number(found), let right = expectedNumber else {
            return (Self.number(found) == nil) == (expectedNumber == nil) ? found < expected ? -1 : 1 : nil
        }
        // `Double` is not exact for integers of more than 15 digits.
        if max(found.utf8.count, expected.utf8.count) > 15, found.isInteger, expected.isInteger {
            return found.integerOrder(expected)
        }
        return left < right ? -1 : left == right ? 0 : 1
    }
}

package struct CheckedAnswer: Sendable {
    package var statusCode: Int
    package var fields: [(name: String, value: String)]
    package var body: [UInt8]
    package var milliseconds: Double?

    package init(statusCode: Int, fields: [(name: String, value: String)], body: [UInt8], milliseconds: Double? = nil) {
        (self.statusCode, self.fields, self.body, self.milliseconds) = (statusCode, fields, body, milliseconds)
    }

    func field(_ name: String) -> String? {
        let values = fields.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
        return values.isEmpty ? nil : values.joined(separator: ", ")
    }
}

extension String {
    fileprivate var isInteger: Bool { utf8.allSatisfy { $0 == 0x2D || (0x30...0x39).contains($0) } }

    /// The syntax has no leading zeros, so the integer with more digits has the greater magnitude.
    fileprivate func integerOrder(_ other: String) -> Int {
        let (isNegative, otherIsNegative) = (hasPrefix("-"), other.hasPrefix("-"))
        guard isNegative == otherIsNegative else { return isNegative ? -1 : 1 }
        let isLess = utf8.count == other.utf8.count ? self < other : utf8.count < other.utf8.count
        return isLess != isNegative ? -1 : 1
    }

    fileprivate var withoutSecrets: String {
        guard let json = JSONValue(json: Array(utf8)) else { return SecretWords.standard.redacted(query: self) }
        let shown = json.withoutSecrets()
        return shown == json ? self : shown.json
    }
}

extension JSONValue {
    fileprivate func withoutSecrets(_ isSecret: Bool = false) -> JSONValue {
        switch self {
        case .null, .bool: self
        case .string, .number: isSecret ? "<redacted>" : self
        case .array(let elements): .array(elements.map { $0.withoutSecrets(isSecret) })
        case .object(let members):
            .object(
                members.map { ($0.name, $0.value.withoutSecrets(isSecret || SecretWords.standard.isSecret($0.name))) })
        }
    }
}
