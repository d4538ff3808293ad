// The contents of another program's file of requests.
import Convoy

/// The requests of a HAR, a Postman collection or curl command lines, before they are written.
package struct ImportedFile: Sendable {
    /// A variable of the document, or a variable that replaces a secret.
    package struct Variable: Sendable {
        package var name: String
        package var value: Template
        /// Whether the written file omits the value.
        package var isSecret = false
    }

    /// A body that is not text and is written to a separate file.
    package struct Attachment: Sendable {
        package var path: String
        package var bytes: [UInt8]
    }

    /// The title of the document.
    package var title = ""
    package var requests: [ImportedRequest] = []
    package var variables: [Variable] = []
    package var attachments: [Attachment] = []
    /// Notes about omissions that concern no single request.
    package var notes: [String] = []

    package init() {}
}

/// One request of an imported file.
package struct ImportedRequest: Sendable {
    package var request: FileRequest
    /// The lines of the request's response handler.
    package var handler: [String] = []
    /// Notes about omitted parts of the request.
    package var notes: [String] = []
    /// The names, in lower case, of fields and parameters that the document declares as secrets.
    var secretNames: Set<String> = []
    var answer: ImportedAnswer?

    init(_ request: FileRequest = FileRequest(position: Position(line: 1, column: 1))) { self.request = request }
}

/// The recorded response to a request.
struct ImportedAnswer: Sendable {
    var fields: [(name: String, value: String)] = []
    /// The body if it is JSON; otherwise nil.
    var json: JSONValue?
}

/// The reason why a document cannot be imported.
package struct ImportFailure: Error, Hashable, Sendable {
    package var what: String
    package var advice: String

    package var message: String { "\(what); \(advice)" }

    init(_ what: String, _ advice: String) { (self.what, self.advice) = (what, advice) }
}

extension FileRequest {
    mutating func addField(_ name: String, _ value: Template) {
        fields.append(Field(name: name, value: value, position: position))
    }

    /// The text of the body; nil if it contains a file.
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
    /// Makes a placeholder, or plain text if the source is not a valid expression.
    init(placeholder source: String) {
        let position = Position(line: 1, column: 1)
        guard let expression = try? Expression(source, at: position, file: nil) else {
            self.init("{{\(source)}}")
            return
        }
        self.init()
        parts = [.placeholder(Placeholder(source: source, position: position, expression: expression, file: nil))]
    }

    /// Whether both templates have the same texts and placeholders.
    ///
    /// Positions are ignored.
    func isSame(as other: Template) -> Bool {
        parts.count == other.parts.count
            && zip(parts, other.parts).allSatisfy { left, right in
                switch (left, right) {
                // The bytes are compared, because `==` also accepts canonically equivalent texts, whose bytes differ.
                case (.text(let left), .text(let right)): left.utf8.elementsEqual(right.utf8)
                case (.placeholder(let left), .placeholder(let right)): left.source == right.source
                default: false
                }
            }
    }
}
