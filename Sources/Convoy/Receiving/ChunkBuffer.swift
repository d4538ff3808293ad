// The body as a sequence of chunks: between the transport and the reader.
import Foundation

/// Holds chunks until the reader takes them.
final class ChunkBuffer: Sendable {
    private struct State {
        var chunks: [Data] = []
        var next = 0
        var waitingBytes: Int64 = 0
        var hasDelivered = false
        var end: RequestError??
        var continuation: CheckedContinuation<Result<Data?, RequestError>, Never>?
        var isHeld = false
        var highWaterBytes = ChunkBuffer.highWaterBytes
    }

    /// From here on the transport is asked to pause, where it can; less when the request allows less.
    private static let highWaterBytes: Int64 = 1 << 20

    private let state = Locked(State())
    /// Tells that ``isHeld`` has changed; called with no lock held, so it may come late: look then.
    private let holdChanged: @Sendable () -> Void

    init(holdChanged: @escaping @Sendable () -> Void) { self.holdChanged = holdChanged }

    /// Whether the reader is so far behind that no more should come.
    var isHeld: Bool { state.withLock { $0.isHeld } }

    /// A body begins.
    ///
    /// One that begins again after bytes have been read cannot be continued.
    func makeSink(limit: Int64) throws(RequestError) -> any BodySink {
        let (hasDelivered, wasHeld) = state.withLock { state in
            (state.chunks, state.next, state.waitingBytes) = ([], 0, 0)
            defer { state.isHeld = false }
            state.highWaterBytes = min(Self.highWaterBytes, max(1, limit / 2))
            return (state.hasDelivered, state.isHeld)
        }
        if wasHeld { holdChanged() }
        guard !hasDelivered else {
            throw RequestError(.bodyNotReplayable, "the body began again after some of it had been read")
        }
        return Sink(buffer: self, limit: limit)
    }

    private final class Sink: BodySink {
        let buffer: ChunkBuffer
        let limit: Int64

        init(buffer: ChunkBuffer, limit: Int64) {
            self.buffer = buffer
            self.limit = limit
        }

        func write(_ data: Data) throws(RequestError) { try buffer.append(data, limit: limit) }
        func finish(_ completion: @escaping @Sendable (Result<ReceivedBody, RequestError>) -> Void) {
            completion(.success(ReceivedBody()))
        }
        func discard() {}
    }

    private func append(_ data: Data, limit: Int64) throws(RequestError) {
        guard !data.isEmpty else { return }
        let (continuation, holds, waiting) = state.withLock { state in
            if let continuation = state.continuation {
                state.continuation = nil
                state.hasDelivered = true
                return (Optional(continuation), false, Int64(0))
            }
            state.chunks.append(data)
            state.waitingBytes += Int64(data.count)
            let holds = !state.isHeld && state.waitingBytes >= state.highWaterBytes
            if holds { state.isHeld = true }
            return (nil, holds, state.waitingBytes)
        }
        continuation?.resume(returning: .success(data))
        if waiting > limit { throw .tooLarge("the reader is behind by \(waiting) bytes", limit: limit) }
        if holds { holdChanged() }
    }

    /// Nothing follows: nil for a complete body.
    func end(_ error: RequestError?) {
        let continuation = state.withLock { state in
            if state.end == nil { state.end = .some(error) }
            defer { state.continuation = nil }
            return state.continuation
        }
        continuation?.resume(returning: error.map { .failure($0) } ?? .success(nil))
    }

    /// The next chunk, nil after the last one of a complete body, or why there is none.
    func next() async -> Result<Data?, RequestError> {
        await withCheckedContinuation { continuation in
            let (ready, releases): (Result<Data?, RequestError>?, Bool) = state.withLock { state in
                if state.next < state.chunks.count {
                    let chunk = state.chunks[state.next]
                    state.next += 1
                    if state.next == state.chunks.count { (state.chunks, state.next) = ([], 0) }
                    state.waitingBytes -= Int64(chunk.count)
                    state.hasDelivered = true
                    let releases = state.isHeld && state.waitingBytes <= state.highWaterBytes / 2
                    if releases { state.isHeld = false }
                    return (.success(chunk), releases)
                }
                if let end = state.end { return (end.map { .failure($0) } ?? .success(nil), false) }
                if state.continuation != nil { return (.success(nil), false) }
                state.continuation = continuation
                return (nil, false)
            }
            if releases { holdChanged() }
            if let ready { continuation.resume(returning: ready) }
        }
    }
}
