import Convoy
import Foundation

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
        /// One of ``comparisons`` and the expected value.
        case compares(String, String)
    }

    /// A word stands before another one with which it begins.
    private static let comparisons = [
        "==", "!=", "<=", ">=", "<", ">", "contains", "includes", "startsWith", "endsWith",
    ]

    package var subject: Subject
    package var condition: Condition
    package var source: String

    static let examples = "write status 2xx, status == 200, header Name contains text, body.$.id exists or time < 500ms"

    init(_ source: String) throws(Defect) {
        self.source = source
        let subjectWord = String(source.prefix { !$0.isWhitespace })
        var rest = source.dropFirst(subjectWord.count).trimmed
        switch subjectWord {
        case "status": subject = .status
        case "time", "duration": subject = .time
        case "body": subject = .body(nil)
        case "header":
            let name = String(rest.prefix { !$0.isWhitespace })
            guard name.isFieldName else { throw Defect("header needs the name of a field", Self.examples) }
            subject = .header(name)
            rest = rest.dropFirst(name.count).trimmed
        case _ where subjectWord.hasPrefix("body.") || subjectWord.hasPrefix("body["):
            // A JSONPath may contain blanks in quotes, so it may be more than one word.
            let text = source.dropFirst(4)
            let path = text.prefixMatch(of: #/(?:[^\s\[]|\[(?:'[^']*'|"[^"]*"|[^\]'"])*\]?)*/#)?.output ?? text
            rest = text[path.endIndex...].trimmed
            subject = .body(try JSONPath(path.hasPrefix(".$") ? String(path.dropFirst()) : "$" + path))
        default: throw Defect("\(subjectWord.shown) cannot be checked", Self.examples)
        }
        condition = try Self.condition(rest, subject)
    }

    private static func condition(_ text: String, _ subject: Subject) throws(Defect) -> Condition {
        if text.isEmpty || text == "exists" { return .exists(true) }
        if ["!exists", "not exists"].contains(text) { return .exists(false) }
        if subject == .status, text.count == 3, text.lowercased().hasSuffix("xx"),
            let digit = text.first?.wholeNumberValue
        {
            return .statusClass(digit)
        }
        if subject == .status, Int(text) != nil { return .compares("==", text) }
        let word = text.prefix { !$0.isWhitespace }
        let known = comparisons.first { $0 == word || $0.first?.isLetter == false && text.hasPrefix($0) }
        guard let comparison = known else { throw Defect("\(text.shown) is not a condition", examples) }
        let value = unquoted(text.dropFirst(comparison.count).trimmed)
        if value.isEmpty { throw Defect("no value follows \(comparison)", examples) }
        if subject == .time, milliseconds(value) == nil {
            throw Defect("\(value.shown) is not a time", "write 500ms or 2s")
        }
        if subject == .status, Int(value) == nil {
            throw Defect("\(value.shown) is not a status", "write status == 200")
        }
        return .compares(comparison, value)
    }

    private static func unquoted(_ text: String) -> String {
        guard text.count > 1, let first = text.first, "'\"".contains(first), text.last == first else { return text }
        return String(text.dropFirst().dropLast())
    }

    private static func milliseconds(_ text: String) -> Double? {
        let digits = text.prefix { $0.isASCIIDigit || $0 == "." }
        let unit = ["": 1, "ms": 1, "s": 1_000.0][text.dropFirst(digits.count).trimmed]
        return unit.flatMap { unit in Double(digits).map { $0 * unit } }
    }

    package func defect(in answer: CheckedAnswer) -> String? {
        guard let found = found(in: answer) else { return nil }
        let isRight =
            switch condition {
            case .exists(let isExpected): (found.value != nil) == isExpected
            case .statusClass(let digit): answer.statusCode / 100 == digit
            case .compares(let comparison, let text): found.value.map { compare($0, comparison, text) } ?? false
            }
        if isRight { return nil }
        let isHidden = found.value != nil && isOfSecret
        return "expected \(source), but found \(isHidden ? "another value, which may be secret" : found.shown())"
    }

    private var isOfSecret: Bool {
        switch subject {
        case .header(let name): name.namesSecret || HeaderFields.Field(name: name, value: "").isSecret
        case .body(let path?):
            path.segments.contains { segment in
                segment.selectors.contains { if case .name(let name) = $0 { name.namesSecret } else { false } }
            }
        case .status, .time, .body(nil): false
        }
    }

    private func found(in answer: CheckedAnswer) -> (value: String?, shown: () -> String)? {
        switch subject {
        case .status: return (String(answer.statusCode), { String(answer.statusCode) })
        case .time:
            guard let milliseconds = answer.milliseconds else { return nil }
            return (String(milliseconds), { "\(Int(milliseconds.rounded())) ms" })
        case .header(let name):
            let value = answer.fields[name]
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

    /// A number and another text are unequal; every other order of them is false.
    private func compare(_ found: String, _ comparison: String, _ expected: String) -> Bool {
        let order = order(found, expected)
        return switch comparison {
        case "==": order == 0
        case "!=": order != 0
        case "<=": (order ?? 1) <= 0
        case ">=": (order ?? -1) >= 0
        case "<": (order ?? 1) < 0
        case ">": (order ?? -1) > 0
        case "contains", "includes": found.contains(expected)
        case "startsWith": found.hasPrefix(expected)
        default: found.hasSuffix(expected)
        }
    }

    private func order(_ found: String, _ expected: String) -> Int? {
        if found == expected { return 0 }
        let number = subject == .time ? Self.milliseconds(expected).map { Decimal($0) } : expected.decimal
        switch (found.decimal, number) {
        case (let left?, let right?): return left < right ? -1 : left == right ? 0 : 1
        case (nil, nil): return found < expected ? -1 : 1
        default: return nil
        }
    }
}

package struct CheckedAnswer: Sendable {
    package var statusCode: Int
    package var fields: HeaderFields
    package var body: [UInt8]
    package var milliseconds: Double?

    package init(statusCode: Int, fields: HeaderFields, body: [UInt8], milliseconds: Double? = nil) {
        (self.statusCode, self.fields, self.body, self.milliseconds) = (statusCode, fields, body, milliseconds)
    }
}

extension String {
    /// A number of JSON, with all its digits: `Double` is not exact for integers of more than 15.
    fileprivate var decimal: Decimal? {
        if case .number(let digits)? = JSONValue(json: utf8) { Decimal(string: digits) } else { nil }
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
                members.map { ($0.name, $0.value.withoutSecrets(isSecret || $0.name.namesSecret)) })
        }
    }
}
