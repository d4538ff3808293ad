// Splits blocks of bytes into lines of text.

/// One line of a file without its line end, with its number from 1.
struct NumberedLine: Equatable, Sendable {
    enum Content: Equatable, Sendable {
        case text(String)
        case broken(reason: String)
    }

    let number: Int
    let content: Content
}

/// Splits arriving bytes at `\n` or `\r\n`.
///
/// A byte order mark at the start is removed.
///
/// The splitter stores only the last, incomplete line, up to a limit.
struct LineSplitter {
    static let limitBytes = 64 * 1_024
    /// The limit for lines of XML and of JSON arrays, because such a document may be one line.
    static let limitBytesOfXML = 16 << 20

    private var open: [UInt8] = []
    /// Whether the first line that is neither blank nor a comment is XML or an array; nil before that line.
    private var isDocument: Bool?
    private var isTooLong = false
    private var lineCount = 0

    /// Splits a block, and returns the lines that it completes.
    mutating func split(_ block: some Collection<UInt8>) -> [NumberedLine] {
        var lines: [NumberedLine] = []
        var rest = block[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            keep(rest[..<end])
            lines.append(takeLine())
            rest = rest[rest.index(after: end)...]
        }
        keep(rest)
        return lines
    }

    /// The last line, if it has no line end.
    mutating func finish() -> NumberedLine? { open.isEmpty && !isTooLong ? nil : takeLine() }

    private mutating func keep(_ bytes: some Collection<UInt8>) {
        guard !isTooLong else { return }
        open += bytes
        if isDocument == nil, let first = open.first(where: { !Self.blanks.contains($0) }), first != UInt8(ascii: "#") {
            isDocument = first == UInt8(ascii: "<") || first == UInt8(ascii: "[")
        }
        isTooLong = open.count > limit
        if isTooLong { open = [] }
    }

    private var limit: Int { isDocument == true ? Self.limitBytesOfXML : Self.limitBytes }

    /// White space, and the bytes of a byte order mark.
    private static let blanks: Set<UInt8> = [0x20, 0x09, 0x0D, 0xEF, 0xBB, 0xBF]

    private mutating func takeLine() -> NumberedLine {
        defer {
            open.removeAll(keepingCapacity: true)
            isTooLong = false
        }
        lineCount += 1
        return NumberedLine(number: lineCount, content: content)
    }

    private var content: NumberedLine.Content {
        if isTooLong { return .broken(reason: "it is longer than \(limit) bytes") }
        var bytes = open[...]
        if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        if lineCount == 1, bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes = bytes.dropFirst(3) }
        if bytes.contains(0) { return .broken(reason: "it contains NUL") }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            return .broken(reason: "it is not valid UTF-8")
        }
        return .text(text)
    }
}
