// Counts outcomes, and waits for a number of them.
import Synchronization

/// Counts the successes and errors of a case.
///
/// One task may wait for the last outcome.
final class Tally: Sendable {
    private struct State {
        var done = 0
        var errors = 0
        var firstError: String?
        var target = Int.max
        var waiter: CheckedContinuation<Void, Never>?

        /// Counts an outcome; returns the waiting task if the target is reached.
        mutating func countOne() -> CheckedContinuation<Void, Never>? {
            done += 1
            guard done >= target else { return nil }
            defer { waiter = nil }
            return waiter
        }

        mutating func note(_ text: String) {
            errors += 1
            if firstError == nil { firstError = text }
        }
    }

    private let state = Mutex(State())

    /// The number of errors, and the text of the first one.
    var errors: (count: Int, first: String?) { state.withLock { ($0.errors, $0.firstError) } }

    /// Counts an outcome; a text is an error.
    func add(_ error: @autoclosure () -> String? = nil) {
        let text = error()
        let waiter = state.withLock { state in
            if let text { state.note(text) }
            return state.countOne()
        }
        waiter?.resume()
    }

    /// Records an error that is not an outcome.
    func note(_ error: String) {
        state.withLock { $0.note(error) }
    }

    /// Waits until `count` outcomes have been counted; only one task may wait.
    func reached(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                guard state.done < count else { return true }
                state.target = count
                state.waiter = continuation
                return false
            }
            if isThere { continuation.resume() }
        }
    }
}

/// Counts down the requests that remain to be sent.
final class Turns: Sendable {
    private let left: Mutex<Int>

    init(_ count: Int) { left = Mutex(count) }

    /// Claims one request; returns false if none remains.
    func take() -> Bool {
        left.withLock { left in
            guard left > 0 else { return false }
            left -= 1
            return true
        }
    }
}
