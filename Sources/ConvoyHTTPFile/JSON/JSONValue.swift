// JSON as it was written: members in their order, numbers digit by digit.

/// A JSON value.
package enum JSONValue: Hashable, Sendable {
    package struct Member: Hashable, Sendable {
        package var name: String
        package var value: JSONValue
    }

    case null
    case bool(Bool)
    /// The digits as they stand: an identifier of 20 digits stays what it is.
    case number(String)
    case string(String)
    case array([JSONValue])
    case object([Member])

    /// What is filled in for it: a text without its quotes, everything else as JSON.
    package var text: String { if case .string(let text) = self { text } else { json } }

    /// As JSON on one line.
    package var json: String {
        var json = ""
        write(to: &json)
        return json
    }

    private func write(to json: inout String) {
        switch self {
        case .null: json += "null"
        case .bool(let value): json += value ? "true" : "false"
        case .number(let digits): json += digits
        case .string(let text): json += text.jsonQuoted
        case .array(let elements):
            json += "["
            for (index, element) in elements.enumerated() {
                if index > 0 { json += "," }
                element.write(to: &json)
            }
            json += "]"
        case .object(let members):
            json += "{"
            for (index, member) in members.enumerated() {
                if index > 0 { json += "," }
                json += member.name.jsonQuoted + ":"
                member.value.write(to: &json)
            }
            json += "}"
        }
    }
}

extension String {
    /// As a JSON string.
    var jsonQuoted: String {
        var result = "\""
        for scalar in unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case _ where scalar.value < 0x20:
                let digits = String(scalar.value, radix: 16)
                result += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }
}
