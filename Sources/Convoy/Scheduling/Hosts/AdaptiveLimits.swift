// How a limit for each host is learned, as users configure it.

/// How many requests a host gets at once, when that is learned from its answers.
///
/// The limit of each host grows while it is used up, the host answers, and its latency stays near the best seen; it
/// falls when the host says that it is too much (status codes 429 and 503), does not answer in time, or refuses the
/// connection. A manager without these limits gives every host the same fixed one.
///
/// ```swift
/// var limits = AdaptiveLimits()
/// limits.maximum = 32
/// limits.initial = 8
/// ```
///
/// Values out of range are brought into it when they are used; none is an error.
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
    /// The least number of requests at once, however overloaded the host is; 1 by default, and at the least.
    public var minimum: Int
    /// The largest number of requests at once; 64 by default, 65,536 at the most, never less than ``minimum``.
    public var maximum: Int
    /// The number of requests at once to a host that has not answered yet; 4 by default, between the two others.
    ///
    /// Latency alone never takes the limit below it: a host may be slow for reasons of its own.
    public var initial: Int
    /// What is left of a limit when the host is overloaded, as a share of it: 0.9 by default, 0.1 to 0.95.
    ///
    /// Once per round trip at most; half of it from the third time on that no request has succeeded since the last.
    public var decreaseFactor = 0.9
    /// How much latency may grow before the limit falls, as a multiple of the best seen: 2 by default, 1.25 to 100.
    ///
    /// Growth ends half-way there.
    public var latencyTolerance = 2.0
    /// How long the best latency seen counts before it is measured anew: 30 seconds by default, 1 second to a day.
    ///
    /// It is measured with fewer requests at once, for about two round trips, and only while latency is above it.
    public var latencyMemory = Duration.seconds(30)

    /// Makes limits.
    ///
    /// - Parameters:
    ///   - minimum: the least number of requests at once.
    ///   - maximum: the largest number of requests at once.
    ///   - initial: the number of requests at once to begin with.
    public init(minimum: Int = 1, maximum: Int = 64, initial: Int = 4) {
        self.minimum = minimum
        self.maximum = maximum
        self.initial = initial
    }

    /// The same with every value in its range, so that no sum with it overflows and nothing is divided by zero.
    var inRange: AdaptiveLimits {
        var limits = self
        limits.minimum = min(max(1, minimum), 65_536)
        limits.maximum = min(max(limits.minimum, maximum), 65_536)
        limits.initial = min(max(limits.minimum, initial), limits.maximum)
        // NaN is in no range.
        limits.decreaseFactor = decreaseFactor.isNaN ? 0.9 : min(max(0.1, decreaseFactor), 0.95)
        limits.latencyTolerance = latencyTolerance.isNaN ? 2 : min(max(1.25, latencyTolerance), 100)
        limits.latencyMemory = min(max(.seconds(1), latencyMemory), .seconds(86_400))
        return limits
    }
}
