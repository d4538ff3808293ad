import Convoy

// The writer first tries plain text and reads it back. If the result differs, it uses a variable with escapes.
package struct HTTPFileWriter {
    private var lines: [String] = []
    private(set) var notes: [String] = []
    private var definitions: [String] = []
    private var definedNames: UniqueNames

    private init(_ file: ImportedFile) { definedNames = UniqueNames(taken: file.variables.map(\.name)) }

    package static func write(_ file: ImportedFile) -> (text: String, notes: [String]) {
        var writer = HTTPFileWriter(file)
        writer.writeHead(file)
        for request in file.requests { writer.write(request) }
        return (writer.lines.joined(separator: "\n") + "\n", writer.notes)
    }

    private mutating func writeHead(_ file: ImportedFile) {
        if !file.title.isEmpty { lines.append(Self.comment(file.title)) }
        for note in file.notes { lines.append(Self.comment(note)) }
        for variable in file.variables {
            if variable.isSecret {
                let environment = variable.name.uppercased().replacing(#/[^A-Z0-9_]/#, with: "_")
                lines.append("@\(variable.name) = {{$processEnv \(environment)}}")
            } else if let line = Self.definition(variable.name, variable.value) {
                lines.append(line)
            } else {
                notes.append("the variable \(variable.name.shown) has a value that cannot be written on one line")
            }
        }
    }

    private mutating func write(_ imported: ImportedRequest) {
        let request = imported.request
        definitions = []
        var left: String?
        var tail: [String] = []
        let body = body(of: request)
        if body == nil { left = "its body" }
        if let target = line(request.target, "url", { "GET \($0)" }, { $0.target }) {
            tail.append("\(request.method) \(target)")
        } else {
            left = "its URL"
        }
        for field in request.fields {
            let name = field.name.lowercased()
            let text =
                body?.hidesType == true && name == "content-type"
                ? define(field.value, name)
                : line(field.value, name, { "GET http://a\n\(field.name): \($0)" }) { $0.fields.first?.value }
            if let text { tail.append("\(field.name): \(text)") } else { left = left ?? "its field \(field.name)" }
        }
        if let text = body?.text, !text.isEmpty { tail += ["", text] }
        if lines.last?.isEmpty == false { lines.append("") }
        lines.append("### " + Self.title(request.title?.text ?? ""))
        lines += imported.notes.map(Self.comment)
        if let left {
            let what = "\(request.method) \(request.target.source.prefix(200)) cannot be written: \(left)".visibleLine
            notes.append(what)
            return lines.append(Self.comment(what))
        }
        lines += tags(of: request) + definitions + tail
        if !imported.handler.isEmpty { lines += ["", "> {%"] + imported.handler.map { "    " + $0 } + ["%}"] }
    }

    private func tags(of request: FileRequest) -> [String] {
        var tags = request.name.map { ["# @name \($0.text)"] } ?? []
        if !request.followsRedirects { tags.append("# @no-redirect") }
        if !request.usesCookieJar { tags.append("# @no-cookie-jar") }
        if request.isDisabled { tags.append("# @disabled") }
        if let timeout = request.timeout.flatMap(Self.duration) { tags.append("# @timeout \(timeout)") }
        return tags
    }

    private static func duration(_ duration: Duration) -> String? {
        let (seconds, attoseconds) = duration.components
        guard attoseconds > 0, seconds < 1_000_000 else { return seconds > 0 ? "\(seconds)" : nil }
        return "\(max(1, seconds * 1_000 + attoseconds / 1_000_000_000_000_000)) ms"
    }

    // MARK: Values and variables

    private mutating func line(
        _ value: Template, _ name: String, _ make: (String) -> String, _ read: (FileRequest) -> Template?
    ) -> String? {
        let plain = value.written
        let file = HTTPFileReader.read(make(plain))
        if file.problems.isEmpty, file.requests.count == 1, read(file.requests[0])?.key == value.key {
            return plain
        }
        return define(value, name)
    }

    private mutating func define(_ value: Template, _ name: String) -> String? {
        let unique = definedNames.take(name.variableName)
        guard let line = Self.definition(unique, value) else { return nil }
        definitions.append(line)
        return "{{\(unique)}}"
    }

    private static func definition(_ name: String, _ value: Template) -> String? {
        let line = "@\(name) = \(value.writtenEscaped)"
        let file = HTTPFileReader.read(line)
        let isSame = file.problems.isEmpty && file.variables.count == 1 && file.variables[0].value.key == value.key
        return isSame ? line : nil
    }

    // MARK: Bodies

    /// If a variable contains the content type, the reader does not recognise it, and reads the body's lines unchanged.
    private mutating func body(of request: FileRequest) -> (text: String, hidesType: Bool)? {
        guard !request.body.isEmpty else { return ("", false) }
        let plain =
            Self.text(request.body) + (request.graphQLVariables.isEmpty ? "" : "\n\n")
            + Self.text(request.graphQLVariables)
        let type = request.field("content-type")?.value.plainText?.lowercased() ?? ""
        let isGraphQL = request.bodyKind == .graphQL
        let head = isGraphQL ? "X-Request-Type: GraphQL" : "Content-Type: \(type)"
        let isForm = type.hasPrefix("application/x-www-form-urlencoded")
        if Self.reads(plain, as: request, head), !isForm || request.isPlainForm {
            // The reader ignores line ends at the end of the body.
            return (String(plain.reversed().drop(while: \.isNewline).reversed()), false)
        }
        guard !isGraphQL else { return nil }
        let isSpecial = type.hasPrefix("multipart/") || type.hasPrefix("application/") && !type.hasSuffix("/json")
        if isSpecial, Self.reads(plain, as: request, "Content-Type: text/plain") { return (plain, true) }
        guard let text = request.bodyText, let line = define(text, "body") else { return nil }
        return (line, isSpecial)
    }

    private static func reads(_ body: String, as request: FileRequest, _ field: String) -> Bool {
        let file = HTTPFileReader.read("POST http://a\n\(field)\n\n\(body)")
        guard file.problems.isEmpty, file.requests.count == 1, file.variables.isEmpty, let read = file.requests.first
        else { return false }
        var meant = request.body.key
        // The reader ignores the line end behind the last part.
        if case .multipart = read.bodyKind, read.body.key != meant, meant.last?.suffix(2) == [0x0D, 0x0A] {
            meant[meant.count - 1].removeLast(2)
        }
        return read.handlers.isEmpty && read.checks.isEmpty && read.output == nil && read.fields.count == 1
            && read.body.key == meant && read.graphQLVariables.key == request.graphQLVariables.key
    }

    /// Lines end with LF; in a multipart body, the reader adds the CR again.
    private static func text(_ body: [BodyPart]) -> String {
        body.map { part in
            switch part {
            case .text(let text): text.written.replacing("\r\n", with: "\n")
            case .file(let file): "< \(file.path.written)"
            }
        }.joined()
    }

    // MARK: Comments

    private static func title(_ text: String) -> String {
        let title = text.visibleLine
        return title.hasPrefix("@") ? "‘\(title)’" : title
    }

    private static func comment(_ text: String) -> String { "# " + title(text) }
}

extension [BodyPart] {
    fileprivate var key: [[UInt8]] {
        reduce(into: []) { $0.add($1) }.flatMap { part in
            switch part {
            case .text(let text): text.key
            case .file(let file): [[2]] + file.path.key + [[3]]
            }
        }
    }
}

extension FileRequest {
    var isPlainForm: Bool {
        guard let text = bodyText, !text.source.hasSuffix("&") else { return false }
        return text.parts.compactMap(\.string).allSatisfy { PercentEscaper.url.escaped($0) == $0 }
    }
}

extension Template {
    var written: String { written { text, _ in text.replacingBraces } }

    var writtenEscaped: String { written { $0.escaped(isFirst: $1 == 0, isLast: $1 == parts.count - 1) } }

    /// Equal keys mean equal templates, except for their positions.
    ///
    /// The bytes are compared, because `==` also accepts canonically equivalent texts, whose bytes differ.
    var key: [[UInt8]] {
        parts.map { part in
            switch part {
            case .text(let text): [0] + text.utf8
            case .placeholder(let placeholder): [1] + placeholder.source.utf8
            }
        }
    }
}

extension String {
    fileprivate var replacingBraces: String { contains("{{") ? replacing("{{", with: "\\{\\{") : self }

    fileprivate func escaped(isFirst: Bool, isLast: Bool) -> String {
        var result = ""
        let scalars = unicodeScalars
        for (index, scalar) in zip(scalars.indices, scalars) {
            let isFirst = isFirst && index == scalars.startIndex
            let isLast = isLast && scalars.index(after: index) == scalars.endIndex
            switch scalar {
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case "\\": result += "\\\\"
            default:
                let isBlank = scalar.properties.isWhitespace || scalar.properties.isGraphemeExtend
                if isBlank, isFirst || isLast { result += "\\" }
                result.unicodeScalars.append(scalar)
            }
        }
        return result.replacingBraces
    }

    var variableName: String {
        let name = map { $0.isASCII && ($0.isLetter || $0.isNumber) || "-_.".contains($0) ? $0 : "_" }
        let trimmed = String(name).drop { $0 == "." || $0 == "_" }
        let text = trimmed.last == "." ? String(trimmed.dropLast()) : String(trimmed)
        return text.isEmpty ? "value" : text.replacing("-", with: "_")
    }
}
