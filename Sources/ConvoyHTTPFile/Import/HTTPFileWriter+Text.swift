// Formats text for an `.http` file.
import Convoy

extension [BodyPart] {
    /// The same parts, with adjacent texts joined.
    var joined: [BodyPart] {
        reduce(into: []) { parts, part in
            guard case .text(let text) = part, case .text(var last)? = parts.last else { return parts.append(part) }
            last.append(text)
            parts[parts.count - 1] = .text(last)
        }
    }
}

extension FileRequest {
    /// Whether the body is a form that needs no percent-encoding.
    var isPlainForm: Bool {
        guard let text = bodyText, !text.source.hasSuffix("&") else { return false }
        return text.parts.allSatisfy { part in
            if case .text(let text) = part { PercentEscaper.url.escaped(text) == text } else { true }
        }
    }
}

extension Template {
    /// The template in the syntax of an `.http` file.
    var written: String {
        parts.map { part in
            switch part {
            case .text(let text): text.replacingBraces
            case .placeholder(let placeholder): "{{\(placeholder.source)}}"
            }
        }.joined()
    }

    /// The template in the syntax of a variable's value, in which a backslash starts an escape.
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
    /// The same template without a final CR LF.
    var withoutLastLineEnd: Template {
        guard case .text(let text)? = parts.last, text.hasSuffix("\r\n") else { return self }
        var template = self
        template.parts.removeLast()
        template.append(String(text.dropLast()))
        return template
    }
}

extension String {
    /// The text with each `{{` written as `\{\{`.
    fileprivate var replacingBraces: String { contains("{{") ? replacing("{{", with: "\\{\\{") : self }

    /// Escapes line ends, tabs, backslashes and each `{{`.
    ///
    /// A blank at the start of the value's first text is escaped too, and a blank at the end of its last text.
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

    /// The text as a valid name of a variable.
    var variableName: String {
        let name = map { $0.isASCII && ($0.isLetter || $0.isNumber) || "-_.".contains($0) ? $0 : "_" }
        let trimmed = String(name).drop { $0 == "." || $0 == "_" }
        let text = trimmed.last == "." ? String(trimmed.dropLast()) : String(trimmed)
        return text.isEmpty ? "value" : text.replacing("-", with: "_")
    }
}
