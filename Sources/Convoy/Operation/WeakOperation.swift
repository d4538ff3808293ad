// A reference that does not keep its operation alive.

/// An operation that may have gone.
struct WeakOperation: Sendable {
    weak var operation: AnyRequestOperation?
}
