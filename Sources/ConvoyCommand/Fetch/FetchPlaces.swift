// How far a run reads ahead.
import Convoy

/// So many places, of which each open request has one.
///
/// A deadline counts from when a request is queued. Without a limit a thousand would be queued ahead of their turn, and
/// those far behind would never be sent.
///
/// ## Concurrency
/// One task takes places; they are given back from any thread. A wait ends with a place given back, and in no other
/// way: whoever stops a run ends its open requests, and with them it gets theirs.
final class FetchPlaces: Sendable {
    private struct State {
        var freeCount: Int
        var waiter: CheckedContinuation<Void, Never>?
    }

    private let state: Locked<State>

    init(count: Int) { state = Locked(State(freeCount: count)) }

    /// Takes a place, when there is one.
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

    /// Gives a place back; to the one who waits, if there is one.
    func give() {
        let waiter = state.withLock { state in
            if state.waiter == nil { state.freeCount += 1 }
            defer { state.waiter = nil }
            return state.waiter
        }
        waiter?.resume()
    }
}
