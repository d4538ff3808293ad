// JSON as it is written: members in their order, numbers digit by digit (RFC 8259).
import Convoy

package enum JSONValue: Hashable, Sendable {
    package struct Member: Hashable, Sendable {
        package let name: String
        package let value: JSONValue
    }

    case null
    case bool(Bool)
    /// The digits as written, so that an identifier of 20 digits keeps all of them.
    case number(String)
    case string(String)
    case array([JSONValue])
    case object([Member])

    package static func integer(_ value: Int64) -> JSONValue { .number(String(value)) }

    package static func object(_ members: some Sequence<(String, JSONValue)>) -> JSONValue {
        .object(members.map { Member(name: $0, value: $1) })
    }

    /// A value that is not an object does not change.
    package mutating func append(_ name: String, _ value: JSONValue) {
        guard case .object(var members) = self else { return }
        self = .null
        members.append(Member(name: name, value: value))
        self = .object(members)
    }

    /// A string without its quotes; every other value as JSON.
    package var text: String { if case .string(let text) = self { text } else { json } }

    package var json: String {
        switch self {
        case .null: "null"
        case .bool(let value): value ? "true" : "false"
        case .number(let digits): digits
        case .string(let text): text.jsonQuoted
        case .array(let elements): "[" + elements.map(\.json).joined(separator: ",") + "]"
        case .object(let members):
            "{" + members.map { $0.name.jsonQuoted + ":" + $0.value.json }.joined(separator: ",") + "}"
        }
    }
}

extension JSONValue {
    subscript(name: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.last { $0.name == name }?.value
    }

    var elements: [JSONValue] { if case .array(let elements) = self { elements } else { [] } }
    var enabled: [JSONValue] { elements.filter { $0["disabled"]?.isTrue != true } }
    var string: String? { if case .string(let text) = self { text } else { nil } }
    var isTrue: Bool { self == .bool(true) }

    var scalarText: String? {
        switch self {
        case .string, .number, .bool: text
        case .null, .array, .object: nil
        }
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByArrayLiteral,
    ExpressibleByDictionaryLiteral
{
    package init(stringLiteral value: String) { self = .string(value) }
    package init(integerLiteral value: Int64) { self = .integer(value) }
    package init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
    package init(dictionaryLiteral elements: (String, JSONValue)...) { self = .object(elements) }
}

extension String {
    package var jsonQuoted: String {
        // Most texts need no escape.
        if utf8.allSatisfy({ (0x20..<0x7F).contains($0) && !"\"\\".utf8.contains($0) }) { return "\"\(self)\"" }
        var result = "\""
        for scalar in unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case _ where scalar.isControl:
                let digits = String(scalar.value, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
