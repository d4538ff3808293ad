// A request as a curl command.
import Foundation

extension PreparedRequest {
    /// The request as a `curl` command for a POSIX shell, which sends the same bytes as ``CurlTransport``.
    ///
    /// Method, target, header fields and body are the same, including the fields that the transport adds. Whatever the
    /// values contain, the shell runs only `curl`, and `printf` for values with control characters and for a body that
    /// is not plain text or has several parts, whose files `cat` and `test` read. The command is one line, unless the
    /// name of a body's file ends in a line feed.
    ///
    /// A body from a stream, or of more than 16 KiB in memory, is not included: the command reads a file called
    /// `<replace this by a file with the body, …>`, and fails in the shell until you replace that name. A body from a
    /// file is read from that file, into curl's memory.
    ///
    /// - Parameter revealingSecrets: whether to show the values of secret fields (``HeaderFields/Field/isSecret``) and
    ///   the URL's user name and password, instead of `<redacted>`, and the secrets of URLs in other fields. The path,
    ///   the query and the body are always shown, so do not put secrets there.
    /// - Complexity: O(*n*) for *n* bytes of header fields and of body shown.
    public func cURLCommand(revealingSecrets: Bool = false) -> String {
        let body = CURLBody(self)
        var words: [String] = []
        var reference = URLReference(url.absoluteString)
        if !revealingSecrets, reference.authority?.contains("@") == true {
            reference.dropUserInfo()
            reference.authority = "<redacted>@\(reference.authority ?? "")"
        }
        let target = reference.text
        // Without these options, curl would expand brackets and braces as patterns and remove dot segments.
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

    /// The fields in curl's syntax: `Name;` for a field without a value, `Name:` to remove a field that curl would
    /// add.
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

    /// Whether the transport adds the codings that it decodes, so that curl has to decode the response too.
    private var acceptsCodings: Bool { !headerFields.contains("Accept-Encoding") && !headerFields.contains("Range") }
}

extension Request {
    /// The request as a command for `curl`; see ``PreparedRequest/cURLCommand(revealingSecrets:)``.
    ///
    /// The values that a manager adds, such as an interceptor's token or a cookie, are only in
    /// ``AttemptRecord/request``.
    ///
    /// - Throws: `.invalidRequest` for a request that cannot be sent, with the reason; `.bodyUnreadable`.
    public func cURLCommand(
        relativeTo baseURL: URL? = nil, revealingSecrets: Bool = false
    ) throws(RequestError) -> String {
        try PreparedRequest(core, baseURL: baseURL).cURLCommand(revealingSecrets: revealingSecrets)
    }
}

private struct CURLBody {
    var before = ""
    var arguments: [String] = []
    var after = ""
    var isLong = false

    private static let shownBytes = 16 << 10
    /// From this length on, some versions of curl send `Expect`.
    private static let longBytes = 1_024

    var isThere: Bool { !arguments.isEmpty }

    init(_ request: PreparedRequest) {
        if request.method == .head { return }
        switch request.body {
        // For POST, PUT and PATCH without a body, the transport sends an empty body, with `Content-Length: 0`.
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
            // `--data-binary` would read a body that starts with an at sign as a file name.
            arguments = ["--data-raw", text.shellWord]
        } else {
            before = "printf \(data.printfFormat) | "
            arguments = ["--data-binary", "@-"]
        }
    }

    /// Joins the parts with `cat`, because curl's own forms would have other boundaries and names.
    private mutating func join(_ bodies: [RequestBody]) {
        var (shownBytes, tests, pieces) = (0, "", "")
        for body in bodies {
            switch body {
            case .data(let data):
                shownBytes += data.count
                pieces += " printf \(data.printfFormat);"
            case .file(let file, _):
                // Without this test, the shell would continue if the file is missing.
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

    /// Reads the file with the shell, which fails if the file is missing, whereas curl would send an empty body.
    private mutating func read(_ path: String, byteCount: Int64) {
        isLong = byteCount >= Self.longBytes
        arguments = ["--data-binary", "@-"]
        after = " < " + path.shellWord
    }
}

extension String {
    // One word of a shell command, on one line unless the text ends in a line feed. The program receives exactly this
    // text in dash, bash and zsh, also at a prompt with history expansion. A typed or pasted control character would
    // edit or end the line at a prompt. So a text with control characters is written with escapes, which `printf`
    // decodes. A word cannot contain NUL.
    var shellWord: String {
        guard unicodeScalars.contains(where: \.isUnsafeAtPrompt) else {
            // Between single quotes only the quote itself is special. The text is split at scalars, because a quote and
            // a combining mark after it form one character.
            let pieces = unicodeScalars.split(separator: "'", omittingEmptySubsequences: false).map { String($0) }
            return "'" + pieces.joined(separator: #"'\''"#) + "'"
        }
        // Line feeds at the end are handled separately, because a command substitution drops them.
        var rest = self[...]
        while rest.unicodeScalars.last == "\n" { rest.unicodeScalars.removeLast() }
        let lineFeeds = String(repeating: "\n", count: unicodeScalars.count - rest.unicodeScalars.count)
        let start = rest.isEmpty ? "" : "\"$(printf \(rest.utf8.printfFormat))\""
        return start + (lineFeeds.isEmpty ? "" : "'\(lineFeeds)'")
    }
}

extension Sequence<UInt8> {
    /// A quoted format with which `printf` writes exactly these bytes; up to four characters a byte.
    var printfFormat: String {
        var format = "'"
        for (index, byte) in enumerated() {
            switch byte {
            case UInt8(ascii: "%"): format += "%%"
            // A minus at the start would begin an option, and an exclamation mark a history expansion.
            case UInt8(ascii: "-") where index == 0, UInt8(ascii: "'"), UInt8(ascii: "!"), UInt8(ascii: "\\"), ..<0x20,
                0x7F...:
                format += String(format: "\\%03o", byte)
            default: format.unicodeScalars.append(Unicode.Scalar(byte))
            }
        }
        return format + "'"
    }
}

extension Unicode.Scalar {
    /// Whether the character could change the input at a prompt or the display of a line.
    var isUnsafeAtPrompt: Bool { isControl || (!isASCII && properties.generalCategory == .format) }
}
