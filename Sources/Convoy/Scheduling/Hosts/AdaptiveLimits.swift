// How a limit for each host is learned, as the caller configures it.

/// How many requests a host gets at once, learned from its responses.
///
/// The limit of a host grows under three conditions: at least four fifths of it are in use, the host responds, and
/// latency stays near the best seen. A limit below ``initial`` grows at any latency. The limit falls if the host
/// reports overload (status codes 429 and 503), does not respond in time, or cannot be connected to. A limit above
/// ``initial`` also falls if latency grows beyond ``latencyTolerance``. Without adaptive limits, every host has the
/// same fixed limit.
///
/// ```swift
/// var limits = AdaptiveLimits()
/// limits.maximum = 32
/// limits.initial = 8
/// ```
///
/// Values out of range are clamped when they are used, without an error.
///
/// ## Concurrency
/// A value; use it from any thread.
///
/// ## Topics
/// - ``minimum``
/// - ``maximum``
/// - ``initial``
/// - ``decreaseFactor``
/// - ``latencyTolerance``
/// - ``latencyMemory``
public struct AdaptiveLimits: Sendable, Hashable {
    /// The minimum number of requests at once, however overloaded the host is; 1 by default, at least 1.
    public var minimum: Int
    /// The maximum number of requests at once; 64 by default, from ``minimum`` to 65,536.
    public var maximum: Int
    /// The number of requests at once to a host that has not responded yet; 4 by default, from the minimum to the
    /// maximum.
    ///
    /// Slow responses alone do not lower the limit below this number, because a host may be slow for other reasons.
    /// Only a new measurement of the best latency may do so for a short time; see ``latencyMemory``.
    public var initial: Int
    /// The factor by which an overload lowers the limit: 0.9 by default, from 0.1 to 0.95.
    ///
    /// It is applied to the number of running requests, but at least to half of the limit. The limit falls by at least
    /// one.
    ///
    /// The factor is applied at most once per round trip. If no request succeeds between decreases, the third and later
    /// ones halve the limit.
    public var decreaseFactor = 0.9
    /// How much latency may grow before the limit falls, as a multiple of the best seen: 2 by default, 1.25 to 100.
    ///
    /// A limit of at least ``initial`` stops growing at the midpoint between 1 and that value: at 1.5 by default.
    public var latencyTolerance = 2.0
    /// How long the best latency counts before it is measured anew: 30 seconds by default, 1 second to a day.
    ///
    /// The measurement takes about two round trips with fewer requests at once. It begins only if the average latency
    /// has exceeded the best by more than a tenth for all of this duration.
    public var latencyMemory = Duration.seconds(30)

    /// Makes limits.
    ///
    /// - Parameters:
    ///   - minimum: the minimum number of requests at once.
    ///   - maximum: the maximum number of requests at once.
    ///   - initial: the initial number of requests at once.
    public init(minimum: Int = 1, maximum: Int = 64, initial: Int = 4) {
        self.minimum = minimum
        self.maximum = maximum
        self.initial = initial
    }

    /// The same limits clamped to their ranges, so that no sum overflows and nothing is divided by zero.
    var inRange: AdaptiveLimits {
        var limits = self
        limits.minimum = min(max(1, minimum), 65_536)
        limits.maximum = min(max(limits.minimum, maximum), 65_536)
        limits.initial = min(max(limits.minimum, initial), limits.maximum)
        // NaN compares false to every bound.
        limits.decreaseFactor = decreaseFactor.isNaN ? 0.9 : min(max(0.1, decreaseFactor), 0.95)
        limits.latencyTolerance = latencyTolerance.isNaN ? 2 : min(max(1.25, latencyTolerance), 100)
        limits.latencyMemory = min(max(.seconds(1), latencyMemory), .seconds(86_400))
        return limits
    }
}
