import Convoy
import Foundation

struct PostmanReader {
    struct Scope {
        var folders: [String] = []
        var auth: JSONValue?
        var hasScripts = false
    }

    private var file = ImportedFile()

    static func read(_ collection: JSONValue) throws(Defect) -> ImportedFile {
        guard case .array? = collection["item"] else {
            throw Defect(
                "item is not a list of requests and folders", "give a collection that Postman has exported")
        }
        var reader = PostmanReader()
        reader.file.title = collection["info"]?["name"]?.string ?? ""
        reader.readVariables(collection["variable"])
        reader.read(
            collection["item"]?.elements ?? [],
            Scope(auth: collection["auth"], hasScripts: PostmanScript.hasCode(collection)))
        return reader.file
    }

    private mutating func readVariables(_ variables: JSONValue?) {
        for variable in variables?.enabled ?? [] {
            guard let key = (variable["key"] ?? variable["id"])?.scalarText, !key.isEmpty,
                let value = variable["value"]?.scalarText, !value.isEmpty
            else { continue }
            let name = key.postmanName
            file.variables.removeAll { $0.name == name }
            let template = Template(postman: value)
            let isSecret = name.namesSecret && template.placeholders.isEmpty
            file.variables.append(ImportedFile.Variable(name: name, value: template, isSecret: isSecret))
        }
    }

    private mutating func read(_ items: [JSONValue], _ scope: Scope) {
        for item in items {
            let name = item["name"]?.scalarText ?? ""
            if let request = item["request"] {
                read(request, item, name, scope)
            } else if let inner = item["item"] {
                readVariables(item["variable"])
                var scope = scope
                scope.folders.append(name)
                scope.auth = item["auth"].flatMap { $0 == .null ? nil : $0 } ?? scope.auth
                scope.hasScripts = scope.hasScripts || PostmanScript.hasCode(item)
                read(inner.elements, scope)
            } else {
                file.notes.append("\(name.shown) is omitted: it is neither a request nor a folder")
            }
        }
    }

    private mutating func read(_ request: JSONValue, _ item: JSONValue, _ name: String, _ scope: Scope) {
        var imported = ImportedRequest()
        let title = (scope.folders + [name]).joined(separator: " / ")
        imported.request.title = Word(text: title)
        imported.request.target = PostmanURL.template(request["url"] ?? request)
        guard !imported.request.target.parts.isEmpty else {
            return file.notes.append("\(title.shown) is omitted: it has no URL")
        }
        imported.setMethod((request["method"]?.string ?? "GET").uppercased())
        readFields(request["header"], &imported)
        let auth = request["auth"].flatMap { $0 == .null ? nil : $0 } ?? scope.auth
        if let auth { PostmanAuth.apply(auth, to: &imported) }
        if let body = request["body"], body["disabled"]?.isTrue != true { PostmanBody.apply(body, to: &imported) }
        imported.completeBody()
        imported.request.followsRedirects = item["protocolProfileBehavior"]?["followRedirects"] != .bool(false)
        imported.request.usesCookieJar = item["protocolProfileBehavior"]?["disableCookies"]?.isTrue != true
        noteEnvironment(&imported)
        PostmanScript.apply(item["event"], to: &imported)
        if scope.hasScripts { imported.notes.append("omitted: the scripts of its folder or collection") }
        file.requests.append(imported)
    }

    private func noteEnvironment(_ imported: inout ImportedRequest) {
        var seen: Set<String> = []
        for name in imported.request.templates.flatMap(\.placeholders).map(\.source)
        where ["processEnv_", "dotenv_", "env."].contains(where: name.hasPrefix) && seen.insert(name).inserted {
            imported.notes.append("{{\(name)}} is a plain variable: a collection does not read the environment")
        }
    }

    private func readFields(_ header: JSONValue?, _ imported: inout ImportedRequest) {
        if let text = header?.string {
            for line in text.split(whereSeparator: \.isNewline) {
                guard let colon = line.firstIndex(of: ":") else { continue }
                let value = Template(postman: line[line.index(after: colon)...].trimmed)
                imported.addField(line[..<colon].trimmed, value)
            }
        }
        for field in header?.enabled ?? [] {
            guard let key = field["key"]?.scalarText, !key.isEmpty else { continue }
            imported.addField(key.trimmed, Template(postman: field["value"]?.scalarText ?? ""))
        }
    }
}

extension Template {
    init(postman text: String) {
        self = Template(text).replacing { text, _ in
            // Only the two innermost braces form a placeholder: {"a":{{{name}}}}.
            text.matches(of: #/\{\{([^{\n]*?)\}\}/#).compactMap { match in
                match.1.trimmed.isEmpty ? nil : (match.0, Template(placeholder: String(match.1).postmanName))
            }
        }
    }

    fileprivate var formEncoded: Template { mappingText { Template($0.formEncoded) } }
}

extension String {
    private static let postmanNames: Set = ["$guid", "$timestamp", "$isoTimestamp", "$randomInt"]

    /// Only built-in variables keep their `$`: `{{$processEnv X}}` of a foreign collection must not read the
    /// environment.
    var postmanName: String {
        let name = trimmed
        if Self.postmanNames.contains(name) { return name }
        let plain = name.drop { $0 == "$" }
        return String(plain).isVariableName ? String(plain) : String(plain).variableName
    }
}

enum PostmanURL {
    static func template(_ url: JSONValue) -> Template {
        var raw = url.string ?? url["raw"]?.string ?? composed(url)
        raw = String(raw.trimmed.prefix { $0 != "#" })
        if let query = url["query"], !query.elements.isEmpty {
            let enabled = query.enabled.map { parameter in
                (parameter["key"]?.scalarText ?? "") + (parameter["value"]?.scalarText.map { "=" + $0 } ?? "")
            }
            raw = raw.prefix { $0 != "?" } + (enabled.isEmpty ? "" : "?" + enabled.joined(separator: "&"))
        }
        let path = raw.prefix { $0 != "?" }
        let segments = path.split(separator: "/", omittingEmptySubsequences: false).map { segment in
            value(of: segment, url["variable"]?.elements ?? [])
        }
        var template = Template(postman: segments.joined(separator: "/") + raw[path.endIndex...])
        for case (let place, .text(let text)) in template.parts.enumerated() {
            template.parts[place] = .text(place == 0 ? text.importedURL : PercentEscaper.url.escaped(text))
        }
        return template
    }

    private static func value(of segment: Substring, _ variables: [JSONValue]) -> String {
        let name = segment.dropFirst()
        guard segment.first == ":", let first = name.first, first.isLetter || first == "_" else {
            return String(segment)
        }
        let variable = variables.last { ($0["key"] ?? $0["id"])?.scalarText == String(name) }
        let value = variable?["value"]?.scalarText ?? ""
        return value.isEmpty ? "{{\(name)}}" : value
    }

    private static func composed(_ url: JSONValue) -> String {
        func joined(_ name: String, _ separator: String) -> String? {
            let parts = url[name]?.elements.compactMap { $0.scalarText ?? $0["value"]?.scalarText } ?? []
            return url[name]?.string ?? (parts.isEmpty ? nil : parts.joined(separator: separator))
        }
        guard let host = joined("host", ".") else { return "" }
        let scheme = url["protocol"]?.string.map { $0 + "://" } ?? ""
        let port = url["port"]?.scalarText.map { $0.isEmpty ? "" : ":" + $0 } ?? ""
        return scheme + host + port + (joined("path", "/").map { ($0.hasPrefix("/") ? "" : "/") + $0 } ?? "")
    }
}

enum PostmanAuth {
    static func apply(_ auth: JSONValue, to imported: inout ImportedRequest) {
        let type = auth["type"]?.string ?? ""
        func value(_ name: String) -> String {
            let entry = auth[type]?.elements.last { $0["key"]?.string == name }?["value"] ?? auth[type]?[name]
            return entry?.scalarText ?? ""
        }
        switch type {
        case "", "noauth": return
        case "apikey":
            let (key, text) = (value("key"), Template(postman: value("value")))
            guard !key.isEmpty else { return }
            imported.secretNames.insert(key.trimmed.lowercased())
            if value("in") == "query" {
                imported.request.target.append(imported.request.target.source.contains("?") ? "&" : "?")
                imported.request.target.append(PercentEscaper.url.escaped(key) + "=")
                return imported.request.target.append(text.mappingText { Template(PercentEscaper.url.escaped($0)) })
            }
            imported.addField(key, text)
        case "bearer": authorize("Bearer ", value("token"), &imported)
        case "oauth2":
            let token = value("accessToken")
            guard value("addTokenTo") != "queryParams" else {
                return imported.notes.append("omitted: an OAuth 2 token in the URL")
            }
            let prefix = value("headerPrefix").trimmed
            authorize((prefix.isEmpty ? "Bearer" : prefix) + " ", token.isEmpty ? "{{access_token}}" : token, &imported)
        case "basic", "digest":
            authorize(type == "basic" ? "Basic " : "Digest ", user: value("username"), value("password"), &imported)
        default: imported.notes.append("omitted: credentials of the type \(type.shown)")
        }
    }

    private static func authorize(
        _ scheme: String, user: String, _ password: String, _ imported: inout ImportedRequest
    ) {
        guard !user.isEmpty || !password.isEmpty else { return }
        let texts = [user, password].map { Template(postman: $0) }
        let marks = texts.map { $0.parts.compactMap(\.string).joined() }
        let hasNoBlank = !marks.joined().contains(where: \.isWhitespace)
        if hasNoBlank, !user.isEmpty, !password.isEmpty {
            authorize(scheme, "\(user) \(password)", &imported)
        } else if scheme == "Basic ", texts.allSatisfy(\.placeholders.isEmpty) {
            authorize(scheme, Data("\(user):\(password)".utf8).base64EncodedString(), &imported)
        } else if hasNoBlank, !marks[0].contains(":") {
            authorize(scheme, "\(user):\(password)", &imported)
        } else {
            imported.notes.append("omitted: the user name and password, because they contain a space")
        }
    }

    private static func authorize(_ scheme: String, _ value: String, _ imported: inout ImportedRequest) {
        guard imported.request.field("authorization") == nil, !value.isEmpty else { return }
        imported.addField("Authorization", Template(postman: scheme + value))
    }
}

enum PostmanBody {
    private static let types = [
        "json": "application/json", "xml": "application/xml", "html": "text/html",
        "javascript": "application/javascript", "text": "text/plain",
    ]

    static func apply(_ body: JSONValue, to imported: inout ImportedRequest) {
        let mode = body["mode"]?.string ?? ""
        let content = body[mode]
        switch mode {
        case "raw":
            let source = content?.scalarText ?? ""
            // Between the values of JSON, line ends and blanks have no meaning, so the import may change them.
            let text = Template(postman: source.looksLikeJSON ? source.replacing("\r\n", with: "\n").trimmed : source)
            guard !text.parts.isEmpty else { return }
            imported.request.body = [.text(text)]
            imported.setType(types[body["options"]?["raw"]?["language"]?.string ?? ""] ?? "text/plain")
        case "urlencoded":
            if let text = content?.string {
                imported.request.body = text.isEmpty ? [] : [.text(Template(postman: text))]
                imported.request.bodyKind = .form
                return imported.setType("application/x-www-form-urlencoded")
            }
            imported.setForm(
                (content?.enabled ?? []).map { field in
                    ["key", "value"].map { Template(postman: field[$0]?.scalarText ?? "").formEncoded }
                })
        case "formdata": imported.request.setParts((content?.enabled ?? []).flatMap(parts))
        case "graphql": applyGraphQL(content, to: &imported)
        case "file":
            let path = (content?["src"] ?? content)?.string ?? ""
            if path.isEmpty {
                imported.notes.append("omitted: a body from a file without a name")
            } else {
                imported.request.body = [.file(FileReference(path))]
            }
        case "": break
        default: imported.notes.append("omitted: a body of the type \(mode.shown)")
        }
    }

    private static func parts(_ field: JSONValue) -> [FormParts.Part] {
        let name = Template(postman: field["key"]?.scalarText ?? "")
        let type = (field["contentType"]?.string).map { Template(postman: $0) }
        guard field["type"]?.string == "file" else {
            let value = Template(postman: field["value"]?.scalarText ?? "")
            return [FormParts.Part(name: name, content: .text(value), type: type)]
        }
        let source = field["src"] ?? .null
        let paths = (source.string.map { [$0] } ?? source.elements.compactMap(\.string)).filter { !$0.isEmpty }
        return (paths.isEmpty ? ["./file"] : paths).map { path in
            let fileName = path.split { "/\\".contains($0) }.last.map(String.init) ?? "file"
            return FormParts.Part(
                name: name, content: .file(FileReference(path)), fileName: Template(fileName), type: type)
        }
    }

    private static func applyGraphQL(_ content: JSONValue?, to imported: inout ImportedRequest) {
        let query = Template(postman: content?["query"]?.string ?? "").trimmed
        guard !query.parts.isEmpty else { return }
        let given = content?["variables"] ?? .null
        let variables = Template(postman: given == .null ? "" : given.text).trimmed
        imported.addField("X-Request-Type", Template("GraphQL"))
        imported.setType("application/json")
        imported.request.bodyKind = .graphQL
        imported.request.body = [.text(query)]
        imported.request.graphQLVariables = variables.parts.isEmpty ? [] : [.text(variables)]
    }
}

enum PostmanScript {
    static func apply(_ events: JSONValue?, to imported: inout ImportedRequest) {
        // Postman runs the scripts of several events one after another, so they become one handler.
        var statements: [String] = []
        for event in events?.enabled ?? [] {
            let more = self.statements(of: code(of: event))
            if event["listen"]?.string == "test" {
                statements += more
            } else {
                imported.notes += more.map { "omitted from its pre-request script: \($0)" }
            }
        }
        var (kept, left) = sorted(statements, after: [])
        if names(in: kept.joined(separator: "\n"), after: []) == nil { (kept, left) = ([], kept + left) }
        imported.handler = kept.flatMap { $0.split(whereSeparator: \.isNewline).map(String.init) }
        imported.notes += left.map { "omitted from its script: \($0)" }
    }

    static func hasCode(_ item: JSONValue) -> Bool {
        item["event"]?.elements.contains { !statements(of: code(of: $0)).isEmpty } ?? false
    }

    private static func code(of event: JSONValue) -> String {
        let exec = event["script"]?["exec"]
        let text = exec?.string ?? exec?.elements.compactMap(\.string).joined(separator: "\n") ?? ""
        // The scalars are filtered, because CR and LF together are one `Character`.
        return String(String.UnicodeScalarView(text.unicodeScalars.filter { $0 != "\r" }))
    }

    /// If the reader rejects a test, `kept` gets a test with the accepted statements of the original.
    private static func sorted(
        _ statements: [String], after known: Set<String>, isInTest: Bool = false
    ) -> (kept: [String], left: [String]) {
        var (kept, left, known) = ([String](), [String](), known)
        for statement in statements {
            let translated = PostmanWords.translated(statement)
            if let names = names(in: translated, after: known) {
                known.formUnion(names)
                kept.append(translated)
            } else if !isInTest, let test = PostmanWords.test(statement),
                case let inner = sorted(self.statements(of: test.body), after: known, isInTest: true),
                !inner.kept.isEmpty, case let candidate = PostmanWords.test(test.name, inner.kept),
                names(in: candidate, after: known) != nil
            {
                kept.append(candidate)
                left += inner.left
            } else {
                left.append(statement)
            }
        }
        return (kept, left)
    }

    private static func names(in text: String, after names: Set<String>) -> [String]? {
        guard !text.contains("%}"), !text.contains("\n###"), !text.hasPrefix("###"),
            let script = try? ScriptReader.read(text, at: .start, after: names)
        else { return nil }
        return script.statements.compactMap { if case .constant(let name, _) = $0.action { name } else { nil } }
    }

    static func statements(of code: String) -> [String] {
        var (statements, text, nesting) = ([String](), "", Nesting())
        var rest = code[...]
        while let character = rest.first {
            if nesting.quote == nil, rest.hasPrefix("//") {
                rest = rest.drop { !$0.isNewline }
                continue
            }
            if nesting.quote == nil, rest.hasPrefix("/*") {
                rest = rest.dropFirst(2).firstRange(of: "*/").map { rest[$0.upperBound...] } ?? ""
                continue
            }
            rest = rest.dropFirst()
            nesting.take(character)
            text.append(character)
            guard nesting.quote == nil, nesting.depth <= 0, character == ";" || character.isNewline else { continue }
            nesting.depth = 0
            // The blanks after a line end are skipped now, so that later line ends do not read them again.
            if character != ";" { rest = rest.drop(while: \.isWhitespace) }
            guard character == ";" || !continues(text.last { !$0.isWhitespace }, rest) else { continue }
            statements.append(text.trimmed)
            text = ""
        }
        return (statements + [text.trimmed]).filter { !$0.isEmpty }
    }

    private static func continues(_ last: Character?, _ rest: Substring) -> Bool {
        guard let last, let next = rest.first else { return false }
        return "=+-*/%&|,.(?:<>!".contains(last) || ".?:+*&|".contains(next) || rest.hasPrefix("else")
            || last == ")" && next == "{"
    }
}

private struct Nesting {
    var depth = 0
    private(set) var quote: Character?
    private var isEscaped = false

    init(depth: Int = 0) { self.depth = depth }

    mutating func take(_ character: Character) {
        if let open = quote {
            if !isEscaped, character == open { quote = nil }
            isEscaped = !isEscaped && character == "\\"
        } else if "'\"`".contains(character) {
            quote = character
        } else if "([{".contains(character) {
            depth += 1
        } else if ")]}".contains(character) {
            depth -= 1
        }
    }
}

/// Unknown parts stay unchanged, so that the reader rejects them.
enum PostmanWords {
    private static let words = [
        ("pm.response.json()", "response.body"), ("JSON.parse(responseBody)", "response.body"),
        ("JSON.parse(pm.response.text())", "response.body"), ("responseCode.code", "response.status"),
        ("pm.response.code", "response.status"), ("pm.response.status", "pm.response.reason"),
        ("pm.response.headers.get(", "response.headers.valueOf("),
        ("postman.getResponseHeader(", "response.headers.valueOf("),
        ("postman.setEnvironmentVariable(", "client.global.set("), ("postman.setGlobalVariable(", "client.global.set("),
        ("postman.getEnvironmentVariable(", "client.global.get("),
        ("postman.clearEnvironmentVariable(", "client.global.clear("),
    ]
    private static let stores = ["environment", "globals", "collectionVariables", "variables"]
    private static let verbs = [("set", "set"), ("get", "get"), ("unset", "clear")]

    /// Each level needs stack, so the reader rejects deeper tests.
    private static let mostLevels = 32

    static func translated(_ statement: String, depth: Int = 0) -> String {
        guard depth < mostLevels else { return statement }
        var text = statement
        for (old, new) in words where text.contains(old) { text = text.replacing(old, with: new) }
        for store in stores where text.contains("pm.\(store).") {
            for (old, new) in verbs { text = text.replacing("pm.\(store).\(old)(", with: "client.global.\(new)(") }
        }
        if let test = test(text) {
            return self.test(
                test.name, PostmanScript.statements(of: test.body).map { translated($0, depth: depth + 1) })
        }
        return oldTest(text) ?? assertion(text.trimmedMarks).map { "client.assert(\($0));" } ?? text
    }

    static func test(_ name: String, _ statements: [String]) -> String {
        "client.test(\(name), function() {\n" + statements.map { "    \($0)\n" }.joined() + "});"
    }

    static func test(_ statement: String) -> (name: String, body: String)? {
        guard let call = call("pm.test(", statement[...]) ?? call("client.test(", statement[...]),
            call.arguments.count == 2, let open = call.arguments[1].firstIndex(of: "{"), call.arguments[1].last == "}"
        else { return nil }
        return (call.arguments[0], String(call.arguments[1][open...].dropFirst().dropLast()))
    }

    private static func oldTest(_ statement: String) -> String? {
        guard let match = statement.prefixMatch(of: #/tests\[([^\]]*)\]\s*=(?!=)/#) else { return nil }
        let condition = statement[match.range.upperBound...].trimmedMarks
        return "client.test(\(match.1), function() { client.assert(\(condition)); });"
    }

    // MARK: Expectations

    private static func assertion(_ statement: String) -> String? {
        let known = [
            "pm.response.to.be.ok": "response.status >= 200 && response.status < 300",
            "pm.response.to.be.success": "response.status >= 200 && response.status < 300",
            "pm.response.to.be.json": "response.contentType.mimeType.includes(\"json\")",
        ]
        if let condition = known[statement] { return condition }
        if let status = call("pm.response.to.have.status(", statement[...])?.inner {
            return status.allSatisfy(\.isASCIIDigit) ? "response.status === \(status)" : nil
        }
        if let header = call("pm.response.to.have.header(", statement[...]) {
            return "response.headers.valueOf(\(header.inner))"
        }
        guard statement.hasPrefix("pm.expect("), let subject = parentheses(statement.dropFirst(10)) else { return nil }
        return expectation(subject.arguments.first ?? "", subject.rest)
    }

    private static let comparisons = [
        "equal": "===", "equals": "===", "eql": "===", "eq": "===", "below": "<", "lessThan": "<", "lt": "<",
        "above": ">", "greaterThan": ">", "gt": ">", "least": ">=", "gte": ">=", "most": "<=", "lte": "<=",
    ]
    private static let values = [
        "true": "=== true", "false": "=== false", "null": "=== null", "undefined": "=== undefined",
        "exist": "!= null", "ok": "!= null",
    ]

    private static func expectation(_ subject: String, _ rest: Substring) -> String? {
        let chain = rest.prefix { $0 == "." || $0.isLetter }
        let words = chain.split(separator: ".").map(String.init)
        let links = ["to", "be", "have", "at", "deep", "not", "is"]
        let found = call("(", rest.dropFirst(chain.count))
        guard found != nil || chain.endIndex == rest.endIndex, let verb = words.last,
            words.dropLast().allSatisfy(links.contains)
        else { return nil }
        let isNot = words.contains("not")
        guard let call = found, !call.inner.isEmpty else {
            return values[verb].map { "\(isNot ? "!(" : "")\(subject) \($0)\(isNot ? ")" : "")" }
        }
        var condition = comparisons[verb].map { "\(subject) \($0) \(call.inner)" }
        switch verb {
        case "include", "includes", "contain", "contains": condition = "\(subject).includes(\(call.inner))"
        case "property" where call.arguments.count == 1: condition = "\(subject).hasOwnProperty(\(call.inner))"
        case "oneOf": condition = "\(call.inner).includes(\(subject))"
        case "a", "an":
            let isArray = call.inner.filter(\.isLetter) == "array"
            condition = isArray ? "Array.isArray(\(subject))" : "typeof \(subject) === \(call.inner)"
        default: break
        }
        return condition.map { isNot ? "!(\($0))" : $0 }
    }

    // MARK: Parentheses

    private typealias Call = (inner: String, arguments: [String], rest: Substring)

    /// The call that is the complete statement and begins with `start`, which ends with a parenthesis.
    private static func call(_ start: String, _ statement: Substring) -> Call? {
        guard statement.hasPrefix(start), let call = parentheses(statement.dropFirst(start.count)) else { return nil }
        return call.rest.trimmedMarks.isEmpty ? call : nil
    }

    private static func parentheses(_ text: Substring) -> Call? {
        var (nesting, arguments, start) = (Nesting(depth: 1), [String](), text.startIndex)
        for index in text.indices {
            nesting.take(text[index])
            let isComma = text[index] == "," && nesting.depth == 1 && nesting.quote == nil
            guard isComma || nesting.depth == 0 else { continue }
            arguments.append(text[start..<index].trimmed)
            start = text.index(after: index)
            guard nesting.depth == 0 else { continue }
            if arguments.last?.isEmpty == true { arguments.removeLast() }
            return (text[..<index].trimmed, arguments, text[start...])
        }
        return nil
    }
}

extension StringProtocol {
    fileprivate var trimmedMarks: String {
        var text = trimmed
        while text.last == ";" { text = text.dropLast().trimmed }
        return text
    }
}
