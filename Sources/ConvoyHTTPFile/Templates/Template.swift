// Text with `{{…}}` in it.

package struct Template: Hashable, Sendable {
    package enum Part: Hashable, Sendable {
        case text(String)
        case placeholder(Placeholder)

        /// The text; nil for a placeholder.
        var string: String? { if case .text(let text) = self { text } else { nil } }
    }

    package var parts: [Part] = []

    package init() {}

    package init(_ text: some StringProtocol) { parts = text.isEmpty ? [] : [.text(String(text))] }

    package var plainText: String? { parts.isEmpty ? "" : parts.count == 1 ? parts[0].string : nil }

    package var placeholders: [Placeholder] {
        parts.compactMap { if case .placeholder(let placeholder) = $0 { placeholder } else { nil } }
    }

    package var source: String { written { text, _ in text } }

    func written(_ write: (_ text: String, _ place: Int) -> String) -> String {
        parts.enumerated().map { place, part in
            switch part {
            case .text(let text): write(text, place)
            case .placeholder(let placeholder): "{{\(placeholder.source)}}"
            }
        }.joined()
    }

    package var prefixText: String { parts.first?.string ?? "" }

    mutating func append(_ text: String) {
        guard !text.isEmpty else { return }
        guard case .text(var last)? = parts.last else { return parts.append(.text(text)) }
        // The part is removed first, so that its text grows in place. A body may have 100,000 lines.
        parts.removeLast()
        last += text
        parts.append(.text(last))
    }

    mutating func append(_ other: Template) {
        for part in other.parts {
            switch part {
            case .text(let text): append(text)
            case .placeholder: parts.append(part)
            }
        }
    }

    /// Parses one line of text with `{{…}}` placeholders.
    ///
    /// `\{\{` and `\}\}` are literal braces.
    ///
    /// - Complexity: O(*n*) for *n* characters.
    static func read(
        _ line: some StringProtocol, at position: Position, file: String? = nil, _ problems: inout [Problem]
    ) -> Template {
        // The bytes are checked first, because most lines contain neither a brace nor a backslash.
        guard line.utf8.contains(where: { $0 == UInt8(ascii: "{") || $0 == UInt8(ascii: "\\") }),
            line.contains("{{") || line.contains("\\{") || line.contains("\\}")
        else { return Template(line) }
        var (template, text) = (Template(), "")
        let characters = Array(line)
        var index = 0
        while index < characters.count {
            let rest = characters[index...]
            if rest.starts(with: "\\{\\{") || rest.starts(with: "\\}\\}") {
                text += rest.starts(with: "\\{") ? "{{" : "}}"
                index += 4
                continue
            }
            // Of three braces the last two open the placeholder: {"a":{{{name}}}}.
            guard rest.starts(with: "{{"), !rest.starts(with: "{{{") else {
                text.append(characters[index])
                index += 1
                continue
            }
            let place = position.advanced(by: index)
            guard let end = characters[(index + 2)...].firstRange(of: "}}")?.lowerBound else {
                problems.append(
                    Problem(
                        place, "{{ is not closed on its line", "write }} after the name, or \\{\\{ for the two braces",
                        file: file))
                text += String(rest)
                break
            }
            let source = String(characters[index + 2..<end]).trimmed
            do throws(Defect) {
                let expression = try Expression(source)
                template.append(text)
                text = ""
                template.parts.append(
                    .placeholder(Placeholder(source: source, position: place, expression: expression, file: file)))
            } catch { problems.append(Problem(place, error, file: file)) }
            index = end + 2
        }
        template.append(text)
        return template
    }

    /// Parses a text of several lines; `position` gives the place of the line with a number from 0.
    static func read(
        lines text: String, file: String? = nil, _ problems: inout [Problem], at position: (Int) -> Position
    ) -> Template {
        var template = Template()
        let lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (number, line) in lines.enumerated() {
            if number > 0 { template.append("\n") }
            template.append(read(Substring(line), at: position(number), file: file, &problems))
        }
        return template
    }

    func split(at mark: Character) -> (before: Template, after: Template)? {
        for (index, part) in parts.enumerated() {
            guard case .text(let text) = part, let place = text.firstIndex(of: mark) else { continue }
            var (before, after) = (Template(), Template(text[place...].dropFirst()))
            before.parts = Array(parts[..<index])
            before.append(String(text[..<place]))
            after.parts += parts[(index + 1)...]
            return (before, after)
        }
        return nil
    }

    var percentEncoded: Template {
        mappingText({ Template($0.percentEncoded) }) { placeholder in
            var placeholder = placeholder
            placeholder.isEncoded = true
            return placeholder
        }
    }

    func mappingText(
        _ change: (String) -> Template, placeholder changed: (Placeholder) -> Placeholder = { $0 }
    ) -> Template {
        var result = Template()
        for part in parts {
            switch part {
            case .text(let text): result.append(change(text))
            case .placeholder(let placeholder): result.parts.append(.placeholder(changed(placeholder)))
            }
        }
        return result
    }
}

package struct Placeholder: Hashable, Sendable {
    package var source: String
    package var position: Position
    package var expression: Expression
    /// The file with the placeholder, if it is not the file of requests.
    package var file: String?
    /// Whether the value is percent-encoded everywhere, unless the placeholder is `{{&…}}`.
    var isEncoded = false
}

package enum Expression: Hashable, Sendable {
    /// A variable, or a part of a variable's value if the name contains dots.
    case variable(String, ValueEncoding)
    /// `{{$shared name}}`: a variable of the environment `$shared`.
    case shared(String)
    case system(SystemVariable)
    case reference(Reference, ValueEncoding)

    init(_ source: String) throws(Defect) {
        guard let first = source.first else {
            throw Defect("{{ }} is empty", "write the name of a variable between the braces")
        }
        if first == "$" {
            let words = source.words
            guard words[0] != "$shared" || words.count == 2 else {
                throw Defect("$shared needs a name", "write {{$shared name}}")
            }
            self = words[0] == "$shared" ? .shared(words[1]) : .system(try SystemVariable(source))
            return
        }
        let encoding: ValueEncoding = first == "%" ? .always : first == "&" ? .never : .byPlace
        let name = encoding == .byPlace ? source : source.dropFirst().trimmed
        if let reference = try Reference(name) {
            self = .reference(reference, encoding)
            return
        }
        guard name.isVariableName else {
            throw Defect(
                "\(name.shown) is not a variable name, and scripts are not supported",
                "set @x = … and write {{x}}, or write \\{\\{ for the two braces", kind: .impossible)
        }
        self = .variable(name, encoding)
    }
}

package enum ValueEncoding: Hashable, Sendable {
    /// `{{name}}`: a value of a response or a row is encoded in a path, a query or a form.
    case byPlace
    /// `{{%name}}`: the value is encoded everywhere.
    case always
    /// `{{&name}}`: the value is never encoded, because it may contain several parts of a URL or form.
    case never
}

extension RandomAccessCollection where Index == Int {
    /// A binary search for the first element that is not before the wanted place.
    func firstIndex(notBefore isBefore: (Element) -> Bool) -> Int {
        var (low, high) = (startIndex, endIndex)
        while low < high {
            let middle = (low + high) / 2
            if isBefore(self[middle]) { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

extension UInt8 {
    var isBlank: Bool { self == 0x20 || (0x09...0x0D).contains(self) }

    var isWordByte: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
        default: false
        }
    }
}

extension StringProtocol {
    /// Whether the text begins as an object or an array of JSON does.
    var looksLikeJSON: Bool { utf8.first { !$0.isBlank }.map { "{[".utf8.contains($0) } ?? false }

    var trimmed: String {
        guard let first = firstIndex(where: { !$0.isWhitespace }), let last = lastIndex(where: { !$0.isWhitespace })
        else { return "" }
        return String(self[first...last])
    }
}

extension String {
    /// Whether the text is a valid name of a variable: letters, digits, `-`, `_` and inner dots.
    var isVariableName: Bool {
        !isEmpty && first != "." && last != "." && allSatisfy { $0.isLetter || $0.isNumber || "-_.".contains($0) }
    }

    /// Whether the text is a valid name of a request: letters, digits, `-` and `_`.
    var isRequestName: Bool { !isEmpty && allSatisfy { $0.isLetter || $0.isNumber || $0 == "-" || $0 == "_" } }

    var shown: String {
        let text = count > 60 ? prefix(57) + "..." : self[...]
        return "‘" + String(text.map { $0.isNewline || $0 == "\t" ? " " : $0 }) + "’"
    }

    var words: [String] { split(whereSeparator: \.isWhitespace).map(String.init) }
}
