// When requests to a failing host stop, as the caller configures it.

/// When requests to a failing host are delayed, and for how long.
///
/// A failed connection, no response in time, or a status code of 500 to 599 counts as a failure. Status codes of 400 to
/// 499 are errors of the request and do not count, nor do cancelled requests. With ``AdaptiveLimits``, an overload
/// first lowers the limit of the host, and counts as a failure only at the minimum limit. After ``openTime`` one
/// request probes the host. If that request fails too, the time doubles, up to ``maxOpenTime``.
/// While requests are delayed, the breaker of the host is open.
///
/// ```swift
/// var policy = BreakerPolicy()
/// policy.failuresInARow = 10
/// policy.openTime = .seconds(1)
/// ```
///
/// Values out of range are clamped when they are used, without an error.
///
/// ## Concurrency
/// A value; use it from any thread.
///
/// ## Topics
/// - ``failuresInARow``
/// - ``failureRate``
/// - ``openTime``
public struct BreakerPolicy: Sendable, Hashable {
    /// The number of failures in a row that opens the breaker; 5 by default, at least 1.
    public var failuresInARow: Int
    /// The share of failures that opens the breaker: 0.5 by default, above 0 to 1.
    ///
    /// With nil, or with a value of 0 or less, only failures in a row count.
    public var failureRate: Double? = 0.5
    /// The period for ``failureRate``: 10 seconds by default, 1 millisecond to a day.
    public var window = Duration.seconds(10)
    /// The number of requests in ``window`` from which ``failureRate`` applies; 20 by default, at least 1.
    public var minimumRequests = 20
    /// How long the breaker is open the first time: 5 seconds by default, zero to a day.
    public var openTime: Duration
    /// The longest time that the breaker is open: 60 seconds by default, from ``openTime`` to a day.
    public var maxOpenTime = Duration.seconds(60)

    /// Makes a policy.
    ///
    /// - Parameters:
    ///   - failuresInARow: the number of failures in a row that opens the breaker.
    ///   - openTime: how long the breaker is open the first time.
    public init(failuresInARow: Int = 5, openTime: Duration = .seconds(5)) {
        self.failuresInARow = failuresInARow
        self.openTime = openTime
    }

    /// The same policy clamped to its ranges, so that no sum overflows.
    var inRange: BreakerPolicy {
        let day = Duration.seconds(86_400)
        var policy = self
        policy.failuresInARow = max(1, failuresInARow)
        policy.failureRate = failureRate.flatMap { $0 > 0 ? min($0, 1) : nil }
        policy.window = min(max(.milliseconds(1), window), day)
        policy.minimumRequests = max(1, minimumRequests)
        policy.openTime = min(max(.zero, openTime), day)
        policy.maxOpenTime = min(max(policy.openTime, maxOpenTime), day)
        return policy
    }
}
