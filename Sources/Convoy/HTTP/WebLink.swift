// Links in header fields: RFC 8288.

/// A link of a `Link` header field: its target, its relations and its parameters.
///
/// ```swift
/// let next = response.head.link("next")
/// ```
public struct WebLink: Sendable, Hashable {
    /// The URL reference as the server wrote it, possibly relative.
    public let reference: String
    /// The relation types, in lower case: `next`, `prev`, `last`.
    public let relations: [String]
    /// The parameters by name in lower case, including `rel`; of two with a name, the first.
    public let parameters: [String: String]
}

extension HeaderFields {
    /// The links of all `Link` fields, in order, without unreadable ones.
    ///
    /// - Complexity: O(*n*) for *n* bytes.
    public var links: [WebLink] {
        values(of: "Link").flatMap { value in
            var (scanner, links) = (FieldScanner(value.utf8), [WebLink]())
            while scanner.peek != nil {
                if let link = scanner.link() { links.append(link) }
                scanner.skip(to: ",")
            }
            return links
        }
    }
}

extension FieldScanner {
    /// Reads a member of a list of links (RFC 8288, appendix B.2).
    fileprivate mutating func link() -> WebLink? {
        skip { $0.isBlank || $0 == UInt8(ascii: ",") }
        guard skip(past: "<") else { return nil }
        let reference = take { $0 != UInt8(ascii: ">") }
        guard isNext(">") else { return nil }
        position += 1
        var parameters: [String: String] = [:]
        while skip(past: ";") {
            let name = take(\.isTokenByte).lowercased()
            guard !name.isEmpty, let value = skip(past: "=") ? takeValue(upTo: ";,")?.text : "" else { continue }
            parameters[name] = parameters[name] ?? value
        }
        let relations = parameters["rel"]?.lowercased().split(whereSeparator: \.isWhitespace).map(String.init)
        return WebLink(reference: reference.trimmingBlanks, relations: relations ?? [], parameters: parameters)
    }
}
