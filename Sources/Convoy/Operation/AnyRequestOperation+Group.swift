// Operations in a dispatch group.
import Foundation

extension AnyRequestOperation {
    /// Enters a dispatch group.
    ///
    /// The operation leaves the group once the outcome is set and every handler added before has returned.
    ///
    /// ```swift
    /// let group = DispatchGroup()
    /// for operation in operations { operation.enter(group) }
    /// manager.enqueue(contentsOf: operations)
    /// group.notify(queue: .main) { showAll() }
    /// ```
    ///
    /// Each call enters the group once and leaves it once, whatever the outcome.
    ///
    /// An operation without an outcome never leaves the group, so enqueue, start or cancel each operation.
    ///
    /// - Thread: any. A thread of the library leaves the group.
    @discardableResult
    public final func enter(_ group: DispatchGroup) -> Self {
        group.enter()
        whenSettled { _ in group.leave() }
        return self
    }
}
