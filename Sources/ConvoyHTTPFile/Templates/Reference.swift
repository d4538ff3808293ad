import Convoy

package struct Reference: Hashable, Sendable {
    package enum Side: String, Hashable, Sendable {
        case request, response
    }

    package enum Part: Hashable, Sendable {
        case body
        case json(JSONPath)
        case header(String)
        case cookie(String)
        case global(String)
    }

    package var name: String
    package var side: Side
    package var part: Part
    package var source: String
}

extension Reference {
    init?(_ text: String) throws(Defect) {
        let parts = text.split(separator: ".", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
        guard parts.count > 1, parts[0].isRequestName, let side = Side(rawValue: parts[1]) else { return nil }
        let stem = "\(parts[0]).\(parts[1])"
        guard parts.count > 2, ["body", "headers"].contains(parts[2]) || parts[2] == "cookies" && side == .response
        else {
            throw Defect(
                "\(text.shown) does not name a part of the request or response",
                "write {{\(stem).body.*}}, {{\(stem).body.$.name}} or {{\(stem).headers.Name}}")
        }
        let rest = parts.count > 3 ? parts[3].trimmed : ""
        guard !rest.isEmpty else {
            let example = parts[2] == "body" ? "{{\(stem).body.*}} for all of it" : "{{\(stem).\(parts[2]).Name}}"
            throw Defect("\(text.shown) does not name a value in the \(parts[2])", "write \(example)")
        }
        (name, self.side, source) = (parts[0], side, text)
        guard parts[2] == "body" else {
            let isCookie = parts[2] == "cookies"
            guard rest.isFieldName else {
                throw Defect(
                    "\(rest.shown) is not a \(isCookie ? "cookie" : "header field") name",
                    "write {{\(stem).\(isCookie ? "cookies.name" : "headers.Content-Type")}}")
            }
            part = isCookie ? .cookie(rest) : .header(rest)
            return
        }
        if rest == "*" {
            part = .body
            return
        }
        guard !rest.hasPrefix("/"), !rest.hasPrefix("asXml.") else {
            throw Defect(
                "XPath is not supported", "request JSON from the server, and write {{\(stem).body.$.name}}",
                kind: .impossible)
        }
        var path = rest.hasPrefix("asJson.") ? String(rest.dropFirst(7)) : rest
        // A path may omit `$`, as in REST Client's documentation: `body.token`.
        if !path.hasPrefix("$") { path = (path.hasPrefix("[") ? "$" : "$.") + path }
        part = .json(try JSONPath(path))
    }
}

extension StringProtocol {
    /// Whether the text is a token (RFC 9110, section 5.6.2), as every name of a header field is.
    var isFieldName: Bool { !isEmpty && utf8.allSatisfy(\.isTokenByte) }
}
