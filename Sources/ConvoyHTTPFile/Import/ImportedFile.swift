// What another program's file of requests says, as values.
import Convoy

/// The requests of a HAR, a Postman collection or `curl` lines, before they are written as an `.http` file.
package struct ImportedFile: Sendable {
    /// A variable of the document or one that replaces a secret.
    package struct Variable: Sendable {
        package var name: String
        package var value: Template
        /// Whether its value stays out of the file.
        package var isSecret = false
    }

    /// A body that no text can hold; it is written into a file of its own.
    package struct Attachment: Sendable {
        package var path: String
        package var bytes: [UInt8]
    }

    /// What the document calls itself.
    package var title = ""
    package var requests: [ImportedRequest] = []
    package var variables: [Variable] = []
    package var attachments: [Attachment] = []
    /// What was left out that belongs to no request.
    package var notes: [String] = []

    package init() {}
}

/// One request of an imported file.
package struct ImportedRequest: Sendable {
    package var request: FileRequest
    /// The lines of its response handler.
    package var handler: [String] = []
    /// What was left out of it.
    package var notes: [String] = []
    var answer: ImportedAnswer?

    init(_ request: FileRequest = FileRequest(position: Position(line: 1, column: 1))) { self.request = request }
}

/// The answer that was recorded with a request.
struct ImportedAnswer: Sendable {
    var fields: [(name: String, value: String)] = []
    /// The body, if it is JSON.
    var json: JSONValue?
}

/// Why a document cannot be imported.
package struct ImportFailure: Error, Hashable, Sendable {
    package var what: String
    package var advice: String

    package var message: String { "\(what); \(advice)" }

    init(_ what: String, _ advice: String) { (self.what, self.advice) = (what, advice) }
}

extension FileRequest {
    /// Adds a field with a plain value.
    mutating func addField(_ name: String, _ value: Template) {
        fields.append(Field(name: name, value: value, position: position))
    }

    /// The text of the body; nil if a file is part of it.
    var bodyText: Template? {
        var text = Template()
        for part in body {
            guard case .text(let more) = part else { return nil }
            text.append(more)
        }
        return text
    }
}

extension Template {
    /// A placeholder alone; the text of it if it cannot be one.
    init(placeholder source: String) {
        let position = Position(line: 1, column: 1)
        guard let expression = try? Expression(source, at: position, file: nil) else {
            self.init("{{\(source)}}")
            return
        }
        self.init()
        parts = [.placeholder(Placeholder(source: source, position: position, expression: expression, file: nil))]
    }

    /// Whether both have the same text and placeholders, wherever they stand.
    func isSame(as other: Template) -> Bool {
        parts.count == other.parts.count
            && zip(parts, other.parts).allSatisfy { left, right in
                switch (left, right) {
                // By bytes: two spellings of a character are not the same body.
                case (.text(let left), .text(let right)): left.utf8.elementsEqual(right.utf8)
                case (.placeholder(let left), .placeholder(let right)): left.source == right.source
                default: false
                }
            }
    }

    /// The same with each text replaced.
    func mappingText(_ change: (String) -> Template) -> Template {
        var result = Template()
        for part in parts {
            switch part {
            case .text(let text): result.append(change(text))
            case .placeholder: result.parts.append(part)
            }
        }
        return result
    }
}
