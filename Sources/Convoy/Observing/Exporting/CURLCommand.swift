// A request as a curl command.
import Foundation

extension PreparedRequest {
    /// The request as a command for `curl`, to be pasted into a POSIX shell: it sends what ``CurlTransport`` would send.
    ///
    /// Method, target, header fields and body are the same bytes, the fields that the transport adds included. Whatever
    /// the values are, the shell runs nothing but `curl` and, before a body that is no plain text or comes in pieces, such as
    /// a ``MultipartForm``, `printf`, `cat` and `test`. The command is one line, unless the name of a body's file ends in a
    /// line feed. URLSession adds other fields of its own.
    ///
    /// A body that cannot be shown, because it comes from a stream or has more than 16 KiB in memory, is left to the reader:
    /// it is read from a file called `<replace this by a file with the body, …>`. There is none, so the shell refuses the
    /// command until the name is replaced. The body of a file is read from that file, into curl's memory.
    ///
    /// ```swift
    /// print(operation.request?.cURLCommand() ?? "")
    /// // curl -H 'Authorization: <redacted>' … 'https://example.com/users/1'
    /// ```
    ///
    /// - Parameter revealingSecrets: whether the values of secret fields (``HeaderFields/Field/isSecret``) and user name and
    ///   password of the URL are shown; by default they are replaced by `<redacted>`. Other fields, the path, the query and
    ///   the body are shown as they are: put secrets in none of them.
    /// - Complexity: O(*n*) for *n* bytes of header fields and of body shown.
    public func cURLCommand(revealingSecrets: Bool = false) -> String {
        let body = method == .head ? .none : CURLBody(self)
        var words: [String] = []
        let target = revealingSecrets ? url.absoluteString : url.replacingUserInfo(by: "<redacted>")
        // curl would expand these as patterns, and take these segments out.
        if target.contains(where: { "[]{}".contains($0) }) { words.append("--globoff") }
        if target.contains("/.") || target.lowercased().contains("%2e") { words.append("--path-as-is") }
        if method == .head {
            words.append("--head")
        } else if method != .get || body.isThere {
            words += ["-X", method.rawValue.shellWord]
        }
        for line in headerLines(revealingSecrets: revealingSecrets, body) { words += ["-H", line.shellWord] }
        if acceptsCodings { words.append("--compressed") }
        words += body.arguments + [target.shellWord]
        return body.before + "curl " + words.joined(separator: " ") + body.after
    }

    /// The fields as curl takes them: `Name;` for one without a value, `Name:` for one of its own that is not wanted.
    private func headerLines(revealingSecrets: Bool, _ body: CURLBody) -> [String] {
        var lines = headerFields.filter { !$0.isFraming }.map { field in
            let value = (revealingSecrets ? field.value : field.shownValue).trimmingBlanks
            return value.isEmpty ? "\(field.name);" : "\(field.name): \(value)"
        }
        #if canImport(CLibcurl)
            if !headerFields.contains("User-Agent") { lines.append("User-Agent: \(CurlHandle.userAgent)") }
            if !headerFields.contains("Accept-Encoding") {
                lines.append("Accept-Encoding: \(acceptsCodings ? ContentDecoder.acceptedCodings : "identity")")
            }
        #endif
        if body.isThere, !headerFields.contains("Content-Type") { lines.append("Content-Type:") }
        if body.isLong, !headerFields.contains("Expect") { lines.append("Expect:") }
        return lines
    }

    /// Whether the answer may come encoded, and is to be shown decoded.
    private var acceptsCodings: Bool { !headerFields.contains("Accept-Encoding") && !headerFields.contains("Range") }
}

extension Request {
    /// The request as a command for `curl`; see ``PreparedRequest/cURLCommand(revealingSecrets:)``.
    ///
    /// What a manager adds to a request, an interceptor's token or a cookie, is not in it:
    /// ``AttemptRecord/request`` has what was sent.
    ///
    /// - Parameters:
    ///   - baseURL: what a relative URL is resolved against.
    ///   - revealingSecrets: whether secrets are shown; by default they are replaced by `<redacted>`.
    /// - Throws: `.invalidRequest` for a request that cannot be sent, with the reason; `.bodyUnreadable`.
    public func cURLCommand(
        relativeTo baseURL: URL? = nil, revealingSecrets: Bool = false
    ) throws(RequestError) -> String {
        try PreparedRequest(core, baseURL: baseURL).cURLCommand(revealingSecrets: revealingSecrets)
    }
}

extension URL {
    /// The URL with something else in the place of user name and password, every other byte as it is.
    fileprivate func replacingUserInfo(by placeholder: String) -> String {
        var reference = URLReference(absoluteString)
        guard reference.authority?.contains("@") == true else { return absoluteString }
        reference.dropUserInfo()
        reference.authority = "\(placeholder)@\(reference.authority ?? "")"
        return reference.text
    }
}

/// How a body gets to curl.
private struct CURLBody {
    /// What stands before the command: `printf … | `.
    var before = ""
    var arguments: [String] = []
    /// What stands behind it: a file to read.
    var after = ""
    /// Whether curl may ask the server first whether it wants so much.
    var isLong = false

    static let none = CURLBody()
    /// The longest body that is shown.
    private static let shownBytes = 16 << 10
    /// From here on some version of curl sends `Expect`.
    private static let longBytes = 1_024

    var isThere: Bool { !arguments.isEmpty }

    private init() {}

    init(_ request: PreparedRequest) {
        switch request.body {
        // The transport says that there is none.
        case nil: if [.post, .put, .patch].contains(request.method) { arguments = ["--data-raw", "''"] }
        case .data(let data): show(data)
        case .file(let file, let byteCount): read(file.path, byteCount: byteCount)
        case .joined(let bodies): join(bodies)
        case .stream: leave("which comes from a stream", byteCount: .max)
        }
    }

    private mutating func show(_ data: Data) {
        guard data.count <= Self.shownBytes else {
            return leave("\(data.count) bytes", byteCount: Int64(data.count))
        }
        isLong = data.count >= Self.longBytes
        if let text = String(validating: data, as: UTF8.self), !text.unicodeScalars.contains(where: \.isUnsafeAtPrompt)
        {
            // Not --data-binary, to which a body that begins with an at sign is the name of a file.
            arguments = ["--data-raw", text.shellWord]
        } else {
            before = "printf \(data.printfFormat) | "
            arguments = ["--data-binary", "@-"]
        }
    }

    /// As the pieces are: curl's own forms would have other boundaries and other names.
    private mutating func join(_ bodies: [RequestBody]) {
        var (shownBytes, tests, pieces) = (0, "", "")
        for body in bodies {
            switch body {
            case .data(let data):
                shownBytes += data.count
                pieces += " printf \(data.printfFormat);"
            case .file(let file, _):
                // The shell would go on without it.
                tests += "test -r \(file.path.shellWord) && "
                pieces += " cat \(file.path.shellWord);"
            case .joined, .stream: shownBytes = .max
            }
            guard shownBytes <= Self.shownBytes else {
                return leave("which comes in \(bodies.count) pieces", byteCount: .max)
            }
        }
        isLong = true
        before = "\(tests){\(pieces) } | "
        arguments = ["--data-binary", "@-"]
    }

    private mutating func leave(_ what: String, byteCount: Int64) {
        read("<replace this by a file with the body, \(what)>", byteCount: byteCount)
    }

    /// By the shell, which refuses a file that is not there; curl would send an empty body.
    private mutating func read(_ path: String, byteCount: Int64) {
        isLong = byteCount >= Self.longBytes
        arguments = ["--data-binary", "@-"]
        after = " < " + path.shellWord
    }
}
