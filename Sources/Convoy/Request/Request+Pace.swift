// How fast a request's answer may come, and has to.

extension Request {
    /// Sets how many bytes of body may be received a second; nil, the default, for as many as come.
    ///
    /// The limit of the manager, ``RequestManager/maxBytesPerSecond``, holds as well: the lower one is felt. A tenth of a
    /// second's worth may come at once. Counted are bytes of bodies as they are handed over, after a content coding has been
    /// undone; header fields and what is sent are not. What the system takes from the network ahead of time, into the
    /// buffers of its sockets, comes on top once.
    ///
    /// A limit holds the transfer back, and neither the idle timeout nor ``minimumSpeed(bytesPerSecond:over:)`` runs while it
    /// does; ``attemptTimeout(_:)`` and ``deadline(_:)`` do. All attempts of an operation share it. Of requests that share a
    /// transfer (``coalesced()``) the first one's counts.
    ///
    /// Set again, the last one counts.
    ///
    /// - Parameter limit: bytes a second. Zero or less ends the request with `.invalidRequest`.
    /// - Errors: `.invalidRequest`, before anything is sent, over a transport that cannot be held: URLSession on Linux.
    public func maxBytesPerSecond(_ limit: Int64?) -> Self {
        changed {
            $0.policies.maxBytesPerSecond = limit
            $0.policies.sharedRateLimit = nil
        }
    }

    /// The same request with its limit shared by all operations that are made from it: the parts of one download.
    func sharingRateLimit(on clock: any RequestClock) -> Self {
        guard let limit = core.policyBox?.policies.maxBytesPerSecond else { return self }
        return changed { $0.policies.sharedRateLimit = RateLimit(limit, clock: clock) }
    }

    /// Sets how fast its body has to come; by default only the idle timeout ends one that does not.
    ///
    /// An attempt of which less has come in the given time ends with `.timedOut` and says how much: a retry or the resuming
    /// of a download takes over where the request allows it. The time counts from the head of the answer on, in stretches
    /// of that length, so that the end comes after one stretch at the earliest and two at the latest. It does not count while
    /// the operation is suspended, its reader or the disk is behind, or a rate limit holds the transfer back.
    ///
    /// Set again, the last one counts. Of requests that share a transfer (``coalesced()``) the first one's counts.
    ///
    /// - Parameters:
    ///   - bytesPerSecond: bytes of body a second, after a content coding has been undone; zero or less ends the request with
    ///     `.invalidRequest`.
    ///   - duration: how long it may be slower; zero or less ends the request with `.invalidRequest`.
    public func minimumSpeed(bytesPerSecond: Int64, over duration: Duration) -> Self {
        changed {
            $0.policies.minimumSpeed = MinimumSpeed(bytesPerSecond: bytesPerSecond, duration: duration)
        }
    }
}

extension RequestPolicies {
    /// Why no request can be sent with these, or nil.
    var paceDefect: String? {
        if let maxBytesPerSecond, maxBytesPerSecond <= 0 { return "the rate limit is not positive" }
        guard let minimumSpeed else { return nil }
        if minimumSpeed.bytesPerSecond <= 0 { return "the minimum speed is not positive" }
        if minimumSpeed.duration <= .zero { return "the time of the minimum speed is not positive" }
        return nil
    }
}
