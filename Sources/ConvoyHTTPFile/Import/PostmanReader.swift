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
        let info = collection["info"]
        reader.file.title = info?["name"]?.string ?? ""
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
            guard let request = item["request"] else {
                guard let inner = item["item"] else {
                    file.notes.append("\(name.shown) is omitted: it is neither a request nor a folder")
                    continue
                }
                readVariables(item["variable"])
                var scope = scope
                scope.folders.append(name)
                scope.auth = item["auth"].flatMap { $0 == .null ? nil : $0 } ?? scope.auth
                scope.hasScripts = scope.hasScripts || PostmanScript.hasCode(item)
                read(inner.elements, scope)
                continue
            }
            read(request, item, name, scope)
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
        if item["protocolProfileBehavior"]?["followRedirects"] == .bool(false) {
            imported.request.followsRedirects = false
        }
        if item["protocolProfileBehavior"]?["disableCookies"]?.isTrue == true { imported.request.usesCookieJar = false }
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
        self.init()
        var rest = text[...]
        while let open = rest.firstRange(of: "{{"), let close = rest[open.upperBound...].firstRange(of: "}}") {
            var (start, source) = (open.lowerBound, rest[open.upperBound..<close.lowerBound])
            // Only the two innermost braces form a placeholder: {"a":{{{name}}}}.
            while source.first == "{" {
                source = source.dropFirst()
                start = rest.index(after: start)
            }
            append(String(rest[..<start]))
            if source.trimmed.isEmpty || source.contains(where: { "{\n".contains($0) }) {
                append("{{\(source)}}")
            } else {
                append(Template(placeholder: String(source).postmanName))
            }
            rest = rest[close.upperBound...]
        }
        append(String(rest))
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
        var template = Template()
        let path = raw.firstIndex(of: "?") ?? raw.endIndex
        for (place, segment) in raw[..<path].split(separator: "/", omittingEmptySubsequences: false).enumerated() {
            if place > 0 { template.append("/") }
            template.append(Template(postman: value(of: segment, url["variable"]?.elements ?? [])))
        }
        template.append(Template(postman: String(raw[path...])))
        for place in template.parts.indices {
            guard case .text(let text) = template.parts[place] else { continue }
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
                    let values = ["key", "value"].map { Template(postman: field[$0]?.scalarText ?? "") }
                    return (values[0].formEncoded, values[1].formEncoded)
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

struct PostmanScript {
    private var kept: [String] = []
    private var left: [String] = []
    private var names: Set<String> = []

    static func apply(_ events: JSONValue?, to imported: inout ImportedRequest) {
        // Postman runs the scripts of several events one after another, so they become one handler.
        var script = PostmanScript()
        for event in events?.enabled ?? [] {
            let code = code(of: event)
            guard !code.isEmpty else { continue }
            if event["listen"]?.string == "test" {
                for statement in ScriptStatements.split(code) { script.take(statement) }
            } else {
                imported.notes += ScriptStatements.split(code).map { "omitted from its pre-request script: \($0)" }
            }
        }
        script.check()
        imported.handler = script.kept.flatMap { $0.split(whereSeparator: \.isNewline).map(String.init) }
        imported.notes += script.left.map { "omitted from its script: \($0)" }
    }

    static func hasCode(_ item: JSONValue) -> Bool {
        item["event"]?.elements.contains { !ScriptStatements.split(code(of: $0)).isEmpty } ?? false
    }

    private static func code(of event: JSONValue) -> String {
        let exec = event["script"]?["exec"]
        let text = exec?.string ?? exec?.elements.compactMap(\.string).joined(separator: "\n") ?? ""
        // The scalars are filtered, because CR and LF together are one `Character`.
        return String(String.UnicodeScalarView(text.unicodeScalars.filter { $0 != "\r" }))
    }

    /// If the reader rejects a test, `kept` gets a test with the accepted statements of the original.
    private mutating func take(_ statement: String) {
        let translated = PostmanWords.translated(statement)
        if let names = Self.names(in: translated, after: names) {
            self.names.formUnion(names)
            return kept.append(translated)
        }
        guard let test = PostmanWords.test(statement) else { return left.append(statement) }
        var (inner, others, known) = ([String](), [String](), names)
        for statement in ScriptStatements.split(test.body) {
            let translated = PostmanWords.translated(statement)
            if let names = Self.names(in: translated, after: known) {
                known.formUnion(names)
                inner.append(translated)
            } else {
                others.append(statement)
            }
        }
        let candidate = Self.test(test.name, inner)
        guard !inner.isEmpty, Self.names(in: candidate, after: names) != nil else { return left.append(statement) }
        kept.append(candidate)
        left += others
    }

    private mutating func check() {
        guard !kept.isEmpty, Self.names(in: kept.joined(separator: "\n"), after: []) == nil else { return }
        (kept, left) = ([], kept + left)
    }

    private static func test(_ name: String, _ statements: [String]) -> String {
        "client.test(\(name), function() {\n" + statements.map { "    \($0)\n" }.joined() + "});"
    }

    private static func names(in text: String, after names: Set<String>) -> [String]? {
        guard !text.contains("%}"), !text.contains("\n###"), !text.hasPrefix("###"),
            let script = try? ScriptReader.read(text, at: .start, after: names)
        else { return nil }
        return script.statements.compactMap { if case .constant(let name, _) = $0.action { name } else { nil } }
    }
}

enum ScriptStatements {
    static func split(_ code: String) -> [String] {
        var (statements, text, nesting) = ([String](), "", Nesting())
        var rest = code[...]
        func end() {
            let statement = text.trimmed
            if !statement.isEmpty { statements.append(statement) }
            text = ""
        }
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
            if character == ";" || !goesOn(text.last { !$0.isWhitespace }, rest) { end() }
        }
        end()
        return statements
    }

    private static func goesOn(_ last: Character?, _ rest: Substring) -> Bool {
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
            let inner = ScriptStatements.split(test.body).map { "    \(translated($0, depth: depth + 1))\n" }.joined()
            return "client.test(\(test.name), function() {\n\(inner)});"
        }
        if let check = oldTest(text) { return check }
        return assertion(text) ?? text
    }

    static func test(_ statement: String) -> (name: String, body: String)? {
        guard let start = ["pm.test(", "client.test("].first(where: statement.hasPrefix),
            let arguments = inside(statement.dropFirst(start.count)), arguments.rest.trimmedMarks.isEmpty
        else { return nil }
        let parts = topLevel(arguments.inner)
        guard parts.count == 2, let open = parts[1].firstIndex(of: "{"), parts[1].last == "}" else { return nil }
        return (parts[0], String(parts[1][parts[1].index(after: open)...].dropLast()))
    }

    private static func oldTest(_ statement: String) -> String? {
        guard statement.hasPrefix("tests["), let close = statement.firstIndex(of: "]") else { return nil }
        let name = statement[statement.index(statement.startIndex, offsetBy: 6)..<close]
        let rest = statement[statement.index(after: close)...].trimmed
        guard rest.hasPrefix("="), !rest.hasPrefix("==") else { return nil }
        return "client.test(\(name), function() { client.assert(\(rest.dropFirst().trimmedMarks)); });"
    }

    // MARK: Expectations

    private static func assertion(_ statement: String) -> String? {
        let fixed = statement.trimmedMarks
        let known = [
            "pm.response.to.be.ok": "response.status >= 200 && response.status < 300",
            "pm.response.to.be.success": "response.status >= 200 && response.status < 300",
            "pm.response.to.be.json": "response.contentType.mimeType.includes(\"json\")",
        ]
        if let condition = known[fixed] { return "client.assert(\(condition));" }
        for (start, condition) in [
            ("pm.response.to.have.status(", "response.status === "),
            ("pm.response.to.have.header(", "response.headers.valueOf("),
        ] {
            guard fixed.hasPrefix(start), let arguments = inside(fixed.dropFirst(start.count)), arguments.rest.isEmpty
            else { continue }
            if condition.hasSuffix("(") { return "client.assert(\(condition)\(arguments.inner)));" }
            guard arguments.inner.allSatisfy(\.isASCIIDigit) else { return nil }
            return "client.assert(\(condition)\(arguments.inner));"
        }
        guard fixed.hasPrefix("pm.expect("), let subject = inside(fixed.dropFirst(10)) else { return nil }
        return expectation(topLevel(subject.inner).first ?? "", subject.rest).map { "client.assert(\($0));" }
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
        var (words, argument, rest) = ([String](), String?.none, rest)
        while rest.first == "." {
            let word = rest.dropFirst().prefix { $0.isLetter }
            words.append(String(word))
            rest = rest.dropFirst(word.count + 1)
        }
        if rest.first == "(" {
            guard let arguments = inside(rest.dropFirst()), arguments.rest.isEmpty else { return nil }
            argument = arguments.inner
        } else if !rest.isEmpty {
            return nil
        }
        let links = ["to", "be", "have", "at", "deep", "not", "is"]
        guard let verb = words.last, words.dropLast().allSatisfy(links.contains) else { return nil }
        let isNot = words.contains("not")
        guard let argument, !argument.isEmpty else {
            return values[verb].map { "\(isNot ? "!(" : "")\(subject) \($0)\(isNot ? ")" : "")" }
        }
        var condition: String?
        if let comparison = comparisons[verb] { condition = "\(subject) \(comparison) \(argument)" }
        switch verb {
        case "include", "includes", "contain", "contains": condition = "\(subject).includes(\(argument))"
        case "property" where topLevel(argument).count == 1: condition = "\(subject).hasOwnProperty(\(argument))"
        case "oneOf": condition = "\(argument).includes(\(subject))"
        case "a", "an":
            let kind = argument.filter(\.isLetter)
            condition = kind == "array" ? "Array.isArray(\(subject))" : "typeof \(subject) === \(argument)"
        default: break
        }
        return condition.map { isNot ? "!(\($0))" : $0 }
    }

    // MARK: Parentheses

    private static func inside(_ text: Substring) -> (inner: String, rest: Substring)? {
        var nesting = Nesting(depth: 1)
        for index in text.indices {
            nesting.take(text[index])
            if nesting.depth == 0 { return (text[..<index].trimmed, text[text.index(after: index)...]) }
        }
        return nil
    }

    private static func topLevel(_ text: String) -> [String] {
        var (parts, part, nesting) = ([String](), "", Nesting())
        for character in text {
            nesting.take(character)
            if character == ",", nesting.depth == 0, nesting.quote == nil {
                parts.append(part.trimmed)
                part = ""
            } else {
                part.append(character)
            }
        }
        return parts + (part.trimmed.isEmpty ? [] : [part.trimmed])
    }
}

extension StringProtocol {
    fileprivate var trimmedMarks: String {
        var text = trimmed
        while text.last == ";" { text = text.dropLast().trimmed }
        return text
    }
}
