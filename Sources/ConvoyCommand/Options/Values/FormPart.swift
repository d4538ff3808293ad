// One part of a form in the syntax of `-F`.
import Convoy
import Foundation

/// `NAME=TEXT`, `NAME=@FILE` or `NAME=<FILE`, optionally followed by `;type=TYPE` and `;filename=NAME`.
struct FormPart: Equatable {
    enum Source: Equatable {
        case text(String)
        /// The path of a file, which is sent with its name.
        case file(String)
        /// The content of a file as text.
        ///
        /// A dash means standard input.
        case content(of: String)
    }

    let name: String
    let source: Source
    private(set) var contentType: String?
    private(set) var fileName: String?

    /// - Parameter isLiteral: whether the value is text even if it begins with `@` or `<`.
    init(_ text: String, isLiteral: Bool = false) throws(UsageError) {
        guard let equals = text.firstIndex(of: "="), equals != text.startIndex else {
            throw UsageError("takes NAME=VALUE or NAME=@FILE; the name or the equals sign is missing")
        }
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
                // The semicolon is part of the text.
                value += ";" + piece
            }
        }
        switch value.first {
        case "@": source = .file(Self.unquoted(value.dropFirst()))
        case "<": source = .content(of: Self.unquoted(value.dropFirst()))
        default: source = .text(Self.unquoted(value))
        }
    }

    /// The file of the part; nil if the part is a text.
    var path: String? {
        switch source {
        case .text: nil
        case .file(let path), .content(let path): path
        }
    }

    /// Adds the part to a form.
    ///
    /// A file of `@` is read when the request is sent.
    func add(to form: inout MultipartForm) throws(UsageError) {
        switch source {
        case .text(let text): form.append(Data(text.utf8), name: name, fileName: fileName, contentType: contentType)
        case .file("-"):
            throw UsageError("sends a file with its name, which standard input lacks; <- sends its content")
        case .file(let path):
            let file = URL(filePath: try OptionValues.readableFile(path), directoryHint: .notDirectory)
            form.append(file: file, name: name, fileName: fileName, contentType: contentType)
        case .content(let path):
            form.append(
                try OptionValues.content(of: path), name: name, fileName: fileName, contentType: contentType)
        }
    }

    /// Splits at semicolons outside of quotes.
    private static func pieces(of text: Substring) -> [String] {
        var (pieces, isQuoted) = ([""], false)
        for character in text {
            if character == "\"" { isQuoted.toggle() }
            if character == ";", !isQuoted { pieces.append("") } else { pieces[pieces.count - 1].append(character) }
        }
        return pieces
    }

    private static func unquoted(_ text: some StringProtocol) -> String {
        let isQuoted = text.count > 1 && text.hasPrefix("\"") && text.hasSuffix("\"")
        return String(isQuoted ? String(text.dropFirst().dropLast()) : String(text))
    }
}
