// Reads a pasted curl command as a request.
import Foundation

extension HTTPFileReader {
    /// The effects of the options that were read so far.
    private struct Command {
        var method: String?
        var data: [BodyPart] = []
        /// Whether an option gave data, which may be empty.
        var hasData = false
        var parts: [FormParts.Part] = []
        /// The names, in lower case, of the fields that an option with an empty value removes, such as `-H 'Accept:'`.
        var removedFields: Set<String> = []
        /// The names of the fields of `-H`, in lower case.
        var givenFields: Set<String> = []
        var uploadedName: Substring = ""
        var isHead = false
        var isGet = false
        var isUpload = false
        var isDigest = false
    }

    mutating func readCurl() {
        let shell = ShellWords(lines, from: index, to: blockEnd)
        index = shell.line
        if let problem = shell.problem { return file.problems.append(problem) }
        readCurl(shell.words)
    }

    /// Reads a command from its words, in which `{{` is plain text.
    static func readCommand(_ words: [Word]) -> (request: FileRequest, problems: [Problem]) {
        var reader = HTTPFileReader("")
        reader.readsVariables = false
        reader.readCurl(words)
        return (reader.request, reader.file.problems)
    }

    private mutating func readCurl(_ words: [Word]) {
        var words = words.dropFirst()
        var command = Command()
        while let word = words.popFirst() {
            guard word.text.hasPrefix("-"), word.text.count > 1 else {
                setTarget(word)
                continue
            }
            readOption(word, &words, &command)
        }
        if request.target.parts.isEmpty {
            report(request.position, "the command has no URL", "write curl https://example.com/path")
        }
        complete(command)
    }

    private mutating func setTarget(_ word: Word) {
        guard request.target.parts.isEmpty else {
            return report(word.position, "the command has a second URL", "write ### and a separate command for it")
        }
        request.target = template(word)
    }

    /// Disables an imported request that lost a part of its body.
    ///
    /// In an `.http` file, the request is not disabled, because the reported error already prevents the run.
    private mutating func disableImported() { if !readsVariables { request.isDisabled = true } }

    private mutating func template(_ word: Word) -> Template {
        var all = Template()
        guard readsVariables else { return Template(word.text) }
        let lines = word.text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (number, line) in lines.enumerated() {
            if number > 0 { all.append("\n") }
            all.append(template(Substring(line), at: word.position))
        }
        return all
    }

    private mutating func readOption(_ word: Word, _ words: inout ArraySlice<Word>, _ command: inout Command) {
        var (name, attached) = (word.text, String?.none)
        if name.hasPrefix("--") {
            if let equals = name.firstIndex(of: "=") {
                attached = String(name[name.index(after: equals)...])
                name = String(name[..<equals])
            }
        } else if name.count > 2 {
            attached = String(name.dropFirst(2))
            name = String(name.prefix(2))
        }
        func refuse() {
            report(
                word.position, "curl's option \(name) is not supported",
                "remove it, or write the request as METHOD URL with its header fields")
        }
        guard let option = Self.curlOptions[name] else {
            // The words that may be an unknown option's value are skipped.
            while let next = words.first, !next.text.hasPrefix("-"), !next.text.contains("://") { words.removeFirst() }
            return refuse()
        }
        func value() -> Word? {
            attached.map { Word(text: $0, position: word.position) } ?? words.popFirst()
        }
        switch option {
        case .head, .get, .digest, .nothing(takesValue: false), .other(takesValue: false):
            switch option {
            case .head: command.isHead = true
            case .get: command.isGet = true
            case .digest: command.isDigest = true
            case .other: refuse()
            default: break
            }
            // The rest of the word has more short options: -sSL.
            if let attached, !name.hasPrefix("--") {
                words = [Word(text: "-" + attached, position: word.position)] + words
            }
        case .other(takesValue: true):
            _ = value()
            refuse()
        default:
            guard let value = value() else {
                disableImported()
                return report(word.position, "the option \(name) has no value", "write the value after it")
            }
            apply(option, value, &command)
        }
    }

    private mutating func apply(_ option: CurlOption, _ value: Word, _ command: inout Command) {
        switch option {
        case .method: command.method = value.text
        case .field:
            let mark = value.text.firstIndex(of: ":") ?? (value.text.hasSuffix(";") ? value.text.indices.last : nil)
            guard let mark, value.text[..<mark].trimmed.isFieldName else {
                return report(value.position, "a header field has no name and colon", "write -H 'Name: value'")
            }
            let (name, text) = (value.text[..<mark].trimmed, value.text[value.text.index(after: mark)...].trimmed)
            // Without a value, a colon removes curl's own field, and a semicolon sends an empty one.
            guard !text.isEmpty || value.text[mark] == ";" else {
                command.removedFields.insert(name.lowercased())
                return
            }
            command.givenFields.insert(name.lowercased())
            add(name, Word(text: text, position: value.position))
        case .data: addData(value, dropsLineEnds: true, after: "&", &command)
        case .rawData: addData(value, as: template(value), after: "&", &command)
        case .binaryData: addData(value, after: "&", &command)
        case .json:
            addData(value, after: "", &command)
            for name in ["Content-Type", "Accept"] where request.field(name.lowercased()) == nil {
                add(name, Word(text: "application/json", position: value.position))
            }
        case .form(let isLiteral):
            guard let part = FormPart(value.text, isLiteral: isLiteral) else {
                disableImported()
                return report(
                    value.position, "a part of the form has no name or no value", "write -F name=value or -F name=@file"
                )
            }
            command.parts.append(formPart(part, at: value.position))
        case .user:
            // `RequestBuilder` encodes `Basic user:password`, as REST Client does. A value with blanks is encoded here.
            let isOneWord = value.text.contains("{{") || !value.text.contains(where: \.isWhitespace)
            let text = value.text.contains(":") || value.text.contains("{{") ? value.text : value.text + ":"
            let user = isOneWord ? text : Data(text.utf8).base64EncodedString()
            add("Authorization", Word(text: "Basic " + user, position: value.position))
        case .cookie:
            guard value.text.contains("=") else {
                return report(value.position, "cookie files are not supported", "write -b name=value")
            }
            if let place = request.fields.firstIndex(where: { $0.name == "Cookie" }) {
                request.fields[place].value.append("; ")
                request.fields[place].value.append(template(value))
            } else {
                add("Cookie", value)
            }
        case .urlEncoded: addEncoded(value, &command)
        case .upload:
            (command.isUpload, command.hasData) = (true, true)
            if value.text != "-" { command.uploadedName = value.text.split(separator: "/").last ?? "" }
            command.data = [fileBody(value.text, at: value.position)]
        case .range: add("Range", Word(text: "bytes=" + value.text, position: value.position))
        case .bearer: add("Authorization", Word(text: "Bearer " + value.text, position: value.position))
        case .timeout:
            guard let seconds = Double(value.text), (0.001...1e9).contains(seconds) else {
                return report(value.position, "\(value.text.shown) is not a time", "write seconds: --max-time 30")
            }
            request.timeout = .milliseconds(Int64(seconds * 1_000))
        case .agent:
            if value.text.isEmpty { command.removedFields.insert("user-agent") } else { add("User-Agent", value) }
        case .referer: add("Referer", value)
        case .url: setTarget(value)
        case .output:
            request.output = FileRequest.Output(path: template(value), replaces: true, position: value.position)
        case .head, .get, .digest, .nothing, .other: break
        }
    }

    /// Adds `name=content` with percent-encoded content, as curl does for `--data-urlencode`.
    private mutating func addEncoded(_ value: Word, _ command: inout Command) {
        let all = template(value)
        let pair = all.split(at: "=")
        guard pair != nil || all.split(at: "@") == nil else {
            disableImported()
            return report(value.position, "--data-urlencode with a file is not supported", "write name=value")
        }
        var text = pair?.before ?? Template()
        if !text.parts.isEmpty { text.append("=") }
        text.append((pair?.after ?? all).percentEncoded)
        addData(value, as: text, after: "&", &command)
    }

    private mutating func add(_ name: String, _ value: Word) {
        request.fields.append(FileRequest.Field(name: name, value: template(value), position: value.position))
    }

    /// - Parameter text: the data; nil if the word is the data, in which a leading `@` names a file.
    private mutating func addData(
        _ value: Word, as text: Template? = nil, dropsLineEnds: Bool = false, after separator: String,
        _ command: inout Command
    ) {
        if command.hasData, !separator.isEmpty { command.data.append(.text(Template(separator))) }
        command.hasData = true
        guard text == nil, value.text.hasPrefix("@") else {
            let data = if let text { text } else { template(value) }
            if !data.parts.isEmpty { command.data.append(.text(data)) }
            return
        }
        command.data.append(
            fileBody(value.text.dropFirst(), dropsLineEnds: dropsLineEnds, at: value.position))
    }

    private mutating func fileBody(
        _ path: some StringProtocol, dropsLineEnds: Bool = false, at position: Position
    ) -> BodyPart {
        let path = template(Word(text: String(path), position: position))
        return .file(
            FileReference(
                path: path, hasVariables: false, encoding: .utf8, position: position, dropsLineEnds: dropsLineEnds))
    }

    private mutating func formPart(_ part: FormPart, at position: Position) -> FormParts.Part {
        var (fileName, content) = (part.fileName, BodyPart.text(Template()))
        switch part.source {
        case .text(let text): content = .text(template(Word(text: text, position: position)))
        case .content(let path): content = fileBody(path, at: position)
        case .file(let path):
            content = fileBody(path, at: position)
            fileName = fileName ?? path.split(separator: "/").last.map(String.init) ?? "file"
        }
        return FormParts.Part(
            name: template(Word(text: part.name, position: position)), content: content,
            fileName: fileName.map { template(Word(text: $0, position: position)) },
            type: part.contentType.map { template(Word(text: $0, position: position)) })
    }

    private mutating func complete(_ command: Command) {
        let removed = command.removedFields.subtracting(command.givenFields)
        request.fields.removeAll { removed.contains($0.name.lowercased()) }
        if command.isUpload, request.target.source.hasSuffix("/") {
            let name = Word(text: String(command.uploadedName), position: request.position)
            let hasVariables = readsVariables && name.text.contains("{{")
            request.target.append(hasVariables ? template(name) : Template(name.text.percentEncoded))
        }
        request.method = command.method?.uppercased() ?? (command.isHead ? "HEAD" : command.isUpload ? "PUT" : "GET")
        if command.isDigest, let place = request.fields.firstIndex(where: { $0.value.prefixText.hasPrefix("Basic ") }) {
            let user = request.fields[place].value.source.dropFirst(6)
            request.fields[place].value = template(Word(text: "Digest " + user, position: request.position))
        }
        if command.isGet {
            let hasQuery = request.target.source.contains("?")
            for (number, part) in command.data.enumerated() {
                guard case .text(let text) = part else {
                    disableImported()
                    report(request.position, "-G with data from a file is not supported", "write the fields in the URL")
                    continue
                }
                if number == 0 { request.target.append(hasQuery ? "&" : "?") }
                request.target.append(text)
            }
            return
        }
        if !command.parts.isEmpty { return completeForm(command) }
        guard command.hasData else { return }
        request.body = command.data
        guard !command.isUpload else { return }
        if command.method == nil, !command.isHead { request.method = "POST" }
        if request.field("content-type") == nil, !removed.contains("content-type") {
            add("Content-Type", Word(text: "application/x-www-form-urlencoded", position: request.position))
        }
    }

    private mutating func completeForm(_ command: Command) {
        let boundary = FormParts.boundary(of: command.parts)
        (request.bodyKind, request.body) = (
            .multipart(boundary: boundary), FormParts.body(command.parts, boundary: boundary)
        )
        if command.method == nil { request.method = "POST" }
        request.fields.removeAll { $0.name.lowercased() == "content-type" }
        add("Content-Type", Word(text: "multipart/form-data; boundary=\(boundary)", position: request.position))
    }
}
