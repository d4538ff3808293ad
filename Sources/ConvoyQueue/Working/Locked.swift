import Foundation

/// A value behind a lock: the only way state is shared in this library.
///
/// The lock is a leaf: the closure changes the state and returns what is to be done; handlers, continuations and stores are
/// called after it has been given back.
final class Locked<State: Sendable>: @unchecked Sendable {
    // @unchecked: `state` is reached only in `withLock`, which holds `lock`.
    private let lock = NSLock()
    private var state: State

    init(_ state: State) { self.state = state }

    func withLock<Result: Sendable, Failure: Error>(
        _ body: (inout State) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        lock.lock()
        defer { lock.unlock() }
        return try body(&state)
    }
}
