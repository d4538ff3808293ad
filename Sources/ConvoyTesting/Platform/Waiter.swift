import Convoy

/// The first result is final.
final class Waiter<Value: Sendable>: Sendable {
    private enum Phase: Sendable {
        /// Next: waiting, resolved.
        case idle
        /// Next: resolved.
        case waiting(CheckedContinuation<Result<Value, TestServerError>, Never>)
        /// The wait is over. No other phase follows.
        case resolved(Result<Value, TestServerError>)
    }

    private let phase = Locked(Phase.idle)

    /// False if another result, a time-out or a cancellation was first.
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
            // The time is limited to 10⁹ seconds, almost 32 years, because `Task.sleep` may trap for much longer times.
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
