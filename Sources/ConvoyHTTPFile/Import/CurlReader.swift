import Convoy

struct CurlReader {
    private var file = ImportedFile()
    private var otherCount = 0

    static func read(_ text: String) throws(Defect) -> ImportedFile {
        let lines = text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" || $0 == "\r" }
            .map { $0.withoutPrompt }
        guard lines.contains(where: \.startsCommand) else {
            let isFile = lines.contains { line in
                HTTPFileReader.methods.contains { line.hasPrefix($0 + " http") || line.hasPrefix($0 + " {{") }
            }
            throw isFile
                ? Defect("this is an .http file already", "give it to convoy run")
                : Defect("no line begins with curl", ImportedFile.kinds)
        }
        var reader = CurlReader()
        var index = 0
        while index < lines.count {
            guard lines[index].startsCommand else {
                let line = lines[index].trimmed
                if !line.isEmpty, !line.hasPrefix("#") { reader.otherCount += 1 }
                index += 1
                continue
            }
            index = reader.readCommand(lines, from: index)
        }
        if reader.otherCount > 0 {
            let count = reader.otherCount
            reader.file.notes.append(
                "omitted: "
                    + (count == 1 ? "1 line that is not a curl command" : "\(count) lines that are not curl commands"))
        }
        return reader.file
    }

    private mutating func readCommand(_ lines: [String], from first: Int) -> Int {
        let windows = WindowsWords(lines, from: first)
        let shell = windows.isWindows ? nil : ShellWords(lines, from: first, to: lines.count)
        let words = shell?.words ?? windows.words
        if let problem = shell?.problem {
            file.notes.append("line \(first + 1) is omitted: \(problem.what)")
            return first + 1
        }
        let command = words.dropFirst().prefix { $0.isQuoted || !Self.marks.contains($0.text) }
        for part in command.split(whereSeparator: { !$0.isQuoted && ["--next", "-:"].contains($0.text) }) {
            read([words[0]] + part, line: first + 1)
        }
        return max(first + 1, shell?.line ?? windows.line)
    }

    private static let marks: Set = [";", "|", "&", "&&", "||", ">", ">>", "<", "2>&1"]

    private mutating func read(_ words: [Word], line: Int) {
        var words = words
        if let last = words.last, last.text.hasSuffix(";"), last.text.contains("://") {
            words[words.count - 1].text.removeLast()
        }
        let (request, problems) = HTTPFileReader.readCommand(words)
        guard !request.target.parts.isEmpty else {
            return file.notes.append("line \(line) is omitted: the command has no URL")
        }
        var imported = ImportedRequest(request)
        imported.request.position = .start
        let source = request.target.source
        let url = source.schemeEnd == nil && !source.hasPrefix("{{") ? "http://" + source : source
        imported.request.target = Template(url.importedURL)
        imported.setMethod(request.method)
        imported.request.title = Word(text: "\(request.method) \(url.urlPath)")
        imported.notes += problems.map { "omitted: \($0.what)" }
        if request.output != nil { imported.notes.append("omitted: the output file; write >> FILE below the request") }
        imported.request.output = nil
        imported.request.fields = []
        for field in request.fields where !Self.ownFields.contains(field.name.lowercased()) {
            imported.addField(field.name, field.value)
        }
        imported.completeBody()
        for case .file(let body) in imported.request.body where body.dropsLineEnds {
            let path = body.path.source.shown
            imported.notes.append(
                "curl sends \(path) without line ends and NUL bytes, but this request sends it unchanged")
        }
        file.requests.append(imported)
    }

    private static let ownFields: Set = ["content-length", "accept-encoding", "connection", "transfer-encoding"]
}

extension StringProtocol {
    fileprivate var withoutPrompt: String {
        let text = trimmed
        let hasPrompt = ["$ curl", "% curl", "> curl"].contains(where: text.hasPrefix)
        return hasPrompt ? String(text.dropFirst(2)) : String(self)
    }

    fileprivate var startsCommand: Bool {
        let word = trimmed.prefix { !$0.isWhitespace }
        return ["curl", "curl.exe"].contains(word.lowercased()) && trimmed.count > word.count
    }
}

// Current browsers write `^"`, `^\^"` and `^` before special characters. Older browsers write only `"` and `""`.
struct WindowsWords {
    private(set) var words: [Word] = []
    private(set) var line: Int
    let isWindows: Bool

    init(_ lines: [String], from first: Int) {
        line = first
        let text = lines[first]
        let behind = text.trimmed.drop { !$0.isWhitespace }.trimmed
        // In cmd.exe, two quotation marks inside quotes mean one. In other shells they have no effect.
        // A word of two quotation marks is an empty value in every shell.
        let isPOSIX = text.hasSingleQuoteOutsideDoubleQuotes || text.contains("\\$") || text.last == "\\"
        let doublesQuotes = (text + " ").replacing(" \"\" ", with: " ").contains("\"\"")
        isWindows =
            !behind.hasPrefix("'")
            && (text.trimmed.lowercased().hasPrefix("curl.exe") || behind.hasPrefix("^\"") || text.last == "^"
                || !isPOSIX && (text.contains(" ^\"") || doublesQuotes))
        guard isWindows else { return }
        read(Self.withoutCarets(lines, &line), at: Position(line: first + 1, column: 1))
    }

    private static func withoutCarets(_ lines: [String], _ line: inout Int) -> String {
        var text = ""
        while line < lines.count {
            var goesOn = false
            var characters = lines[line][...]
            while let character = characters.popFirst() {
                guard character == "^" else {
                    text.append(character)
                    continue
                }
                if let next = characters.popFirst() { text.append(next) } else { goesOn = true }
            }
            line += 1
            // A caret escapes the line end. If an empty line follows, the browser has written a line end inside the
            // text.
            guard goesOn else { break }
            if line < lines.count, lines[line].isEmpty {
                text.append("\n")
                line += 1
            }
        }
        return text
    }

    private mutating func read(_ text: String, at position: Position) {
        let characters = Array(text)
        var (word, isWord, isQuoted, index) = ("", false, false, 0)
        while index < characters.count {
            let character = characters[index]
            let next = index + 1 < characters.count ? characters[index + 1] : nil
            index += 1
            switch character {
            case "\\" where next == "\"" || next == "\\":
                word.append(next ?? "\\")
                index += 1
            case "\"" where isQuoted && next == "\"":
                word.append("\"")
                index += 1
            case "\"":
                isQuoted.toggle()
                isWord = true
            case _ where character.isWhitespace && !isQuoted:
                if isWord || !word.isEmpty { words.append(Word(text: word, position: position, isQuoted: isWord)) }
                (word, isWord) = ("", false)
            default: word.append(character)
            }
        }
        if isWord || !word.isEmpty { words.append(Word(text: word, position: position, isQuoted: isWord)) }
    }
}

extension String {
    fileprivate var hasSingleQuoteOutsideDoubleQuotes: Bool {
        var isQuoted = false
        for character in self {
            if character == "\"" { isQuoted.toggle() }
            if character == "'", !isQuoted { return true }
        }
        return false
    }
}
