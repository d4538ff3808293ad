// Limits how far a run reads ahead.
import Convoy

/// A number of places.
///
/// Each open request takes one.
///
/// A deadline starts when a request is queued. Without this limit a thousand requests would be queued too early, and
/// the last ones would never be sent.
///
/// ## Concurrency
/// One task takes places; any thread releases them. A wait ends only when a place is released. Stopping a run ends
/// its open requests, which release theirs.
final class FetchPlaces: Sendable {
    private struct State {
        var freeCount: Int
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state: Locked<State>

    init(count: Int) { state = Locked(State(freeCount: count)) }

    /// Takes a place, or waits for one.
    func take() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                guard state.freeCount == 0 else {
                    state.freeCount -= 1
                    return true
                }
                state.waiter = continuation
                return false
            }
            if isFree { continuation.resume() }
        }
    }

    /// Releases a place.
    ///
    /// Resumes the waiting task, if there is one.
    func give() {
        let waiter = state.withLock { state in
            if state.waiter == nil { state.freeCount += 1 }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }
}
