// Parses the text between the braces of `{{…}}`.

extension Expression {
    init(_ source: String, at position: Position, file: String?) throws(Problem) {
        func problem(_ what: String, _ advice: String, _ kind: Problem.Kind = .mistake) -> Problem {
            Problem(position, what, advice, kind: kind, file: file)
        }
        guard let first = source.first else {
            throw problem("{{ }} is empty", "write the name of a variable between the braces")
        }
        if first == "$" {
            self = try Self.system(source, at: position, file: file)
            return
        }
        let encoding: ValueEncoding = first == "%" ? .always : first == "&" ? .never : .byPlace
        let name = encoding == .byPlace ? source : source.dropFirst().trimmed
        if let reference = try Reference(name, at: position, file: file) {
            self = .reference(reference, encoding)
            return
        }
        guard name.isVariableName else {
            throw problem(
                "\(name.shown) is not a variable name, and scripts are not supported",
                "set @x = … and write {{x}}, or write \\{\\{ for the two braces", .impossible)
        }
        self = .variable(name, encoding)
    }

    private static func system(_ source: String, at position: Position, file: String?) throws(Problem) -> Expression {
        do throws(SystemVariable.Defect) {
            let words = source.words
            if words.first == "$shared" {
                guard words.count == 2 else {
                    throw SystemVariable.Defect("$shared needs a name", "write {{$shared name}}")
                }
                return .shared(words[1])
            }
            return .system(try SystemVariable(source))
        } catch {
            throw Problem(
                position, error.what, error.advice, kind: error.isImpossible ? .impossible : .mistake, file: file)
        }
    }
}

extension String {
    /// Whether the text is a valid name of a variable: letters, digits, `-`, `_` and inner dots.
    var isVariableName: Bool {
        !isEmpty && first != "." && last != "."
            && allSatisfy { $0.isLetter || $0.isNumber || "-_.".contains($0) }
    }

    /// Whether the text is a valid name of a request: letters, digits, `-` and `_`.
    var isRequestName: Bool {
        if utf8.allSatisfy({ $0.isWordByte }) { return !isEmpty }
        return allSatisfy { $0.isLetter || $0.isNumber || $0 == "-" || $0 == "_" }
    }

    /// The text in quotes, on one line, and shortened.
    var shown: String {
        let text = count > 60 ? prefix(57) + "..." : self[...]
        return "‘" + String(text.map { $0.isNewline || $0 == "\t" ? " " : $0 }) + "’"
    }
}

extension UInt8 {
    /// Whether the byte is an ASCII letter or digit, - or _.
    var isWordByte: Bool {
        switch self {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x5F: true
        default: false
        }
    }
}

extension String {
    /// The words of the text, separated by blanks.
    var words: [String] { split(whereSeparator: \.isWhitespace).map(String.init) }
}
