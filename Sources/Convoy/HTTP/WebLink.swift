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
    /// The parameters by name in lower case, including `rel`.
    ///
    /// If a name occurs twice, the first value is used.
    public let parameters: [String: String]
}

extension HeaderFields {
    /// The links of all `Link` fields, in order.
    ///
    /// Unreadable links are skipped.
    ///
    /// - Complexity: O(*n*) for *n* bytes.
    public var links: [WebLink] { values(of: "Link").flatMap { LinkParser.links(in: $0) } }
}

/// Reads a list of links in one pass (RFC 8288, appendix B.2).
private struct LinkParser: FieldParser {
    let bytes: [UInt8]
    var position = 0

    static func links(in text: String) -> [WebLink] {
        var parser = LinkParser(bytes: Array(text.utf8))
        var links: [WebLink] = []
        while parser.position < parser.bytes.count {
            if let link = parser.nextLink() { links.append(link) }
            parser.skipMember()
        }
        return links
    }

    private init(bytes: [UInt8]) { self.bytes = bytes }

    private mutating func nextLink() -> WebLink? {
        skip { $0.isBlank || $0 == UInt8(ascii: ",") }
        guard peek == UInt8(ascii: "<") else { return nil }
        position += 1
        let reference = take { $0 != UInt8(ascii: ">") }
        guard peek == UInt8(ascii: ">") else { return nil }
        position += 1
        var parameters: [String: String] = [:]
        while true {
            skip(\.isBlank)
            guard peek == UInt8(ascii: ";") else { break }
            position += 1
            guard let (name, value) = nextParameter(), parameters[name] == nil else { continue }
            parameters[name] = value
        }
        let relations = parameters["rel"]?.lowercased().split(whereSeparator: \.isWhitespace).map(String.init)
        return WebLink(
            reference: reference.trimmingBlanks, relations: relations ?? [], parameters: parameters)
    }

    private mutating func nextParameter() -> (name: String, value: String)? {
        skip(\.isBlank)
        let name = take(\.isTokenByte).lowercased()
        guard !name.isEmpty else { return nil }
        skip(\.isBlank)
        guard peek == UInt8(ascii: "=") else { return (name, "") }
        position += 1
        skip(\.isBlank)
        if peek == UInt8(ascii: "\"") {
            return bytes.quotedString(at: &position).map { (name, String(decoding: $0, as: UTF8.self)) }
        }
        return (name, take { !$0.isBlank && $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: ",") })
    }

    private mutating func skipMember() {
        while let next = peek {
            if next == UInt8(ascii: "\"") {
                _ = bytes.quotedString(at: &position)
                continue
            }
            position += 1
            if next == UInt8(ascii: ",") { return }
        }
    }
}
