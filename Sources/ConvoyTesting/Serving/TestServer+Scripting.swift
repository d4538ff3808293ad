extension TestServer {
    /// Adds a reply to the queue.
    ///
    /// The server uses queued replies in order. Each one answers the next request, whatever its path.
    ///
    /// - Parameter reply: used once.
    /// - Thread: any.
    /// - Complexity: O(1) on average.
    public func enqueue(_ reply: Reply) {
        core.change { $0.queue.append(reply) }
    }

    /// Adds replies to the queue, in this order.
    ///
    /// - Parameter replies: each is used once.
    /// - Thread: any.
    /// - Complexity: O(*n*) for *n* replies.
    public func enqueue(_ replies: [Reply]) {
        core.change { state in
            for reply in replies { state.queue.append(reply) }
        }
    }

    /// Answers requests for one path with a handler.
    ///
    /// Queued replies come first. A later call for the same path replaces the handler.
    ///
    /// - Parameters:
    ///   - path: the path as sent, with percent escapes. A path with a query applies to requests with exactly that
    ///     query. A path without a query applies to all other requests for the path.
    ///   - moment: when the handler runs; by default after the complete request was read.
    ///   - handler: called for each request on the thread of its connection, without a lock.
    /// - Thread: any.
    /// - Complexity: O(1) for each request, independent of the number of routes.
    public func route(_ path: String, at moment: HandlerMoment = .body, _ handler: @escaping Handler) {
        core.change { $0.routes[path] = (handler, moment) }
    }

    /// Answers every request without a queued reply or a route.
    ///
    /// A later call replaces the handler.
    ///
    /// - Parameters:
    ///   - moment: when the handler runs; by default after the complete request was read.
    ///   - handler: called for each request on the thread of its connection, without a lock.
    /// - Thread: any.
    public func respond(at moment: HandlerMoment = .body, _ handler: @escaping Handler) {
        core.change { $0.fallback = (handler, moment) }
    }

    /// The number of queued replies.
    ///
    /// - Thread: any.
    public var queuedReplyCount: Int { core.read { $0.queue.count } }
}
