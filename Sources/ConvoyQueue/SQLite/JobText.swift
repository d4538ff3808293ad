// Lists as text in a column, for people with a shell of the database too.
import Convoy
import Foundation

/// How lists are written into one column.
enum JobText {
    /// One a line, as a line feed is in no id; nil for none.
    static func lines(_ values: [String]) -> String? { values.isEmpty ? nil : values.joined(separator: "\n") }

    static func lines(of text: String?) -> [String] { text?.split(separator: "\n").map(String.init) ?? [] }

    /// One a line, between line feeds, so that one can be searched for.
    static func tags(_ tags: Set<String>) -> String? {
        tags.isEmpty ? nil : "\n" + tags.sorted().joined(separator: "\n") + "\n"
    }

    /// As in a message: `name: value`, one a line; line feeds are in none.
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
        // Most jobs have one, without a text: an encoder costs as much as the rest of the row.
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
