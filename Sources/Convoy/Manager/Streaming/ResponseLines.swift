// The body as lines of text.
import Foundation

/// The body of one response, line by line, for one reader.
///
/// A line ends with LF, CR LF or CR. Empty lines and a last line without an end are included. The text is read as
/// UTF-8, whatever the charset. A byte order mark at the beginning is removed, and invalid bytes become U+FFFD. A line
/// longer than allowed fails the request with `.bodyTooLarge`. After a failure, an incomplete line is dropped.
///
/// Memory is as for ``ResponseChunks``, plus one line. Leaving the loop, or cancelling its task, cancels the request.
///
/// ```swift
/// for try await line in manager.lines(of: .get("https://example.com/log")) {
///     print(line)
/// }
/// ```
///
/// ## Concurrency
/// `Sendable`. Only one task may read the sequence.
///
/// ## Topics
/// - ``operation``
public struct ResponseLines: AsyncSequence, Sendable {
    /// The element type: a line of text.
    public typealias Element = String
    /// The error type of reading.
    public typealias Failure = RequestError

    private let chunks: ResponseChunks
    private let maxLineBytes: Int

    init(_ chunks: ResponseChunks, maxLineBytes: Int64) {
        self.chunks = chunks
        self.maxLineBytes = Int(clamping: maxLineBytes)
    }

    /// The underlying operation, with its head, progress and outcome.
    public var operation: RequestOperation<Void> { chunks.operation }

    /// Makes the iterator; the sequence can be read once.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(chunks: chunks.makeAsyncIterator(), parser: LineParser(maxBytes: maxLineBytes))
    }

    /// Reads the lines.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate var chunks: ResponseChunks.AsyncIterator
        fileprivate var parser: LineParser
        fileprivate var isAtEnd = false

        /// The next line without its end; nil after the last.
        ///
        /// - Throws: the operation's error after the complete lines, `.cancelled` and `.deadlineExceeded` at once; once more
        ///   in later calls.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(RequestError) -> String? {
            while !isAtEnd {
                let line = try chunks.operation.ending { () throws(RequestError) in try parser.next() }
                if let line { return line }
                guard let chunk = try await chunks.next(isolation: actor) else {
                    isAtEnd = true
                    return parser.finish()
                }
                parser.append(chunk)
            }
            return nil
        }
    }
}

extension AnyRequestOperation {
    // Throws if the operation or the task was cancelled, or the deadline has passed. A parse error becomes the
    // operation's outcome, unless it already has one.
    func ending<Value>(with read: () throws(RequestError) -> Value) throws(RequestError) -> Value {
        let isCancelled = Task.isCancelled
        if isCancelled { cancel() }
        let outcome = withLock { $0.outcome?.error }
        if let outcome, [.cancelled, .deadlineExceeded].contains(outcome.code) { throw outcome }
        if isCancelled {
            throw RequestError(.cancelled, "the task that reads it was cancelled").with(request?.summary)
        }
        do throws(RequestError) { return try read() } catch {
            let error = error.with(request?.summary)
            conclude(AnyOutcome(error: error))
            throw error
        }
    }
}

// Lines end in LF, CR LF, or CR alone. Append a chunk, call `next()` until it returns nil, then append the next chunk.
// O(*n*) for *n* bytes, for any size of chunks.
struct LineParser {
    private let maxBytes: Int
    private var chunk = Data()
    private var position = 0
    private var beginning: [UInt8] = []
    /// Whether a CR ended the last line, so that an LF directly after it is skipped.
    private var skipsLineFeed = false
    private var isFirstLine = true

    init(maxBytes: Int) { self.maxBytes = max(0, maxBytes) }

    /// Before that, `next()` must have returned nil for the previous chunk.
    mutating func append(_ chunk: Data) {
        self.chunk = chunk
        position = 0
    }

    // Nil when the parser needs more bytes. A byte order mark at the beginning is removed, and invalid UTF-8 becomes
    // U+FFFD. Throws `.bodyTooLarge`, again at each later call, for a line longer than allowed.
    mutating func next() throws(RequestError) -> String? {
        let (lineFeed, carriageReturn) = (UInt8(ascii: "\n"), UInt8(ascii: "\r"))
        var isTooLong = false
        let line: String? = chunk.withUnsafeBytes { bytes in
            if skipsLineFeed, position < bytes.count {
                if bytes[position] == lineFeed { position += 1 }
                skipsLineFeed = false
            }
            var end = position
            while end < bytes.count, bytes[end] != lineFeed, bytes[end] != carriageReturn { end += 1 }
            let piece = UnsafeRawBufferPointer(rebasing: bytes[position..<end])
            isTooLong = beginning.count + piece.count > maxBytes
            if isTooLong { return nil }
            guard end < bytes.count else {
                beginning.append(contentsOf: piece)
                return nil
            }
            (skipsLineFeed, position) = (bytes[end] == carriageReturn, end + 1)
            if beginning.isEmpty { return text(of: piece) }
            beginning.append(contentsOf: piece)
            return takeBeginning()
        }
        if isTooLong { throw RequestError(.bodyTooLarge, "a line has more than the \(maxBytes) bytes allowed") }
        if line == nil { (chunk, position) = (Data(), 0) }
        return line
    }

    mutating func finish() -> String? {
        guard !beginning.isEmpty else { return nil }
        let (isMark, line) = (isFirstLine, takeBeginning())
        return isMark && line.isEmpty ? nil : line
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
