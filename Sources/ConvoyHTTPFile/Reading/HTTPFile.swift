// The content of a file of requests, as values.

package struct HTTPFile: Sendable {
    package var variables: [VariableDefinition] = []
    package var requests: [FileRequest] = []
    package var problems: [Problem] = []
    package var hints: [Problem] = []

    package init() {}
}

package struct VariableDefinition: Hashable, Sendable {
    package var name: String
    package var value: Template
    package var position: Position
}

package struct Word: Hashable, Sendable {
    package var text: String
    package var position: Position
    /// Whether a part of the word was quoted, so that a shell takes it literally.
    package var isQuoted = false
}

package struct FileRequest: Sendable {
    package enum BodyKind: Sendable {
        case plain
        case form
        case multipart(boundary: String)
        case graphQL
    }

    package struct Field: Hashable, Sendable {
        package var name: String
        package var value: Template
        package var position: Position
    }

    package struct Output: Hashable, Sendable {
        package var path: Template
        package var replaces: Bool
        package var position: Position
    }

    package var position: Position
    package var lastLine = 0
    package var name: Word?
    package var title: Word?
    package var method = "GET"
    package var target = Template()
    package var fields: [Field] = []
    package var body: [BodyPart] = []
    package var graphQLVariables: [BodyPart] = []
    package var bodyKind = BodyKind.plain
    package var dependencies: [Word] = []
    package var prompts: [Word] = []
    package var checks: [Check] = []
    package var output: Output?
    package var handlers: [Script] = []
    package var timeout: Duration?
    package var followsRedirects = true
    package var usesCookieJar = true
    package var isDisabled = false

    /// Identifies the request in references to variables of its handlers, even if the request has no name.
    package var key: String { "#\(position.line):\(position.column)" }

    /// The first field with this name, which the caller passes in lower case.
    func field(_ name: String) -> Field? { fields.first { $0.name.lowercased() == name } }
}

package enum BodyPart: Hashable, Sendable {
    case text(Template)
    case file(FileReference)
}

package struct FileReference: Hashable, Sendable {
    package var path: Template
    package var hasVariables: Bool
    package var encoding: TextEncoding
    package var position: Position
    /// Whether the body is the content without CR, LF and NUL, as curl sends the file of `-d`.
    var dropsLineEnds = false
}

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
