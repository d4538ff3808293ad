// A value behind a lock.
import Foundation

/// A value that is only reached while a lock is held; every use is a leaf, as in the library.
final class Locked<State>: @unchecked Sendable {
    // @unchecked: `state` is touched nowhere but in `withLock`, between lock and unlock.
    private let lock = NSLock()
    private var state: State

    init(_ state: State) {
        self.state = state
    }

    func withLock<Result>(_ body: (inout State) -> Result) -> Result {
        lock.lock()
        defer { lock.unlock() }
        return body(&state)
    }
}
