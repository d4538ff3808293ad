import Convoy
import Foundation

struct ListEntry: Equatable, Sendable {
    var url: URL
    var name: String?
    var digest: FileDigest?
    var byteCount: Int64?
    var headerFields = HeaderFields()
    var mirrors: [URL] = []
}

/// `URL`, `URL<TAB>NAME`, `URL<TAB>NAME<TAB>DIGEST`, `URL<TAB>URL...`, an empty line, or an invalid one.
enum InputLine: Equatable {
    case blank
    case request(ListEntry)
    case broken(reason: String)

    /// Whether a word is only a digest: hexadecimal digits or Base64, also in quotes or after its algorithm.
    static func isDigest(_ word: some StringProtocol) -> Bool {
        // Most words are names with an extension. They skip the regular expression, which takes longer.
        guard word.utf8.count >= 24, !word.utf8.contains(UInt8(ascii: ".")) else { return false }
        let form =
            #/
            ["']?
            (?:(?:sha|md|h|blake)-?[0-9][0-9a-z-]*[-:=])?
            (?:(?:[0-9a-f]{8}){4,16}|[0-9a-z+\/]{22,}={1,2}|[0-9a-z+\/]{43}|[0-9a-z+\/]{64}|[0-9a-z+\/]{86})
            ["']?
            /#.ignoresCase()
        return String(word).wholeMatch(of: form) != nil
    }

    init(_ line: some StringProtocol, base: URL? = nil) {
        let text = String(line).trimmed
        guard !text.isEmpty, !text.hasPrefix("#") else {
            self = .blank
            return
        }
        let columns = text.utf8.split(separator: UInt8(ascii: "\t"), maxSplits: 2, omittingEmptySubsequences: false)
            .map { String(Substring($0)).trimmed }
        let (name, digits) = (columns.dropFirst().first ?? "", columns.dropFirst(2).first ?? "")
        if name.containsScheme {
            self.init(columns: text.split(separator: "\t").map { String($0).trimmed }.filter { !$0.isEmpty })
            return
        }
        guard !Self.isDigest(name) else {
            self = .broken(
                reason: "its second column is a digest: write the name of the file before it, or out=NAME in the next "
                    + "line, after a space, to give the file such a name")
            return
        }
        let digest = digits.isEmpty ? nil : FileDigest(digits)
        guard digits.isEmpty || digest != nil else {
            self = .broken(
                reason: "its third column is not a digest: sha256: and 64 hexadecimal digits, or sha512: and 128")
            return
        }
        // With a base URL, a first column without a scheme is a file name, such as `report.zip`, and no host.
        if let base, !columns[0].containsScheme {
            let url = base.appending(path: columns[0])
            self = .request(ListEntry(url: url, name: name.isEmpty ? nil : name, digest: digest))
        } else if columns[0].utf8.contains(where: { $0 <= 0x20 || $0 > 0x7F }),
            columns[0].contains(where: \.isWhitespace)
        {
            self = .broken(reason: Self.blank(in: columns[0]))
        } else {
            self.init(url: columns[0], name: name.isEmpty ? nil : name, digest: digest)
        }
    }

    private init(columns: [String]) {
        let digest = columns.last.flatMap { $0.containsScheme ? nil : FileDigest($0) }
        let urls = digest == nil ? columns : columns.dropLast()
        guard urls.allSatisfy(\.containsScheme) else {
            self = .broken(
                reason: "after several URLs of one file only its digest may follow, sha256: and 64 hexadecimal digits; "
                    + "name the file in the next line, after a space: out=NAME")
            return
        }
        self.init(urls: urls, digest: digest)
    }

    init(urls: [String], digest: FileDigest? = nil) {
        var (usable, defect): ([URL], InputLine?) = ([], nil)
        for text in urls {
            switch InputLine(url: text) {
            case .request(let entry): usable.append(entry.url)
            case .broken(let reason): defect = defect ?? .broken(reason: reason)
            case .blank: break
            }
        }
        guard let first = usable.first else {
            self = defect ?? .blank
            return
        }
        self = .request(ListEntry(url: first, digest: digest, mirrors: Array(usable.dropFirst())))
    }

    private static func blank(in text: String) -> String {
        text.withScheme.containsScheme
            ? "a space follows its URL: write a tab before the name, or %20 for a space in the URL"
            : noURL
    }

    private static let noURL =
        "it is not a URL, such as https://example.com/file; write invalid characters as %XX"

    // The reason does not quote an invalid URL, which may contain a password.
    init(url text: String, name: String? = nil, digest: FileDigest? = nil) {
        guard !text.isEmpty else {
            self = .blank
            return
        }
        guard let url = text.withScheme.requestURL else {
            self = .broken(reason: text.contains(" ") ? "it is not a URL; write %20 for a space" : Self.noURL)
            return
        }
        guard url.scheme != nil, text.containsScheme || url.host() != nil else {
            let isDash = text == "-"
            self = .broken(
                reason: isDash
                    ? "write -i - to read a list from standard input"
                    : "it is not an absolute URL: write https:// and the host before it")
            return
        }
        if let defect = Request<Data>.get(url).defect {
            self = .broken(reason: Self.defect(of: url) ?? defect)
        } else {
            self = .request(ListEntry(url: url, name: name, digest: digest))
        }
    }

    // The reason omits the URL, which may contain a password.
    private static func defect(of url: URL) -> String? {
        let scheme = url.scheme?.lowercased() ?? ""
        guard ["http", "https"].contains(scheme) else {
            return "its scheme is \(scheme)://, but only http:// and https:// are supported"
        }
        return url.host()?.isEmpty == false ? nil : "it has no host: write https:// and the host before the path"
    }

    static func url(_ text: String, called name: String = "takes a URL") throws(UsageError) -> URL {
        switch InputLine(url: text) {
        case .request(let entry): return entry.url
        case .broken(let reason): throw UsageError("\(name): \(reason)")
        case .blank: throw UsageError("\(name) is empty; perhaps a shell variable is not set")
        }
    }
}

extension String {
    // The bytes are searched here, because Foundation's search is slower: it converts each text first.
    var containsScheme: Bool {
        var rest = utf8[...]
        while let colon = rest.firstIndex(of: UInt8(ascii: ":")) {
            rest = rest[rest.index(after: colon)...]
            if rest.starts(with: "//".utf8) { return true }
        }
        return false
    }

    /// A host needs a dot or a port, except `localhost` and `[::1]`.
    var withScheme: String {
        guard !containsScheme else { return self }
        let authority = prefix { !"/?#".contains($0) }
        let place = authority.split(separator: "@", omittingEmptySubsequences: false).last ?? ""
        if place.hasPrefix("[::1]") { return "http://\(self)" }
        let parts = place.split(separator: ":", omittingEmptySubsequences: false)
        let (host, port) = (parts.first?.lowercased() ?? "", parts.dropFirst().first)
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        let areLabels = labels.allSatisfy { label in
            !label.isEmpty
                && label.unicodeScalars.allSatisfy {
                    $0.properties.isAlphabetic || "0123456789-_".contains(Character($0))
                }
        }
        let hasPort = port.map { !$0.isEmpty && $0.allSatisfy(\.isNumber) }
        let isLocal = host == "localhost" || labels.last == "localhost"
        guard areLabels, parts.count <= 2, hasPort != false, isLocal || labels.count > 1 || hasPort == true else {
            return self
        }
        let isThisMachine = isLocal || labels.count == 4 && labels[0] == "127" && labels.allSatisfy { UInt8($0) != nil }
        return (isThisMachine ? "http://" : "https://") + self
    }

    // For speed, a text with a visible ASCII character at each end is returned without calling Foundation.
    var trimmed: String {
        let isVisible = { (byte: UInt8?) in byte.map { (0x21...0x7E).contains($0) } ?? true }
        return isVisible(utf8.first) && isVisible(utf8.last) ? self : trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
