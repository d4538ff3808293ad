import Convoy
import ConvoyHTTPFile
import Foundation

struct SendingOptions: Sendable {
    enum Body: Sendable {
        case fields(Data)
        case json(Data)
        case form(MultipartForm)
        case file(URL)
        case bytes(Data)
    }

    var method: HTTPMethod?
    var isHead = false
    var body: Body?
    var isQuery = false
    private(set) var readsStandardInput = false
    var range: String?
    var newer: NewerThan?
    // A field is marked as secret if it may contain a key and the library does not recognise its name.
    private var givenFields = HeaderFields()
    private var optionFields = HeaderFields()
    private(set) var omittedFields: Set<String> = []

    // As in curl, a field of `--header` replaces the fields of other options.
    var headerFields: HeaderFields {
        var fields = optionFields
        if !omittedFields.isEmpty { fields.removeAll { omits($0.name) } }
        return fields.replaced(by: givenFields)
    }

    func omits(_ name: String) -> Bool { omittedFields.contains(name.lowercased()) }

    var sentMethod: HTTPMethod {
        if let method { return method }
        switch body {
        case nil: return isHead ? .head : .get
        case .file, .bytes: return .put
        case .fields, .json, .form: return .post
        }
    }

    // Every other field may contain an API key, because X-Api-Key, Private-Token and the like have no common pattern.
    private static let openFields: Set = [
        "accept", "accept-charset", "accept-encoding", "accept-language", "cache-control", "content-type", "host",
        "pragma", "range", "user-agent",
    ]

    static func mayBeKey(_ name: String) -> Bool {
        !HeaderFields.Field(name: name, value: "").isSecret && !openFields.contains(name.lowercased())
    }

    static func method(_ text: String) throws(UsageError) -> HTTPMethod {
        let method = HTTPMethod(text)
        guard Request<Data>(method: method, url: "http://localhost/").defect == nil else {
            throw OptionValues.refusal(text, "a method, such as PUT or DELETE")
        }
        return method
    }

    static func range(_ text: String) throws(UsageError) -> String {
        let parts = text.split(separator: ",", omittingEmptySubsequences: false)
        let areRanges = parts.allSatisfy { part in
            let ends = part.split(separator: "-", omittingEmptySubsequences: false)
            let areNumbers = ends.allSatisfy { $0.isEmpty || $0.first != "+" && Int64($0) != nil }
            guard ends.count == 2, areNumbers, !(ends[0].isEmpty && ends[1].isEmpty) else { return false }
            guard let first = Int64(ends[0]), let last = Int64(ends[1]) else { return true }
            return first <= last
        }
        guard areRanges else { throw OptionValues.refusal(text, "a range of bytes, such as 0-499, 500- or -500") }
        return text
    }

    // Errors do not quote a value, which may be a secret.
    mutating func addHeaderField(_ text: String) throws(UsageError) {
        if text.hasPrefix("@") {
            let lines = String(decoding: try content(of: String(text.dropFirst())), as: UTF8.self)
            for line in lines.split(whereSeparator: \.isNewline) { try addHeaderLine(line) }
        } else {
            try addHeaderLine(text[...])
        }
    }

    // Unlike in ``addHeaderField(_:)``, an `@` at the start of the text does not name a file.
    mutating func addHeaderLine(_ text: Substring) throws(UsageError) {
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let name = parts[0].trimmingCharacters(in: .whitespaces)
        if parts.count == 1, name.hasSuffix(";") { return try Self.add(String(name.dropLast()), "", to: &givenFields) }
        guard parts.count == 2 else { throw UsageError("takes 'Name: value'; the colon is missing") }
        // As in curl, an empty value omits the field.
        guard !parts[1].allSatisfy({ " \t".contains($0) }) else { return try omit(name) }
        try Self.add(name, String(parts[1]), to: &givenFields)
    }

    /// Sets the field of an option; as in curl, an empty value omits the field.
    mutating func setField(_ name: String, _ value: String) throws(UsageError) {
        optionFields[name] = nil
        if value.isEmpty { return try omit(name) }
        try Self.add(name, value, to: &optionFields)
    }

    private mutating func omit(_ name: String) throws(UsageError) {
        var probe = HeaderFields()
        try Self.add(name, "", to: &probe)
        omittedFields.insert(name.lowercased())
    }

    private static func add(_ name: String, _ text: String, to fields: inout HeaderFields) throws(UsageError) {
        // Line ends are not trimmed, so that `defect` reports them.
        let value = text.trimmingCharacters(in: .whitespaces)
        // The body is not known yet. It decides only later whether a `Content-Length` is right.
        let probe = Request<Data>.post("http://localhost/").body(Data(), contentType: nil)
        if let defect = probe.header(name, value).defect { throw UsageError(": \(defect)") }
        fields.addGiven(HeaderFields.Field(name: name, value: value, isMarkedSecret: mayBeKey(name)))
    }

    // MARK: Bodies

    mutating func addData(
        _ text: String, mayNameFile: Bool = true, keepsLines: Bool = true
    ) throws(UsageError) {
        var data = Data(text.utf8)
        if mayNameFile, text.hasPrefix("@") {
            data = try content(of: String(text.dropFirst()))
            if !keepsLines { data.removeAll { [0x0A, 0x0D, 0].contains($0) } }
        }
        switch body {
        case nil: body = .fields(data)
        case .fields(let before): body = .fields(before + Data("&".utf8) + data)
        case .json, .form, .file, .bytes: throw Self.otherBody
        }
    }

    mutating func setJSON(_ text: String) throws(UsageError) {
        let data = text.hasPrefix("@") ? try content(of: String(text.dropFirst())) : Data(text.utf8)
        guard (try? JSONReader.read(Array(data), maxDepth: 512)) != nil else {
            throw UsageError("takes JSON, such as '{\"name\": \"value\"}', and the given text is not JSON")
        }
        guard body == nil else { throw Self.otherBody }
        body = .json(data)
    }

    mutating func addFormPart(_ text: String, isLiteral: Bool = false) throws(UsageError) {
        var form: MultipartForm
        switch body {
        case nil: form = MultipartForm()
        case .form(let before): form = before
        case .fields, .json, .file, .bytes: throw Self.otherBody
        }
        guard let part = FormPart(text, isLiteral: isLiteral) else {
            throw UsageError("takes NAME=VALUE or NAME=@FILE; the name or the equals sign is missing")
        }
        if part.source == .content(of: "-") { readsStandardInput = true }
        try part.add(to: &form)
        body = .form(form)
    }

    mutating func content(of path: String) throws(UsageError) -> Data {
        if path == "-" { readsStandardInput = true }
        return try OptionValues.content(of: path)
    }

    static let otherBody = UsageError(
        "gives a second body; use only one of --data, --json-body, --form and --upload-file")

    /// As in curl, a text with an equals sign names no file.
    static func encodedParts(_ text: String) -> (name: Substring, value: Substring, file: String?) {
        guard let mark = text.firstIndex(of: "=") ?? text.firstIndex(of: "@") else { return ("", text[...], nil) }
        let value = text[text.index(after: mark)...]
        return (text[..<mark], value, text[mark] == "@" ? String(value) : nil)
    }

    mutating func addEncoded(_ text: String) throws(UsageError) {
        let (name, text, file) = Self.encodedParts(text)
        let value = try file.map { file throws(UsageError) in try content(of: file) } ?? Data(text.utf8)
        let encoded = value.map { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: String(Unicode.Scalar(byte))
            case 0x20: "+"
            default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
            }
        }.joined()
        try addData(name.isEmpty ? encoded : "\(name)=\(encoded)", mayNameFile: false)
    }

    mutating func setUpload(_ path: String) throws(UsageError) {
        guard body == nil else { throw Self.otherBody }
        if path == "-" {
            body = .bytes(try content(of: path))
            return
        }
        do throws(UsageError) {
            body = .file(URL(filePath: try OptionValues.readableFile(path), directoryHint: .notDirectory))
        } catch {
            let isTime = Figures.plainNumber(path) != nil
            let isGlob = path.contains { "{[".contains($0) }
            throw UsageError(
                error.message + (isTime ? "; wget's -T \(path) is --connect-timeout \(path)" : "")
                    + (isGlob ? "; -T takes one file: run the command for each of them" : ""))
        }
    }

    var isUpload: Bool { if case .file? = body { true } else { false } }

    mutating func moveToQuery(_ urls: inout [URL], hasList: Bool) throws(UsageError) {
        guard isQuery else { return }
        guard !hasList else { throw UsageError("--get applies to URLs of the command line: remove -i") }
        guard let body else { return }
        guard case .fields(let data) = body else {
            throw UsageError("--get puts --data into the URL: remove --json-body, --form and --upload-file")
        }
        let query = String(decoding: data, as: UTF8.self)
        self.body = nil
        urls = try urls.map { (url) throws(UsageError) in
            let parts = url.absoluteString.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false)
            let joint = parts[0].contains("?") ? "&" : "?"
            let fragment = parts.count > 1 ? "#" + parts[1] : ""
            return try InputLine.url(parts[0] + joint + query.replacing(" ", with: "%20") + fragment)
        }
    }

    mutating func nameUploads(_ urls: inout [URL], hasList: Bool) throws(UsageError) {
        guard case .file(let file)? = body else { return }
        guard !hasList else {
            throw UsageError("--upload-file applies to URLs of the command line: remove -i")
        }
        urls = urls.map {
            $0.path(percentEncoded: true).hasSuffix("/") || $0.path.isEmpty
                ? $0.appending(path: file.lastPathComponent) : $0
        }
    }
}

extension Request where Output == Data {
    init(_ sending: SendingOptions, for url: URL, with own: HeaderFields = HeaderFields()) {
        self.init(method: sending.sentMethod, url: url)
        var fields = sending.headerFields.replaced(by: own)
        func isFree(_ name: String) -> Bool { !fields.contains(name) && !sending.omits(name) }
        var defaults: [(name: String, value: String)] = []
        switch sending.body {
        case nil: break
        case .fields(let data):
            self = body(data, contentType: nil)
            defaults.append(("Content-Type", "application/x-www-form-urlencoded"))
        case .json(let data):
            self = body(data, contentType: nil)
            defaults += [("Content-Type", "application/json"), ("Accept", "application/json")]
        case .form(let form):
            // The form sets the field, which names its boundary. As in curl, a given type gets this boundary.
            self = multipart(form)
            if let given = fields.values(of: "Content-Type").first {
                fields["Content-Type"] = nil
                let type = given.replacing(#/;\s*boundary=("[^"]*"|[^;]*)/#.ignoresCase(), with: "")
                self = header("Content-Type", type + "; boundary=\(form.boundary)")
            } else if sending.omits("Content-Type") {
                self = header("Content-Type", nil)
            }
        case .bytes(let data): self = body(data, contentType: nil)
        case .file(let file): self = body(fromFile: file, contentType: nil)
        }
        if let range = sending.range { defaults.append(("Range", "bytes=\(range)")) }
        for (name, value) in defaults where isFree(name) { self = header(name, value) }
        self = carrying(fields).omitting(transportFields: sending.omittedFields)
    }
}

extension HeaderFields {
    private static let singleNames: Set = [
        "authorization", "content-length", "content-type", "host", "if-modified-since", "if-range", "range", "referer",
        "user-agent",
    ]

    /// Adds a field of the user; as with curl's `Host`, the first field counts if the field has one value.
    mutating func addGiven(_ field: Field) {
        guard !contains(field.name) || !Self.singleNames.contains(field.name.lowercased()) else { return }
        add(field.name, field.value, isSecret: field.isMarkedSecret)
    }

    func replaced(by others: HeaderFields) -> HeaderFields {
        if isEmpty || others.isEmpty { return isEmpty ? others : self }
        var all = self
        all.removeAll { others.contains($0.name) }
        for field in others { all.add(field.name, field.value, isSecret: field.isMarkedSecret) }
        return all
    }
}

extension Request {
    func carrying(_ fields: HeaderFields) -> Self {
        fields.reduce(self) { $0.addingHeader($1.name, $1.value, isSecret: $1.isMarkedSecret) }
    }
}

enum NewerThan: Sendable, Equatable {
    case date(Date)
    case file(String)

    // A digit with a space, colon or comma, or three numbers, is no file name; other files need not exist yet.
    init(_ text: String) throws(UsageError) {
        if access(text, F_OK) == 0 {
            self = .file(text)
        } else if let date = Self.date(text) {
            self = .date(date)
        } else if Self.isLikeDate(text) {
            throw OptionValues.refusal(text, "a file, or a date such as 2026-01-31 or 'Sat, 31 Jan 2026 12:00:00 GMT'")
        } else {
            self = .file(text)
        }
    }

    private static func isLikeDate(_ text: String) -> Bool {
        let hasMark = text.contains { " :,".contains($0) }
        return hasMark && text.contains(where: \.isNumber)
            || text.wholeMatch(of: #/\d+[-.\/]\d+[-.\/]\d+/#) != nil
    }

    /// Nil if FILE does not exist, or if the output has a version file: the library then sends the condition itself.
    func fieldValue(version: String) -> String? {
        switch self {
        case .date(let date): return Self.fieldValue(date)
        case .file(let path):
            let file = URL(filePath: path).resolvingSymlinksInPath().path
            guard access(version, F_OK) != 0,
                let date = try? FileManager.default.attributesOfItem(atPath: file)[.modificationDate] as? Date
            else { return nil }
            return Self.fieldValue(Date(timeIntervalSince1970: date.timeIntervalSince1970.rounded(.down)))
        }
    }

    private static let formats = [
        "EEE, dd MMM yyyy HH:mm:ss zzz", "yyyy-MM-dd'T'HH:mm:ssZZZZZ", "yyyy-MM-dd HH:mm:ss ZZZZZ",
        "yyyy-MM-dd'T'HH:mm:ss", "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd HH:mm", "yyyy-MM-dd", "yyyyMMdd", "dd MMM yyyy",
        "EEE MMM d HH:mm:ss zzz yyyy",
    ]

    static func date(_ text: String) -> Date? {
        HTTPDate(text, now: Date())?.date ?? formats.lazy.compactMap { formatter($0).date(from: text) }.first
    }

    private static func fieldValue(_ date: Date) -> String {
        formatter("EEE, dd MMM yyyy HH:mm:ss 'GMT'").string(from: date)
    }

    private static func formatter(_ format: String) -> DateFormatter {
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.isLenient = false
        formatter.dateFormat = format
        return formatter
    }
}

extension FormPart {
    var path: String? {
        switch source {
        case .text: nil
        case .file(let path), .content(let path): path
        }
    }

    // A file after `@` is read when the request is sent; a file after `<` is read here.
    func add(to form: inout MultipartForm) throws(UsageError) {
        switch source {
        case .text(let text): form.append(Data(text.utf8), name: name, fileName: fileName, contentType: contentType)
        case .file("-"):
            throw UsageError("sends a file with its name, which standard input lacks; <- sends its content")
        case .file(let path):
            let file = URL(filePath: try OptionValues.readableFile(path), directoryHint: .notDirectory)
            form.append(file: file, name: name, fileName: fileName, contentType: contentType)
        case .content(let path):
            form.append(
                try OptionValues.content(of: path), name: name, fileName: fileName, contentType: contentType)
        }
    }
}
