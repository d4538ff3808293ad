// Reads bodies, and the lines after them.

extension HTTPFileReader {
    /// A line of a body, before the kind of body decides how lines are joined.
    enum BodyLine {
        case text(String, Position)
        case file(FileReference)

        var isBlank: Bool { if case .text(let text, _) = self { text.trimmed.isEmpty } else { false } }

        /// A hint about a line that looks like another part of a request; nil for other lines.
        func hint(isFirst: Bool) -> Problem? {
            guard case .text(let line, let position) = self else { return nil }
            let text = line.trimmed
            let words = text.split(maxSplits: 1, whereSeparator: \.isWhitespace)
            if words.count == 2, HTTPFileReader.methods.contains(String(words[0])),
                ["http://", "https://", "{{"].contains(where: words[1].trimmed.hasPrefix)
            {
                return Problem(
                    position, "this line looks like a request, but is sent in the body of the request above",
                    "write ### on a line before it to make it a request")
            }
            if text.hasPrefix("@"), text.contains("="),
                text.dropFirst().prefix(while: { $0 != "=" && $0 != ":" }).trimmed.isVariableName
            {
                return Problem(
                    position, "this line looks like a variable, but is sent in the body of the request above",
                    "move it above the request line, or write ### on a line before it")
            }
            guard isFirst, text.startsField, let name = text.split(separator: ":").first,
                name.contains("-") || ["accept", "authorization", "cookie", "host"].contains(name.lowercased())
            else { return nil }
            return Problem(
                position, "this line looks like a header field, but is sent in the body",
                "remove the blank line before it")
        }
    }

    /// Reads the body, and the tags and outputs below it, up to the next `###` line.
    mutating func readBody() {
        var body: [BodyLine] = []
        var hasContent = false
        while index < blockEnd {
            let line = lines[index]
            let text = line.trimmed
            if text.isComment {
                readTag(line)
                index += 1
            } else if !hasContent, skipComment(text) {
                continue
            } else if readScript(text, startsBody: true) {
                continue
            } else if text.hasPrefix("@"), text.contains("="), !hasContent, readVariable(line) {
                index += 1
            } else {
                readBodyLine(line, text, &body)
                hasContent = hasContent || body.last?.isBlank == false
                index += 1
            }
        }
        body = Array(body.drop(while: \.isBlank))
        while body.last?.isBlank == true { body.removeLast() }
        guard !body.isEmpty else { return }
        if !request.body.isEmpty {
            report(request.position, "the curl command already has a body", "remove one of the bodies")
        }
        join(body)
        guard !isMultipart else { return }
        let hints = body.enumerated().lazy.compactMap { $1.hint(isFirst: $0 == 0) }
        file.hints += hints.prefix(Self.mostHints)
    }

    private static let mostHints = 8

    /// Whether the body has parts, which may be requests themselves, as in a batch.
    private var isMultipart: Bool { if case .multipart = request.bodyKind { true } else { false } }

    private mutating func readBodyLine(_ line: String, _ text: String, _ body: inout [BodyLine]) {
        let indentation = line.indentation
        if text.hasPrefix("<> ") { return }
        if text.hasPrefix("??") {
            return readCheck(behind: text, at: indentation)
        }
        if line.hasPrefix(">>") { return readOutput(line) }
        guard text.hasPrefix("<"), let reference = fileReference(text, at: position(indentation)) else {
            return body.append(.text(line, position()))
        }
        body.append(.file(reference))
    }

    /// Reads `< path`, `<@ path` or `<@latin1 path`; nil when the line is text.
    private mutating func fileReference(_ text: String, at place: Position) -> FileReference? {
        let mark = text.prefix { !$0.isWhitespace }
        guard mark == "<" || mark.hasPrefix("<@") else { return nil }
        let behind = text.dropFirst(mark.count)
        let path = behind.trimmed
        var encoding = TextEncoding.utf8
        if mark.count > 2 {
            guard let named = TextEncoding(named: String(mark.dropFirst(2))) else {
                report(
                    place, "\(mark.dropFirst(2).description.shown) is not a supported encoding",
                    "write utf8, latin1, ascii or utf16le")
                return FileReference(path: Template(path), hasVariables: false, encoding: .utf8, position: place)
            }
            encoding = named
        }
        guard !path.isEmpty else {
            report(place, "no file follows <", "write < ./body.json")
            return FileReference(path: Template("."), hasVariables: false, encoding: .utf8, position: place)
        }
        let pathPlace = place.advanced(by: mark.count + behind.indentation)
        return FileReference(
            path: template(path, at: pathPlace), hasVariables: mark.hasPrefix("<@"), encoding: encoding,
            position: pathPlace)
    }

    private mutating func readOutput(_ line: String) {
        let replaces = line.hasPrefix(">>!")
        let behind = line.dropFirst(replaces ? 3 : 2)
        let path = behind.trimmed
        let place = position(line.count - behind.count + behind.indentation)
        guard !path.isEmpty else {
            return report(
                position(), "no file follows >>", "write >> answer.json, or >>! answer.json to replace it")
        }
        guard request.output == nil else {
            return report(position(), "the response already goes to a file", "remove one of the two")
        }
        request.output = FileRequest.Output(path: template(path, at: place), replaces: replaces, position: place)
    }

    /// Joins lines according to the kind of the body.
    private mutating func join(_ lines: [BodyLine]) {
        let type = request.field("content-type")?.value
        let plainType = type?.plainText?.lowercased() ?? ""
        if request.field("x-request-type")?.value.plainText?.lowercased() == "graphql" { request.bodyKind = .graphQL }
        if case .graphQL = request.bodyKind {
            let split = lines.indices.first { place in
                lines[place].isBlank && Self.startsVariables(lines[(place + 1)...], behind: lines[..<place])
            }
            request.body = parts(lines[..<(split ?? lines.endIndex)], separator: "\n")
            if let split { request.graphQLVariables = parts(lines[(split + 1)...], separator: "\n") }
        } else if plainType.hasPrefix("multipart/") {
            request.body = parts(lines[...], separator: "\r\n")
            if let boundary = type?.plainText.flatMap(Self.boundary) {
                request.bodyKind = .multipart(boundary: boundary)
            }
        } else if plainType.hasPrefix("application/x-www-form-urlencoded") {
            request.bodyKind = .form
            request.body = formParts(lines)
        } else {
            request.body = parts(lines[...], separator: "\n")
            if plainType.hasPrefix("application/x-ndjson") || plainType.hasPrefix("application/jsonl") {
                request.body.append(.text(Template("\n")))
            }
        }
    }

    /// Whether the lines after a blank line are the variables of the GraphQL query before it.
    ///
    /// If only fragments precede the blank line, the query itself follows it.
    private static func startsVariables(_ rest: ArraySlice<BodyLine>, behind query: ArraySlice<BodyLine>) -> Bool {
        switch rest.first {
        case nil: return false
        case .file(let reference)?: return reference.path.prefixText.hasSuffix(".json")
        case .text(let first, _)?: return first.hasPrefix("{") && query.contains { $0.startsOperation }
        }
    }

    /// Joins lines to parts of a body.
    private mutating func parts(_ lines: ArraySlice<BodyLine>, separator: String) -> [BodyPart] {
        var (parts, text) = ([BodyPart](), Template())
        for (place, line) in zip(lines.indices, lines) {
            switch line {
            case .text(let line, let position):
                text.append(template(line, at: position))
            case .file(let reference):
                if !text.parts.isEmpty { parts.append(.text(text)) }
                text = Template()
                parts.append(.file(reference))
            }
            if place < lines.endIndex - 1 { text.append(separator) }
        }
        if !text.parts.isEmpty { parts.append(.text(text)) }
        return parts
    }

    /// Joins the lines of a form.
    ///
    /// A line that starts with &, or that follows a line ending with &, is joined without a line end.
    private mutating func formParts(_ lines: [BodyLine]) -> [BodyPart] {
        var (parts, text) = ([BodyPart](), Template())
        var endsField = true
        for (place, line) in lines.enumerated() {
            switch line {
            case .text(let line, let position):
                let content = line.trimmed
                if place > 0, !endsField, !content.hasPrefix("&") { text.append("\n") }
                endsField = content.hasSuffix("&") || content.isEmpty
                text.append(template(content.formLine, at: position.advanced(by: line.indentation)))
            case .file(let reference):
                if !text.parts.isEmpty { parts.append(.text(text)) }
                text = Template()
                parts.append(.file(reference))
                endsField = false
            }
        }
        if !text.parts.isEmpty { parts.append(.text(text)) }
        return parts
    }

    /// The boundary of a multipart content type.
    static func boundary(_ type: String) -> String? {
        for parameter in type.split(separator: ";").dropFirst() {
            let parts = parameter.split(separator: "=", maxSplits: 1).map(\.trimmed)
            guard parts.count == 2, parts[0].lowercased() == "boundary" else { continue }
            let value = parts[1].trimmingQuotes
            return value.isEmpty ? nil : value
        }
        return nil
    }

    /// Reports a missing or forbidden body, and invalid boundaries of a multipart body.
    mutating func check() {
        if request.method == "HEAD" || request.method == "TRACE", !request.body.isEmpty {
            report(request.position, "a \(request.method) request has no body", "remove the body, or write POST")
        }
        if case .graphQL = request.bodyKind, request.body.isEmpty {
            report(request.position, "the body contains no query", "write the query after a blank line")
        }
        guard let type = request.field("content-type"), !request.body.isEmpty,
            let text = type.value.plainText, text.lowercased().hasPrefix("multipart/")
        else { return }
        guard case .multipart(let boundary) = request.bodyKind else {
            return report(
                type.position, "a body in parts has no boundary",
                "write Content-Type: multipart/form-data; boundary=abcd, and --abcd before each part")
        }
        let lines = request.body.flatMap { part -> [Substring] in
            if case .text(let text) = part { text.source.split { $0.isNewline } } else { [] }
        }
        if !lines.contains(where: { $0.trimmed == "--\(boundary)" }) {
            report(type.position, "no part begins with --\(boundary)", "write --\(boundary) on a line before each part")
        } else if !lines.contains(where: { $0.trimmed == "--\(boundary)--" }) {
            report(
                type.position, "the parts do not end with --\(boundary)--", "write --\(boundary)-- after the last part"
            )
        }
    }
}

extension HTTPFileReader.BodyLine {
    /// Whether the line starts a query, a mutation or a subscription, or is a file.
    fileprivate var startsOperation: Bool {
        guard case .text(let text, _) = self else { return true }
        return ["query", "mutation", "subscription", "{"].contains { text.hasPrefix($0) }
    }
}

extension String {
    fileprivate var trimmingQuotes: String {
        count > 1 && hasPrefix("\"") && hasSuffix("\"") ? String(dropFirst().dropLast()) : self
    }

    /// A line of a form, such as `name = value &`, without the blanks around `=` and `&`.
    fileprivate var formLine: String {
        var text = self
        if text.hasSuffix("&") { text = text.dropLast().trimmed + "&" }
        if text.hasPrefix("&") { text = "&" + text.dropFirst().trimmed }
        let name = text.prefix { $0 != "=" }
        guard name.last == " ", name.trimmed.allSatisfy({ !$0.isWhitespace }) else { return text }
        return name.trimmed + "=" + text.dropFirst(name.count + 1).trimmed
    }
}
