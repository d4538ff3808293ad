// Lists as text in a column, also readable in a database shell.
import Convoy
import Foundation

enum JobText {
    /// One value on each line; nil for an empty list.
    static func lines(_ values: [String]) -> String? { values.isEmpty ? nil : values.joined(separator: "\n") }

    static func lines(of text: String?) -> [String] { text?.split(separator: "\n").map(String.init) ?? [] }

    /// One tag on each line, enclosed in line feeds, so that a tag can be searched for.
    static func tags(_ tags: Set<String>) -> String? {
        tags.isEmpty ? nil : "\n" + tags.sorted().joined(separator: "\n") + "\n"
    }

    /// `name: value` on each line, as in an HTTP/1.1 message.
    ///
    /// Fields contain no line feeds.
    static func fields(_ fields: HeaderFields) -> String? {
        fields.isEmpty ? nil : fields.map { "\($0.name): \($0.value)\n" }.joined()
    }

    static func fields(of text: String?) -> HeaderFields {
        var fields = HeaderFields()
        for line in (text ?? "").unicodeScalars.split(separator: "\n") {
            guard let colon = line.firstIndex(of: ":") else { continue }
            fields.add(String(line[..<colon]), String(line[colon...].dropFirst(2)))
        }
        return fields
    }

    static func attempts(_ attempts: [JobAttempt]) -> String? {
        guard !attempts.isEmpty, let texts = try? attempts.map({ try $0.json() }) else { return nil }
        return "[" + texts.joined(separator: ",") + "]"
    }

    static func attempts(of text: String?) -> [JobAttempt] {
        guard let text else { return [] }
        return (try? JSONDecoder().decode([JobAttempt].self, from: Data(text.utf8))) ?? []
    }
}
