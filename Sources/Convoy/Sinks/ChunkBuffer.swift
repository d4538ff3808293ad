// The body as a sequence of chunks, between the transport and the reader.
import Foundation

final class ChunkBuffer: BodySink {
    private struct State {
        var chunks: [Data] = []
        var backlog = Backlog()
        var hasDelivered = false
        var end: RequestError??
        var continuation: CheckedContinuation<Result<Data?, RequestError>, Never>?
        var calls: SinkCalls?
    }

    private let state = Locked(State())

    var isPaused: Bool { state.withLock { $0.backlog.isPaused } }

    var hasDelivered: Bool { state.withLock { $0.hasDelivered } }

    /// A body that starts over after bytes were read is an error.
    func begin(limit: Int64, calls: SinkCalls) throws(RequestError) {
        let (hasDelivered, old) = state.withLock { state in
            (state.chunks, state.backlog) = ([], Backlog(limit: limit, canPause: calls.canPause))
            defer { state.calls = calls }
            return (state.hasDelivered, state.calls)
        }
        withExtendedLifetime(old) {}
        guard !hasDelivered else {
            throw RequestError(.bodyNotReplayable, "the body started over after some of it had been read")
        }
    }

    func write(_ data: Data) throws(RequestError) {
        guard !data.isEmpty else { return }
        let (continuation, backlog) = state.withLock { state in
            if let continuation = state.continuation {
                (state.continuation, state.hasDelivered) = (nil, true)
                return (Optional(continuation), state.backlog)
            }
            if let last = state.chunks.indices.last, state.chunks[last].count + data.count <= 16_384 {
                state.chunks[last].append(data)
            } else {
                state.chunks.append(data)
            }
            state.backlog.add(data.count)
            return (nil, state.backlog)
        }
        continuation?.resume(returning: .success(data))
        try backlog.checkLimit("the reader", "unread")
    }

    func finish(_ completion: Callback<ReceivedBody>) { completion(.success(ReceivedBody())) }

    func end(_ error: RequestError?) {
        let (continuation, calls) = state.withLock { state in
            if state.end == nil { state.end = .some(error) }
            // A cancellation or deadline does not wait until the remaining chunks are read.
            if let error, [.deadlineExceeded, .cancelled].contains(error.code) { state.chunks = [] }
            defer { (state.continuation, state.calls) = (nil, nil) }
            return (state.continuation, state.calls)
        }
        withExtendedLifetime(calls) {}
        continuation?.resume(returning: error.map { .failure($0) } ?? .success(nil))
    }

    func next() async -> Result<Data?, RequestError> {
        await withCheckedContinuation { continuation in
            let (ready, calls): (Result<Data?, RequestError>?, SinkCalls?) = state.withLock { state in
                if !state.chunks.isEmpty {
                    let chunk = state.chunks.removeFirst()
                    state.hasDelivered = true
                    return (.success(chunk), state.backlog.remove(chunk.count) ? state.calls : nil)
                }
                if let end = state.end { return (end.map { .failure($0) } ?? .success(nil), nil) }
                if state.continuation != nil { return (.success(nil), nil) }
                state.continuation = continuation
                return (nil, nil)
            }
            calls?.caughtUp()
            if let ready { continuation.resume(returning: ready) }
        }
    }
}
