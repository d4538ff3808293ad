// The order of requests with the same priority.

/// The order of requests that have the same priority; ``RequestManager/Configuration/prioritization``.
public enum RequestPrioritization: Sendable, Hashable {
    /// First in, first out, from the moment a request becomes ready; the default.
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
