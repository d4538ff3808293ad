// A reference that keeps nobody alive.

/// An operation that may have gone.
struct WeakOperation: Sendable {
    weak var operation: AnyRequestOperation?
}
