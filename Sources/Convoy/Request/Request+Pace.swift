// Maximum and minimum speed of a response's body.

extension Request {
    /// Sets the maximum number of body bytes per second; nil, the default, means no limit.
    ///
    /// The manager's limit, ``RequestManager/maxBytesPerSecond``, applies as well. The bytes that the limit allows in a
    /// tenth of a second may arrive at once. Body bytes are counted after content decoding. Header fields and sent
    /// bytes are not counted.
    ///
    /// The limit pauses the transfer. During a pause, the operating system receives further bytes until its socket
    /// buffers are full. The idle timeout and ``minimumSpeed(bytesPerSecond:over:)`` do not run during a pause, but
    /// ``attemptTimeout(_:)`` and ``deadline(_:)`` do. All attempts of an operation share the limit. If requests share
    /// a transfer (``coalesced()``), the limit of the first request is used.
    ///
    /// A later call replaces the limit.
    ///
    /// - Parameter limit: bytes per second. Zero or less fails the request with `.invalidRequest`.
    /// - Errors: `.invalidRequest`, before anything is sent, with a transport that cannot pause: URLSession on Linux.
    public func maxBytesPerSecond(_ limit: Int64?) -> Self {
        changed {
            $0.policies.maxBytesPerSecond = limit
            $0.policies.sharedRateLimit = nil
        }
    }

    /// The same request with one rate limit for all operations made from it, such as the segments of a download.
    func sharingRateLimit(on clock: any RequestClock) -> Self {
        guard let limit = core.policyBox?.policies.maxBytesPerSecond else { return self }
        return changed { $0.policies.sharedRateLimit = RateLimit(limit, clock: clock) }
    }

    /// Sets the minimum speed of the body.
    ///
    /// By default only the idle timeout ends a slow transfer.
    ///
    /// An attempt that receives fewer bytes within the duration ends with `.timedOut`, and the message says how many
    /// bytes arrived. A retry or a resumed download follows if the request allows it. The duration is measured in
    /// consecutive windows, which begin when the head of the response arrives. A stalled transfer therefore ends after
    /// one to two windows. Time does not count while the operation is suspended, while its reader or the disk is slow,
    /// or while a rate limit pauses the transfer.
    ///
    /// A later call replaces the values. If requests share a transfer (``coalesced()``), the values of the first
    /// request are used.
    ///
    /// - Parameters:
    ///   - bytesPerSecond: body bytes per second after content decoding. Zero or less fails the request with
    ///     `.invalidRequest`.
    ///   - duration: the length of a window. Zero or less fails the request with `.invalidRequest`.
    public func minimumSpeed(bytesPerSecond: Int64, over duration: Duration) -> Self {
        changed {
            $0.policies.minimumSpeed = MinimumSpeed(bytesPerSecond: bytesPerSecond, duration: duration)
        }
    }
}

extension RequestPolicies {
    var paceDefect: String? {
        if let maxBytesPerSecond, maxBytesPerSecond <= 0 { return "the rate limit is not positive" }
        guard let minimumSpeed else { return nil }
        if minimumSpeed.bytesPerSecond <= 0 { return "the minimum speed is not positive" }
        if minimumSpeed.duration <= .zero { return "the time of the minimum speed is not positive" }
        return nil
    }
}
