// Parses lines of text from chunks of any size.
import Foundation

/// Splits UTF-8 text at its line ends: LF, CR LF, or CR alone.
///
/// Append a chunk, call `next()` until it returns nil, then append the next chunk.
///
/// - Complexity: O(*n*) for *n* bytes, for any size of chunks.
struct LineParser {
    private let maxBytes: Int
    private var chunk = Data()
    /// The offset of the first byte of the chunk that has not been parsed.
    private var position = 0
    /// The start of a line whose end has not arrived.
    private var beginning: [UInt8] = []
    /// Whether a CR ended the last line, so that an LF directly after it is skipped.
    private var skipsLineFeed = false
    private var isFirstLine = true

    init(maxBytes: Int) { self.maxBytes = max(0, maxBytes) }

    /// Adds a chunk.
    ///
    /// Before that, `next()` must have returned nil for the previous chunk.
    mutating func append(_ chunk: Data) {
        self.chunk = chunk
        position = 0
    }

    /// The next line without its end; nil when the parser needs more bytes.
    ///
    /// A byte order mark at the beginning is removed. Invalid UTF-8 becomes U+FFFD.
    ///
    /// - Throws: `.bodyTooLarge` for a line longer than allowed. Do not call this method again after that.
    mutating func next() throws(RequestError) -> String? {
        let (start, end, found) = find()
        guard beginning.count + end - start <= maxBytes else {
            throw RequestError(.bodyTooLarge, "a line has more than the \(maxBytes) bytes allowed")
        }
        let line: String? = chunk.withUnsafeBytes { bytes in
            let piece = UnsafeRawBufferPointer(rebasing: bytes[start..<end])
            guard found, beginning.isEmpty else {
                beginning.append(contentsOf: piece)
                return nil
            }
            return text(of: piece)
        }
        guard found else {
            (chunk, position) = (Data(), 0)
            return nil
        }
        return line ?? takeBeginning()
    }

    /// The last line, if the text does not end with a line end.
    mutating func finish() -> String? {
        guard !beginning.isEmpty else { return nil }
        let (isMark, line) = (isFirstLine, takeBeginning())
        return isMark && line.isEmpty ? nil : line
    }

    /// Finds the next line end and moves past it.
    private mutating func find() -> (start: Int, end: Int, found: Bool) {
        chunk.withUnsafeBytes { bytes in
            if skipsLineFeed, position < bytes.count {
                if bytes[position] == UInt8(ascii: "\n") { position += 1 }
                skipsLineFeed = false
            }
            let start = position
            var end = start
            while end < bytes.count, bytes[end] != UInt8(ascii: "\n"), bytes[end] != UInt8(ascii: "\r") { end += 1 }
            guard end < bytes.count else { return (start, end, false) }
            skipsLineFeed = bytes[end] == UInt8(ascii: "\r")
            position = end + 1
            return (start, end, true)
        }
    }

    private mutating func takeBeginning() -> String {
        defer { beginning = [] }
        return beginning.withUnsafeBytes { text(of: $0) }
    }

    private mutating func text(of bytes: UnsafeRawBufferPointer) -> String {
        defer { isFirstLine = false }
        let hasMark = isFirstLine && bytes.starts(with: [0xEF, 0xBB, 0xBF])
        return String(decoding: hasMark ? UnsafeRawBufferPointer(rebasing: bytes[3...]) : bytes, as: UTF8.self)
    }
}
