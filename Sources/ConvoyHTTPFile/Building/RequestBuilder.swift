import Convoy
import Foundation

/// A value of a response or a row is data: it cannot add a header field, change the host that the text around it names,
/// name a file outside the output directory, or be parsed as a template.
struct RequestBuilder {
    let planned: PlannedRequest
    let surroundings: Surroundings
    let row: [String: String]
    let exchange: (String) -> Exchange?

    private let parsed = ParsedBodies()

    struct Filled {
        var text: String
        let piece: Piece

        /// The placeholder of a value of a response or a row.
        var value: String? {
            switch piece.source {
            case .answer(let reference): "{{\(reference.source)}}"
            case .column(let name): "{{\(name)}}"
            case .text, .system: nil
            }
        }
        var answerer: String? { piece.reference?.name }
        var encoding: ValueEncoding { piece.encoding }
        var depth: Int { piece.depth }
        var placeholder: Placeholder? { piece.placeholder }

        var asPart: String { value == nil || encoding != .byPlace ? text : text.percentEncoded }
    }

    func build() throws(Defect) -> BuiltRequest {
        let (url, isLedAway) = try url()
        var built = BuiltRequest(method: planned.method, url: url, isLedAway: isLedAway)
        for field in planned.fields { try add(field, to: &built) }
        try addBody(to: &built)
        if let output = planned.output { built.output = (try path(output.path), output.replaces) }
        guard !planned.isKnown else { return built }
        let secrets = planned.pieces.filter {
            !$0.isKnown && ($0.shown.namesSecret || $0.shown.lowercased().contains("cookie"))
        }
        built.secrets = Set(try fill(secrets).map(\.text))
        return built
    }

    func fill(_ pieces: [Piece]) throws(Defect) -> [Filled] {
        try pieces.map { (piece) throws(Defect) in
            let text = try text(of: piece)
            return Filled(text: piece.encoding == .always ? text.percentEncoded : text, piece: piece)
        }
    }

    private func text(of piece: Piece) throws(Defect) -> String {
        switch piece.source {
        case .text(let text): return text
        case .system(let variable): return variable.value(at: surroundings.now()) ?? ""
        case .answer(let reference):
            if let exchange = exchange(reference.name) { return try exchange.value(of: reference, parsed) }
            throw Defect("{{\(reference.source)}}: \(reference.name) has no response")
        case .column(let name):
            if let text = row[name] { return text }
            throw Defect("{{\(name)}}: the row has no \(name)")
        }
    }

    // MARK: Header fields

    private func add(_ field: (name: String, value: [Piece]), to built: inout BuiltRequest) throws(Defect) {
        let filled = try fill(field.value)
        for piece in filled where piece.text.unicodeScalars.contains(where: { "\r\n\0".unicodeScalars.contains($0) }) {
            let whose = piece.value.map { "the value of \($0)" } ?? "the value of the field \(field.name)"
            throw Defect("\(whose) contains a line end or a NUL character, which a header field cannot have")
        }
        let value = filled.map(\.text).joined().trimmed
        try checkSeparators(in: filled, of: field.name, value)
        let isSecret = field.value.contains { $0.isSecret } || filled.contains { $0.value != nil }
        let isAuthorization = field.name.lowercased() == "authorization"
        guard isAuthorization, let (isDigest, user, password) = try Self.credentials(value) else {
            return built.fields.add(field.name, value, isSecret: isSecret || isAuthorization)
        }
        if isDigest {
            built.digest = (user, password)
        } else {
            let encoded = Data("\(user):\(password)".utf8).base64EncodedString()
            built.fields.add(field.name, "Basic " + encoded, isSecret: true)
        }
    }

    /// The parts of a value that is not sent as it is written; AWS and Cognito signatures are rejected.
    private static func credentials(
        _ value: String
    ) throws(Defect) -> (isDigest: Bool, user: String, password: String)? {
        let words = value.split(maxSplits: 1, whereSeparator: \.isWhitespace)
        let scheme = words.first?.lowercased() ?? ""
        let rest = words.dropFirst().first?.drop(while: \.isWhitespace) ?? ""
        if scheme == "aws" || scheme == "cognito", rest.contains(where: \.isWhitespace) {
            throw Defect(
                "\(scheme.uppercased()) signatures are not supported", "sign with curl --aws-sigv4, or send a token")
        }
        // A user name has no colon (RFC 7617), but a password may have colons and blanks.
        guard scheme == "basic" || scheme == "digest",
            let end = rest.firstIndex(where: { $0 == ":" || $0.isWhitespace })
        else { return nil }
        let last = rest[end...].dropFirst()
        return (
            scheme == "digest", String(rest[..<end]), String(rest[end] == ":" ? last : last.drop(while: \.isWhitespace))
        )
    }

    private func checkSeparators(in filled: [Filled], of name: String, _ value: String) throws(Defect) {
        let base = filled.map(\.depth).min() ?? 0
        var (places, separators) = (filled[...], ";")
        switch (name.lowercased(), value.prefix { !$0.isWhitespace }.lowercased()) {
        case ("cookie", _): break
        case ("authorization", "basic"), ("authorization", "digest"):
            separators = ": \t"
            let end = filled.lastIndex { $0.depth == base && $0.text.utf8.contains { separators.utf8.contains($0) } }
            places = filled[..<(end ?? 0)]
        default: return
        }
        for piece in places where piece.depth > base && piece.encoding != .never {
            guard piece.text.utf8.contains(where: { separators.utf8.contains($0) }) else { continue }
            let source = piece.placeholder?.source ?? ""
            throw Defect(
                "the value of {{\(source)}} contains a separator of \(name), so it is more than one value",
                "write {{&…}} if it is meant to", placeholder: piece.placeholder)
        }
    }

    // MARK: Output

    private func path(_ pieces: [Piece]) throws(Defect) -> String {
        let filled = try fill(pieces)
        for piece in filled {
            guard let answer = piece.value, let defect = OutputPath.defect(ofValue: piece.text) else { continue }
            throw Defect("the value of \(answer) \(defect), so it cannot be part of a file name")
        }
        let path = filled.map(\.text).joined()
        if let defect = OutputPath.defect(path) {
            throw Defect("the output \(pieces.shown.shown) \(defect)", "nothing was sent")
        }
        return path
    }

    // MARK: Body

    private func addBody(to built: inout BuiltRequest) throws(Defect) {
        guard !planned.body.isEmpty else { return }
        if planned.request.bodyKind == .graphQL {
            built.body = [.bytes(Array(try graphQL().utf8))]
            if !built.fields.contains("content-type") { built.fields.add("Content-Type", "application/json") }
            return
        }
        // A second field is sent too, but says nothing of the body.
        let type = built.fields.values(of: "content-type").first
        let isForm = planned.request.bodyKind == .form
        var body = BodyText(planned.body, type: type, isForm ? .form : nil)
        for part in planned.body {
            switch part {
            case .text(let pieces):
                var text = try body.text(of: fill(pieces))
                if isForm { text = PercentEscaper.url.escaped(text) }
                if isForm, text.hasSuffix("&") { text.removeLast() }
                built.body.append(.bytes(Array(text.utf8)))
            case .file(let path, _): built.body.append(.file(path))
            }
        }
    }

    private func graphQL() throws(Defect) -> String {
        let query = try content(planned.body, .graphQL)
        var json: JSONValue = ["query": .string(query)]
        let words = query.split { $0.isWhitespace || "({@".contains($0) }.prefix(2).map(String.init)
        if words.count == 2, ["query", "mutation", "subscription"].contains(words[0]), words[1].isRequestName,
            query.drop(while: { $0 != " " }).trimmed.hasPrefix(words[1])
        {
            json.append("operationName", .string(words[1]))
        }
        let variables = try content(planned.graphQLVariables, .json)
        guard !variables.isEmpty else { return json.json }
        do throws(JSONReader.Defect) { json.append("variables", try JSONReader.read(Array(variables.utf8))) } catch {
            throw Defect("the variables of the query are not JSON: \(error.what)", "write {\"name\": \"value\"}")
        }
        return json.json
    }

    private func content(_ parts: [PlannedRequest.Part], _ syntax: BodyText.Syntax) throws(Defect) -> String {
        var (body, content) = (BodyText(parts, type: nil, syntax), "")
        for part in parts {
            switch part {
            case .text(let pieces): content += try body.text(of: fill(pieces))
            case .file(let path, _):
                do throws(Unreadable) {
                    content += String(decoding: try surroundings.readFile(path), as: UTF8.self)
                } catch { throw Defect("the file \(path.shown) cannot be read: \(error.reason)") }
            }
        }
        return content.trimmed
    }

    private typealias Placed = (filled: Filled, bytes: Range<Int>)

    func url() throws(Defect) -> (url: URL, isLedAway: Bool) {
        var (url, placed) = ("", [Placed]())
        let filled = try fill(planned.target)
        for (place, piece) in filled.enumerated() {
            let start = url.utf8.count
            let next = place + 1 < filled.count ? filled[place + 1].text : ""
            url += try text(of: piece, behind: url, before: next)
            placed.append((piece, start..<url.utf8.count))
        }
        try checkPath(placed, url)
        let spelled = try spelled((url.schemeEnd == nil ? "http://" + url : url).trimmed)
        return (spelled, try checkServer(placed, url, spelled))
    }

    private func text(of piece: Filled, behind url: String, before next: String) throws(Defect) -> String {
        guard let value = piece.value, !url.isEmpty else { return piece.text }
        if url.isBehindAuthority {
            // Fragments are not sent, so the text after a # in a value would be lost. Therefore each # is encoded.
            return piece.encoding == .never ? piece.text.hashesEncoded : piece.asPart
        }
        if let start = url.schemeEnd, !piece.text.mayFollow(host: url[start...], before: next) {
            throw Defect(
                "\(value) would change the host: its value is more than a name",
                "write {{…}} for the whole URL, or / before it")
        }
        return piece.text.hashesEncoded
    }

    private func spelled(_ url: String) throws(Defect) -> URL {
        let scheme = Substring(url.utf8.prefix { $0 != UInt8(ascii: ":") }).lowercased()
        guard scheme == "http" || scheme == "https" else {
            throw Defect(
                "\(planned.shownTarget.shown) is not an http or https URL", "write https://example.com/path")
        }
        let authority = url.utf8.dropFirst(scheme.utf8.count + 3).prefix { !"/?#\\".utf8.contains($0) }
        let host = authority.lastIndex(of: UInt8(ascii: "@")).map { authority[$0...].dropFirst() } ?? authority
        guard let first = host.first, first != UInt8(ascii: ":") else {
            throw Defect("the URL \(planned.shownTarget.shown) has no host", "write https://example.com/path")
        }
        guard let spelled = url.requestURL else {
            throw Defect("\(planned.shownTarget.shown) is not a URL", "write https://example.com/path")
        }
        if case .failure(let defect) = spelled.origin {
            throw Defect("the URL \(planned.shownTarget.shown) \(defect.words)", "write https://example.com/path")
        }
        return spelled
    }

    private func checkPath(_ placed: [Placed], _ url: String) throws(Defect) {
        guard placed.contains(where: { $0.filled.value != nil }) else { return }
        let bytes = Array(url.utf8)
        let path = URLParts(url).path
        var start = path.lowerBound
        for segment in bytes[path].split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            let range = start..<start + segment.count
            start = range.upperBound + 1
            let text = String(decoding: segment, as: UTF8.self).lowercased().replacing("%2e", with: ".")
            guard text == "." || text == ".." else { continue }
            // A value that contains the start of the path is a path itself, so it may contain `..`.
            let value = placed.first { place in
                place.filled.value != nil && place.filled.encoding != .never
                    && place.bytes.lowerBound > path.lowerBound && place.bytes.overlaps(range)
            }
            guard let value = value?.filled.value else { continue }
            throw Defect(
                "the value of \(value) turns a part of the path into \(text), which leads to another path",
                "write {{&…}} if a value may be several parts of a path")
        }
    }

    // MARK: Secrets

    // Throws if a response's value would lead a secret to another server. Returns whether a value leads to another
    // server.
    private func checkServer(_ placed: [Placed], _ written: String, _ url: URL) throws(Defect) -> Bool {
        let hosts = planned.fields.filter { $0.name.lowercased() == "host" }
        let answers = placed.filter { $0.filled.answerer != nil }
        guard !answers.isEmpty || !hosts.isEmpty else { return false }
        let parts = URLParts(written)
        var namers = answers.filter { parts.names($0.bytes) }.map(\.filled)
        guard !namers.isEmpty || !hosts.isEmpty else { return false }
        let url = url.absoluteString
        var origins = [url.originText]
        // The `Host` field selects a virtual server, and HTTP/2 uses it in place of the URL's host.
        for field in hosts {
            let host = try fill(field.value)
            let answers = host.filter { $0.answerer != nil && !$0.text.isEmpty }
            guard !answers.isEmpty else { continue }
            namers += answers
            origins.append((url.prefix { $0 != ":" } + "://" + host.map(\.text).joined().trimmed).originText)
        }
        let origin = origins.last.flatMap { $0 }
        guard let stranger = namers.first(where: { namer in origins.contains { !isOrigin($0, of: namer) } }) else {
            return false
        }
        if let secret = secret(from: placed, parts, besides: Set(namers.compactMap(\.answerer)), origin) {
            throw Defect(
                "\(stranger.value ?? "") leads to another server, \((origin ?? url).shown), which would get \(secret)",
                "write the host in the URL, or remove the secret")
        }
        return true
    }

    private func isOrigin(_ origin: String?, of answer: Filled) -> Bool {
        guard let origin, let request = answer.answerer.flatMap(exchange)?.request, !request.isLedAway else {
            return false
        }
        return request.url.originText == origin
    }

    private func secret(
        from placed: [Placed], _ parts: URLParts, besides namers: Set<String>, _ origin: String?
    ) -> String? {
        if placed.contains(where: { $0.filled.answerer == nil && $0.bytes.overlaps(parts.user) }) {
            return "the user in the URL"
        }
        for field in planned.fields {
            let isOfOther = field.value.contains { piece in
                guard let name = piece.reference?.name, !namers.contains(name) else { return false }
                return exchange(name)?.request.url.originText != origin
            }
            let isNamed = ["authorization", "cookie", "proxy-authorization"].contains(field.name.lowercased())
            if isNamed || field.name.namesSecret || isOfOther || field.value.contains(where: \.isKnownSecret) {
                return "the field \(field.name)"
            }
        }
        let others = placed.map(\.filled.piece) + planned.bodyPieces
        return others.first(where: \.isKnownSecret).map { "the value of \($0.shown)" }
    }
}

extension PlannedRequest {
    package func build(
        _ surroundings: Surroundings, row: [String: String] = [:], answers: (String) -> Exchange? = { _ in nil }
    ) throws(Defect) -> BuiltRequest {
        try withoutActuallyEscaping(answers) { answers in
            Result { () throws(Defect) in
                try RequestBuilder(planned: self, surroundings: surroundings, row: row, exchange: answers).build()
            }
        }.get()
    }

    mutating func check(_ surroundings: Surroundings) -> [Problem] {
        do throws(Defect) {
            let built = try build(surroundings)
            guard let defect = built.defect else {
                if isFixed { self.built = built }
                return []
            }
            return [Problem(request.position, defect, "correct it here")]
        } catch {
            let advice = error.advice.isEmpty ? "correct it here" : error.advice
            let place = error.placeholder
            return [Problem(place?.position ?? request.position, error.what, advice, file: place?.file)]
        }
    }

    package func globals(_ answers: (String) -> Exchange?) -> [String: JSONValue] {
        globals.compactMapValues { piece in
            switch piece.source {
            case .text(let text): .string(text)
            case .answer(let reference): answers(reference.name)?.globals[reference.source]
            case .system, .column: nil
            }
        }
    }
}

struct URLParts {
    let user: Range<Int>
    let scheme: Range<Int>
    let server: Range<Int>
    let path: Range<Int>

    init(_ url: String) {
        let start = url.schemeEnd ?? url.startIndex
        let scalars = url[start...].unicodeScalars
        let end = scalars.firstIndex(where: \.endsAuthority) ?? url.endIndex
        let host =
            url[start..<end].unicodeScalars.lastIndex(of: "@").map { url.unicodeScalars.index(after: $0) } ?? start
        let pathEnd = url[end...].unicodeScalars.firstIndex { "?#".unicodeScalars.contains($0) } ?? url.endIndex
        func offset(_ index: String.Index) -> Int { url.utf8.distance(from: url.startIndex, to: index) }
        scheme = 0..<offset(start)
        user = offset(start)..<offset(host)
        server = offset(host)..<offset(end)
        path = offset(end)..<offset(pathEnd)
    }

    func names(_ bytes: Range<Int>) -> Bool { bytes.overlaps(scheme) || bytes.overlaps(server) }
}

extension Piece {
    fileprivate var isKnownSecret: Bool {
        switch source {
        case .text: isSecret
        case .column: shown.namesSecret
        case .answer, .system: false
        }
    }
}
