// Reading what the caller's own streams and sequences give.
import Foundation

/// Reads a stream of the caller's, and holds it to its length.
final class StreamReader: BlockingReader, @unchecked Sendable {
    // @unchecked: one at a time, as BlockingReader says.
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
            // A class of the caller's may claim anything.
            guard (0...wanted).contains(count) else { return .failure(failure) }
            if let defect = length.add(count) { return .failure(defect) }
        }
        isAtEnd = count == 0
        // Before the last bytes are given: the server must not take a part for the whole.
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
        // Asked for without an error, as after a stream has been closed, Foundation's `streamError` traps.
        let error = stream.streamStatus == .error ? stream.streamError : nil
        let reason = error.map { ": \($0.localizedDescription)" } ?? ""
        return RequestError(.bodyUnreadable, "the body's stream failed\(reason)", underlying: error)
    }
}

/// Reads a sequence of the caller's, and holds it to its length.
final class SequenceReader<Chunks: AsyncSequence & Sendable>: WaitingReader where Chunks.Element == Data {
    /// The iterator and its length so far; one at a time.
    private final class Position: @unchecked Sendable {
        // @unchecked: see above.
        private var iterator: Chunks.AsyncIterator
        private var length: LengthCheck
        /// A chunk that is given when the next one is known, or the end.
        private var kept: Data?
        private var isAtEnd = false

        init(_ chunks: Chunks, byteCount: Int64?) {
            iterator = chunks.makeAsyncIterator()
            length = LengthCheck(byteCount)
        }

        func next() async -> Result<Data?, RequestError> {
            do {
                // Not again after the end, whatever the iterator would do then.
                while !isAtEnd {
                    // Asked in a cancelled task too: only so does a stream tell its source that reading has ended.
                    guard let chunk = try await iterator.next() else {
                        isAtEnd = true
                        break
                    }
                    guard !chunk.isEmpty else {
                        // One that gives nothing for ever would not notice.
                        try Task.checkCancellation()
                        continue
                    }
                    if let defect = length.add(chunk.count) { return .failure(defect) }
                    // The last bytes wait for the end: the server must not take a part for the whole.
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

    private let position: Position
    private let priority: TaskPriority
    private let task = Locked<Task<Void, Never>?>(nil)

    init(_ chunks: Chunks, byteCount: Int64?, priority: TaskPriority) {
        position = Position(chunks, byteCount: byteCount)
        self.priority = priority
    }

    deinit { task.withLock { $0 }?.cancel() }

    func read(_ take: @escaping @Sendable (Result<Data?, RequestError>) -> Bool) {
        let position = position
        // Made under the lock: one that has ended at once must not take the place of the next one.
        task.withLock { task in
            // As many chunks as are wanted: a task for each would cost more than most chunks.
            task = Task(priority: priority) { while take(await position.next()) {} }
        }
    }
}

/// Whether a body is as long as was declared.
private struct LengthCheck {
    private let byteCount: Int64?
    private var count: Int64 = 0

    init(_ byteCount: Int64?) { self.byteCount = byteCount }

    /// Whether everything that was declared has come; never when nothing was.
    var isComplete: Bool { count == byteCount }

    func limit(_ wanted: Int) -> Int { byteCount.map { min(wanted, Int(clamping: $0 - count)) } ?? wanted }

    /// Counts bytes that have come, none at the end; the result is what is wrong.
    mutating func add(_ more: Int) -> RequestError? {
        count += Int64(more)
        guard let byteCount else { return nil }
        if count > byteCount { return surplus }
        guard more == 0, count < byteCount else { return nil }
        return RequestError(
            .bodyUnreadable, "the body ended after \(count) bytes, and \(byteCount) had been declared")
    }

    var surplus: RequestError {
        RequestError(.bodyUnreadable, "the body is longer than the \(byteCount ?? 0) bytes that had been declared")
    }
}
