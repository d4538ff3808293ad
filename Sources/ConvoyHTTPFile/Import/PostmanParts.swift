// Converts URLs, credentials and bodies of Postman.
import Convoy
import Foundation

/// Converts the `url` of a Postman request: a text, or an object that contains the parts of the URL.
enum PostmanURL {
    static func template(_ url: JSONValue) -> Template {
        var raw = url.string ?? url["raw"]?.string ?? composed(url)
        raw = String(raw.trimmed.prefix { $0 != "#" })
        if let query = url["query"], case .array(let parameters) = query, !parameters.isEmpty {
            let enabled = parameters.filter { $0["disabled"]?.isTrue != true }.map { parameter in
                let value = parameter["value"]?.scalarText
                return (parameter["key"]?.scalarText ?? "") + (value.map { "=" + $0 } ?? "")
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

    /// Returns the value of a path variable such as `:id`, or a placeholder if the variable has no value.
    ///
    /// Any other segment is returned unchanged.
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

/// Converts the `auth` of a Postman request or of its folder, which contains credentials.
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

    /// Adds an `Authorization` field with a user name and a password.
    ///
    /// The field contains `user password`, `user:password` or their base64 encoding.
    private static func authorize(
        _ scheme: String, user: String, _ password: String, _ imported: inout ImportedRequest
    ) {
        guard !user.isEmpty || !password.isEmpty else { return }
        let texts = [user, password].map { Template(postman: $0) }
        let marks = texts.map { template in
            template.parts.map { part in if case .text(let text) = part { text } else { "" } }.joined()
        }
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

/// Converts the `body` of a Postman request.
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
            let isJSON = source.utf8.first { !$0.isBlank }.map { "{[".utf8.contains($0) } ?? false
            let text = Template(postman: isJSON ? source.replacing("\r\n", with: "\n").trimmed : source)
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
                enabled(content).map { field in
                    let values = ["key", "value"].map { Template(postman: field[$0]?.scalarText ?? "") }
                    return (values[0].formEncoded, values[1].formEncoded)
                })
        case "formdata": imported.setParts(enabled(content).flatMap(parts))
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

    private static func enabled(_ fields: JSONValue?) -> [JSONValue] {
        fields?.elements.filter { $0["disabled"]?.isTrue != true } ?? []
    }

    /// The parts of a form field: one for its text, or one for each of its files.
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

extension Template {
    fileprivate var formEncoded: Template { mappingText { Template($0.formEncoded) } }
}
