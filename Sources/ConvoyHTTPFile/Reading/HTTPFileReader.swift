import Convoy

/// Reading continues after an error, so that all errors are found at once.
package struct HTTPFileReader {
    let lines: [String]
    var index = 0
    var blockEnd = 0
    var file = HTTPFile()
    var request = FileRequest(position: .start)

    /// Splitting by `Character` is slower, which shows in files with a million lines.
    init(_ text: String) {
        let bytes = text.utf8.dropFirst(text.utf8.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0)
        lines = bytes.split(separator: 0x0A, omittingEmptySubsequences: false).flatMap { line in
            (line.last == 0x0D ? line.dropLast() : line).split(separator: 0x0D, omittingEmptySubsequences: false)
                .map { String(Substring($0)) }
        }
    }

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

    func position(_ offset: Int = 0) -> Position { Position(line: index + 1, column: offset + 1) }

    mutating func report(_ position: Position, _ what: String, _ advice: String, _ kind: Problem.Kind = .mistake) {
        file.problems.append(Problem(position, what, advice, kind: kind))
    }

    mutating func template(_ text: some StringProtocol, at position: Position) -> Template {
        Template.read(text, at: position, &file.problems)
    }

    private mutating func readPreamble() {
        while index < blockEnd {
            let line = lines[index]
            let text = line.trimmed
            if skipComment(line, text) { continue }
            if text.isEmpty {
                index += 1
            } else if text.hasPrefix("@") {
                readVariable(line)
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

    private mutating func skipComment(_ line: String, _ text: String, mayBeLong: Bool = true) -> Bool {
        if text.isComment {
            readTag(line)
            index += 1
            return true
        }
        guard mayBeLong, text.hasPrefix("/*"),
            let last = lines[index..<blockEnd].firstIndex(where: { $0.trimmed.hasSuffix("*/") })
        else { return false }
        index = last + 1
        return true
    }

    private mutating func readVariable(_ line: String) {
        defer { index += 1 }
        let offset = line.indentation
        guard let equals = line.firstIndex(of: "=") else {
            return report(position(offset), "a variable has no value", "write @name = value")
        }
        let name = line[..<equals].dropFirst(offset + 1).trimmed
        // In httpyac, `@name := value` is evaluated lazily. Here every variable is, so the colon is ignored.
        let plainName = name.hasSuffix(":") ? name.dropLast().trimmed : name
        guard plainName.isVariableName else {
            return report(
                position(offset), "\(plainName.shown) is not a variable name",
                "use only letters, digits, - and _: @name = value")
        }
        let behind = line[line.index(after: equals)...]
        let start = line.distance(from: line.startIndex, to: equals) + 1 + behind.indentation
        let value = template(behind.trimmedKeepingEscapedBlank, at: position(start))
            .mappingText { Template($0.withoutEscapes) }
        file.variables.append(FileRequest.Field(name: plainName, value: value, position: position(offset)))
    }

    private static let tags = [
        "name", "depends", "ref", "forceRef", "prompt", "no-redirect", "no-cookie-jar", "disabled", "expect", "assert",
        "timeout",
    ]
    private static let impossible = [
        "import": "copy the requests into this file", "loop": "give --each FILE or --repeat N",
        "no-reject-unauthorized": "give --insecure, which applies to all requests", "jwt": "remove it",
        "injectVariables": "write {{name}} into the text", "connection-timeout": "give --connect-timeout",
        "use-os-credentials": "write Authorization: Basic user password",
    ]

    mutating func readTag(_ line: String) {
        guard let sign = line.utf8.firstIndex(of: UInt8(ascii: "@")),
            line[..<sign].trimmed.utf8.allSatisfy({ $0 == UInt8(ascii: "#") || $0 == UInt8(ascii: "/") })
        else { return }
        let offset = line[..<sign].count
        let tag = Substring(line.utf8[sign...].dropFirst().prefix(while: \.isWordByte))
        let (rest, blanks) = (line[tag.endIndex...], line[tag.endIndex...].indentation)
        guard rest.isEmpty || blanks > 0 else { return }
        let value = Word(text: rest.trimmed, position: position(offset + 1 + tag.utf8.count + blanks))
        read(String(tag), value, at: position(offset))
    }

    private mutating func read(_ tag: String, _ value: Word, at place: Position) {
        switch tag {
        case "name":
            var value = value
            if value.text.hasPrefix("=") {
                let rest = value.text.dropFirst()
                value = Word(text: rest.trimmed, position: value.position.advanced(by: 1 + rest.indentation))
            }
            if value.text.isEmpty { return report(place, "no name follows @name", "write # @name login") }
            guard value.text.isRequestName else {
                // References cannot use this text, so it is only a title.
                request.title = value
                return
            }
            if let name = request.name {
                return report(place, "the request is already called \(name.text.shown)", "remove one of the names")
            }
            request.name = value
        case "depends", "ref", "forceRef":
            let words = value.words
            if words.isEmpty { report(place, "no name follows @\(tag)", "write # @\(tag) login") }
            request.dependencies += words
        case "prompt":
            guard let word = value.words.first else {
                return report(place, "no name follows @prompt", "write # @prompt name, and give --variable name=…")
            }
            request.prompts.append(word)
        case "timeout":
            guard let timeout = Self.duration(value.text) else {
                return report(
                    value.text.isEmpty ? place : value.position, "\(value.text.shown) is not a time",
                    "write seconds, or 500 ms, 30 s or 2 m: # @timeout 30")
            }
            request.timeout = timeout
        case "no-redirect": request.followsRedirects = false
        case "no-cookie-jar": request.usesCookieJar = false
        case "disabled":
            guard value.text.isEmpty else {
                return report(place, "conditions in scripts are not supported", "write # @disabled alone", .impossible)
            }
            request.isDisabled = true
        case "expect", "assert": readCheck(value.text, at: value.position)
        default:
            if let advice = Self.impossible[tag] {
                return report(place, "@\(tag) is not supported", advice, .impossible)
            }
            guard let near = Self.tags.first(where: { $0.isOneSlip(from: tag) }) else { return }
            report(place, "unknown tag @\(tag)", "did you mean # @\(near)?")
        }
    }

    private static func duration(_ text: String) -> Duration? {
        let digits = text.prefix { $0.isASCIIDigit }
        guard let number = Int(digits), (1...1_000_000_000).contains(number),
            let unit = ["ms": 1, "": 1_000, "s": 1_000, "m": 60_000][text.dropFirst(digits.count).trimmed]
        else { return nil }
        return .milliseconds(number * unit)
    }

    mutating func readCheck(behind text: String, at offset: Int) {
        let check = text.dropFirst(2)
        readCheck(check.trimmed, at: position(offset + 2 + check.indentation))
    }

    private mutating func readCheck(_ text: String, at place: Position) {
        if text.contains("{{") {
            return report(place, "checks cannot use variables", "write the value itself")
        }
        do throws(Defect) { request.checks.append(try Check(text)) } catch {
            file.problems.append(Problem(place, error))
        }
    }

    mutating func readScript(_ text: String, startsBody: Bool) -> Bool {
        guard let first = text.utf8.first, "<>{".utf8.contains(first) else { return false }
        let start = position(lines[index].indentation)
        let advice =
            "use {{name.response.body.$.x}} for a value of a response and # @expect for a check, or give --skip-scripts"
        func isFile(_ mark: Character) -> Bool {
            guard text.first == mark, text.dropFirst().first?.isWhitespace == true else { return false }
            return [".js", ".mjs", ".ts"].contains { text.lowercased().hasSuffix($0) }
        }
        let inner = text.drop { "<>".contains($0) }.trimmed
        if text.hasPrefix("<") || text.hasPrefix(">"), text.dropFirst().first != ">", inner.hasPrefix("{%") {
            readScriptLines(isHandler: startsBody && text.hasPrefix(">"), at: start, advice)
            return true
        }
        if isFile(">") || (!startsBody && isFile("<")) {
            report(start, "this script is not supported", advice, .script)
            index += 1
            return true
        }
        guard text == "{{" || ["{{+", "{{@"].contains(where: { text.hasPrefix($0) && !text.contains("}}") }) else {
            return false
        }
        report(start, "this script is not supported", advice, .script)
        while index < blockEnd, lines[index].trimmed != "}}" { index += 1 }
        if index >= blockEnd { report(start, "a script is not closed", "write }} on a separate line after it") }
        index = min(index + 1, blockEnd)
        return true
    }

    private mutating func readScriptLines(isHandler: Bool, at start: Position, _ advice: String) {
        let first = lines[index]
        guard let open = first.range(of: "{%") else { return }
        let place = position(first.distance(from: first.startIndex, to: open.upperBound))
        var text = String(first[open.upperBound...])
        while !text.contains("%}"), index + 1 < blockEnd {
            index += 1
            text += "\n" + lines[index]
        }
        index = min(index + 1, blockEnd)
        guard let close = text.range(of: "%}") else {
            return report(start, "a script is not closed", "write %} after it")
        }
        guard isHandler else { return report(start, "this script is not supported", advice, .script) }
        do throws(Problem) {
            request.handlers.append(try ScriptReader.read(String(text[..<close.lowerBound]), at: place))
        } catch { file.problems.append(error) }
    }

    static let methods = [
        "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "LOCK", "UNLOCK", "PROPFIND",
        "PROPPATCH", "COPY", "MOVE", "MKCOL", "MKCALENDAR", "ACL", "SEARCH", "REPORT", "QUERY", "PURGE", "LINK",
        "UNLINK", "MERGE", "NOTIFY", "SUBSCRIBE", "UNSUBSCRIBE", "BIND", "UNBIND", "REBIND", "CHECKOUT", "MKACTIVITY",
        "GRAPHQL",
    ]
    private static let otherProtocols = [
        "WEBSOCKET", "WS", "WSS", "GRPC", "SSE", "EVENTSOURCE", "MQTT", "AMQP", "RSOCKET",
    ]

    mutating func readRequest() {
        while true {
            let line = lines[index]
            let indentation = line.indentation
            request.position = position(indentation)
            let text = line.dropFirst(indentation)
            var isFollowed = false
            if text.hasPrefix("curl ") || text.hasPrefix("curl\t") {
                readCurl()
                readBody()
            } else {
                readRequestLine(text, indentation)
                isFollowed = readFields(indentation)
                if !isFollowed { readBody() }
            }
            check()
            request.lastLine = max(request.position.line, index)
            file.requests.append(request)
            guard isFollowed else { return }
            begin(nil)
        }
    }

    private mutating func readRequestLine(_ text: Substring, _ indentation: Int) {
        let word = String(text.prefix { !$0.isWhitespace })
        let behind = text.dropFirst(word.count)
        var start = 0
        if Self.methods.contains(word.uppercased()) {
            request.method = word.uppercased()
            start = word.count + behind.indentation
        } else if word.isMethodLike, !behind.trimmed.isEmpty, !behind.trimmed.hasPrefix("HTTP/") {
            start = word.count + behind.indentation
            reportMethod(word.uppercased())
        }
        if request.method == "GRAPHQL" {
            request.method = "POST"
            request.bodyKind = .graphQL
        }
        let place = position(indentation + start)
        let target = withoutVersion(text.dropFirst(start), at: place)
        if target.isEmpty {
            report(place, "no URL follows the method", "write \(request.method) https://example.com/path")
        }
        request.target = template(target, at: place)
        index += 1
        readTargetLines(indentation)
    }

    private mutating func reportMethod(_ word: String) {
        if Self.otherProtocols.contains(word) {
            return report(
                request.position, "\(word) requests are not HTTP, and are not supported", "remove this request",
                .impossible)
        }
        let near = Self.methods.first { $0.isOneSlip(from: word) }
        report(
            request.position, "unknown method \(word)",
            near.map { "did you mean \($0)?" } ?? "write one of GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS")
    }

    private mutating func withoutVersion(_ text: Substring, at place: Position) -> String {
        // The bytes are checked first, because most targets have no version, and regular expressions are slow.
        guard text.utf8.contains(where: { $0.isBlank || $0 >= 0x80 }),
            let match = text.wholeMatch(of: #/(.*\s)(HTTP/([^/]*))/#.ignoresCase())
        else { return text.trimmed }
        if match.3.wholeMatch(of: #/\s*[0-9][0-9.]*\s*(\(.*)?/#) == nil {
            report(
                place.advanced(by: match.1.count), "\(match.2.trimmed.shown) is not a version of HTTP",
                "write HTTP/1.1, or remove it")
        }
        return match.1.trimmed
    }

    private mutating func readTargetLines(_ base: Int) {
        while index < blockEnd {
            let line = lines[index]
            let indentation = line.indentation
            let text = line.trimmed
            guard !text.isEmpty else { return }
            if indentation > base, skipComment(line, text, mayBeLong: false) { continue }
            let isQuery = text.hasPrefix("?") && !text.hasPrefix("??") || text.hasPrefix("&")
            guard isQuery || (indentation > base && !text.startsField && !text.startsTail && !Self.startsRequest(text))
            else {
                return
            }
            let place = position(indentation)
            request.target.append(template(withoutVersion(line.dropFirst(indentation), at: place), at: place))
            index += 1
        }
    }

    private static func startsRequest(_ text: String, _ targets: [String] = ["http://", "https://", "/", "{{"]) -> Bool
    {
        let word = text.prefix { !$0.isWhitespace }
        return methods.contains(String(word))
            && targets.contains(where: text.dropFirst(word.count).drop(while: \.isWhitespace).hasPrefix)
    }

    private mutating func readFields(_ base: Int) -> Bool {
        while index < blockEnd {
            let line = lines[index]
            let text = line.trimmed
            if text.isEmpty {
                index += 1
                return false
            }
            if skipComment(line, text) { continue }
            if Self.startsRequest(text) { return true }
            if text.startsTail || (text.first.map { "{[<".contains($0) } == true && !text.contains("}}:")) {
                // A body without a blank line before it, as in httpyac.
                return false
            }
            readField(line, base)
            index += 1
        }
        return false
    }

    private mutating func readField(_ line: String, _ base: Int) {
        let indentation = line.indentation
        let text = line.dropFirst(indentation)
        if indentation > base, !text.startsField, !request.fields.isEmpty {
            let more = template(" " + text.trimmed, at: position(max(0, indentation - 1)))
            return request.fields[request.fields.count - 1].value.append(more)
        }
        guard !text.hasPrefix("...") else {
            return report(
                position(indentation), "header fields from scripts are not supported", "write them as Name: value",
                .script)
        }
        guard let colon = text.firstIndex(of: ":") else {
            return report(
                position(indentation), "a header field has no colon",
                "write Name: value, a blank line before the body, or ### before another request")
        }
        let name = text[..<colon].trimmed
        guard name.isFieldName else {
            let advice =
                name.contains("{{")
                ? "write the name itself: a value cannot name a header field"
                : "use only letters, digits and -: Content-Type: text/plain"
            return report(position(indentation), "\(name.shown) is not a header field name", advice)
        }
        let value = text[text.index(after: colon)...]
        let offset = indentation + text.distance(from: text.startIndex, to: colon) + 1 + value.indentation
        request.fields.append(
            FileRequest.Field(
                name: name, value: template(value.trimmed, at: position(offset)), position: position(indentation)))
    }

    enum BodyLine {
        case text(String, Position)
        case file(FileReference)

        var isBlank: Bool { if case .text(let text, _) = self { text.trimmed.isEmpty } else { false } }

        var startsOperation: Bool {
            guard case .text(let text, _) = self else { return true }
            return ["query", "mutation", "subscription", "{"].contains { text.hasPrefix($0) }
        }

        func hint(isFirst: Bool) -> Problem? {
            guard case .text(let line, let position) = self else { return nil }
            let text = line.trimmed
            func hint(_ what: String, _ place: String, _ advice: String) -> Problem {
                Problem(position, "this line looks like \(what), but is sent in \(place)", advice)
            }
            let above = "the body of the request above"
            if HTTPFileReader.startsRequest(text, ["http://", "https://", "{{"]) {
                return hint("a request", above, "write ### on a line before it to make it a request")
            }
            if text.hasPrefix("@"), text.contains("="),
                text.dropFirst().prefix(while: { $0 != "=" && $0 != ":" }).trimmed.isVariableName
            {
                return hint("a variable", above, "move it above the request line, or write ### on a line before it")
            }
            guard isFirst, text.startsField, let name = text.split(separator: ":").first,
                name.contains("-") || ["accept", "authorization", "cookie", "host"].contains(name.lowercased())
            else { return nil }
            return hint("a header field", "the body", "remove the blank line before it")
        }
    }

    mutating func readBody() {
        var body: [BodyLine] = []
        var hasContent = false
        while index < blockEnd {
            let line = lines[index]
            let text = line.trimmed
            if skipComment(line, text, mayBeLong: !hasContent) || readScript(text, startsBody: true) { continue }
            if text.hasPrefix("@"), text.contains("="), !hasContent {
                readVariable(line)
            } else {
                readBodyLine(line, text, &body)
                hasContent = hasContent || body.last?.isBlank == false
                index += 1
            }
        }
        body = Array(body.drop(while: \.isBlank))
        while body.last?.isBlank == true { body.removeLast() }
        guard !body.isEmpty else { return }
        if !request.body.isEmpty {
            report(request.position, "the curl command already has a body", "remove one of the bodies")
        }
        join(body)
        if case .multipart = request.bodyKind { return }
        let hints = body.enumerated().lazy.compactMap { $1.hint(isFirst: $0 == 0) }
        file.hints += hints.prefix(Self.mostHints)
    }

    private static let mostHints = 8

    private mutating func readBodyLine(_ line: String, _ text: String, _ body: inout [BodyLine]) {
        let indentation = line.indentation
        if text.hasPrefix("<> ") { return }
        if text.hasPrefix("??") { return readCheck(behind: text, at: indentation) }
        if line.hasPrefix(">>") { return readOutput(line) }
        guard text.hasPrefix("<"), let reference = fileReference(text, at: position(indentation)) else {
            return body.append(.text(line, position()))
        }
        body.append(.file(reference))
    }

    private mutating func fileReference(_ text: String, at place: Position) -> FileReference? {
        let mark = text.prefix { !$0.isWhitespace }
        guard mark == "<" || mark.hasPrefix("<@") else { return nil }
        let behind = text.dropFirst(mark.count)
        let path = behind.trimmed
        var encoding = TextEncoding.utf8
        if mark.count > 2 {
            guard let named = TextEncoding(named: String(mark.dropFirst(2))) else {
                report(
                    place, "\(mark.dropFirst(2).description.shown) is not a supported encoding",
                    "write utf8, latin1, ascii or utf16le")
                return FileReference(path: Template(path), position: place)
            }
            encoding = named
        }
        guard !path.isEmpty else {
            report(place, "no file follows <", "write < ./body.json")
            return FileReference(path: Template("."), position: place)
        }
        let pathPlace = place.advanced(by: mark.count + behind.indentation)
        return FileReference(
            path: template(path, at: pathPlace), hasVariables: mark.hasPrefix("<@"), encoding: encoding,
            position: pathPlace)
    }

    private mutating func readOutput(_ line: String) {
        let replaces = line.hasPrefix(">>!")
        let behind = line.dropFirst(replaces ? 3 : 2)
        let path = behind.trimmed
        let place = position(line.count - behind.count + behind.indentation)
        guard !path.isEmpty else {
            return report(position(), "no file follows >>", "write >> answer.json, or >>! answer.json to replace it")
        }
        guard request.output == nil else {
            return report(position(), "the response already goes to a file", "remove one of the two")
        }
        request.output = FileRequest.Output(path: template(path, at: place), replaces: replaces, position: place)
    }

    private mutating func join(_ lines: [BodyLine]) {
        let type = request.field("content-type")?.value
        let plainType = type?.plainText?.lowercased() ?? ""
        if request.field("x-request-type")?.value.plainText?.lowercased() == "graphql" { request.bodyKind = .graphQL }
        if case .graphQL = request.bodyKind {
            let split = lines.indices.first { place in
                lines[place].isBlank && Self.startsVariables(lines[(place + 1)...], behind: lines[..<place])
            }
            request.body = parts(lines[..<(split ?? lines.endIndex)])
            if let split { request.graphQLVariables = parts(lines[(split + 1)...]) }
        } else if plainType.hasPrefix("multipart/") {
            request.body = parts(lines[...], separator: "\r\n")
            if let boundary = type?.plainText?.parameter("boundary") {
                request.bodyKind = .multipart(boundary: boundary)
            }
        } else if plainType.hasPrefix("application/x-www-form-urlencoded") {
            request.bodyKind = .form
            request.body = parts(lines[...], isForm: true)
        } else {
            request.body = parts(lines[...])
            if plainType.hasPrefix("application/x-ndjson") || plainType.hasPrefix("application/jsonl") {
                request.body.add(.text(Template("\n")))
            }
        }
    }

    /// If only fragments precede the blank line, the query itself follows it.
    private static func startsVariables(_ rest: ArraySlice<BodyLine>, behind query: ArraySlice<BodyLine>) -> Bool {
        switch rest.first {
        case nil: return false
        case .file(let reference)?: return reference.path.prefixText.hasSuffix(".json")
        case .text(let first, _)?: return first.hasPrefix("{") && query.contains { $0.startsOperation }
        }
    }

    /// In a form, a line that starts with &, or that follows a line ending with &, is joined without a line end.
    private mutating func parts(
        _ lines: ArraySlice<BodyLine>, separator: String = "\n", isForm: Bool = false
    ) -> [BodyPart] {
        var (parts, endsField) = ([BodyPart](), true)
        for line in lines {
            switch line {
            case .text(let line, let position):
                let text = isForm ? line.trimmed : line
                let isJoined = isForm && (endsField || text.hasPrefix("&"))
                if !parts.isEmpty, !isJoined { parts.add(.text(Template(separator))) }
                endsField = text.hasSuffix("&") || text.isEmpty
                let place = isForm ? position.advanced(by: line.indentation) : position
                parts.add(.text(template(isForm ? text.formLine : text, at: place)))
            case .file(let reference):
                if !parts.isEmpty, !isForm { parts.add(.text(Template(separator))) }
                parts.add(.file(reference))
                endsField = false
            }
        }
        return parts
    }

    mutating func check() {
        if request.method == "HEAD" || request.method == "TRACE", !request.body.isEmpty {
            report(request.position, "a \(request.method) request has no body", "remove the body, or write POST")
        }
        if case .graphQL = request.bodyKind, request.body.isEmpty {
            report(request.position, "the body contains no query", "write the query after a blank line")
        }
        guard let type = request.field("content-type"), !request.body.isEmpty,
            let text = type.value.plainText, text.lowercased().hasPrefix("multipart/")
        else { return }
        guard case .multipart(let boundary) = request.bodyKind else {
            return report(
                type.position, "a body in parts has no boundary",
                "write Content-Type: multipart/form-data; boundary=abcd, and --abcd before each part")
        }
        let lines = request.body.flatMap { part -> [Substring] in
            if case .text(let text) = part { text.source.split { $0.isNewline } } else { [] }
        }
        if !lines.contains(where: { $0.trimmed == "--\(boundary)" }) {
            report(type.position, "no part begins with --\(boundary)", "write --\(boundary) on a line before each part")
        } else if !lines.contains(where: { $0.trimmed == "--\(boundary)--" }) {
            report(
                type.position, "the parts do not end with --\(boundary)--", "write --\(boundary)-- after the last part")
        }
    }
}

extension StringProtocol {
    var indentation: Int { prefix(while: \.isWhitespace).count }

    var isComment: Bool { hasPrefix("#") || hasPrefix("//") }

    var startsField: Bool {
        guard let colon = firstIndex(of: ":") else { return false }
        let behind = self[index(after: colon)...]
        return self[..<colon].isFieldName && (behind.isEmpty || behind.first?.isWhitespace == true)
    }

    fileprivate var startsTail: Bool {
        hasPrefix("> ") || hasPrefix(">>") || hasPrefix("<> ") || hasPrefix("< ") || hasPrefix("<@") || hasPrefix("??")
            || self == "{{"
    }
}

extension String {
    // `\n`, `\r` and `\t` are control characters. Before any other character, the backslash is removed.
    fileprivate var withoutEscapes: String {
        guard utf8.contains(UInt8(ascii: "\\")) else { return self }
        // Scalars are matched, because a letter and a combining mark would be one other character.
        return replacing(#/\\(.?)/#.dotMatchesNewlines().matchingSemantics(.unicodeScalar)) { match in
            ["n": "\n", "r": "\r", "t": "\t"][match.1] ?? match.1
        }
    }

    /// Whether one letter is missing, added, replaced or moved.
    func isOneSlip(from other: String) -> Bool {
        guard self != other, (3...100).contains(count), other.count > 2, abs(count - other.count) <= 1 else {
            return false
        }
        return other.difference(from: self).count <= 2
    }

    fileprivate var isMethodLike: Bool { count > 1 && allSatisfy { $0.isASCII && $0.isLetter || $0 == "-" } }

    fileprivate var formLine: String {
        var text = self
        if text.hasSuffix("&") { text = text.dropLast().trimmed + "&" }
        if text.hasPrefix("&") { text = "&" + text.dropFirst().trimmed }
        let name = text.prefix { $0 != "=" }
        guard name.last == " ", name.trimmed.allSatisfy({ !$0.isWhitespace }) else { return text }
        return name.trimmed + "=" + text.dropFirst(name.count + 1).trimmed
    }
}

extension Substring {
    fileprivate var trimmedKeepingEscapedBlank: String {
        let text = trimmed
        guard text.utf8.reversed().prefix(while: { $0 == UInt8(ascii: "\\") }).count % 2 == 1 else { return text }
        let rest = drop(while: \.isWhitespace).unicodeScalars.dropFirst(text.unicodeScalars.count)
        return text + (rest.first.map { String($0) } ?? "")
    }
}

extension Word {
    fileprivate var words: [Word] {
        var (words, offset) = ([Word](), 0)
        for part in text.split(omittingEmptySubsequences: false, whereSeparator: { $0.isWhitespace || $0 == "," }) {
            if !part.isEmpty { words.append(Word(text: String(part), position: position.advanced(by: offset))) }
            offset += part.count + 1
        }
        return words
    }
}
