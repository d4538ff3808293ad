// The body as an AsyncSequence.
import Foundation

/// The body of one response, chunk by chunk, for one reader.
///
/// The chunks arrive as the transport delivers them; small chunks that wait for the reader are joined. If the reader is
/// slow, the transport pauses. A transport that cannot pause (URLSession on Linux) buffers at most 64 MiB, then the
/// request fails with `.bodyTooLarge`. The request fails likewise if the complete body exceeds
/// ``Request/maxBodyBytes(_:)``. Leaving the loop early, or cancelling its task, cancels the request.
///
/// ```swift
/// for try await chunk in manager.chunks(of: .get(url)) {
///     hasher.update(data: chunk)
/// }
/// ```
public struct ResponseChunks: AsyncSequence, Sendable {
    /// The element type: a chunk of the body.
    public typealias Element = Data
    /// The error type of reading.
    public typealias Failure = RequestError

    /// The underlying operation, with its head, progress and outcome.
    public let operation: RequestOperation<Void>

    let buffer: ChunkBuffer
    fileprivate let reader: Reader

    init(operation: RequestOperation<Void>, buffer: ChunkBuffer) {
        self.operation = operation
        self.buffer = buffer
        reader = Reader(operation: operation)
        operation.whenFinished(FinishHandler(place: .here) { buffer.end($0.error) })
    }

    /// Makes the iterator.
    ///
    /// The sequence can be read once.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(buffer: buffer, reader: reader) }

    /// Reads the chunks.
    public struct AsyncIterator: AsyncIteratorProtocol {
        let buffer: ChunkBuffer
        fileprivate let reader: Reader

        /// The next chunk; nil after the last.
        ///
        /// - Throws: the operation's error, after the chunks that had arrived. `.deadlineExceeded` and `.cancelled`
        ///   are thrown at once.
        public mutating func next(isolation _: isolated (any Actor)?) async throws(RequestError) -> Data? {
            try await ResponseChunks.next(of: buffer, reader.operation)
        }

        /// The next chunk; nil after the last.
        public mutating func next() async throws(RequestError) -> Data? {
            try await ResponseChunks.next(of: buffer, reader.operation)
        }
    }

    private static func next(of buffer: ChunkBuffer, _ operation: AnyRequestOperation) async throws(RequestError)
        -> Data?
    {
        let result = await withTaskCancellationHandler {
            await buffer.next()
        } onCancel: {
            operation.context.taskControl.async { operation.cancel() }
        }
        return try result.get()
    }

    /// Cancels the request when the sequence and its last iterator are released.
    fileprivate final class Reader: Sendable {
        let operation: RequestOperation<Void>

        init(operation: RequestOperation<Void>) { self.operation = operation }

        deinit { operation.cancel() }
    }
}
