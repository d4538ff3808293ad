// `%{json}` and `%{header_json}` of `--write-out`.
import Convoy
import Foundation

extension RequestEnding {
    /// A JSON object with the version of convoy and all variables except `json` and `header_json`.
    var json: String {
        let variables = WriteOut.Variable.allCases.filter { $0 != .json && $0 != .headerJSON }
        var members = variables.map { "\($0.rawValue.jsonText):\(jsonValue(of: $0))" }.sorted()
        members.append("\"convoy_version\":\(Version.current.jsonText)")
        return "{" + members.joined(separator: ",") + "}"
    }

    private func jsonValue(of variable: WriteOut.Variable) -> String {
        let text = value(of: variable)
        if text.isEmpty { return "null" }
        guard variable.isNumber, Double(text) != nil else { return text.jsonText }
        return Int(text).map { String($0) } ?? text
    }

    /// A JSON object with the values of each header field by its name in lower case.
    var headerJSON: String {
        let fields = head?.headerFields ?? HeaderFields()
        let names = Set(fields.map { $0.name.lowercased() }).sorted()
        let members: [String] = names.map { name in
            let values: [String] = fields.values(of: name).map(\.jsonText)
            return "\(name.jsonText):[\(values.joined(separator: ","))]"
        }
        return "{" + members.joined(separator: ",") + "}"
    }
}

extension String {
    /// The text as a JSON string.
    fileprivate var jsonText: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "null"
    }
}
