import Convoy

struct CurlReader {
    private var file = ImportedFile()

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
        var (reader, otherCount) = (CurlReader(), 0)
        var (rest, number) = (lines.joined(separator: "\n")[...], 1)
        while !rest.isEmpty {
            let line = rest.prefix { $0 != "\n" }
            if !line.startsCommand, !line.trimmed.isEmpty, !line.trimmed.hasPrefix("#") { otherCount += 1 }
            let end = line.startsCommand ? reader.readCommand(rest, line, number) : line.endIndex
            number += rest[..<end].count { $0 == "\n" } + 1
            rest = rest[end...].dropFirst()
        }
        if otherCount > 0 {
            let what = otherCount == 1 ? "line that is not a curl command" : "lines that are not curl commands"
            reader.file.notes.append("omitted: \(otherCount) \(what)")
        }
        return reader.file
    }

    private mutating func readCommand(_ text: Substring, _ line: Substring, _ number: Int) -> String.Index {
        let windows = WindowsWords(text, line)
        let shell = windows == nil ? ShellWords(text, line: number) : nil
        guard shell?.problem == nil, let words = windows?.words ?? shell?.words else {
            file.notes.append("line \(number) is omitted: \(shell?.problem?.what ?? "")")
            return line.endIndex
        }
        let command = words.dropFirst().prefix { $0.isQuoted || !Self.marks.contains($0.text) }
        for part in command.split(whereSeparator: { !$0.isQuoted && ["--next", "-:"].contains($0.text) }) {
            read([words[0]] + part, line: number)
        }
        return windows?.end ?? shell?.rest.startIndex ?? text.endIndex
    }

    private static let marks: Set = [";", "|", "&", "&&", "||", ">", ">>", "<", "2>&1"]

    private mutating func read(_ words: [Word], line: Int) {
        var words = words
        if let last = words.last, last.text.hasSuffix(";"), last.text.contains("://") {
            words[words.count - 1].text.removeLast()
        }
        let command = CurlCommand(words)
        let request = command.request
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
        imported.notes += command.problems.map { "omitted: \($0.what)" }
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
    let end: String.Index

    /// Nil if the command is of another shell.
    init?(_ text: Substring, _ line: Substring) {
        let behind = line.trimmed.drop { !$0.isWhitespace }.trimmed
        // In cmd.exe, two quotation marks inside quotes mean one. In other shells they have no effect.
        // A word of two quotation marks is an empty value in every shell.
        let hasSingleQuote = line.replacing(#/"[^"]*+"?/#, with: "").contains("'")
        let isPOSIX = hasSingleQuote || line.contains("\\$") || line.last == "\\"
        let doublesQuotes = (line + " ").replacing(" \"\" ", with: " ").contains("\"\"")
        guard !behind.hasPrefix("'"),
            line.trimmed.lowercased().hasPrefix("curl.exe") || behind.hasPrefix("^\"") || line.last == "^"
                || !isPOSIX && (line.contains(" ^\"") || doublesQuotes)
        else { return nil }
        // A caret escapes the line end. If an empty line follows, the browser has written a line end inside the text.
        let command = text.prefixMatch(of: #/(?:\^\n\n?|\^[^\n]|[^\n])*+/#)?.0 ?? line
        end = command.endIndex
        let plain = command.replacing(#/\^(?:\n(\n?)|([^\n]?))/#) { $0.1 ?? $0.2 ?? "" }
        words = plain.matches(of: #/(?:\\["\\]|"(?:\\["\\]|""|[^"])*+"?|[^\s"])++/#).map { match in
            var word = Word(text: "")
            word.text = String(
                match.0.replacing(#/\\(["\\])|"((?:\\["\\]|""|[^"])*+)"?/#) { piece -> Substring in
                    guard let inner = piece.2 else { return piece.1 ?? "" }
                    word.isQuoted = true
                    return inner.replacing(#/\\(["\\])|""/#) { $0.1 ?? "\"" }
                })
            return word
        }
    }
}
