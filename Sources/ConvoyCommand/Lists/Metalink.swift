// Metalink 4: RFC 5854.
import Convoy
import Foundation

/// Parses the files of a Metalink document, with their URLs and digests.
enum Metalink {
    private struct File {
        var name = ""
        var urls: [(text: String, priority: Int)] = []
        var digests: [String: String] = [:]

        var outcome: ListParser.Outcome {
            let shown = "the file \(name.prefix(80).debugDescription)"
            let sorted = urls.enumerated().sorted {
                ($0.element.priority, $0.offset) < ($1.element.priority, $1.offset)
            }
            guard case .request(let url, _, _, let mirrors) = InputLine(urls: sorted.map(\.element.text)) else {
                return .broken(line: nil, reason: "\(shown) has no http or https URL")
            }
            let digest = digests["sha-256"].map(FileDigest.sha256) ?? digests["sha-512"].map(FileDigest.sha512)
            if let defect = digest?.defect { return .broken(line: nil, reason: "\(shown): \(defect)") }
            return .entry(ListEntry(url: url, name: name.isEmpty ? nil : name, digest: digest, mirrors: mirrors))
        }
    }

    static func entries(in text: String) -> [ListParser.Outcome] {
        var scanner = XMLScanner(text)
        var (files, open, content) = ([File](), [(name: String, attributes: [String: String])](), "")
        var isMetalink = false
        while let piece = scanner.next() {
            switch piece {
            case .text(let text): content += text
            case .start(let name, let attributes):
                if open.isEmpty { isMetalink = name == "metalink" }
                open.append((name, attributes))
                content = ""
                if name == "file" { files.append(File(name: attributes["name"] ?? "")) }
            case .end(let name):
                guard let element = open.popLast(), element.name == name else { return [broken] }
                let text = content.trimmingCharacters(in: .whitespacesAndNewlines)
                content = ""
                guard var file = files.popLast() else { continue }
                // Digests of pieces are nested one level deeper, and are not read.
                let isOfFile = open.last?.name == "file"
                if isOfFile, name == "url" {
                    file.urls.append((text, element.attributes["priority"].flatMap { Int($0) } ?? 999_999))
                } else if isOfFile, name == "hash" {
                    file.digests[element.attributes["type"]?.lowercased() ?? ""] = text
                }
                files.append(file)
            case .broken: return [broken]
            }
        }
        guard open.isEmpty, isMetalink else { return [broken] }
        return files.map(\.outcome)
    }

    private static let broken = ListParser.Outcome.broken(
        line: nil, reason: "it is XML, but not a valid Metalink 4 document (RFC 5854)")
}

/// A minimal XML parser: elements, attributes and text.
///
/// Comments and processing instructions are skipped. A document type declaration is an error.
private struct XMLScanner {
    enum Piece {
        case start(String, [String: String])
        case end(String)
        case text(String)
        case broken
    }

    private var rest: Substring
    /// The end of an empty element, which the next call returns.
    private var pending: Piece?

    init(_ text: String) { rest = Substring(text) }

    mutating func next() -> Piece? {
        if let pending {
            self.pending = nil
            return pending
        }
        guard passOver() else { return fail() }
        guard !rest.isEmpty else { return nil }
        guard rest.first == "<" else {
            let text = rest.prefix { $0 != "<" }
            rest = rest[text.endIndex...]
            return .text(Self.decoded(text))
        }
        if rest.hasPrefix("<![CDATA[") {
            guard let end = rest.firstRange(of: "]]>") else { return fail() }
            defer { rest = rest[end.upperBound...] }
            return .text(String(rest[rest.index(rest.startIndex, offsetBy: 9)..<end.lowerBound]))
        }
        // Document type declarations are rejected, because their entities could expand to text of any size.
        if rest.hasPrefix("<!") { return fail() }
        return tag()
    }

    private mutating func tag() -> Piece {
        guard let end = endOfTag else { return fail() }
        var inside = rest[rest.index(after: rest.startIndex)..<end]
        rest = rest[rest.index(after: end)...]
        if inside.first == "/" {
            return .end(Self.localName(inside.dropFirst().trimmingCharacters(in: .whitespacesAndNewlines)))
        }
        let isEmpty = inside.last == "/"
        if isEmpty { inside.removeLast() }
        let name = Self.localName(inside.prefix { !$0.isWhitespace })
        guard !name.isEmpty else { return fail() }
        if isEmpty { pending = .end(name) }
        return .start(name, Self.attributes(inside.drop { !$0.isWhitespace }))
    }

    /// The first `>` outside of attribute values.
    private var endOfTag: Substring.Index? {
        var quote: Character?
        for index in rest.indices {
            switch (rest[index], quote) {
            case (let character, let open?): if character == open { quote = nil }
            case ("\"", nil), ("'", nil): quote = rest[index]
            case (">", nil): return index
            default: break
            }
        }
        return nil
    }

    private static func attributes(_ text: Substring) -> [String: String] {
        var attributes: [String: String] = [:]
        for match in text.matches(of: #/([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/#) {
            attributes[localName(match.1)] = decoded(match.2 ?? match.3 ?? "")
        }
        return attributes
    }

    /// The name without a namespace prefix.
    private static func localName(_ name: some StringProtocol) -> String {
        String(name).split(separator: Character(":")).last.map { String($0) } ?? ""
    }

    private static func decoded(_ text: Substring) -> String {
        guard text.contains("&") else { return String(text) }
        let text = text.replacing(#/&#(?:x([0-9A-Fa-f]{1,6})|([0-9]{1,7}));/#) { match in
            let code = match.1.flatMap { UInt32($0, radix: 16) } ?? match.2.flatMap { UInt32($0) }
            // An ampersand is replaced last.
            return code.flatMap(Unicode.Scalar.init).map { $0 == "&" ? "&amp;" : String($0) } ?? String(match.0)
        }
        return [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")]
            .reduce(String(text)) { $0.replacing($1.0, with: $1.1) }
    }

    /// Skips comments and processing instructions.
    ///
    /// Returns false if one is not terminated.
    private mutating func passOver() -> Bool {
        while rest.hasPrefix("<!--") || rest.hasPrefix("<?") {
            guard let end = rest.firstRange(of: rest.hasPrefix("<?") ? "?>" : "-->") else { return false }
            rest = rest[end.upperBound...]
        }
        return true
    }

    private mutating func fail() -> Piece {
        rest = ""
        return .broken
    }
}
