// Lists as text in a column, also readable in a database shell.
import Convoy
import Foundation

/// The text forms of lists in a column.
enum JobText {
    /// One value on each line, because an id contains no line feed; nil for none.
    static func lines(_ values: [String]) -> String? { values.isEmpty ? nil : values.joined(separator: "\n") }

    static func lines(of text: String?) -> [String] { text?.split(separator: "\n").map(String.init) ?? [] }

    /// One tag on each line, enclosed in line feeds, so that a tag can be searched for.
    static func tags(_ tags: Set<String>) -> String? {
        tags.isEmpty ? nil : "\n" + tags.sorted().joined(separator: "\n") + "\n"
    }

    /// `name: value` on each line, as in a message.
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
        // Most jobs have one attempt without a text. An encoder costs as much as the rest of the row.
        if attempts.count == 1, let only = attempts.first, only.failure == nil, only.message == nil,
            only.started.timeIntervalSinceReferenceDate.isFinite
        {
            let status = only.statusCode.map { ",\"statusCode\":\($0)" } ?? ""
            let started = only.started.timeIntervalSinceReferenceDate
            return "[{\"started\":\(started),\"milliseconds\":\(only.milliseconds)\(status)}]"
        }
        guard !attempts.isEmpty, let data = try? JSONEncoder().encode(attempts) else { return nil }
        return String(decoding: data, as: UTF8.self)
    }

    static func attempts(of text: String?) -> [JobAttempt] {
        guard let text else { return [] }
        return (try? JSONDecoder().decode([JobAttempt].self, from: Data(text.utf8))) ?? []
    }
}
