// Limits how far a run reads ahead.
import Convoy

/// A counting semaphore for tasks; each open request uses one slot.
///
/// A deadline starts when a request is queued. Without this limit, the batch would queue more requests than can run at
/// once. Deadlines could then pass before the requests are sent.
///
/// ## Concurrency
/// One task calls `take()`; any thread calls `give()`. Only a released slot ends a wait. Stopping a run ends its open
/// requests, which then release their slots.
final class FetchPlaces: Sendable {
    private struct State {
        var freeCount: Int
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state: Locked<State>

    init(count: Int) { state = Locked(State(freeCount: count)) }

    /// Claims a slot, and waits if none is free.
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

    /// Releases a slot.
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
