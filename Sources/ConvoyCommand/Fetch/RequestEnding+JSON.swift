// `%{json}` and `%{header_json}` of `--write-out`.
import Convoy
import Foundation

extension RequestEnding {
    /// An object with every other variable.
    var json: String {
        let variables = WriteOut.Variable.allCases.filter { $0 != .json && $0 != .headerJSON }
        var members = variables.map { "\($0.rawValue.jsonText):\(jsonValue(of: $0))" }.sorted()
        members.append("\"convoy_version\":\(Tool.version.jsonText)")
        return "{" + members.joined(separator: ",") + "}"
    }

    private func jsonValue(of variable: WriteOut.Variable) -> String {
        let text = value(of: variable)
        if text.isEmpty { return "null" }
        guard variable.isNumber, Double(text) != nil else { return text.jsonText }
        return Int(text).map { String($0) } ?? text
    }

    /// The values of each field of the answer by its name in small letters.
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
    /// In the quotes of JSON.
    fileprivate var jsonText: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) } ?? "null"
    }
}
