// The one lock of the library: a value behind an NSLock.
import Foundation

/// A value that is only reached while a lock is held.
///
/// Every use is a leaf: the closure decides and returns what is to be done; the caller does it after the lock has
/// been given back. No callback, KVO pair, task call or second lock ever runs inside ``withLock(_:)``.
///
/// What leaves the closure is `Sendable`: an object whose members belong to the lock is not, and so it cannot be looked at
/// after the lock has been given back.
///
/// `NSLock` and not `Synchronization.Mutex`: the thread sanitizer sees the former and reports false races on the latter.
///
/// - Complexity: O(1), plus what the closure does.
final class Locked<State>: @unchecked Sendable {
    // @unchecked: `state` is touched nowhere but in `withLock`, between lock and unlock.
    private let lock = NSLock()
    private var state: State

    init(_ state: State) {
        self.state = state
    }

    func withLock<Result: Sendable, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&state)
    }
}
