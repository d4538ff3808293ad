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
            guard case .request(var entry) = InputLine(urls: sorted.map(\.element.text)) else {
                return .broken(line: nil, reason: "\(shown) has no http or https URL")
            }
            let digest = digests["sha-256"].map(FileDigest.sha256) ?? digests["sha-512"].map(FileDigest.sha512)
            if let defect = digest?.defect { return .broken(line: nil, reason: "\(shown): \(defect)") }
            (entry.name, entry.digest) = (name.isEmpty ? nil : name, digest)
            return .entry(entry)
        }
    }

    static func entries(in text: String) -> [ListParser.Outcome] {
        guard let files = try? files(in: text) else {
            return [.broken(line: nil, reason: "it is XML, but not a valid Metalink 4 document (RFC 5854)")]
        }
        return files.map(\.outcome)
    }

    private static func files(in text: String) throws -> [File] {
        var scanner = XMLScanner(text)
        var (files, open, content) = ([File](), [(name: String, attributes: [String: String])](), "")
        var isMetalink = false
        func close(_ name: String) throws {
            guard let element = open.popLast(), element.name == name else { throw XMLScanner.Defect() }
            let text = content.trimmingCharacters(in: .whitespacesAndNewlines)
            content = ""
            // Digests of pieces are nested one level deeper, and are not read.
            guard open.last?.name == "file", let file = files.indices.last else { return }
            if name == "url" {
                files[file].urls.append((text, element.attributes["priority"].flatMap { Int($0) } ?? 999_999))
            } else if name == "hash" {
                files[file].digests[element.attributes["type"]?.lowercased() ?? ""] = text
            }
        }
        while let piece = try scanner.next() {
            switch piece {
            case .text(let text): content += text
            case .start(let name, let attributes, let isEmpty):
                if open.isEmpty { isMetalink = name == "metalink" }
                open.append((name, attributes))
                content = ""
                if name == "file" { files.append(File(name: attributes["name"] ?? "")) }
                if isEmpty { try close(name) }
            case .end(let name): try close(name)
            }
        }
        guard open.isEmpty, isMetalink else { throw XMLScanner.Defect() }
        return files
    }
}

/// A minimal XML parser: elements, attributes and text.
///
/// Comments and processing instructions are skipped. A document type declaration is an error.
private struct XMLScanner {
    struct Defect: Error {}

    enum Piece {
        case start(String, [String: String], isEmpty: Bool)
        case end(String)
        case text(String)
    }

    private var rest: Substring

    init(_ text: String) { rest = Substring(text) }

    mutating func next() throws -> Piece? {
        while rest.hasPrefix("<!--") || rest.hasPrefix("<?") { _ = try take(to: rest.hasPrefix("<?") ? "?>" : "-->") }
        guard !rest.isEmpty else { return nil }
        guard rest.first == "<" else {
            let text = rest.prefix { $0 != "<" }
            rest = rest[text.endIndex...]
            return .text(Self.decoded(text))
        }
        if rest.hasPrefix("<![CDATA[") { return .text(String(try take(to: "]]>").dropFirst("<![CDATA[".count))) }
        // Document type declarations are rejected, because their entities could expand to text of any size.
        if rest.hasPrefix("<!") { throw Defect() }
        return try tag()
    }

    /// Takes the text before a mark, and skips the mark.
    private mutating func take(to mark: String) throws -> Substring {
        guard let end = rest.firstRange(of: mark) else { throw Defect() }
        defer { rest = rest[end.upperBound...] }
        return rest[..<end.lowerBound]
    }

    private mutating func tag() throws -> Piece {
        // The first `>` outside of attribute values ends a tag.
        guard let tag = rest.prefixMatch(of: #/<((?:[^>"']|"[^"]*+"|'[^']*+')*+)>/#) else { throw Defect() }
        rest = rest[tag.range.upperBound...]
        var inside = tag.1
        if inside.first == "/" {
            return .end(Self.localName(inside.dropFirst().trimmingCharacters(in: .whitespacesAndNewlines)))
        }
        let isEmpty = inside.last == "/"
        if isEmpty { inside.removeLast() }
        let name = Self.localName(inside.prefix { !$0.isWhitespace })
        guard !name.isEmpty else { throw Defect() }
        return .start(name, Self.attributes(inside.drop { !$0.isWhitespace }), isEmpty: isEmpty)
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
            // A numeric reference to `&` becomes `&amp;`, which is decoded last, so that no reference is decoded twice.
            return code.flatMap(Unicode.Scalar.init).map { $0 == "&" ? "&amp;" : String($0) } ?? String(match.0)
        }
        return [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")]
            .reduce(String(text)) { $0.replacing($1.0, with: $1.1) }
    }
}
