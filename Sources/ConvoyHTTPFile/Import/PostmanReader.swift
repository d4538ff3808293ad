// Reads Postman collections, versions 2.0 and 2.1.
import Convoy

/// Reads the requests of a collection, one folder after another.
struct PostmanReader {
    /// The settings that a folder passes on to its requests.
    struct Scope {
        var folders: [String] = []
        var auth: JSONValue?
        /// Whether the collection or an enclosing folder has scripts, which are omitted.
        var hasScripts = false
    }

    private var file = ImportedFile()

    static func read(_ collection: JSONValue) throws(ImportFailure) -> ImportedFile {
        guard case .array? = collection["item"] else {
            throw ImportFailure(
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
        for variable in variables?.elements ?? [] where variable["disabled"]?.isTrue != true {
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
        imported.request.title = Word(text: title, position: imported.request.position)
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

    /// Adds a note for each placeholder that would read the environment in an `.http` file: `{{$processEnv X}}`.
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
        for field in header?.elements ?? [] where field["disabled"]?.isTrue != true {
            guard let key = field["key"]?.scalarText, !key.isEmpty else { continue }
            imported.addField(key.trimmed, Template(postman: field["value"]?.scalarText ?? ""))
        }
    }
}

extension Template {
    /// Parses a text that contains Postman's `{{…}}`.
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
}

extension String {
    /// The built-in variables of Postman that have the same meaning in `.http` files.
    private static let postmanNames: Set = ["$guid", "$timestamp", "$isoTimestamp", "$randomInt"]

    /// The name of a Postman variable as a valid name in the file.
    ///
    /// A built-in variable such as `$guid` keeps its `$`. Any other variable loses it, because `{{$processEnv X}}` of a
    /// foreign collection must not read this process's environment.
    var postmanName: String {
        let name = trimmed
        if Self.postmanNames.contains(name) { return name }
        let plain = name.drop { $0 == "$" }
        return String(plain).isVariableName ? String(plain) : String(plain).variableName
    }
}
