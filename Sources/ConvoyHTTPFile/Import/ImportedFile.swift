import Convoy

package struct ImportedFile: Sendable {
    package struct Variable: Sendable {
        package var name: String
        package var value: Template
        package var isSecret = false
    }

    package struct Attachment: Sendable {
        package var path: String
        package var bytes: [UInt8]
    }

    package var title = ""
    package var requests: [ImportedRequest] = []
    package var variables: [Variable] = []
    package var notes: [String] = []

    package init() {}

    package struct Wishes: Sendable {
        /// In a pattern, `*` matches any characters; an empty list imports the requests of all hosts.
        package var hosts: [String] = []
        package var keepsAssets = false
        package var keepsSecrets = false
        package init() {}
    }

    package init(reading bytes: [UInt8], _ wishes: Wishes = Wishes()) throws(Defect) {
        let first = bytes.dropFirst(bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0).first { !$0.isBlank }
        switch first {
        case nil: throw Defect("the document is empty", Self.kinds)
        case UInt8(ascii: "{"), UInt8(ascii: "["): self = try Self.json(bytes, wishes)
        default:
            guard let text = String(validating: bytes, as: UTF8.self), !bytes.contains(0) else {
                throw Defect("the document is not UTF-8 text", Self.kinds)
            }
            self = try CurlReader.read(text)
        }
        guard !requests.isEmpty else { throw Defect("the document contains no request", Self.kinds) }
        keepHosts(wishes.hosts)
        guard !requests.isEmpty else {
            throw Defect("no request goes to \(wishes.hosts.joined(separator: " or "))", "give another --host")
        }
        disableUnsendable()
        nameRequests()
        breakCycles()
        findChains()
        takeSecrets(keepsValues: wishes.keepsSecrets)
    }

    static let kinds = "give a HAR, a Postman collection (v2.1 or v2.0) or curl commands"

    private static func json(_ bytes: [UInt8], _ wishes: Wishes) throws(Defect) -> ImportedFile {
        let root: JSONValue
        do throws(JSONReader.Defect) { root = try JSONReader.read(bytes) } catch {
            throw Defect("the document is not JSON: \(error.description)", Self.kinds)
        }
        if let log = root["log"] { return try HARReader.read(log, keepsAssets: wishes.keepsAssets) }
        let collection = root["collection"] ?? root
        if collection["item"] != nil { return try PostmanReader.read(collection) }
        if collection["requests"] != nil, collection["order"] != nil || collection["folders"] != nil {
            throw Defect("this is a Postman collection of version 1", "export it from Postman as v2.1")
        }
        throw Defect("the document is neither a HAR nor a Postman collection", kinds)
    }

    private mutating func keepHosts(_ patterns: [String]) {
        guard !patterns.isEmpty else { return }
        requests = requests.filter { imported in
            // A host that contains a variable may match any pattern.
            guard let host = imported.request.target.host else { return true }
            return patterns.contains { host.matches(pattern: $0.lowercased()) }
        }
    }

    /// A URL whose scheme or host depends on a variable is not checked.
    mutating func disableUnsendable() {
        for index in requests.indices {
            let target = requests[index].request.target
            guard target.host != nil || target.placeholders.isEmpty else { continue }
            let text = target.parts.map { $0.string ?? "1" }.joined()
            let url = text.schemeEnd == nil ? "http://" + text : text
            let scheme = url.prefix { $0 != ":" }.lowercased()
            if ["http", "https"].contains(scheme), url.originText != nil { continue }
            requests[index].request.isDisabled = true
            requests[index].notes.append("it is disabled: its URL is neither http nor https")
        }
    }

    // In a cycle, Postman uses the value of a variable from an earlier run. Here, `{{t}}` becomes `{{t_before}}`,
    // which the user sets.
    mutating func breakCycles() {
        let setters = Globals(requests.map(\.changes))
        var needs = requests.indices.map { index in
            requests[index].request.templates.variables().compactMap { name in
                setters.setter(of: name, for: index).map { (name, $0) }
            }
        }
        for index in requests.indices {
            // In file order, the first request of a cycle uses a variable that a later request sets. Renaming it
            // breaks the cycle.
            for (name, setter) in needs[index] where setter > index && reaches(index, from: setter, needs) {
                requests[index].rename(name, to: name + "_before")
                needs[index].removeAll { $0.0 == name }
            }
        }
    }

    /// Requests before `goal` are not searched, because their cycles are broken already.
    private func reaches(_ goal: Int, from start: Int, _ needs: [[(String, Int)]]) -> Bool {
        var (open, seen) = ([start], Set<Int>())
        while let next = open.popLast() {
            if next == goal { return true }
            if next > goal, seen.insert(next).inserted { open += needs[next].map(\.1) }
        }
        return false
    }

    mutating func nameRequests() {
        var names = UniqueNames()
        for index in requests.indices {
            let title = requests[index].request.title?.text ?? ""
            let base = title.split(separator: " / ").last.map { String($0).requestName } ?? "request"
            requests[index].request.name = Word(text: names.take(base))
        }
    }

    /// Puts a prefix before the name of each attachment, so that two imports do not share a file.
    package mutating func nameAttachments(after stem: String) {
        for index in requests.indices {
            guard let path = requests[index].attachment?.path else { continue }
            requests[index].request.body = [.file(FileReference("\(stem)-\(path)"))]
        }
    }

    package var attachments: [Attachment] { requests.compactMap(\.attachment) }

    package var bodyFiles: [String] {
        var seen = Set(attachments.map(\.path))
        return requests.flatMap(\.request.body).compactMap(\.path).filter { seen.insert($0).inserted }
    }

    package var unsetVariables: [String] {
        let known = variables.map(\.name) + requests.flatMap(\.changes).filter(\.sets).compactMap(\.name)
        return (variables.map(\.value) + requests.flatMap(\.request.templates)).variables(besides: Set(known))
    }
}

package struct ImportedRequest: Sendable {
    package var request: FileRequest
    package var handler: [String] = []
    package var notes: [String] = []
    var secretNames: Set<String> = []
    var answer: ImportedAnswer?
    var bytes: [UInt8]?

    init(_ request: FileRequest = FileRequest()) { self.request = request }

    fileprivate var attachment: ImportedFile.Attachment? {
        guard let bytes, let path = request.body.first?.path else { return nil }
        return ImportedFile.Attachment(path: path, bytes: bytes)
    }

    var changes: [(name: String?, sets: Bool)] {
        handler.isEmpty ? [] : (try? ScriptReader.read(handler.joined(separator: "\n"), at: .start))?.changes ?? []
    }

    fileprivate mutating func rename(_ name: String, to other: String) {
        request.mapTemplates { template, _ in
            template.parts.reduce(into: Template()) { result, part in
                if case .placeholder(let placeholder) = part, case .variable(name, _) = placeholder.expression {
                    result.append(Template(placeholder: other))
                } else {
                    result.parts.append(part)
                }
            }
        }
    }

    mutating func addField(_ name: String, _ value: Template) {
        guard name.isFieldName, !name.hasPrefix("#") else {
            return notes.append("the field \(name.shown) is omitted: its name is invalid")
        }
        guard !value.parts.compactMap(\.string).joined().utf8.contains(where: { [0, 0x0A, 0x0D].contains($0) }) else {
            return notes.append("the field \(name) is omitted: its value contains a line end")
        }
        request.addField(name, value.trimmed)
    }

    mutating func setMethod(_ method: String) {
        request.method = method
        guard !HTTPFileReader.methods.contains(method) || method == "GRAPHQL" else { return }
        request.method = "GET"
        request.isDisabled = true
        notes.append("the method was \(method.shown), which convoy cannot send")
    }

    /// Each field is a name and a value.
    mutating func setForm(_ fields: [[Template]]) {
        var text = Template()
        for (place, field) in fields.enumerated() {
            text.append(place > 0 ? "&" : "")
            text.append(field[0])
            text.append("=")
            text.append(field[1])
        }
        request.bodyKind = .form
        request.body = text.parts.isEmpty ? [] : [.text(text)]
        setType("application/x-www-form-urlencoded")
    }

    mutating func setType(_ type: String) {
        if request.field("content-type") == nil { addField("Content-Type", Template(type)) }
    }

    mutating func completeBody() {
        guard ["HEAD", "TRACE"].contains(request.method), !request.body.isEmpty else { return }
        (request.body, request.graphQLVariables, request.bodyKind) = ([], [], .plain)
        notes.append("its body is omitted: a \(request.method) request has none")
    }
}

struct ImportedAnswer: Sendable {
    let fields: [(name: String, value: String)]
    let json: JSONValue?
}

extension FileRequest {
    var bodyText: Template? {
        var text = Template()
        for part in body {
            guard case .text(let more) = part else { return nil }
            text.append(more)
        }
        return text
    }
}

extension [Template] {
    fileprivate func variables(besides known: Set<String> = []) -> [String] {
        var seen = known
        return flatMap(\.placeholders).compactMap { placeholder in
            guard case .variable(let name, _) = placeholder.expression, seen.insert(name).inserted else { return nil }
            return name
        }
    }
}

extension Template {
    init(placeholder source: String) {
        self.init("{{\(source)}}")
        guard let expression = try? Expression(source) else { return }
        parts = [.placeholder(Placeholder(source: source, position: .start, expression: expression))]
    }

    var host: String? {
        guard let start = prefixText.schemeEnd, case let authority = prefixText[start...].authority,
            authority.endIndex < prefixText.endIndex || parts.count == 1
        else { return nil }
        return (authority.split(separator: "@").last ?? authority).prefix { $0 != ":" }.lowercased()
    }

    var trimmed: Template {
        var template = self
        if let text = parts.first?.string { template.parts[0] = .text(String(text.drop(while: \.isWhitespace))) }
        if let text = template.parts.last?.string {
            template.parts[parts.count - 1] = .text(String(text.reversed().drop(while: \.isWhitespace).reversed()))
        }
        template.parts.removeAll { $0 == .text("") }
        return template
    }
}

extension String {
    package func matches(pattern: String) -> Bool {
        let parts = pattern.split(separator: "*", omittingEmptySubsequences: false)
        guard parts.count > 1, let first = parts.first, let last = parts.last else { return self == pattern }
        guard hasPrefix(first), hasSuffix(last), utf8.count >= first.utf8.count + last.utf8.count else { return false }
        var rest = dropFirst(first.count).dropLast(last.count)
        for part in parts.dropFirst().dropLast() where !part.isEmpty {
            guard let range = rest.firstRange(of: part) else { return false }
            rest = rest[range.upperBound...]
        }
        return true
    }

    var importedURL: String {
        let text = prefix { $0 != "#" }
        let path = text[(text.schemeEnd ?? text.startIndex)...].authority.endIndex
        return text[..<path].filter { !$0.isWhitespace } + PercentEscaper.url.escaped(String(text[path...]))
    }

    fileprivate var requestName: String {
        let segments = split { $0 == "/" }
        let telling = segments.filter { !$0.isIdentifier }
        let all = (telling.isEmpty ? segments : telling).flatMap { segment in
            segment.split { !($0.isLetter || $0.isNumber || $0 == "_") }.map { $0.lowercased() }
        }
        let chosen = all.count > 5 ? all.prefix(1) + all.suffix(4) : all[...]
        let name = String(chosen.joined(separator: "_").prefix(48))
        return name.isRequestName ? name : "request"
    }
}

struct UniqueNames {
    private var taken: Set<String>
    private var numbers: [String: Int] = [:]

    init(taken: some Sequence<String> = []) { self.taken = Set(taken) }

    mutating func take(_ base: String) -> String {
        var (name, number) = (base, numbers[base, default: 0])
        repeat {
            number += 1
            if number > 1 { name = "\(base)_\(number)" }
        } while !taken.insert(name).inserted
        numbers[base] = number
        return name
    }
}

extension Substring {
    fileprivate var isIdentifier: Bool {
        let digits = utf8.count { (0x30...0x39).contains($0) }
        return digits > 0 && !contains(" ") && (digits * 3 >= utf8.count || utf8.count > 20)
    }
}
