// The body of a multipart form.
import Convoy

/// Formats a multipart form as text with its boundary.
enum FormParts {
    struct Part {
        var name: Template
        var content: BodyPart
        var fileName: Template?
        var type: Template?
    }

    /// A boundary that no part contains.
    static func boundary(of parts: [Part]) -> String {
        let base = "convoy-parts-of-a-form"
        var (isTaken, numbers) = (false, Set<Int>())
        for part in parts {
            let content = if case .text(let text) = part.content { text.source } else { "" }
            for text in [part.name.source, content, part.fileName?.source ?? "", part.type?.source ?? ""] {
                for rest in text.split(separator: base, omittingEmptySubsequences: false).dropFirst() {
                    isTaken = true
                    // A boundary is the base, a hyphen and a number. `base-123` also contains `base-1` and `base-12`.
                    let digits = rest.dropFirst().prefix(9).prefix { $0.isASCIIDigit }
                    numbers.formUnion((0..<digits.count).compactMap { Int(digits.prefix($0 + 1)) })
                }
            }
        }
        guard isTaken else { return base }
        var number = 2
        while numbers.contains(number) { number += 1 }
        return "\(base)-\(number)"
    }

    static func body(_ parts: [Part], boundary: String) -> [BodyPart] {
        var (body, text) = ([BodyPart](), Template())
        for part in parts {
            text.append("--\(boundary)\r\nContent-Disposition: form-data; name=\"")
            text.append(part.name.mappingText { Template($0.inQuotes) })
            text.append("\"")
            if let name = part.fileName {
                text.append("; filename=\"")
                text.append(name.mappingText { Template($0.inQuotes) })
                text.append("\"")
            }
            if let type = part.type, !type.parts.isEmpty {
                text.append("\r\nContent-Type: ")
                text.append(type.mappingText { Template($0.visibleLine) })
            }
            text.append("\r\n\r\n")
            switch part.content {
            case .text(let content): text.append(content)
            case .file:
                body += [.text(text), part.content]
                text = Template()
            }
            text.append("\r\n")
        }
        text.append("--\(boundary)--\r\n")
        return body + [.text(text)]
    }
}
