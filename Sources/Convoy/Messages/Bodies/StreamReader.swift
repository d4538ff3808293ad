// Reads streams and sequences of the caller.
import Foundation

final class StreamReader: BlockingReader, @unchecked Sendable {
    // @unchecked: one thread at a time uses the reader, as BlockingReader requires.
    private let stream: InputStream
    private var length: LengthCheck
    private var isAtEnd = false

    init(_ stream: InputStream, byteCount: Int64?) {
        self.stream = stream
        length = LengthCheck(byteCount)
        stream.open()
    }

    deinit { stream.close() }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> Result<Int, RequestError> {
        let wanted = length.limit(buffer.count)
        guard !isAtEnd, let base = buffer.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return .success(0) }
        var count = 0
        if wanted > 0 {
            count = stream.read(base, maxLength: wanted)
            // The stream may be the caller's subclass of `InputStream`, whose `read` may return any count.
            guard (0...wanted).contains(count) else { return .failure(failure) }
            if let defect = length.add(count) { return .failure(defect) }
        }
        isAtEnd = count == 0
        // This check precedes the return of the last bytes. Otherwise the server would receive a body that looks
        // complete.
        guard length.isComplete else { return .success(count) }
        isAtEnd = true
        var surplus: UInt8 = 0
        switch stream.read(&surplus, maxLength: 1) {
        case 0: return .success(count)
        case 1: return .failure(length.surplus)
        default: return .failure(failure)
        }
    }

    private var failure: RequestError {
        // `streamError` is read only after an error. Without one, as of a closed stream, Foundation's property traps.
        let error = stream.streamStatus == .error ? stream.streamError : nil
        let reason = error.map { ": \($0.localizedDescription)" } ?? ""
        return RequestError(.bodyUnreadable, "the body's stream failed\(reason)", underlying: error)
    }
}

/// Reads chunks in order, which arrive at any time; releasing the reader stops the reading.
final class SequenceReader: Sendable {
    /// Reads a chunk, empty if there is none yet, and notes the end of the sequence.
    typealias Step<Chunks: AsyncSequence> =
        @Sendable (_ iterator: inout Chunks.AsyncIterator, _ isAtEnd: inout Bool) async throws -> Data

    private final class Position<Chunks: AsyncSequence & Sendable>: @unchecked Sendable {
        // @unchecked: one task at a time uses the position.
        private var iterator: Chunks.AsyncIterator
        private let step: Step<Chunks>
        private var length: LengthCheck
        /// The last chunk, which `next` returns only when the sequence has ended.
        private var kept: Data?
        private var isAtEnd = false

        init(_ chunks: Chunks, byteCount: Int64?, _ step: @escaping Step<Chunks>) {
            (iterator, self.step, length) = (chunks.makeAsyncIterator(), step, LengthCheck(byteCount))
        }

        func next() async -> Result<Data?, RequestError> {
            do {
                // After its end, the iterator is not called: its behaviour would be undefined.
                while !isAtEnd {
                    // A cancelled task calls `step` too: only this call tells the source of an AsyncStream of the end.
                    let chunk = try await step(&iterator, &isAtEnd)
                    guard !chunk.isEmpty else {
                        // A sequence of only empty chunks would not notice the cancellation.
                        if !isAtEnd { try Task.checkCancellation() }
                        continue
                    }
                    if let defect = length.add(chunk.count) { return .failure(defect) }
                    // The last chunk waits until the sequence ends. Otherwise the server would receive a body that
                    // looks complete.
                    guard length.isComplete else { return .success(chunk) }
                    kept = chunk
                }
            } catch {
                return .failure(
                    RequestError(.bodyUnreadable, "the body's sequence failed: \(error)", underlying: error))
            }
            defer { kept = nil }
            if let kept { return .success(kept) }
            return length.add(0).map { .failure($0) } ?? .success(nil)
        }
    }

    private let next: @Sendable () async -> Result<Data?, RequestError>
    private let priority: TaskPriority
    private let task = Locked<Task<Void, Never>?>(nil)

    init<Chunks: AsyncSequence & Sendable>(
        _ chunks: Chunks, byteCount: Int64?, priority: TaskPriority, _ step: @escaping Step<Chunks>
    ) {
        let position = Position(chunks, byteCount: byteCount, step)
        (next, self.priority) = ({ await position.next() }, priority)
    }

    deinit { task.withLock { $0 }?.cancel() }

    // One call at a time. While it returns true, `take` receives chunks that are not empty, then nil, on any thread.
    // After false, which it must return at the end, `read` may be called again. A released reader may pass no more.
    func read(_ take: @escaping @Sendable (Result<Data?, RequestError>) -> Bool) {
        // The task is assigned under the lock. Otherwise a task that ends at once could overwrite its successor.
        task.withLock { task in
            // One task reads many chunks, because making a task costs more than most chunks.
            task = Task(priority: priority) { [next] in while take(await next()) {} }
        }
    }
}

private struct LengthCheck {
    private let byteCount: Int64?
    private var count: Int64 = 0

    init(_ byteCount: Int64?) { self.byteCount = byteCount }

    var isComplete: Bool { count == byteCount }

    func limit(_ wanted: Int) -> Int { byteCount.map { min(wanted, Int(clamping: $0 - count)) } ?? wanted }

    /// 0 means that the body has ended; returns an error if the body is longer or shorter than declared.
    mutating func add(_ more: Int) -> RequestError? {
        count += Int64(more)
        guard let byteCount else { return nil }
        if count > byteCount { return surplus }
        guard more == 0, count < byteCount else { return nil }
        return RequestError(
            .bodyUnreadable, "the body ended after \(count) bytes, but \(byteCount) were declared")
    }

    var surplus: RequestError {
        RequestError(.bodyUnreadable, "the body is longer than the \(byteCount ?? 0) bytes that were declared")
    }
}

/// The bytes that the caller's code produces while they are sent
/// (``Request/body(byteCount:canRepeat:contentType:stream:)`` and its variants); a stream is equal only to itself.
public final class BodyStream: Sendable, Hashable {
    /// The length in bytes; with nil the body is sent in chunks (RFC 9112, section 7.1).
    public let byteCount: Int64?
    /// Whether the stream can be read again from its beginning.
    public let canRepeat: Bool
    /// Whether the bytes come from an async sequence, so that no thread should wait for them.
    let comesInItsOwnTime: Bool
    private let open: @Sendable () throws(RequestError) -> BodyReading
    private let hasBegun = Locked(false)

    private init(
        byteCount: Int64?, canRepeat: Bool, comesInItsOwnTime: Bool,
        open: @escaping @Sendable () throws(RequestError) -> BodyReading
    ) {
        (self.byteCount, self.canRepeat, self.open) = (byteCount, canRepeat, open)
        self.comesInItsOwnTime = comesInItsOwnTime
    }

    var isUsedUp: Bool { !canRepeat && hasBegun.withLock { $0 } }

    // The thread may block, and runs the caller's code. Throws `.bodyNotReplayable` if reading has begun before and
    // cannot be repeated, `.bodyUnreadable` if the stream cannot be opened.
    func begin() throws(RequestError) -> BodyReading {
        let mayBegin = hasBegun.withLock { hasBegun in
            defer { hasBegun = true }
            return canRepeat || !hasBegun
        }
        guard mayBegin else { throw .bodyNotReplayable }
        return try open()
    }

    static func stream(
        byteCount: Int64?, canRepeat: Bool, _ make: @escaping @Sendable () -> InputStream?
    ) -> BodyStream {
        BodyStream(byteCount: byteCount, canRepeat: canRepeat, comesInItsOwnTime: false) { () throws(RequestError) in
            guard let stream = make() else {
                throw RequestError(.bodyUnreadable, "the body cannot be sent: its closure returned no stream")
            }
            return .blocking(StreamReader(stream, byteCount: byteCount))
        }
    }

    /// The chunks of a sequence, requested with the priority of the task that builds the request.
    static func sequence<Chunks: AsyncSequence & Sendable>(
        _ chunks: Chunks, byteCount: Int64?, canRepeat: Bool, _ step: @escaping SequenceReader.Step<Chunks>
    ) -> BodyStream {
        let priority = Task.currentPriority
        return BodyStream(byteCount: byteCount, canRepeat: canRepeat, comesInItsOwnTime: true) {
            () throws(RequestError) in
            .waiting(SequenceReader(chunks, byteCount: byteCount, priority: priority, step))
        }
    }

    /// Whether both are the same stream.
    public static func == (left: BodyStream, right: BodyStream) -> Bool { left === right }
    /// Hashes its identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}
