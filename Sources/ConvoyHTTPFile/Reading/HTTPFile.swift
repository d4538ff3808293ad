package struct HTTPFile: Sendable {
    /// A variable has what a field has: a name, a value and a position.
    package var variables: [FileRequest.Field] = []
    package var requests: [FileRequest] = []
    package var problems: [Problem] = []
    package var hints: [Problem] = []

    package init() {}
}

package struct Word: Hashable, Sendable {
    package var text: String
    package var position = Position.start
    /// Whether a part of the word was quoted, so that a shell takes it literally.
    package var isQuoted = false
}

package struct FileRequest: Sendable {
    package enum BodyKind: Hashable, Sendable {
        case plain, form
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

    package var position = Position.start
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

    package var key: String { "#\(position.line):\(position.column)" }

    func field(_ name: String) -> Field? { fields.first { $0.name.lowercased() == name } }

    mutating func addField(_ name: String, _ value: Template) {
        fields.append(Field(name: name, value: value, position: position))
    }

    var templates: [Template] {
        [target] + fields.map(\.value)
            + (body + graphQLVariables).map { part in
                switch part {
                case .text(let text): text
                case .file(let file): file.path
                }
            }
    }

    mutating func mapTemplates(_ change: (Template, _ field: String) -> Template) {
        target = change(target, "")
        for place in fields.indices {
            fields[place].value = change(fields[place].value, fields[place].name.lowercased())
        }
        func changed(_ part: BodyPart) -> BodyPart {
            if case .text(let text) = part { .text(change(text, "")) } else { part }
        }
        (body, graphQLVariables) = (body.map(changed), graphQLVariables.map(changed))
    }
}

package enum BodyPart: Hashable, Sendable {
    case text(Template)
    case file(FileReference)

    var path: String? { if case .file(let file) = self { file.path.source } else { nil } }
}

extension [BodyPart] {
    mutating func add(_ part: BodyPart) {
        guard case .text(let text) = part else { return append(part) }
        guard case .text(var before)? = last else {
            if !text.parts.isEmpty { append(part) }
            return
        }
        // The part is removed first, so that its text grows in place. A body may have 100,000 lines.
        removeLast()
        before.append(text)
        append(.text(before))
    }
}

package struct FileReference: Hashable, Sendable {
    package var path: Template
    package var hasVariables = false
    package var encoding = TextEncoding.utf8
    package var position = Position.start
    var dropsLineEnds = false
}

package enum TextEncoding: Hashable, Sendable {
    case utf8, latin1, ascii, utf16LittleEndian

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
