// Text as it is written into an `.http` file.
import Convoy

extension [BodyPart] {
    /// The same, with texts that follow each other as one.
    var joined: [BodyPart] {
        reduce(into: []) { parts, part in
            guard case .text(let text) = part, case .text(var last)? = parts.last else { return parts.append(part) }
            last.append(text)
            parts[parts.count - 1] = .text(last)
        }
    }
}

extension FileRequest {
    /// Whether its text is a form that is sent as it stands: nothing in it has to be percent-encoded.
    var isPlainForm: Bool {
        guard let text = bodyText, !text.source.hasSuffix("&") else { return false }
        return text.parts.allSatisfy { part in
            if case .text(let text) = part { PercentEscaper.url.escaped(text) == text } else { true }
        }
    }
}

extension Template {
    /// As it stands in a file.
    var written: String {
        parts.map { part in
            switch part {
            case .text(let text): text.replacingBraces
            case .placeholder(let placeholder): "{{\(placeholder.source)}}"
            }
        }.joined()
    }

    /// As the value of a variable, whose backslashes are escapes.
    var writtenEscaped: String {
        var result = ""
        for (place, part) in parts.enumerated() {
            switch part {
            case .text(let text): result += text.escaped(isFirst: place == 0, isLast: place == parts.count - 1)
            case .placeholder(let placeholder): result += "{{\(placeholder.source)}}"
            }
        }
        return result
    }
}

extension Template {
    /// The same without the line end that it ends with.
    var withoutLastLineEnd: Template {
        guard case .text(let text)? = parts.last, text.hasSuffix("\r\n") else { return self }
        var template = self
        template.parts.removeLast()
        template.append(String(text.dropLast()))
        return template
    }
}

extension String {
    /// Pairs of braces as `\{\{`.
    fileprivate var replacingBraces: String { contains("{{") ? replacing("{{", with: "\\{\\{") : self }

    /// With escapes for line ends, backslashes, and blanks at the ends of the value.
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

    /// On one line, without control characters, no longer than a comment should be.
    var visibleLine: String {
        let line = String(
            String.UnicodeScalarView(
                unicodeScalars.prefix(2_000).map { $0.properties.isWhitespace || $0.value < 0x20 ? " " : $0 }))
        return line.split(separator: " ").joined(separator: " ").clippedCharacters(300)
    }

    private func clippedCharacters(_ limit: Int) -> String { count > limit ? prefix(limit - 3) + "..." : self }

    /// A name that a variable may have.
    var variableName: String {
        let name = map { $0.isASCII && ($0.isLetter || $0.isNumber) || "-_.".contains($0) ? $0 : "_" }
        let trimmed = String(name).drop { $0 == "." || $0 == "_" }
        let text = trimmed.last == "." ? String(trimmed.dropLast()) : String(trimmed)
        return text.isEmpty ? "value" : text.replacing("-", with: "_")
    }
}
