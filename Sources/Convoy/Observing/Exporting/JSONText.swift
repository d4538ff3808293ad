// JSON whose members keep their order (RFC 8259).

/// A JSON value; written without anything that can fail.
package enum JSONText: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByArrayLiteral,
    ExpressibleByDictionaryLiteral
{
    case text(String)
    case integer(Int64)
    case flag(Bool)
    /// Microseconds, written as milliseconds with no more than three decimals: sums of them are exact.
    case milliseconds(Int64)
    case list([JSONText])
    case members([(String, JSONText)])

    package init(stringLiteral value: String) { self = .text(value) }
    package init(integerLiteral value: Int64) { self = .integer(value) }
    package init(arrayLiteral elements: JSONText...) { self = .list(elements) }
    package init(dictionaryLiteral elements: (String, JSONText)...) { self = .members(elements) }

    /// Adds members behind those there are; without effect on what has none.
    func adding(_ more: [(String, JSONText)]) -> JSONText {
        if case .members(let members) = self { .members(members + more) } else { self }
    }

    /// The value as it is written.
    package var string: String {
        var text = ""
        write(to: &text)
        return text
    }

    private func write(to text: inout String) {
        switch self {
        case .text(let value): Self.write(value, to: &text)
        case .integer(let value): text += String(value)
        case .flag(let value): text += value ? "true" : "false"
        case .milliseconds(let value): text += value.thousandths
        case .list(let values):
            text += "["
            for (index, value) in values.enumerated() {
                if index > 0 { text += "," }
                value.write(to: &text)
            }
            text += "]"
        case .members(let members):
            text += "{"
            for (index, (name, value)) in members.enumerated() {
                if index > 0 { text += "," }
                Self.write(name, to: &text)
                text += ":"
                value.write(to: &text)
            }
            text += "}"
        }
    }

    private static func write(_ value: String, to text: inout String) {
        text += "\""
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\"": text += "\\\""
            case "\\": text += "\\\\"
            case _ where scalar.isControl:
                let hex = String(scalar.value, radix: 16)
                text += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
            default: text.unicodeScalars.append(scalar)
            }
        }
        text += "\""
    }
}

extension Int64 {
    /// A thousandth of the number, in decimal: 12345 is `12.345`, 12000 is `12`.
    fileprivate var thousandths: String {
        guard self % 1_000 != 0 else { return String(self / 1_000) }
        let digits = String((self % 1_000).magnitude)
        var decimals = String(repeating: "0", count: 3 - digits.count) + digits
        while decimals.last == "0" { decimals.removeLast() }
        return "\(self < 0 ? "-" : "")\((self / 1_000).magnitude).\(decimals)"
    }
}
