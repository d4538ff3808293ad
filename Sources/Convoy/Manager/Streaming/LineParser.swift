// Lines of text out of chunks that are cut anywhere.
import Foundation

/// Takes a text in UTF-8 apart at its line ends: LF, CR LF, or CR alone.
///
/// A value, fed with one chunk after another: append one, take lines until there is none, append the next.
///
/// - Complexity: O(*n*) for *n* bytes, however they are cut.
struct LineParser {
    private let maxBytes: Int
    private var chunk = Data()
    /// The first byte of the chunk that has not been taken, from 0.
    private var position = 0
    /// The beginning of a line whose end has not come.
    private var beginning: [UInt8] = []
    /// A CR has ended the last line; an LF right behind it belongs to it.
    private var skipsLineFeed = false
    private var isFirstLine = true

    init(maxBytes: Int) { self.maxBytes = max(0, maxBytes) }

    /// Adds a chunk; every line of the one before must have been taken.
    mutating func append(_ chunk: Data) {
        self.chunk = chunk
        position = 0
    }

    /// The next line without its end, nil when more has to come.
    ///
    /// A byte order mark at the beginning is left out; what is not UTF-8 becomes U+FFFD.
    ///
    /// - Throws: `.bodyTooLarge` for a line that is longer than allowed; nothing may be asked after that.
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

    /// The last line, when the text does not end with a line end.
    mutating func finish() -> String? {
        guard !beginning.isEmpty else { return nil }
        let (isMark, line) = (isFirstLine, takeBeginning())
        return isMark && line.isEmpty ? nil : line
    }

    /// Looks for the next line end and steps over it.
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
