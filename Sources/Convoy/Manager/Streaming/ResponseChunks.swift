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

    private let buffer: ChunkBuffer
    private let reader: Reader

    init(operation: RequestOperation<Void>, buffer: ChunkBuffer) {
        self.operation = operation
        self.buffer = buffer
        reader = Reader(operation: operation)
        operation.whenFinished(FinishHandler(place: .here) { buffer.end($0.error) })
    }

    /// Makes the iterator; the sequence can be read once.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(buffer: buffer, reader: reader) }

    /// Reads the chunks.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let buffer: ChunkBuffer
        fileprivate let reader: Reader

        var operation: RequestOperation<Void> { reader.operation }

        /// The next chunk; nil after the last.
        ///
        /// - Throws: the operation's error, after the chunks that had arrived. `.deadlineExceeded` and `.cancelled`
        ///   are thrown at once.
        public mutating func next(isolation _: isolated (any Actor)?) async throws(RequestError) -> Data? {
            let (buffer, operation) = (buffer, operation)
            let result = await withTaskCancellationHandler {
                await buffer.next()
            } onCancel: {
                operation.scheduler.taskControl.async { operation.cancel() }
            }
            return try result.get()
        }
    }

    /// Cancels the request when the sequence and its last iterator are released.
    fileprivate final class Reader: Sendable {
        let operation: RequestOperation<Void>

        init(operation: RequestOperation<Void>) { self.operation = operation }

        deinit { operation.cancel() }
    }
}

extension RequestManager {
    /// Sends a request at once and reads its body line by line (``ResponseLines``); a line of more than `maxLineBytes`,
    /// without its end, fails the request with `.bodyTooLarge`.
    public func lines(of request: Request<Data>, maxLineBytes: Int64 = 1 << 20) -> ResponseLines {
        ResponseLines(chunks(of: request), maxLineBytes: maxLineBytes)
    }

    /// Sends a request and reads server-sent events, whose lines and data have at most `maxEventBytes`, by default 1
    /// MiB.
    ///
    /// As in a browser, a new connection follows one that ended, with or without an error, with the last event's id in
    /// `Last-Event-ID`; to resume after an earlier run, set that field on the request. For responses that have an end,
    /// use ``RetryPolicy/never``. The wait before a reconnection is the server's `retry`, or else three seconds, or a
    /// longer `Retry-After` of a failed response, at most the policy's `maxRetryAfter`, plus the policy's own wait.
    /// `maxRetries` limits the reconnections since the last event. As for retries, the policy decides which failures,
    /// status codes and methods allow a reconnection. `Accept` and `Cache-Control` are added if they are missing.
    ///
    /// If the server is silent for longer than ``Request/idleTimeout(_:)``, the connection counts as lost, so set that
    /// timeout above the longest pause of the server.
    public func events(
        of request: Request<Data>, reconnecting policy: RetryPolicy = .standard, maxEventBytes: Int64 = 1 << 20
    ) -> ServerSentEvents {
        // Only 200 and 204 are accepted. A 204 ends the stream without a reconnection (HTML standard, section 9.2.3).
        var request = request.acceptableStatusCodes(.codes([200, 204])).acceptableContentTypes("text/event-stream")
        for (name, value) in [("Accept", "text/event-stream"), ("Cache-Control", "no-store")]
        where !request.headerFields.contains(name) {
            request = request.header(name, value)
        }
        return ServerSentEvents(
            manager: self, request: request, reconnecting: policy, maxEventBytes: Int(clamping: maxEventBytes))
    }
}
