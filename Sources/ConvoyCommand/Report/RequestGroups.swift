// Groups of a report's requests.

/// The requests of each host, name or status, of one report or two side by side.
struct RequestGroups: Equatable, Sendable {
    /// The property that defines a group.
    enum Key: String, CaseIterable, Sendable {
        case host, name, status
    }

    /// The requests of one group in one report.
    struct Cell: Equatable, Sendable {
        var count = 0
        var failed = 0
        var times: [Int64] = []

        mutating func add(_ record: RequestRecord) {
            count += 1
            if record.outcome == .failed { failed += 1 }
            if let time = record.time { times.append(time) }
        }
    }

    struct Group: Equatable, Sendable {
        let name: String
        /// One cell for each report.
        let cells: [Cell]
    }

    /// The maximum number of stored groups, because every request may be its own group.
    static let limit = 200

    /// The groups, the largest first.
    let groups: [Group]
    /// The number of groups, including those beyond the limit.
    let count: Int

    /// - Complexity: O(*n* log *n*) for *n* requests.
    init(_ sides: [[RequestRecord]], by key: Key) {
        var cells: [String: [Cell]] = [:]
        for (side, records) in sides.enumerated() {
            for record in records {
                cells[record.group(by: key), default: Array(repeating: Cell(), count: sides.count)][side].add(record)
            }
        }
        count = cells.count
        groups = cells.map { (name: $0, cells: $1, total: $1.reduce(0) { $0 + $1.count }) }
            .sorted { ($1.total, $0.name) < ($0.total, $1.name) }
            .prefix(Self.limit)
            .map { Group(name: $0.name, cells: $0.cells) }
    }
}

extension RequestRecord {
    /// The group of the record.
    ///
    /// `groupOf` in the script of the page has the same rules.
    func group(by key: RequestGroups.Key) -> String {
        switch key {
        case .host: return String(urlParts.host)
        case .status: return status.map(String.init) ?? code ?? outcome.word
        case .name:
            if !name.isEmpty { return name }
            return [method, urlParts.path.withMaskedDigits].filter { !$0.isEmpty }.joined(separator: " ")
        }
    }

    /// The host with its port, and the path.
    ///
    /// Both are cut from the text, because the URL may be invalid.
    private var urlParts: (host: Substring, path: Substring) {
        let scheme = url.utf8.firstIndex(of: UInt8(ascii: ":")).map { url[$0...] }
        guard let scheme, scheme.hasPrefix("://") else { return ("", path(of: url[...])) }
        let rest = scheme.dropFirst(3)
        let end = rest.utf8.firstIndex { "/?#".utf8.contains($0) } ?? rest.endIndex
        return (rest[..<end], path(of: rest[end...]))
    }

    private func path(of text: Substring) -> Substring {
        text[..<(text.utf8.firstIndex { "?#".utf8.contains($0) } ?? text.endIndex)]
    }
}

extension Substring {
    /// The text with each number replaced by `*`, so that items with different numbers share a group.
    fileprivate var withMaskedDigits: String {
        var (bytes, isInRun) = ([UInt8](), false)
        for byte in utf8 {
            let isDigit = (0x30...0x39).contains(byte)
            if !isDigit { bytes.append(byte) } else if !isInRun { bytes.append(UInt8(ascii: "*")) }
            isInRun = isDigit
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
