// Reads request lines and header fields.

extension HTTPFileReader {
    static let methods = [
        "GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "LOCK", "UNLOCK", "PROPFIND",
        "PROPPATCH", "COPY", "MOVE", "MKCOL", "MKCALENDAR", "ACL", "SEARCH", "REPORT", "QUERY", "PURGE", "LINK",
        "UNLINK",
        "MERGE", "NOTIFY", "SUBSCRIBE", "UNSUBSCRIBE", "BIND", "UNBIND", "REBIND", "CHECKOUT", "MKACTIVITY", "GRAPHQL",
    ]
    /// Methods of other programs whose requests are not HTTP.
    private static let otherProtocols = [
        "WEBSOCKET", "WS", "WSS", "GRPC", "SSE", "EVENTSOURCE", "MQTT", "AMQP", "RSOCKET",
    ]

    /// Reads a request from its first line, and the requests that follow it without a separator.
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
            finish()
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

    /// The target without ` HTTP/1.1`; an invalid version is reported.
    private mutating func withoutVersion(_ text: Substring, at place: Position) -> String {
        guard text.utf8.contains(where: { $0.isBlank || $0 >= 0x80 }) else { return String(text) }
        guard
            let range = text.lastIndex(of: "/").flatMap({ slash -> Range<Substring.Index>? in
                let words = text[..<slash].split(omittingEmptySubsequences: false) { $0.isWhitespace }
                guard words.count > 1, let last = words.last, last.uppercased() == "HTTP" else { return nil }
                return last.startIndex..<text.endIndex
            })
        else { return text.trimmed }
        let version = text[range].dropFirst(5).trimmed
        let digits = version.prefix { $0.isASCIIDigit || $0 == "." }
        let rest = version.dropFirst(digits.count).trimmed
        if !(digits.first?.isASCIIDigit ?? false) || !(rest.isEmpty || rest.hasPrefix("(")) {
            report(
                place.advanced(by: text.distance(from: text.startIndex, to: range.lowerBound)),
                "\(text[range].trimmed.shown) is not a version of HTTP", "write HTTP/1.1, or remove it")
        }
        return text[..<range.lowerBound].trimmed
    }

    /// Reads lines that continue the target: `?name=value`, `&name=value`, or an indented part of the path.
    private mutating func readTargetLines(_ base: Int) {
        while index < blockEnd {
            let line = lines[index]
            let indentation = line.indentation
            let text = line.trimmed
            guard !text.isEmpty else { return }
            if text.isComment, indentation > base {
                readTag(line)
                index += 1
                continue
            }
            let isQuery = text.hasPrefix("?") && !text.hasPrefix("??") || text.hasPrefix("&")
            guard isQuery || (indentation > base && !text.startsField && !text.startsTail && !startsRequest(text))
            else {
                return
            }
            let place = position(indentation)
            request.target.append(template(withoutVersion(line.dropFirst(indentation), at: place), at: place))
            index += 1
        }
    }

    /// Whether a line is a request line, according to its method and the start of its URL.
    private func startsRequest(_ text: String) -> Bool {
        let word = text.prefix { !$0.isWhitespace }
        let behind = text.dropFirst(word.count).trimmed
        guard Self.methods.contains(String(word)), word == word.uppercased() else { return false }
        return behind.hasPrefix("http://") || behind.hasPrefix("https://") || behind.hasPrefix("/")
            || behind.hasPrefix("{{")
    }

    /// Reads header fields up to a blank line.
    ///
    /// Returns true if another request follows without a separator.
    private mutating func readFields(_ base: Int) -> Bool {
        while index < blockEnd {
            let line = lines[index]
            let text = line.trimmed
            if text.isEmpty {
                index += 1
                return false
            }
            if text.isComment {
                readTag(line)
                index += 1
            } else if skipComment(text) {
                continue
            } else if startsRequest(text) {
                return true
            } else if text.startsTail || (text.first.map { "{[<".contains($0) } == true && !text.contains("}}:")) {
                // A body without a blank line before it, as in httpyac.
                return false
            } else {
                readField(line, base)
                index += 1
            }
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
}

extension StringProtocol {
    /// Whether the line starts with a name and a colon, and then a blank follows or the line ends.
    var startsField: Bool {
        guard let colon = firstIndex(of: ":") else { return false }
        let behind = self[index(after: colon)...]
        return self[..<colon].isFieldName && (behind.isEmpty || behind.first?.isWhitespace == true)
    }

    /// Whether the line starts a script, a body from a file, an output, a saved response or a check.
    fileprivate var startsTail: Bool {
        hasPrefix("> ") || hasPrefix(">>") || hasPrefix("<> ") || hasPrefix("< ") || hasPrefix("<@") || hasPrefix("??")
            || self == "{{"
    }
}

extension String {
    /// Whether the word looks like a method: only letters and hyphens.
    fileprivate var isMethodLike: Bool { count > 1 && allSatisfy { $0.isASCII && $0.isLetter || $0 == "-" } }
}
