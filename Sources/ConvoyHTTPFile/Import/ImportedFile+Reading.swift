// Reads the bytes of a document as requests.
import Convoy

extension ImportedFile {
    /// The options of an import.
    package struct Wishes: Sendable {
        /// The hosts whose requests are imported, in which `*` matches any characters.
        ///
        /// An empty list imports the requests of all hosts.
        package var hosts: [String] = []
        /// Whether to import images, fonts, scripts, style sheets and other assets of a HAR, and its preflights.
        package var keepsAssets = false
        /// Whether the written file contains secrets as values of variables.
        package var keepsSecrets = false
        package init() {}
    }

    /// Reads a HAR, a Postman collection or curl command lines, and detects the format.
    ///
    /// Variables replace secrets, and references replace values of earlier responses.
    package init(reading bytes: [UInt8], _ wishes: Wishes = Wishes()) throws(ImportFailure) {
        let first = bytes.dropFirst(bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0).first { !$0.isBlank }
        switch first {
        case nil: throw ImportFailure("the document is empty", Self.kinds)
        case UInt8(ascii: "{"), UInt8(ascii: "["): self = try Self.json(bytes, wishes)
        default:
            guard let text = String(validating: bytes, as: UTF8.self), !bytes.contains(0) else {
                throw ImportFailure("the document is not UTF-8 text", Self.kinds)
            }
            self = try CurlReader.read(text)
        }
        guard !requests.isEmpty else { throw ImportFailure("the document contains no request", Self.kinds) }
        keepHosts(wishes.hosts)
        guard !requests.isEmpty else {
            throw ImportFailure("no request goes to \(wishes.hosts.joined(separator: " or "))", "give another --host")
        }
        dropAttachments()
        disableUnsendable()
        nameRequests()
        breakCycles()
        findChains()
        takeSecrets(keepsValues: wishes.keepsSecrets)
    }

    static let kinds = "give a HAR, a Postman collection (v2.1 or v2.0) or curl commands"

    private static func json(_ bytes: [UInt8], _ wishes: Wishes) throws(ImportFailure) -> ImportedFile {
        let root: JSONValue
        do throws(JSONReader.Defect) { root = try JSONReader.read(bytes) } catch {
            throw ImportFailure("the document is not JSON: \(error.description)", Self.kinds)
        }
        if let log = root["log"] { return try HARReader.read(log, keepsAssets: wishes.keepsAssets) }
        let collection = root["collection"] ?? root
        if collection["item"] != nil { return try PostmanReader.read(collection) }
        if collection["requests"] != nil, collection["order"] != nil || collection["folders"] != nil {
            throw ImportFailure("this is a Postman collection of version 1", "export it from Postman as v2.1")
        }
        throw ImportFailure("the document is neither a HAR nor a Postman collection", kinds)
    }

    private mutating func keepHosts(_ patterns: [String]) {
        guard !patterns.isEmpty else { return }
        requests = requests.filter { imported in
            // A host that contains a variable may match any pattern.
            guard let host = imported.request.target.host else { return true }
            return patterns.contains { host.matches(pattern: $0.lowercased()) }
        }
    }
}

extension Template {
    /// The host of a URL, in lower case; nil if it is missing or depends on a placeholder.
    var host: String? {
        let text = prefixText
        guard let start = text.schemeEnd else { return nil }
        let authority = text[start...].prefix { !"/?#".contains($0) }
        guard authority.endIndex < text.endIndex || parts.count == 1 else { return nil }
        let place = authority.split(separator: "@").last ?? authority
        return place.prefix { $0 != ":" }.lowercased()
    }
}

extension String {
    /// Whether the text matches a pattern in which `*` matches any characters.
    package func matches(pattern: String) -> Bool {
        let parts = pattern.split(separator: "*", omittingEmptySubsequences: false)
        guard parts.count > 1, let first = parts.first, let last = parts.last else { return self == pattern }
        guard hasPrefix(first), hasSuffix(last), utf8.count >= first.utf8.count + last.utf8.count else { return false }
        var rest = dropFirst(first.count).dropLast(last.count)
        for part in parts.dropFirst().dropLast() where !part.isEmpty {
            guard let range = rest.firstRange(of: part) else { return false }
            rest = rest[range.upperBound...]
        }
        return true
    }

    /// The URL without its fragment, with invalid characters percent-encoded.
    var importedURL: String {
        let text = prefix { $0 != "#" }
        let start = text.schemeEnd ?? text.startIndex
        let path = text[start...].firstIndex { "/?".contains($0) } ?? text.endIndex
        return text[..<path].filter { !$0.isWhitespace } + PercentEscaper.url.escaped(String(text[path...]))
    }
}
