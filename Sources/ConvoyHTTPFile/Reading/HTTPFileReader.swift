// Splits the text of a file into requests: separators, and the lines before a request line.

/// Reads a file of requests line by line.
///
/// Reading continues after an error, so that all errors are found at once.
package struct HTTPFileReader {
    let lines: [String]
    /// The index of the next line, from 0.
    var index = 0
    /// The index of the next `###` line; the number of lines if none follows.
    var blockEnd = 0
    var file = HTTPFile()
    /// The request that is being read; the tags before its request line are stored here too.
    var request = FileRequest(position: Position(line: 1, column: 1))
    /// Whether `{{` begins a placeholder in a command of curl.
    var readsVariables = true

    init(_ text: String) {
        lines = Self.lines(of: Array(text.utf8))
    }

    /// Splits the bytes of a text into lines.
    ///
    /// Splitting by `Character` is slower, which shows in files with a million lines.
    private static func lines(of bytes: [UInt8]) -> [String] {
        var start = bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
        var lines: [String] = []
        var index = start
        while index < bytes.count {
            let byte = bytes[index]
            guard byte == 0x0A || byte == 0x0D else {
                index += 1
                continue
            }
            lines.append(String(decoding: bytes[start..<index], as: UTF8.self))
            let isPair = byte == 0x0D && index + 1 < bytes.count && bytes[index + 1] == 0x0A
            index += isPair ? 2 : 1
            start = index
        }
        return lines + [String(decoding: bytes[start...], as: UTF8.self)]
    }

    /// Reads a complete file.
    ///
    /// - Complexity: O(*n*) for *n* characters.
    package static func read(_ text: String) -> HTTPFile {
        var reader = HTTPFileReader(text)
        reader.readBlocks()
        var file = reader.file
        file.problems = Problem.inOrder(file.problems)
        return file
    }

    private mutating func readBlocks() {
        while index < lines.count {
            let isSeparator = lines[index].hasPrefix("###")
            begin(isSeparator ? Self.title(of: lines[index], line: index + 1) : nil)
            if isSeparator {
                // A separator line may contain `@name`, as in REST Client.
                readTag(lines[index])
                index += 1
            }
            blockEnd = lines[index...].firstIndex { $0.hasPrefix("###") } ?? lines.count
            readPreamble()
            index = blockEnd
        }
    }

    private static func title(of line: String, line number: Int) -> Word? {
        let hashCount = line.utf8.prefix { $0 == UInt8(ascii: "#") }.count
        let text = line.dropFirst(hashCount)
        let title = text.trimmed
        guard !title.isEmpty, !title.hasPrefix("@") else { return nil }
        return Word(text: title, position: Position(line: number, column: hashCount + text.indentation + 1))
    }

    mutating func begin(_ title: Word?) {
        request = FileRequest(position: position())
        request.title = title
    }

    /// The position of a character in the next line.
    func position(_ offset: Int = 0) -> Position { Position(line: index + 1, column: offset + 1) }

    mutating func report(
        _ position: Position, _ what: String, _ advice: String, _ kind: Problem.Kind = .mistake
    ) {
        file.problems.append(Problem(position, what, advice, kind: kind))
    }

    mutating func template(_ text: some StringProtocol, at position: Position) -> Template {
        Template.read(text, at: position, &file.problems)
    }

    /// Reads the lines before the request line, and then the request.
    private mutating func readPreamble() {
        while index < blockEnd {
            let line = lines[index]
            let text = line.trimmed
            if text.isEmpty {
                index += 1
            } else if text.isComment {
                readTag(line)
                index += 1
            } else if skipComment(text) {
                continue
            } else if text.hasPrefix("@"), readVariable(line) {
                index += 1
            } else if text.hasPrefix("??") {
                readCheck(behind: text, at: line.indentation)
                index += 1
            } else if readScript(text, startsBody: false) {
                continue
            } else if text.hasPrefix("HTTP/"), text.dropFirst(5).first?.isASCIIDigit == true {
                // A saved response in the file is ignored, as in REST Client.
                return
            } else if text.hasPrefix("import ") || text.hasPrefix("run ") {
                let word = text.hasPrefix("i") ? "import" : "run"
                report(
                    position(line.indentation), "\(word) is not supported",
                    "copy the requests into this file, or run convoy once for each file", .impossible)
                index += 1
            } else {
                return readRequest()
            }
        }
    }

    /// Skips the lines of a comment from `/*` to `*/`.
    ///
    /// Returns false if no comment starts here, or if the comment has no end.
    mutating func skipComment(_ text: String) -> Bool {
        guard text.hasPrefix("/*"),
            let last = lines[index..<blockEnd].firstIndex(where: { $0.trimmed.hasSuffix("*/") })
        else { return false }
        index = last + 1
        return true
    }

    /// Reads `@name = value`.
    ///
    /// Returns true in every case, because an invalid definition is reported and then skipped.
    mutating func readVariable(_ line: String) -> Bool {
        let offset = line.indentation
        guard let equals = line.firstIndex(of: "=") else {
            report(position(offset), "a variable has no value", "write @name = value")
            return true
        }
        let name = line[..<equals].dropFirst(offset + 1).trimmed
        // In httpyac, `@name := value` is evaluated lazily. Here every variable is, so the colon is ignored.
        let plainName = name.hasSuffix(":") ? name.dropLast().trimmed : name
        guard plainName.isVariableName else {
            report(
                position(offset), "\(plainName.shown) is not a variable name",
                "use only letters, digits, - and _: @name = value")
            return true
        }
        let behind = line[line.index(after: equals)...]
        let start = line.distance(from: line.startIndex, to: equals) + 1 + behind.prefix { $0.isWhitespace }.count
        var value = template(behind.trimmedKeepingEscapedBlank, at: position(start))
        for part in value.parts.indices {
            if case .text(let text) = value.parts[part] { value.parts[part] = .text(text.withoutEscapes) }
        }
        file.variables.append(VariableDefinition(name: plainName, value: value, position: position(offset)))
        return true
    }

    /// Appends the current request to the list.
    mutating func finish() {
        request.lastLine = max(request.position.line, index)
        file.requests.append(request)
    }
}

extension StringProtocol {
    /// The number of leading blanks.
    var indentation: Int {
        var count = 0
        for byte in utf8 {
            // A character outside of ASCII may be a blank, or combine with one. Such text is counted in characters.
            if byte >= 0x80 { return prefix { $0.isWhitespace }.count }
            guard byte.isBlank else { break }
            count += 1
        }
        return count
    }

    /// Whether the line is a comment; the caller has removed its leading blanks.
    var isComment: Bool { hasPrefix("#") || hasPrefix("//") }
}

extension String {
    /// The value of a variable with its escapes decoded.
    ///
    /// `\n`, `\r` and `\t` are control characters. Before any other character, the backslash is removed.
    fileprivate var withoutEscapes: String {
        guard utf8.contains(UInt8(ascii: "\\")) else { return self }
        var (result, isEscaped) = (UnicodeScalarView(), false)
        // The loop visits scalars, because a letter and a combining mark would be one other character.
        for scalar in unicodeScalars {
            if isEscaped {
                result.append(["n": "\n", "r": "\r", "t": "\t"][scalar] ?? scalar)
                isEscaped = false
            } else if scalar == "\\" {
                isEscaped = true
            } else {
                result.append(scalar)
            }
        }
        return String(result)
    }
}

extension Substring {
    /// The text without surrounding blanks, except for one blank after a final backslash.
    fileprivate var trimmedKeepingEscapedBlank: String {
        let text = trimmed
        guard text.utf8.reversed().prefix(while: { $0 == UInt8(ascii: "\\") }).count % 2 == 1 else { return text }
        let rest = drop(while: \.isWhitespace).unicodeScalars.dropFirst(text.unicodeScalars.count)
        return text + (rest.first.map { String($0) } ?? "")
    }
}
