// Which of the requests of one priority is next.

/// The order of requests that have the same priority; ``RequestManager/Configuration/prioritization``.
public enum RequestPrioritization: Sendable, Hashable {
    /// First in, first out; the default.
    ///
    /// That is the order in which requests get their slots. Which of two is sent first that have one at the same time is not
    /// said: an operation queue starts them on threads of its own.
    case fifo
    /// Last in, first out: the newest request goes first, as for the images of a list that is being scrolled.
    ///
    /// A request comes when it is ready: when its dependencies have finished, or it is resumed. Those that come back for
    /// another attempt go before the others of their priority as ever, first in, first out.
    case lifo
}

/// What is next among those that wait: by priority, then by order; the least goes first.
struct Turn: Comparable {
    let priorityIndex: Int
    let rank: QueueEntry.Rank
    private let order: UInt64

    init(_ queueEntry: QueueEntry, _ prioritization: RequestPrioritization) {
        (priorityIndex, rank) = (queueEntry.priorityIndex, queueEntry.rank)
        order =
            prioritization == .lifo && queueEntry.rank != .returning
            ? .max - queueEntry.queueNumber : queueEntry.queueNumber
    }

    static func < (left: Turn, right: Turn) -> Bool {
        left.priorityIndex != right.priorityIndex ? left.priorityIndex < right.priorityIndex : left.order < right.order
    }
}
