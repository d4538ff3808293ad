import Convoy
import ConvoyHTTPFile
import Foundation

// The first line that is neither blank nor a comment decides the format.
// The parser stores incomplete input: an entry that aria2's options may follow, or the text of a Metalink.
struct ListParser {
    enum Format: Equatable, Sendable {
        case urls, jsonLines, digests, metalink
    }

    enum Outcome: Equatable, Sendable {
        case entry(ListEntry)
        // `line` is nil if the error concerns no single line. `text` has the lines of the entry, if they are text.
        case broken(line: Int?, reason: String, text: String? = nil)
    }

    private struct Open {
        var entry: ListEntry
        var defect: (line: Int, reason: String)?
        let line: Int
        var text: String

        var outcome: Outcome {
            defect.map { .broken(line: $0.line, reason: $0.reason, text: text) } ?? .entry(entry)
        }
    }

    private static let limitBytes = LineSplitter.limitBytesOfXML

    /// The place in a clear-signed OpenPGP message (RFC 9580, section 7), whose signature is not verified.
    private enum Armor {
        /// Next: header.
        case outside
        /// Between the first line and the blank line. Next: text.
        case header
        /// Next: signature.
        case text
        /// Next: outside.
        case signature
    }

    private let base: URL?
    private var armor = Armor.outside
    private var hasDigests = false
    private(set) var format: Format?
    /// The entry of the last line, which options may follow; nil after an invalid or a blank line.
    private var open: Open?
    private var isAfterBroken = false
    private var document: [UInt8] = []
    private var hasEnded = false

    init(base: URL? = nil) { self.base = base }

    var isOpen: Bool { open != nil }

    func firstUnfinishedLine(before next: Int) -> Int { format == .metalink ? 1 : open?.line ?? next }

    mutating func parse(_ line: NumberedLine) -> [Outcome] {
        guard !hasEnded else { return [] }
        switch line.content {
        case .broken(let reason):
            isAfterBroken = true
            // Without this line, the Metalink may lack a digest, so none of its files is used.
            if format == .metalink { hasEnded = true }
            return close() + [.broken(line: line.number, reason: reason)]
        case .text(let text): return parse(text, line.number)
        }
    }

    mutating func close() -> [Outcome] {
        defer { open = nil }
        return open.map { [$0.outcome] } ?? []
    }

    mutating func finish() -> [Outcome] {
        guard format == .metalink, !hasEnded else { return close() }
        hasEnded = true
        return Metalink.entries(in: document)
    }

    private mutating func parse(_ line: String, _ number: Int) -> [Outcome] {
        guard let text = takeOutOfArmor(line) else { return close() }
        let visible = text.trimmed
        if format == nil, visible.hasPrefix("-----BEGIN ") {
            hasEnded = true
            return [.broken(line: nil, reason: "it is not a list, but an OpenPGP signature, key or encoded message")]
        }
        let isBlank = visible.isEmpty || visible.hasPrefix("#")
        if format == nil, !isBlank { format = format(of: visible) }
        switch format {
        case nil: return []
        case .metalink:
            document.append(contentsOf: text.utf8)
            document.append(0x0A)
            guard document.count > Self.limitBytes else { return [] }
            hasEnded = true
            return [.broken(line: nil, reason: "it is a Metalink of more than 16 MiB")]
        case _ where isBlank: return close()
        case .jsonLines: return [JSONLine.outcome(visible, number)]
        case .digests: return digestLine(visible, number)
        case .urls: return urlLine(text, number)
        }
    }

    private mutating func takeOutOfArmor(_ line: String) -> String? {
        guard format != .metalink, armor != .outside || line.hasPrefix("-----") else { return line }
        let visible = line.trimmed
        switch armor {
        case .outside where visible == "-----BEGIN PGP SIGNED MESSAGE-----": armor = .header
        case .outside: return line
        case .header where visible.isEmpty: armor = .text
        case .header where visible.contains(#/^[A-Za-z-]+: /#): break
        case .text where visible == "-----BEGIN PGP SIGNATURE-----": armor = .signature
        case .header, .text:
            armor = .text
            return line.hasPrefix("- ") ? String(line.dropFirst(2)) : line
        case .signature: if visible == "-----END PGP SIGNATURE-----" { armor = .outside }
        }
        return nil
    }

    private func format(of line: String) -> Format {
        if line.hasPrefix("{") { return .jsonLines }
        if line.hasPrefix("<") { return .metalink }
        if DigestLine(line) != nil { return .digests }
        return base != nil && (DigestLine.isLikely(line) || DigestLine.isHeading(line)) ? .digests : .urls
    }

    private mutating func refuse(_ reason: String) -> [Outcome] {
        hasEnded = true
        return [.broken(line: nil, reason: "it is a list of digests that cannot be checked: \(reason)")]
    }

    private mutating func digestLine(_ text: String, _ number: Int) -> [Outcome] {
        func broken(_ reason: String) -> [Outcome] { [.broken(line: number, reason: reason, text: text)] }
        guard let line = DigestLine(text) else {
            guard !hasDigests else { return broken("it is not a digest and a name, unlike the lines before it") }
            return refuse("write each digest and two spaces before its name, as sha256sum does")
        }
        if let defect = line.defect {
            return hasDigests ? broken(defect) : refuse(defect)
        }
        hasDigests = true
        guard let base else { return refuse("add --base URL, the directory of the files") }
        // find(1) prints `./` before names, so it is removed.
        let path = line.name.hasPrefix("./") ? String(line.name.dropFirst(2)) : line.name
        return [.entry(ListEntry(url: base.appending(path: path), name: path, digest: line.digest))]
    }

    private static func isURL(_ text: String) -> Bool {
        guard let mark = text.range(of: "://") else { return false }
        return !text[..<mark.lowerBound].contains("=")
    }

    private mutating func urlLine(_ text: String, _ number: Int) -> [Outcome] {
        if text.first == " " || text.first == "\t", !Self.isURL(text), open != nil || isAfterBroken {
            guard var before = open else { return [] }
            let problem = before.entry.apply(aria2Option: text)
            if before.defect == nil, let problem { before.defect = (number, problem) }
            before.text += "\n" + text
            open = before
            return []
        }
        let closed = close()
        // A JSON line may follow lines with URLs, because `--save-failed` mixes them.
        if text.hasPrefix("{") { return closed + [JSONLine.outcome(text, number)] }
        let isDigest = base != nil && DigestLine.isLikely(text.trimmed)
        let line: InputLine =
            isDigest
            ? .broken(
                reason: "it looks like a name and its digest: write the digest and two spaces before the name, in a "
                    + "list of only such lines")
            : InputLine(text, base: base)
        isAfterBroken = false
        switch line {
        case .blank: return closed
        case .broken(let reason):
            isAfterBroken = true
            return closed + [.broken(line: number, reason: reason, text: text)]
        case .request(let entry):
            open = Open(entry: entry, line: number, text: text)
            return closed
        }
    }
}

// `HEX  NAME`, `HEX *NAME` or `HEX NAME` of sha256sum(1), or `SHA256 (NAME) = HEX` of BSD and openssl(1); the digest
// also in Base64, as cksum(1) writes it. A backslash at the start means that the name has escapes. A tab does not end
// a digest: in a list of URLs and names, the name to save as follows a tab.
struct DigestLine: Equatable {
    let name: String
    let digest: FileDigest?
    let defect: String?

    init?(_ line: String) {
        let isEscaped = line.hasPrefix("\\")
        let text = isEscaped ? line.dropFirst() : line[...]
        let (kind, digits, rest): (String, Substring, Substring)
        // Most lines have no parenthesis. They skip the regular expression, which takes longer.
        if text.utf8.contains(UInt8(ascii: "(")),
            let match = text.wholeMatch(of: #/([A-Za-z][A-Za-z0-9\/_-]*) ?\((.+)\) ?= ?([0-9A-Za-z+\/]+={0,2})/#)
        {
            (kind, digits, rest) = (Self.algorithm(match.1), match.3, match.2)
        } else if let first = Self.kind(of: text.prefix { $0 != " " }) {
            (kind, digits) = first
            let separated = text.drop { $0 != " " }.dropFirst()
            guard separated.first(where: { $0 != " " }) != "\t" else { return nil }
            rest = separated.first.map { " *".contains($0) } == true ? separated.dropFirst() : separated
        } else if let match = text.wholeMatch(of: #/\d{5,10} +\d+ +(.+)/#) {
            (kind, digits, rest) = ("a checksum of cksum or sum", "", match.1)
        } else {
            return nil
        }
        guard !rest.isEmpty else { return nil }
        let escapes: [Substring: String] = ["n": "\n", "r": "\r", "\\": "\\"]
        name = String(isEscaped ? rest.replacing(#/\\([nr\\])/#) { escapes[$0.1] ?? "" } : rest)
        guard kind == "SHA-256" || kind == "SHA-512" else {
            (digest, defect) = (nil, "its digest is \(kind), but only SHA-256 and SHA-512 are supported")
            return
        }
        let isShort = kind == "SHA-256"
        let given =
            digits.utf8.count == (isShort ? 44 : 88)
            ? Data(base64Encoded: String(digits)).map { isShort ? FileDigest.sha256($0) : .sha512($0) }
            : isShort ? .sha256(String(digits)) : .sha512(String(digits))
        digest = given?.defect == nil ? given : nil
        defect = digest == nil ? "its digest is not \(kind)" : nil
    }

    // Only the text before the first tab counts. If it is one word of digits, it is a name.
    static func isLikely(_ line: String) -> Bool {
        guard !line.containsScheme else { return false }
        let text = line.prefix { $0 != "\t" }
        let words = text.split { $0.isWhitespace || ":;,=()\"'".contains($0) }
        guard words.count > 1 else { return false }
        // gpg(1) writes a digest in groups of two to eight digits.
        let digits = words.filter(isHexadecimal).reduce(0) { $0 + $1.utf8.count }
        // A line of an SFV file ends with a CRC-32. Eight digits without a letter may be a date.
        if digits >= 32 || text.contains(#/\s(?=[0-9]*[A-Fa-f])[0-9A-Fa-f]{8}$/#) { return true }
        return text.split { $0.isWhitespace || $0 == "," }.contains { InputLine.isDigest($0) }
    }

    static func isHeading(_ line: String) -> Bool {
        line.contains(#/^(;|Algorithm +(Hash|:) |[A-Z0-9]+ hash of )/#)
    }

    private static let kindsByDigits = [
        32: "MD5", 40: "SHA-1", 56: "SHA-224", 64: "SHA-256", 96: "SHA-384", 128: "SHA-512",
    ]

    private static func isHexadecimal(_ word: Substring) -> Bool {
        word.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x41...0x46).contains($0 & 0xDF) }
    }

    /// The algorithm and the digits of a word, as `HEX`, `ALGORITHM:HEX` or Base64; nil for any other word.
    private static func kind(of word: Substring) -> (kind: String, digits: Substring)? {
        guard !word.utf8.contains(UInt8(ascii: "\t")) else { return nil }
        let sign = word.firstIndex { $0 == ":" || $0 == "=" }
        let digits = sign.map { word[$0...].dropFirst() } ?? word
        if isHexadecimal(digits) {
            // Without an algorithm, a word of another length may be a name, such as the time of a backup.
            let kind = sign.map { algorithm(word[..<$0]) } ?? kindsByDigits[digits.utf8.count]
            if let kind, digits.utf8.count >= 16 { return (kind, digits) }
        }
        let kinds = [24: "MD5", 28: "SHA-1", 40: "SHA-224", 44: "SHA-256", 88: "SHA-512"]
        guard word.hasSuffix("="), let kind = kinds[word.utf8.count], Data(base64Encoded: String(word)) != nil else {
            return nil
        }
        return (kind, word)
    }

    private static func algorithm(_ tag: Substring) -> String {
        switch tag.lowercased() {
        case "sha256", "sha-256", "sha2-256": "SHA-256"
        case "sha512", "sha-512", "sha2-512": "SHA-512"
        default: String(tag)
        }
    }
}

enum JSONLine {
    private static let form = #"it is not an object like {"url": "https://example.com/a", "name": "a.bin"}"#

    static func outcome(_ text: String, _ number: Int) -> ListParser.Outcome {
        func broken(_ reason: String) -> ListParser.Outcome { .broken(line: number, reason: reason, text: text) }
        guard case .object(let members)? = JSONValue(json: text.utf8) else { return broken(form) }
        var (url, name, digest, lines) = (String?.none, "", FileDigest?.none, [String]())
        for member in members {
            switch (member.name.lowercased(), member.value) {
            case (_, .null): break
            case ("url", .string(let value)): url = value
            case ("name", .string(let value)): name = value
            case ("sha256", .string(let digits)): digest = .sha256(digits)
            case ("sha512", .string(let digits)): digest = digest ?? .sha512(digits)
            case ("headers", .object(let fields)):
                for field in fields {
                    guard case .string(let value) = field.value else { return broken(form) }
                    lines.append("\(field.name): \(value)")
                }
            case ("url", _), ("name", _), ("headers", _): return broken(form)
            case (let key, _)
            where key.contains(#/(^|[^a-z])(sha-?\d|md\d|crc|blake|hash|digest|integrity)([^a-z]|$)|sum$/#):
                return broken(
                    "its \(key.prefix(80).debugDescription) cannot be checked: give the hexadecimal digits as sha256 "
                        + "or sha512")
            default: break
            }
        }
        guard let url else { return broken(form) }
        switch InputLine(url: url) {
        case .blank: return broken("its URL is empty")
        case .broken(let reason): return broken(reason)
        case .request(var entry):
            if let defect = digest?.defect { return broken(defect) }
            (entry.name, entry.digest) = (name.isEmpty ? nil : name, digest)
            guard let fields = HeaderFields(listed: lines) else {
                return broken("it has a header field that cannot be sent")
            }
            entry.headerFields = fields
            return .entry(entry)
        }
    }
}

extension HeaderFields {
    fileprivate init?(listed lines: [String]) {
        var sending = SendingOptions()
        do throws(UsageError) { for line in lines { try sending.addHeaderLine(line[...]) } } catch { return nil }
        guard sending.omittedFields.isEmpty else { return nil }
        self = sending.headerFields
    }
}

extension ListEntry {
    /// Options that are not listed here are ignored; most of them only affect the speed.
    mutating func apply(aria2Option line: String) -> String? {
        let parts = line.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            .map { String($0).trimmed }
        let (name, value) = (parts.first?.lowercased() ?? "", parts.dropFirst().first ?? "")
        switch name {
        case "out": self.name = value
        case "checksum":
            guard let digest = FileDigest(value) else {
                return "its checksum is neither sha-256=HEX nor sha-512=HEX"
            }
            self.digest = digest
        case "header", "referer", "user-agent":
            let field = name == "header" ? value : "\(name == "referer" ? "Referer" : "User-Agent"): \(value)"
            // A list may come from a server, so `@FILE` must not read a file here.
            guard let fields = HeaderFields(listed: [field]) else { return "it has a header field that cannot be sent" }
            for field in fields { headerFields.addGiven(field) }
        case "dir": return "aria2's dir= is not supported: set the directory of all files with -P DIR"
        case "http-user", "http-passwd", "all-proxy", "http-proxy", "https-proxy", "load-cookies":
            return "aria2's \(name)= is not supported: use an option for all files, see convoy help fetch"
        default:
            // Ignored options do not have digests as values. This one may be a misspelt `checksum`.
            let isOption = !name.isEmpty && !value.isEmpty && !InputLine.isDigest(value)
            return isOption ? nil : "it is neither a URL nor an aria2 option"
        }
        return nil
    }
}
