// The order of requests with the same priority.

/// The order of requests that have the same priority; ``RequestManager/Configuration/prioritization``.
public enum RequestPrioritization: Sendable, Hashable {
    /// First in, first out; the default.
    ///
    /// This is the order in which requests get their slots. If two requests have slots at the same time, their order is
    /// undefined, because an operation queue starts them on its own threads.
    case fifo
    /// Last in, first out: the newest request is first, for example for the images of a scrolling list.
    ///
    /// A request counts as new when it becomes ready: when its dependencies have finished, or when it is resumed.
    /// Requests that return for another attempt still precede the others of their priority, first in, first out.
    case lifo
}

/// The place of a queue entry among those that wait: by priority and rank, then by the order of queueing.
///
/// The lowest turn is first. With `lifo`, the newest operation of a priority and rank has the lowest turn, except
/// among those that return for another attempt.
struct Turn: Comparable {
    let queueEntry: QueueEntry
    private let queueNumber: UInt64
    private let status: QueueEntry.Status
    private let priorityIndex: Int
    private let order: UInt64

    init(_ queueEntry: QueueEntry, _ prioritization: RequestPrioritization) {
        (self.queueEntry, queueNumber) = (queueEntry, queueEntry.queueNumber)
        (status, priorityIndex) = (queueEntry.status, queueEntry.priorityIndex)
        order = prioritization == .lifo && queueEntry.rank != .returning ? .max - queueNumber : queueNumber
    }

    /// False once the queue entry no longer waits, or waits with another turn.
    var isLive: Bool {
        queueEntry.status == status && queueEntry.queueNumber == queueNumber
            && queueEntry.priorityIndex == priorityIndex
    }

    static func < (left: Turn, right: Turn) -> Bool {
        left.priorityIndex != right.priorityIndex ? left.priorityIndex < right.priorityIndex : left.order < right.order
    }

    static func == (left: Turn, right: Turn) -> Bool {
        left.priorityIndex == right.priorityIndex && left.order == right.order
    }
}
