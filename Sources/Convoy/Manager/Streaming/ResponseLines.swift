// The body as lines of text.
import Foundation

/// The body of one response, line by line, for one reader.
///
/// LF, CR LF and CR alone end a line; a last line without an end is a line, and so is an empty one between two ends. The
/// text is taken for UTF-8, whatever the charset: a byte order mark at its beginning is left out, and what is not valid
/// becomes U+FFFD. A line longer than allowed ends the request with `.bodyTooLarge`. After a failure the lines that were
/// complete come first, then the error; the beginning of a line is dropped.
///
/// Memory is bounded as for ``ResponseChunks``, plus one line. Leaving the loop early, or cancelling its task, cancels the
/// request.
///
/// ```swift
/// for try await line in manager.lines(of: .get("https://example.com/log")) {
///     print(line)
/// }
/// ```
///
/// ## Concurrency
/// `Sendable`; one task reads.
///
/// ## Topics
/// - ``operation``
public struct ResponseLines: AsyncSequence, Sendable {
    /// The elements.
    public typealias Element = String
    /// What reading throws.
    public typealias Failure = RequestError

    private let chunks: ResponseChunks
    private let maxLineBytes: Int

    init(_ chunks: ResponseChunks, maxLineBytes: Int64) {
        self.chunks = chunks
        self.maxLineBytes = Int(clamping: maxLineBytes)
    }

    /// The operation behind it: its head, its progress, its outcome.
    public var operation: RequestOperation<Void> { chunks.operation }

    /// Makes the iterator; the sequence is read once.
    public func makeAsyncIterator() -> AsyncIterator {
        AsyncIterator(
            operation: operation, chunks: chunks.makeAsyncIterator(),
            parser: LineParser(maxBytes: maxLineBytes))
    }

    /// Reads the lines.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let operation: RequestOperation<Void>
        fileprivate var chunks: ResponseChunks.AsyncIterator
        fileprivate var parser: LineParser
        private var end: Result<Void, RequestError>?

        fileprivate init(
            operation: RequestOperation<Void>, chunks: ResponseChunks.AsyncIterator, parser: LineParser
        ) {
            (self.operation, self.chunks, self.parser) = (operation, chunks, parser)
        }

        /// The next line without its end, nil after the last.
        ///
        /// - Throws: the operation's error, after the lines that were complete; again when asked again.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(RequestError) -> String? {
            if let end {
                try end.get()
                return nil
            }
            do throws(RequestError) {
                while true {
                    if let line = try operation.ending(with: { () throws(RequestError) in try parser.next() }) {
                        return line
                    }
                    guard let chunk = try await chunks.next(isolation: actor) else { break }
                    parser.append(chunk)
                }
            } catch {
                end = .failure(error)
                throw error
            }
            end = .success(())
            return parser.finish()
        }

        /// The next line without its end, nil after the last.
        public mutating func next() async throws(RequestError) -> String? { try await next(isolation: nil) }
    }
}

extension AnyRequestOperation {
    /// Reads what has arrived; an error there is the operation's outcome, unless it has one.
    func ending<Value>(with read: () throws(RequestError) -> Value) throws(RequestError) -> Value {
        do throws(RequestError) { return try read() } catch {
            let error = error.with(request?.summary)
            conclude(AnyOutcome(error: error))
            throw error
        }
    }
}
