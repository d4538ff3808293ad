extension TestServer {
    /// Adds a reply to the queue; the next request that no earlier reply takes gets it, whatever its path.
    ///
    /// - Parameter reply: handed out once.
    /// - Thread: any.
    /// - Complexity: O(1) on average.
    public func enqueue(_ reply: Reply) {
        core.change { $0.queue.append(reply) }
    }

    /// Adds replies to the queue, in this order.
    ///
    /// - Parameter replies: handed out once each.
    /// - Thread: any.
    /// - Complexity: O(*n*) for *n* replies.
    public func enqueue(_ replies: [Reply]) {
        core.change { state in
            for reply in replies { state.queue.append(reply) }
        }
    }

    /// Answers requests for one path with a handler; a later call for the same path takes its place.
    ///
    /// - Parameters:
    ///   - path: compared as it stands, without a query and with its percent escapes.
    ///   - moment: when the handler runs; by default when the request has been read whole.
    ///   - handler: called for each request on the thread of its connection, with no lock held.
    /// - Thread: any.
    /// - Complexity: O(1) for each request, however many routes there are.
    public func route(_ path: String, at moment: HandlerMoment = .body, _ handler: @escaping Handler) {
        core.change { $0.routes[path] = (handler, moment) }
    }

    /// Answers every request that neither the queue nor a route takes; a later call takes its place.
    ///
    /// - Parameters:
    ///   - moment: when the handler runs; by default when the request has been read whole.
    ///   - handler: called for each request on the thread of its connection, with no lock held.
    /// - Thread: any.
    public func respond(at moment: HandlerMoment = .body, _ handler: @escaping Handler) {
        core.change { $0.fallback = (handler, moment) }
    }

    /// How many replies of the queue have not been handed out.
    ///
    /// - Thread: any.
    public var queuedReplyCount: Int { core.read { $0.queue.count } }
}
