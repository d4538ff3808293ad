import Convoy
import Foundation

package struct FormPart: Equatable {
    package enum Source: Equatable {
        case text(String)
        case file(String)
        case content(of: String)
    }

    package let name: String
    package let source: Source
    package private(set) var contentType: String?
    package private(set) var fileName: String?

    package init?(_ text: String, isLiteral: Bool = false) {
        guard let equals = text.firstIndex(of: "="), equals != text.startIndex else { return nil }
        name = String(text[..<equals])
        if isLiteral {
            source = .text(String(text[text.index(after: equals)...]))
            return
        }
        let pieces = Self.pieces(of: text[text.index(after: equals)...])
        var value = pieces.first ?? ""
        for piece in pieces.dropFirst() {
            let word = piece.trimmingCharacters(in: .whitespaces)
            if word.hasPrefix("type=") {
                contentType = Self.unquoted(word.dropFirst(5))
            } else if word.hasPrefix("filename=") {
                fileName = Self.unquoted(word.dropFirst(9))
            } else {
                value += ";" + piece
            }
        }
        switch value.first {
        case "@": source = .file(Self.unquoted(value.dropFirst()))
        case "<": source = .content(of: Self.unquoted(value.dropFirst()))
        default: source = .text(Self.unquoted(value))
        }
    }

    /// As in curl, only a quotation mark at the start of a value with a closing one quotes.
    private static func pieces(of text: Substring) -> [String] {
        var (pieces, piece, rest) = ([String](), "", text)
        while let character = rest.first {
            if character == "\"",
                ["", "@", "<", "type=", "filename="].contains(piece.trimmingCharacters(in: .whitespaces)),
                let quoted = rest.prefixMatch(of: #/"(?:[^"\\]|\\.)*"/#.dotMatchesNewlines())
            {
                piece += quoted.0
                rest = rest[quoted.range.upperBound...]
                continue
            }
            rest.removeFirst()
            if character == ";" {
                pieces.append(piece)
                piece = ""
            } else {
                piece.append(character)
            }
        }
        return pieces + [piece]
    }

    private static func unquoted(_ text: some StringProtocol) -> String {
        let isQuoted = text.count > 1 && text.hasPrefix("\"") && text.hasSuffix("\"")
        guard isQuoted else { return String(text) }
        return String(text.dropFirst().dropLast()).replacing(#/\\(["\\])/#) { $0.1 }
    }
}

enum FormParts {
    struct Part {
        var name: Template
        var content: BodyPart
        var fileName: Template?
        var type: Template?
    }

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
            body.add(.text(text))
            body.add(part.content)
            text = Template("\r\n")
        }
        text.append("--\(boundary)--\r\n")
        body.add(.text(text))
        return body
    }
}

extension FileRequest {
    mutating func setParts(_ parts: [FormParts.Part]) {
        let boundary = FormParts.boundary(of: parts)
        (bodyKind, body) = (.multipart(boundary: boundary), FormParts.body(parts, boundary: boundary))
        fields.removeAll { $0.name.lowercased() == "content-type" }
        addField("Content-Type", Template("multipart/form-data; boundary=\(boundary)"))
    }
}
