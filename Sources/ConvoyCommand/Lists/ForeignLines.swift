// Line formats of other programs' lists.
import Convoy
import Foundation

/// A line of sha256sum(1) or of BSD's sha256(1): `HEX  NAME`, `HEX *NAME` or `SHA256 (NAME) = HEX`.
struct DigestLine: Equatable {
    let name: String
    /// The digest; nil if its algorithm is not supported.
    let digest: FileDigest?

    init?(_ line: String) {
        // Most lines have no parenthesis. They skip the regular expression, which takes longer.
        if line.utf8.contains(UInt8(ascii: "(")),
            let match = line.wholeMatch(of: #/(SHA\d*|MD5|SHA-\d+)\s?\((.+)\) = ([0-9A-Fa-f]+)/#)
        {
            name = String(match.2)
            digest = Self.digest(String(match.3))
            return
        }
        let digits = line.prefix { $0.isHexDigit && $0.isASCII }
        let rest = line.dropFirst(digits.count)
        guard [32, 40, 56, 64, 96, 128].contains(digits.count), rest.hasPrefix("  ") || rest.hasPrefix(" *") else {
            return nil
        }
        name = String(rest.dropFirst(2))
        digest = Self.digest(String(digits))
        if name.isEmpty { return nil }
    }

    private static func digest(_ digits: String) -> FileDigest? {
        digits.count == 64 ? .sha256(digits) : digits.count == 128 ? .sha512(digits) : nil
    }
}

/// An entry of a list as a JSON object on one line.
struct JSONLine: Decodable {
    let url: String
    let name: String?
    let sha256: String?
    let sha512: String?
    let headers: [String: String]?

    static func outcome(_ text: String, _ number: Int) -> ListParser.Outcome {
        func broken(_ reason: String) -> ListParser.Outcome { .broken(line: number, reason: reason, text: text) }
        guard let line = try? JSONDecoder().decode(JSONLine.self, from: Data(text.utf8)) else {
            return broken(#"it is not an object like {"url": "https://example.com/a", "name": "a.bin"}"#)
        }
        switch InputLine(url: line.url) {
        case .blank: return broken("its URL is empty")
        case .broken(let reason): return broken(reason)
        case .request(var entry):
            entry.name = line.name.flatMap { $0.isEmpty ? nil : $0 }
            entry.digest = line.sha256.map(FileDigest.sha256) ?? line.sha512.map(FileDigest.sha512)
            if let defect = entry.digest?.defect { return broken(defect) }
            var sending = SendingOptions()
            for (name, value) in (line.headers ?? [:]).sorted(by: { $0.key < $1.key }) {
                do { try sending.addHeaderLine("\(name): \(value)") } catch {
                    return broken("it has a header field that cannot be sent")
                }
            }
            entry.headerFields = sending.headerFields
            return .entry(entry)
        }
    }
}

extension ListEntry {
    /// Applies a line `name=value` of aria2's input files.
    ///
    /// Options that are not listed here are ignored; most of them only affect the speed.
    ///
    /// - Returns: why the entry cannot be fetched as the list says; nil if the option was applied or ignored.
    mutating func apply(aria2Option line: String) -> String? {
        let parts = line.trimmingCharacters(in: .whitespaces).split(
            separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let (name, value) = (String(parts.first ?? ""), parts.count == 2 ? String(parts[1]) : "")
        var sending = SendingOptions()
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
            do { try sending.addHeaderLine(field[...]) } catch { return "it has a header field that cannot be sent" }
            for field in sending.headerFields {
                headerFields.add(field.name, field.value, isSecret: field.isMarkedSecret)
            }
        case "dir": return "aria2's dir= is not supported: set the directory of all files with -P DIR"
        case "http-user", "http-passwd", "all-proxy", "http-proxy", "https-proxy", "load-cookies":
            return "aria2's \(name)= is not supported: use an option for all files, see convoy help fetch"
        default: return name.isEmpty || value.isEmpty ? "it is neither a URL nor an aria2 option" : nil
        }
        return nil
    }
}
