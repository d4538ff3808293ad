// The content of a file of requests, as values.

/// A file of requests after reading, with all its errors.
package struct HTTPFile: Sendable {
    package var variables: [VariableDefinition] = []
    package var requests: [FileRequest] = []
    package var problems: [Problem] = []
    /// Warnings about valid lines that probably have another meaning than intended.
    package var hints: [Problem] = []

    package init() {}
}

/// The definition of a variable: `@name = value`.
package struct VariableDefinition: Hashable, Sendable {
    package var name: String
    package var value: Template
    package var position: Position
}

/// A word of the file and its position.
package struct Word: Hashable, Sendable {
    package var text: String
    package var position: Position
    /// Whether a part of the word was quoted, so that a shell takes it literally.
    package var isQuoted = false
}

/// One request of a file.
package struct FileRequest: Sendable {
    /// How the body is interpreted.
    package enum BodyKind: Sendable {
        case plain
        case form
        case multipart(boundary: String)
        /// A GraphQL query, with its variables after a blank line.
        case graphQL
    }

    /// One header field.
    package struct Field: Hashable, Sendable {
        package var name: String
        package var value: Template
        package var position: Position
    }

    /// The file for the response: `>> file`, or `>>! file`, which replaces an existing file.
    package struct Output: Hashable, Sendable {
        package var path: Template
        package var replaces: Bool
        package var position: Position
    }

    /// The position of the request line.
    package var position: Position
    /// The number of the request's last line, from 1.
    package var lastLine = 0
    /// The name of the request, from `# @name`.
    package var name: Word?
    /// The text after `###`.
    package var title: Word?
    package var method = "GET"
    package var target = Template()
    package var fields: [Field] = []
    package var body: [BodyPart] = []
    /// The variables of a GraphQL query, which follow the query in the body.
    package var graphQLVariables: [BodyPart] = []
    package var bodyKind = BodyKind.plain
    /// The names of the requests that this request needs, from `# @depends` and `# @ref`.
    package var dependencies: [Word] = []
    package var prompts: [Word] = []
    package var checks: [Check] = []
    package var output: Output?
    /// The response handlers.
    package var handlers: [Script] = []
    /// The time limit of the request, from `# @timeout` or curl's `--max-time`.
    package var timeout: Duration?
    package var followsRedirects = true
    package var usesCookieJar = true
    package var isDisabled = false

    /// Identifies the request in references to variables of its handlers, even if the request has no name.
    package var key: String { "#\(position.line):\(position.column)" }

    /// The first field with this name, which the caller passes in lower case.
    func field(_ name: String) -> Field? { fields.first { $0.name.lowercased() == name } }
}

/// A part of a body: text, or the content of a file.
package enum BodyPart: Hashable, Sendable {
    case text(Template)
    case file(FileReference)
}

/// A file whose content belongs to the body: `< file`, or `<@ file` if the content has variables.
package struct FileReference: Hashable, Sendable {
    package var path: Template
    package var hasVariables: Bool
    package var encoding: TextEncoding
    package var position: Position
    /// Whether the body is the content without CR, LF and NUL, as curl sends the file of `-d`.
    var dropsLineEnds = false
}

/// The character encoding of a file.
package enum TextEncoding: Hashable, Sendable {
    case utf8
    case latin1
    case ascii
    case utf16LittleEndian

    init?(named name: String) {
        switch name.lowercased().filter({ $0 != "-" && $0 != "_" }) {
        case "", "utf8": self = .utf8
        case "latin1", "binary", "iso88591": self = .latin1
        case "ascii", "usascii": self = .ascii
        case "utf16le", "ucs2": self = .utf16LittleEndian
        default: return nil
        }
    }

    /// The text of the bytes; nil if the bytes are invalid in this encoding.
    func text(of bytes: [UInt8]) -> String? {
        switch self {
        case .utf8: return String(validating: bytes, as: UTF8.self)
        case .latin1: return String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
        case .ascii: return bytes.allSatisfy { $0 < 0x80 } ? String(decoding: bytes, as: UTF8.self) : nil
        case .utf16LittleEndian:
            guard bytes.count.isMultiple(of: 2) else { return nil }
            let units = stride(from: 0, to: bytes.count, by: 2).map { UInt16(bytes[$0]) | UInt16(bytes[$0 + 1]) << 8 }
            return String(validating: units, as: UTF16.self)
        }
    }
}
