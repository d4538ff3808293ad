import Convoy

/// A scanner of the body's own text determines the place of each value, so that a value cannot end its place.
struct BodyText {
    typealias Filled = RequestBuilder.Filled

    enum Syntax {
        case plain, json, jsonLines, xml, form, graphQL

        /// The first byte counts if the content type is missing, or is that of a form, which curl's `-d` sends with any
        /// body.
        init(type: String?, first: UInt8? = nil) {
            let name = (type ?? "").prefix { $0 != ";" }.trimmed.lowercased()
            let isForm = name == "application/x-www-form-urlencoded"
            if first == UInt8(ascii: "{") || first == UInt8(ascii: "["), name.isEmpty || isForm {
                self = .json
            } else if isForm {
                self = .form
            } else if name == "application/graphql" {
                self = .graphQL
            } else if ["ndjson", "jsonl", "json-l", "json-seq"].contains(where: name.contains) {
                self = .jsonLines
            } else if name.contains("json") {
                self = .json
            } else {
                self = name.contains("xml") || name.isEmpty && first == UInt8(ascii: "<") ? .xml : .plain
            }
        }
    }

    private var syntax: Syntax
    /// The depth of the body's own text; deeper pieces are values.
    private let base: Int
    private var end: String?
    private var isEscaped = false
    private var isInTag = false
    private var boundary: String?
    private var isInHead = false
    private var line = ""

    private init(_ syntax: Syntax, base: Int) { (self.syntax, self.base) = (syntax, base) }

    /// If the body consists only of values, they are its own text, because no text surrounds them.
    init(_ parts: [PlannedRequest.Part], type: String?, _ given: Syntax?) {
        let core = parts.corePieces
        let base = core.map(\.depth).min() ?? 0
        let first = core.first.flatMap { $0.depth == base ? $0.text : nil }?.utf8.first { !$0.isBlank }
        let hasValues = core.contains { $0.depth > base }
        self.init(hasValues ? given ?? Syntax(type: type, first: first) : .plain, base: base)
        guard given == nil, let type, type.lowercased().hasPrefix("multipart/") else { return }
        boundary = type.parameter("boundary").map { "--" + $0 }
    }

    private func isOwn(_ piece: Filled) -> Bool { piece.depth <= base || piece.encoding == .never }

    mutating func text(of pieces: [Filled]) throws(Defect) -> String {
        // A line end in `own` separates texts, because a value between or in them must not complete the boundary.
        var (text, own, index) = ("", "", 0)
        while index < pieces.count {
            let piece = pieces[index]
            if isOwn(piece) || isDelimiter(pieces[index...]) {
                text += piece.text
                if boundary != nil { own += piece.value == nil ? piece.text : "\n\(piece.text)\n" }
                follow(piece.text)
                index += 1
                continue
            }
            own += "\n"
            if [.json, .jsonLines, .graphQL].contains(syntax), end == nil, !isInHead {
                let last = pieces[index...].firstIndex(where: isOwn) ?? pieces.count
                text += try token(Array(pieces[index..<last]))
                index = last
            } else {
                text += try escaped(piece)
                index += 1
            }
        }
        guard let boundary else { return text }
        guard text.ranges(of: boundary).count == own.ranges(of: boundary).count else {
            throw Defect("a value contains the boundary of the parts", "choose another boundary")
        }
        return text
    }

    // MARK: Places

    /// Such a line begins with `--` of the body itself, and contains no value of a row or a response.
    private func isDelimiter(_ pieces: ArraySlice<Filled>) -> Bool {
        guard let boundary, line.hasPrefix("--") else { return false }
        let last = boundary + "--"
        var text = line
        for piece in pieces {
            let start = piece.text.utf8.prefix { $0 != UInt8(ascii: "\n") }
            let endsLine = start.count < piece.text.utf8.count
            guard piece.value == nil, isOwn(piece) || !endsLine else { return false }
            text += String(Substring(start))
            guard last.hasPrefix(text.trimmed) else { return false }
            if endsLine { break }
        }
        return text.trimmed == boundary || text.trimmed == last
    }

    private mutating func follow(_ text: String) {
        guard boundary != nil else { return scan(text.utf8[...]) }
        let lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (number, part) in lines.enumerated() {
            if number > 0 { endLine() }
            line += String(Substring(part))
            if !isInHead { scan(part) }
        }
    }

    private mutating func endLine() {
        let text = line.trimmed
        line = ""
        if text == boundary {
            (isInHead, syntax) = (true, .plain)
        } else if isInHead, text.isEmpty {
            (isInHead, end, isEscaped, isInTag) = (false, nil, false, false)
        } else if isInHead, text.lowercased().hasPrefix("content-type:") {
            syntax = Syntax(type: String(text.utf8.dropFirst(13)))
        }
    }

    private mutating func scan(_ text: Substring.UTF8View) {
        guard syntax != .plain, syntax != .form else { return }
        var rest = text
        while let byte = rest.first {
            var count = 1
            if isEscaped {
                isEscaped = false
            } else if let end {
                if byte == UInt8(ascii: "\\"), syntax != .xml {
                    isEscaped = end != "\n"
                } else if rest.starts(with: end.utf8) {
                    self.end = nil
                    count = end.utf8.count
                }
            } else if !"\"'#<>".utf8.contains(byte) {
                // Most bytes start and end nothing, so they are skipped before the table is searched.
            } else if let (start, end) = ends.first(where: { rest.starts(with: $0.start.utf8) }) {
                self.end = end
                count = start.utf8.count
            } else if syntax == .xml, byte == UInt8(ascii: "<") || byte == UInt8(ascii: ">") {
                isInTag = byte == UInt8(ascii: "<")
            }
            rest = rest.dropFirst(count)
        }
    }

    private var ends: [(start: String, end: String)] {
        switch syntax {
        case .plain, .form: []
        case .json, .jsonLines: [("\"", "\"")]
        case .graphQL: [("\"\"\"", "\"\"\""), ("\"", "\""), ("#", "\n")]
        case .xml: isInTag ? [("\"", "\""), ("'", "'")] : [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")]
        }
    }

    // MARK: Values

    /// A value may have values of its own, as `{{user}}` with `@user = {"name": "{{name}}"}` has.
    private func token(_ pieces: [Filled]) throws(Defect) -> String {
        var inner = BodyText(syntax, base: base + 1)
        let text = try inner.text(of: pieces)
        if syntax == .graphQL, text.isRequestName { return text }
        guard let value = JSONValue(json: text.utf8) else {
            let source = pieces[0].placeholder?.source ?? ""
            throw failure(pieces[0], "stands outside of quotes, and is not JSON", "write \"{{\(source)}}\" for a text")
        }
        return syntax == .jsonLines && text.utf8.contains(where: { $0 == 0x0A || $0 == 0x0D }) ? value.json : text
    }

    private mutating func escaped(_ piece: Filled) throws(Defect) -> String {
        let text = piece.text
        if isInHead {
            let isQuoted = !line.utf8.count { $0 == UInt8(ascii: "\"") }.isMultiple(of: 2)
            guard isQuoted || !text.utf8.contains(where: { "\r\n\";".utf8.contains($0) }) else {
                throw failure(piece, "contains a quote, a semicolon or a line end", "write it in quotes")
            }
            return text.inQuotes
        }
        switch (syntax, end) {
        case (.plain, _): return text
        case (.form, _): return piece.encoding == .byPlace ? text.percentEncoded : text
        case (.json, _), (.jsonLines, _), (.graphQL, "\""):
            // A backslash of the body before the value would escape the first character of the value.
            let backslash = isEscaped ? "\\" : ""
            isEscaped = false
            return backslash + String(text.jsonQuoted.unicodeScalars.dropFirst().dropLast())
        case (.graphQL, "\n"): return text.visibleLine
        case (.graphQL, _):
            guard !text.contains("\"\"\""), !text.hasPrefix("\""), !text.hasSuffix("\""), !text.hasSuffix("\\") else {
                throw failure(piece, "cannot be part of a block string", "write it in a string: \"{{…}}\"")
            }
            return text
        case (.xml, "]]>") where !text.utf8.contains(where: { $0 == UInt8(ascii: "]") || $0 == UInt8(ascii: ">") }):
            return text
        case (.xml, "]]>"): return "]]>" + text.xmlEscaped(isInTag: false) + "<![CDATA["
        case (.xml, _): return text.xmlEscaped(isInTag: isInTag)
        }
    }

    private func failure(_ piece: Filled, _ what: String, _ advice: String) -> Defect {
        let source = piece.placeholder?.source ?? ""
        let raw = source.hasPrefix("$") ? "" : ", or {{&\(source)}} to insert it unchanged"
        return Defect("the value of {{\(source)}} \(what)", advice + raw, placeholder: piece.placeholder)
    }
}

extension [PlannedRequest.Part] {
    fileprivate var corePieces: ArraySlice<Piece> {
        let all = flatMap { part -> [Piece] in if case .text(let pieces) = part { pieces } else { .plain("file") } }
        func isBlank(_ piece: Piece) -> Bool { piece.depth == 0 && piece.text?.utf8.allSatisfy(\.isBlank) == true }
        guard let first = all.firstIndex(where: { !isBlank($0) }), let last = all.lastIndex(where: { !isBlank($0) })
        else { return [] }
        return all[first...last]
    }
}

extension String {
    package func xmlEscaped(isInTag: Bool) -> String {
        unicodeScalars.reduce(into: "") { text, scalar in
            switch scalar {
            case "&": text += "&amp;"
            case "<": text += "&lt;"
            case ">": text += "&gt;"
            case "\"": text += "&quot;"
            case "'": text += "&apos;"
            // A parser normalizes line ends, and in attributes all white space.
            case "\r": text += "&#13;"
            case "\n" where isInTag: text += "&#10;"
            case "\t" where isInTag: text += "&#9;"
            default: text.unicodeScalars.append(scalar)
            }
        }
    }
}
