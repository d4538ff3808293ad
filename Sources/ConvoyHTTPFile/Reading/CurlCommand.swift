import Foundation

extension HTTPFileReader {
    private struct Command {
        var method: String?
        var data: [BodyPart] = []
        var hasData = false
        var parts: [FormParts.Part] = []
        var removedFields: Set<String> = []
        var givenFields: Set<String> = []
        var uploadedName: Substring = ""
        var flags: Set<CurlOption> = []
        var isUpload = false
    }

    mutating func readCurl() {
        let shell = ShellWords(lines, from: index, to: blockEnd)
        index = shell.line
        if let problem = shell.problem { return file.problems.append(problem) }
        readCurl(shell.words)
    }

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

    /// In an `.http` file, the request is not disabled, because the reported error already prevents the run.
    private mutating func disableImported() { if !readsVariables { request.isDisabled = true } }

    private mutating func template(_ word: Word) -> Template { words(word.text, at: word.position) }

    private mutating func words(_ text: String, at position: Position) -> Template {
        readsVariables ? Template.read(lines: text, &file.problems) { _ in position } : Template(text)
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
            while let next = words.first, !next.text.hasPrefix("-"), !next.text.contains("://") { words.removeFirst() }
            return refuse()
        }
        guard option.takesValue else {
            if option == .other(takesValue: false) { refuse() }
            command.flags.insert(option)
            if let attached, !name.hasPrefix("--") {
                words = [Word(text: "-" + attached, position: word.position)] + words
            }
            return
        }
        let value = attached.map { Word(text: $0, position: word.position) } ?? words.popFirst()
        if option == .other(takesValue: true) { return refuse() }
        guard let value else {
            disableImported()
            return report(word.position, "the option \(name) has no value", "write the value after it")
        }
        apply(option, value, &command)
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
            add(name, text, at: value.position)
        case .data: addData(value, dropsLineEnds: true, after: "&", &command)
        case .rawData: addData(value, as: template(value), after: "&", &command)
        case .binaryData: addData(value, after: "&", &command)
        case .json:
            addData(value, after: "", &command)
            for name in ["Content-Type", "Accept"] where request.field(name.lowercased()) == nil {
                add(name, "application/json", at: value.position)
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
            add("Authorization", "Basic " + user, at: value.position)
        case .cookie:
            guard value.text.contains("=") else {
                return report(value.position, "cookie files are not supported", "write -b name=value")
            }
            if let place = request.fields.firstIndex(where: { $0.name == "Cookie" }) {
                request.fields[place].value.append("; ")
                request.fields[place].value.append(template(value))
            } else {
                add("Cookie", value.text, at: value.position)
            }
        case .urlEncoded: addEncoded(value, &command)
        case .upload:
            (command.isUpload, command.hasData) = (true, true)
            if value.text != "-" { command.uploadedName = value.text.split(separator: "/").last ?? "" }
            command.data = [fileBody(value.text, at: value.position)]
        case .adds(let name, let start):
            if value.text.isEmpty { command.removedFields.insert(name.lowercased()) }
            if !value.text.isEmpty { add(name, start + value.text, at: value.position) }
        case .timeout:
            guard let seconds = Double(value.text), (0.001...1e9).contains(seconds) else {
                return report(value.position, "\(value.text.shown) is not a time", "write seconds: --max-time 30")
            }
            request.timeout = .milliseconds(Int64(seconds * 1_000))
        case .url: setTarget(value)
        case .output:
            request.output = FileRequest.Output(path: template(value), replaces: true, position: value.position)
        case .head, .get, .digest, .nothing, .other: break
        }
    }

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

    private mutating func add(_ name: String, _ text: String, at position: Position) {
        request.fields.append(FileRequest.Field(name: name, value: words(text, at: position), position: position))
    }

    private mutating func addData(
        _ value: Word, as text: Template? = nil, dropsLineEnds: Bool = false, after separator: String,
        _ command: inout Command
    ) {
        if command.hasData { command.data.add(.text(Template(separator))) }
        command.hasData = true
        if text == nil, value.text.hasPrefix("@") {
            let path = String(value.text.dropFirst())
            command.data.append(fileBody(path, dropsLineEnds: dropsLineEnds, at: value.position))
        } else {
            command.data.add(.text(text ?? template(value)))
        }
    }

    private mutating func fileBody(_ path: String, dropsLineEnds: Bool = false, at position: Position) -> BodyPart {
        var file = FileReference(path: words(path, at: position), position: position)
        file.dropsLineEnds = dropsLineEnds
        return .file(file)
    }

    private mutating func formPart(_ part: FormPart, at position: Position) -> FormParts.Part {
        var (fileName, content) = (part.fileName, BodyPart.text(Template()))
        switch part.source {
        case .text(let text): content = .text(words(text, at: position))
        case .content(let path): content = fileBody(path, at: position)
        case .file(let path):
            content = fileBody(path, at: position)
            fileName = fileName ?? path.split(separator: "/").last.map(String.init) ?? "file"
        }
        return FormParts.Part(
            name: words(part.name, at: position), content: content,
            fileName: fileName.map { words($0, at: position) }, type: part.contentType.map { words($0, at: position) })
    }

    private mutating func complete(_ command: Command) {
        let removed = command.removedFields.subtracting(command.givenFields)
        request.fields.removeAll { removed.contains($0.name.lowercased()) }
        if command.isUpload, request.target.source.hasSuffix("/") {
            let name = String(command.uploadedName)
            let hasVariables = readsVariables && name.contains("{{")
            request.target.append(hasVariables ? words(name, at: request.position) : Template(name.percentEncoded))
        }
        request.method =
            command.method?.uppercased() ?? (command.flags.contains(.head) ? "HEAD" : command.isUpload ? "PUT" : "GET")
        if command.flags.contains(.digest),
            let place = request.fields.firstIndex(where: { $0.value.prefixText.hasPrefix("Basic ") })
        {
            let user = request.fields[place].value.source.dropFirst(6)
            request.fields[place].value = words("Digest " + user, at: request.position)
        }
        if command.flags.contains(.get) {
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
        if !command.parts.isEmpty {
            if command.method == nil { request.method = "POST" }
            return request.setParts(command.parts)
        }
        guard command.hasData else { return }
        request.body = command.data
        guard !command.isUpload else { return }
        if command.method == nil, !command.flags.contains(.head) { request.method = "POST" }
        if request.field("content-type") == nil, !removed.contains("content-type") {
            add("Content-Type", "application/x-www-form-urlencoded", at: request.position)
        }
    }

    enum CurlOption: Hashable {
        case method, field, data, rawData, binaryData, json
        case form(isLiteral: Bool)
        /// The value, behind a text, is the value of a field.
        case adds(field: String, String)
        case head, get, user, cookie, url, output, urlEncoded, upload, digest, timeout
        case nothing(takesValue: Bool)
        case other(takesValue: Bool)

        var takesValue: Bool {
            switch self {
            case .head, .get, .digest: false
            case .nothing(let takesValue), .other(let takesValue): takesValue
            default: true
            }
        }
    }

    static let curlOptions: [String: CurlOption] = {
        let table: [(names: String, option: CurlOption)] = [
            ("-X --request", .method), ("-H --header", .field), ("--data-raw", .rawData),
            ("-d --data --data-ascii", .data), ("--data-binary", .binaryData), ("--json", .json),
            ("-F --form", .form(isLiteral: false)), ("--form-string", .form(isLiteral: true)), ("-I --head", .head),
            ("-G --get", .get), ("-u --user", .user), ("-b --cookie", .cookie),
            ("-A --user-agent", .adds(field: "User-Agent", "")), ("-e --referer", .adds(field: "Referer", "")),
            ("--url", .url), ("-o --output", .output), ("--data-urlencode", .urlEncoded),
            ("-T --upload-file", .upload), ("-r --range", .adds(field: "Range", "bytes=")),
            ("--oauth2-bearer", .adds(field: "Authorization", "Bearer ")), ("--digest", .digest),
            ("-m --max-time", .timeout), ("-w --write-out", .nothing(takesValue: true)),
            (
                "-L --location --compressed -s --silent -S --show-error -v --verbose -i --include -f --fail --http1.1 "
                    + "--http2 -g --globoff -N --no-buffer -# --progress-bar --fail-with-body --no-progress-meter "
                    + "--basic", .nothing(takesValue: false)
            ),
            (
                "-k --insecure -n --netrc -O --remote-name -J --remote-header-name -4 -6 --ntlm --negotiate --anyauth "
                    + "--http1.0 --http3 --location-trusted --tlsv1.2 --tlsv1.3 -j --junk-session-cookies -R "
                    + "--remote-time --create-dirs", .other(takesValue: false)
            ),
            (
                "-x --proxy -E --cert --key --cacert --resolve --connect-to --max-redirs -c --cookie-jar -D "
                    + "--dump-header --limit-rate --retry --retry-delay --retry-max-time --connect-timeout -z "
                    + "--time-cond --interface --ciphers -K --config --aws-sigv4 -U --proxy-user --noproxy "
                    + "--unix-socket -y -Y --max-filesize -C --continue-at", .other(takesValue: true)
            ),
        ]
        return Dictionary(
            table.flatMap { entry in entry.names.split(separator: " ").map { (String($0), entry.option) } }
        ) { first, _ in first }
    }()
}

struct ShellWords {
    private let lines: [String]
    private(set) var line: Int
    private var column = 0
    private let end: Int
    private(set) var words: [Word] = []
    private(set) var problem: Problem?

    init(_ lines: [String], from first: Int, to end: Int) {
        (self.lines, line, self.end) = (lines, first, end)
        characters = Array(lines[first])
        do throws(Problem) {
            try read()
            line = min(line + 1, end)
        } catch { (problem, line) = (error, end) }
    }

    private var characters: [Character]

    private mutating func read() throws(Problem) {
        while skipBlanks() {
            let start = Position(line: line + 1, column: column + 1)
            var (text, isQuoted) = ("", false)
            while column < characters.count, !characters[column].isWhitespace {
                isQuoted = isQuoted || "'\"\\".contains(characters[column])
                try readPiece(into: &text, start)
            }
            words.append(Word(text: text, position: start, isQuoted: isQuoted))
        }
    }

    private mutating func skipBlanks() -> Bool {
        while true {
            while column < characters.count, characters[column].isWhitespace { column += 1 }
            guard column < characters.count else { return false }
            let isLast = column == characters.count - 1
            // A final backslash, caret (cmd.exe) or backquote (PowerShell) continues the line.
            guard isLast, "\\^`".contains(characters[column]), nextLine() else { return true }
        }
    }

    private mutating func nextLine() -> Bool {
        guard line + 1 < end else { return false }
        (line, column) = (line + 1, 0)
        characters = Array(lines[line])
        return true
    }

    private mutating func readPiece(into text: inout String, _ start: Position) throws(Problem) {
        let character = characters[column]
        column += 1
        switch character {
        case "'": while case let next = try nextQuoted(start), next != "'" { text.append(next) }
        case "\"":
            while case let next = try nextQuoted(start), next != "\"" {
                guard next == "\\" else {
                    text.append(next)
                    continue
                }
                let escaped = try nextQuoted(start)
                if !"\"\\$`\n".contains(escaped) { text.append("\\") }
                if escaped != "\n" { text.append(escaped) }
            }
        case "$" where column < characters.count && characters[column] == "'":
            column += 1
            while case let next = try nextQuoted(start), next != "'" {
                if next == "\\" { readEscape(try nextQuoted(start), into: &text) } else { text.append(next) }
            }
        case "\\" where column < characters.count:
            text.append(characters[column])
            column += 1
        case "\\" where nextLine(): break
        default: text.append(character)
        }
    }

    private mutating func nextQuoted(_ start: Position) throws(Problem) -> Character {
        if column < characters.count {
            column += 1
            return characters[column - 1]
        }
        guard nextLine() else {
            throw Problem(start, "a quote in this word is not closed", "write the same quote after it")
        }
        return "\n"
    }

    private static let escapes: [Character: Unicode.Scalar] = [
        "n": "\n", "r": "\r", "t": "\t", "a": "\u{7}", "b": "\u{8}", "e": "\u{1B}", "E": "\u{1B}", "f": "\u{C}",
        "v": "\u{B}",
    ]

    private mutating func readEscape(_ escaped: Character, into text: inout String) {
        switch escaped {
        case _ where Self.escapes[escaped] != nil: text.unicodeScalars.append(Self.escapes[escaped] ?? "\n")
        case _ where escaped.octalValue != nil:
            column -= 1
            text += readOctets()
        case "u": text.unicodeScalars.append(readUnit())
        case "U", "x":
            let scalar = digits(escaped == "U" ? 8 : 2).flatMap(Unicode.Scalar.init)
            if let scalar { text.unicodeScalars.append(scalar) }
        default: text.append(escaped)
        }
    }

    /// Bytes that are not UTF-8 are code points of Latin-1, as after `\x`.
    private mutating func readOctets() -> String {
        var bytes: [UInt8] = []
        while true {
            var (value, count) = (0, 0)
            while count < 3, column < characters.count, let digit = characters[column].octalValue {
                (value, count, column) = (value * 8 + digit, count + 1, column + 1)
            }
            bytes.append(UInt8(truncatingIfNeeded: value))
            guard column + 1 < characters.count, characters[column] == "\\", characters[column + 1].octalValue != nil
            else { break }
            column += 1
        }
        return String(validating: bytes, as: UTF8.self)
            ?? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
    }

    private mutating func digits(_ most: Int) -> UInt32? {
        var digits = ""
        while digits.count < most, column < characters.count, characters[column].isHexDigit {
            digits.append(characters[column])
            column += 1
        }
        return UInt32(digits, radix: 16)
    }

    private mutating func readUnit() -> Unicode.Scalar {
        let high = digits(4) ?? 0xFFFD
        if let scalar = Unicode.Scalar(high) { return scalar }
        let start = column
        if characters[column...].starts(with: "\\u") {
            column += 2
            let units = [UInt16(high), UInt16(digits(4) ?? 0)]
            if let scalar = String(validating: units, as: UTF16.self)?.unicodeScalars.first { return scalar }
        }
        column = start
        return "\u{FFFD}"
    }
}

extension Character {
    fileprivate var octalValue: Int? { ("0"..."7").contains(self) ? wholeNumberValue : nil }
}
