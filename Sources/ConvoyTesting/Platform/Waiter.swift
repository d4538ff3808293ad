import Convoy

/// One bounded wait of a test for something the server does: resolved once, the first wins.
final class Waiter<Value: Sendable>: Sendable {
    private enum Phase: Sendable {
        /// Not waited for yet. Next: waiting, resolved.
        case idle
        /// A task is suspended. Next: resolved.
        case waiting(CheckedContinuation<Result<Value, TestServerError>, Never>)
        /// The end.
        case resolved(Result<Value, TestServerError>)
    }

    private let phase = Locked(Phase.idle)

    /// Stores the result and wakes the waiting task; `false` if a result, a time-out or a cancellation was first.
    @discardableResult
    func resolve(_ result: Result<Value, TestServerError>) -> Bool {
        let (isFirst, continuation) = phase.withLock { phase in
            switch phase {
            case .idle:
                phase = .resolved(result)
                return (true, nil as CheckedContinuation<Result<Value, TestServerError>, Never>?)
            case .waiting(let continuation):
                phase = .resolved(result)
                return (true, continuation)
            case .resolved:
                return (false, nil)
            }
        }
        continuation?.resume(returning: result)
        return isFirst
    }

    func value(within bound: Duration, of what: String) async throws(TestServerError) -> Value {
        let timer = Task {
            // Thirty years are for ever: a longer sleep traps.
            try? await Task.sleep(for: min(bound, .seconds(1_000_000_000)))
            if !Task.isCancelled { resolve(.failure(.timedOut(waitingFor: what, bound: bound))) }
        }
        defer { timer.cancel() }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let early: Result<Value, TestServerError>? = phase.withLock { phase in
                    if case .resolved(let result) = phase { return result }
                    phase = .waiting(continuation)
                    return nil
                }
                if let early { continuation.resume(returning: early) }
            }
        } onCancel: {
            resolve(.failure(.cancelled))
        }
        return try result.get()
    }
}
