import Foundation

extension HTTPFileReader {
    mutating func readCurl() {
        let shell = ShellWords(lines[index..<blockEnd].joined(separator: "\n")[...], line: index + 1)
        index = shell.problem == nil ? shell.end.line : blockEnd
        if let problem = shell.problem { return file.problems.append(problem) }
        let command = CurlCommand(shell.words, request, readsVariables: true)
        request = command.request
        file.problems += command.problems
    }
}

struct CurlCommand {
    private(set) var request: FileRequest
    private(set) var problems: [Problem] = []
    private let readsVariables: Bool
    /// The place of the word that is read.
    private var place: Position
    private var method: String?
    private var data: [BodyPart] = []
    private var hasData = false
    private var parts: [FormParts.Part] = []
    private var removedFields: Set<String> = []
    private var givenFields: Set<String> = []
    // The places of the fields that other options than `-H` make. A field of that name by `-H` replaces them.
    private var ownFields: Set<Int> = []
    private var uploadedName: String?
    private var flags: Set<Option> = []

    init(_ words: [Word], _ request: FileRequest = FileRequest(), readsVariables: Bool = false) {
        (self.request, self.readsVariables, place) = (request, readsVariables, request.position)
        var words = words.dropFirst()
        while let word = words.popFirst() {
            place = word.position
            if word.text.hasPrefix("-"), word.text.count > 1 {
                readOption(word.text, &words)
            } else {
                setTarget(word.text)
            }
        }
        place = request.position
        if self.request.target.parts.isEmpty { report("the command has no URL", "write curl https://example.com/path") }
        complete()
    }

    private mutating func report(_ what: String, _ advice: String, losesData: Bool = false) {
        problems.append(Problem(place, what, advice))
        // In an `.http` file, the request is not disabled, because the reported error already prevents the run.
        if losesData, !readsVariables { request.isDisabled = true }
    }

    private mutating func setTarget(_ text: String) {
        guard request.target.parts.isEmpty else {
            return report("the command has a second URL", "write ### and a separate command for it")
        }
        request.target = template(text)
    }

    private mutating func template(_ text: String) -> Template {
        readsVariables ? Template.read(lines: text, &problems) { [place] _ in place } : Template(text)
    }

    private mutating func readOption(_ text: String, _ words: inout ArraySlice<Word>) {
        let isLong = text.hasPrefix("--")
        let end = isLong ? text.firstIndex(of: "=") ?? text.endIndex : text.index(text.startIndex, offsetBy: 2)
        let name = String(text[..<end])
        let attached = end == text.endIndex ? nil : String(text[end...].dropFirst(isLong ? 1 : 0))
        let known = Self.options[name]
        if known == nil || known == .other(takesValue: false) || known == .other(takesValue: true) {
            report(
                "curl's option \(name) is not supported",
                "remove it, or write the request as METHOD URL with its header fields")
        }
        guard let option = known else {
            while let next = words.first, !next.text.hasPrefix("-"), !next.text.contains("://") { words.removeFirst() }
            return
        }
        guard option.takesValue else {
            flags.insert(option)
            if let attached, !isLong { words = [Word(text: "-" + attached, position: place)] + words }
            return
        }
        guard let value = attached.map({ Word(text: $0, position: place) }) ?? words.popFirst() else {
            if option == .other(takesValue: true) { return }
            return report("the option \(name) has no value", "write the value after it", losesData: true)
        }
        place = value.position
        apply(option, value.text)
    }

    private mutating func apply(_ option: Option, _ text: String) {
        switch option {
        case .method: method = text
        case .field:
            let mark = text.firstIndex(of: ":") ?? (text.hasSuffix(";") ? text.indices.last : nil)
            guard let mark, case let name = text[..<mark].trimmed, name.isFieldName else {
                return report("a header field has no name and colon", "write -H 'Name: value'")
            }
            let value = text[mark...].dropFirst().trimmed
            // Without a value, a colon removes curl's own field, and a semicolon sends an empty one.
            if value.isEmpty, text[mark] == ":" {
                removedFields.insert(name.lowercased())
            } else {
                givenFields.insert(name.lowercased())
                add(name, value, isGiven: true)
            }
        case .data(let dropsLineEnds): addData(content(of: text, dropsLineEnds))
        case .rawData: addData(.text(template(text)))
        case .json:
            addData(content(of: text), after: "")
            for name in ["Content-Type", "Accept"] where ownField(name) == nil { add(name, "application/json") }
        case .form(let isLiteral):
            guard let part = FormPart(text, isLiteral: isLiteral) else {
                let advice = "write -F name=value or -F name=@file"
                return report("a part of the form has no name or no value", advice, losesData: true)
            }
            add(part)
        case .user:
            // `RequestBuilder` encodes `Basic user:password`, as REST Client does. A value with blanks is encoded here.
            let isOneWord = text.contains("{{") || !text.contains(where: \.isWhitespace)
            let user = text.contains(":") || text.contains("{{") ? text : text + ":"
            add("Authorization", "Basic " + (isOneWord ? user : Data(user.utf8).base64EncodedString()))
        case .cookie:
            guard text.contains("=") else { return report("cookie files are not supported", "write -b name=value") }
            guard let place = ownField("Cookie") else { return add("Cookie", text) }
            request.fields[place].value.append("; ")
            request.fields[place].value.append(template(text))
        case .urlEncoded:
            let all = template(text)
            let pair = all.split(at: "=")
            guard pair != nil || all.split(at: "@") == nil else {
                return report("--data-urlencode with a file is not supported", "write name=value", losesData: true)
            }
            var encoded = pair?.before ?? Template()
            if !encoded.parts.isEmpty { encoded.append("=") }
            encoded.append((pair?.after ?? all).percentEncoded)
            addData(.text(encoded))
        case .upload:
            let name = text == "-" ? uploadedName : text.split(separator: "/").last.map(String.init)
            (uploadedName, hasData) = (name ?? "", true)
            data = [file(text)]
        case .adds(let name, let start):
            if text.isEmpty { removedFields.insert(name.lowercased()) } else { add(name, start + text) }
        case .timeout:
            guard let seconds = Double(text), (0.001...1e9).contains(seconds) else {
                return report("\(text.shown) is not a time", "write seconds: --max-time 30")
            }
            request.timeout = .milliseconds(Int64(seconds * 1_000))
        case .url: setTarget(text)
        case .output: request.output = FileRequest.Output(path: template(text), replaces: true, position: place)
        case .head, .get, .digest, .nothing, .other: break
        }
    }

    private func ownField(_ name: String) -> Int? { ownFields.first { request.fields[$0].name == name } }

    private mutating func add(_ name: String, _ text: String, isGiven: Bool = false) {
        if !isGiven { ownFields.insert(request.fields.count) }
        request.fields.append(FileRequest.Field(name: name, value: template(text), position: place))
    }

    private mutating func addData(_ part: BodyPart, after separator: String = "&") {
        if hasData { data.add(.text(Template(separator))) }
        hasData = true
        data.add(part)
    }

    private mutating func content(of text: String, _ dropsLineEnds: Bool = false) -> BodyPart {
        text.hasPrefix("@") ? file(String(text.dropFirst()), dropsLineEnds) : .text(template(text))
    }

    private mutating func file(_ path: String, _ dropsLineEnds: Bool = false) -> BodyPart {
        .file(FileReference(path: template(path), position: place, dropsLineEnds: dropsLineEnds))
    }

    private mutating func add(_ part: FormPart) {
        var (fileName, content) = (part.fileName, BodyPart.text(Template()))
        switch part.source {
        case .text(let text): content = .text(template(text))
        case .content(let path): content = file(path)
        case .file(let path):
            content = file(path)
            fileName = fileName ?? String(path.split(separator: "/").last ?? "file")
        }
        parts.append(
            FormParts.Part(
                name: template(part.name), content: content, fileName: fileName.map { template($0) },
                type: part.contentType.map { template($0) }))
    }

    private mutating func complete() {
        let removed = removedFields.subtracting(givenFields)
        request.fields = request.fields.enumerated().filter { [ownFields, givenFields] index, field in
            let name = field.name.lowercased()
            return !removed.contains(name) && !(ownFields.contains(index) && givenFields.contains(name))
        }.map(\.element)
        if let uploadedName, request.target.source.hasSuffix("/") {
            let hasVariables = readsVariables && uploadedName.contains("{{")
            request.target.append(hasVariables ? template(uploadedName) : Template(uploadedName.percentEncoded))
        }
        let isHead = flags.contains(.head)
        request.method = method?.uppercased() ?? (isHead ? "HEAD" : uploadedName != nil ? "PUT" : "GET")
        if flags.contains(.digest),
            let place = request.fields.firstIndex(where: { $0.value.prefixText.hasPrefix("Basic ") })
        {
            request.fields[place].value = template("Digest " + request.fields[place].value.source.dropFirst(6))
        }
        if flags.contains(.get) {
            let mark = request.target.source.contains("?") ? "&" : "?"
            for (number, part) in data.enumerated() {
                guard case .text(let text) = part else {
                    report("-G with data from a file is not supported", "write the fields in the URL", losesData: true)
                    continue
                }
                if number == 0 { request.target.append(mark) }
                request.target.append(text)
            }
            return
        }
        if !parts.isEmpty {
            if method == nil { request.method = "POST" }
            return request.setParts(parts)
        }
        request.body = data
        guard hasData, uploadedName == nil else { return }
        if method == nil, !isHead { request.method = "POST" }
        if request.field("content-type") == nil, !removed.contains("content-type") {
            add("Content-Type", "application/x-www-form-urlencoded")
        }
    }

    private enum Option: Hashable {
        case method, field, rawData, json
        case data(dropsLineEnds: Bool)
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

    private static let options: [String: Option] = {
        let names: [Option: String] = [
            .method: "-X --request", .field: "-H --header", .rawData: "--data-raw",
            .data(dropsLineEnds: true): "-d --data --data-ascii", .data(dropsLineEnds: false): "--data-binary",
            .json: "--json", .form(isLiteral: false): "-F --form", .form(isLiteral: true): "--form-string",
            .head: "-I --head", .get: "-G --get", .user: "-u --user", .cookie: "-b --cookie",
            .adds(field: "User-Agent", ""): "-A --user-agent", .adds(field: "Referer", ""): "-e --referer",
            .url: "--url", .output: "-o --output", .urlEncoded: "--data-urlencode", .upload: "-T --upload-file",
            .adds(field: "Range", "bytes="): "-r --range",
            .adds(field: "Authorization", "Bearer "): "--oauth2-bearer", .digest: "--digest",
            .timeout: "-m --max-time", .nothing(takesValue: true): "-w --write-out",
            .nothing(takesValue: false):
                "-L --location --compressed -s --silent -S --show-error -v --verbose -i --include -f --fail --http1.1 "
                + "--http2 -g --globoff -N --no-buffer -# --progress-bar --fail-with-body --no-progress-meter --basic",
            .other(takesValue: false):
                "-k --insecure -n --netrc -O --remote-name -J --remote-header-name -4 -6 --ntlm --negotiate --anyauth "
                + "--http1.0 --http3 --location-trusted --tlsv1.2 --tlsv1.3 -j --junk-session-cookies -R "
                + "--remote-time --create-dirs",
            .other(takesValue: true):
                "-x --proxy -E --cert --key --cacert --resolve --connect-to --max-redirs -c --cookie-jar -D "
                + "--dump-header --limit-rate --retry --retry-delay --retry-max-time --connect-timeout -z "
                + "--time-cond --interface --ciphers -K --config --aws-sigv4 -U --proxy-user --noproxy "
                + "--unix-socket -y -Y --max-filesize -C --continue-at",
        ]
        return Dictionary(
            uniqueKeysWithValues: names.flatMap { option, names in
                names.split(separator: " ").map { (String($0), option) }
            })
    }()
}

/// The words of the command at the start of a text, as a shell reads them.
struct ShellWords {
    private(set) var words: [Word] = []
    private(set) var problem: Problem?
    private(set) var rest: Substring
    /// The place of `rest`.
    private(set) var end: Position

    init(_ text: Substring, line: Int) {
        (rest, end) = (text, Position(line: line, column: 1))
        // A final backslash, caret (cmd.exe) or backquote (PowerShell) continues the line.
        let blanks = #/(?:[^\S\n]|[\\^`]\n)*+/#
        let piece = #/(?s)'([^']*+)'|"((?:[^"\\]++|\\.)*+)"|\$'((?:[^'\\]++|\\.)*+)'|\\(.)|(['"]|\$')|[^\s'"\\$]++|\S/#
        while true {
            if let blanks = rest.prefixMatch(of: blanks) { skip(blanks.0) }
            let start = end
            var word = Word(text: "", position: start)
            while let match = rest.prefixMatch(of: piece) {
                guard match.5 == nil else {
                    problem = Problem(start, "a quote in this word is not closed", "write the same quote after it")
                    return
                }
                let text = match.1 ?? match.4.map { $0 == "\n" ? "" : $0 }
                let quoted = match.2?.replacing(#/\\(["\\$`\n])/#) { $0.1 == "\n" ? "" : $0.1 }
                word.isQuoted = word.isQuoted || (text ?? quoted ?? match.3) != nil
                word.text += match.3?.withoutEscapes ?? String(text ?? quoted ?? match.0)
                skip(match.0)
            }
            guard end != start else { return }
            words.append(word)
        }
    }

    private mutating func skip(_ text: Substring) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        if lines.count > 1 { end = Position(line: end.line + lines.count - 1, column: 1) }
        end.column += lines.last?.count ?? 0
        rest = rest[text.endIndex...]
    }
}

extension Substring {
    /// The text of `$'…'`.
    fileprivate var withoutEscapes: String {
        let names: [Substring: Substring] = [
            "n": "\n", "r": "\r", "t": "\t", "a": "\u{7}", "b": "\u{8}", "e": "\u{1B}", "E": "\u{1B}", "f": "\u{C}",
            "v": "\u{B}",
        ]
        let escape = #/((?:\\[0-7]{1,3})+)|((?:\\u\p{AHex}{0,4})+)|\\(?:U(\p{AHex}{0,8})|x(\p{AHex}{0,2})|(.))/#
        return String(
            replacing(escape.dotMatchesNewlines()) { match -> String in
                if let octets = match.1 {
                    // Bytes that are not UTF-8 are code points of Latin-1, as after `\x`.
                    let bytes = octets.split(separator: "\\").map { UInt8(truncatingIfNeeded: Int($0, radix: 8) ?? 0) }
                    return TextEncoding.utf8.text(of: bytes) ?? TextEncoding.latin1.text(of: bytes) ?? ""
                }
                if let units = match.2?.split(separator: "\\u", omittingEmptySubsequences: false).dropFirst() {
                    return String(decoding: units.map { UInt16($0, radix: 16) ?? 0xFFFD }, as: UTF16.self)
                }
                if let digits = match.3 ?? match.4 {
                    return UInt32(digits, radix: 16).flatMap(Unicode.Scalar.init).map { String($0) } ?? ""
                }
                return match.5.map { String(names[$0] ?? $0) } ?? ""
            })
    }
}
