// Parses the lines of a list in the formats of several programs.
import Convoy
import Foundation

/// Parses a list line by line.
///
/// The first line that is neither blank nor a comment decides the format.
///
/// The parser stores incomplete input: an entry that aria2's options may follow, or the text of a Metalink.
struct ListParser {
    enum Format: Equatable, Sendable {
        case urls, jsonLines, digests, metalink
    }

    /// An entry of the list, or an error.
    enum Outcome: Equatable, Sendable {
        case entry(ListEntry)
        /// An invalid line, an invalid list, or an invalid file of a Metalink.
        ///
        /// `line` is nil if the error concerns no single line. `text` has the lines of the entry, if they are text.
        case broken(line: Int?, reason: String, text: String? = nil)
    }

    /// An entry that may continue in the next line.
    private struct Open {
        var entry: ListEntry
        var defect: (line: Int, reason: String)?
        let line: Int
        var text: String

        var outcome: Outcome {
            defect.map { .broken(line: $0.line, reason: $0.reason, text: text) } ?? .entry(entry)
        }
    }

    /// The maximum size of a Metalink, whose complete text is parsed at once.
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
    /// Whether a digest of the list can be verified.
    private var hasDigests = false
    private(set) var format: Format?
    /// The entry of the last line, which options may follow; nil after an invalid or a blank line.
    private var open: Open?
    private var isAfterBroken = false
    private var document: [UInt8] = []
    private var hasEnded = false

    init(base: URL? = nil) { self.base = base }

    /// Whether an entry may continue in the next line.
    var isOpen: Bool { open != nil }

    /// The number of the first line without an outcome yet.
    ///
    /// - Parameter next: the number of the next line to parse.
    func firstUnfinishedLine(before next: Int) -> Int { format == .metalink ? 1 : open?.line ?? next }

    /// Parses a line.
    ///
    /// Returns the outcomes that this line completes, for example the previous entry.
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

    /// Completes the open entry, at the end of the list or while the next line has not arrived.
    mutating func close() -> [Outcome] {
        defer { open = nil }
        return open.map { [$0.outcome] } ?? []
    }

    /// Returns the remaining outcomes at the end of the list.
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

    /// The text of a line; nil if the line belongs to the armor of a clear-signed message.
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

    /// Refuses a complete list of digests.
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

    /// Whether a line with a leading blank is a URL and not an option with a URL as its value.
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
