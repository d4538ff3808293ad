import Foundation

/// A value behind a lock: the only way state is shared in this target.
///
/// The lock is a leaf: the closure changes the state and returns what is to be done, and never calls a handler, a gate,
/// a continuation or a socket. `NSLock` and not `Mutex`, because the thread sanitizer cannot see the latter.
///
/// `@unchecked Sendable`: `state` is reached only in ``withLock(_:)``, which holds `lock`.
final class Locked<State: Sendable>: @unchecked Sendable {
    private let lock = NSLock()
    private var state: State

    init(_ state: State) {
        self.state = state
    }

    func withLock<Value>(_ body: (inout State) -> Value) -> Value {
        lock.lock()
        defer { lock.unlock() }
        return body(&state)
    }
}
