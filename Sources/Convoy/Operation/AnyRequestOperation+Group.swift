// Operations in a dispatch group.
import Foundation

extension AnyRequestOperation {
    /// Enters a dispatch group, and leaves it when the operation has an outcome and the handlers added before have returned.
    ///
    /// ```swift
    /// let group = DispatchGroup()
    /// for operation in operations { operation.enter(group) }
    /// manager.enqueue(contentsOf: operations)
    /// group.notify(queue: .main) { showAll() }
    /// ```
    ///
    /// A group is left once for each call, whatever the outcome. An operation that is never enqueued, started or cancelled
    /// never leaves it.
    ///
    /// - Thread: any. The group is left on a thread of the library's.
    @discardableResult
    public final func enter(_ group: DispatchGroup) -> Self {
        group.enter()
        whenSettled { _ in group.leave() }
        return self
    }
}
