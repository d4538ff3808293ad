// When a host that fails is left alone, as users configure it.

/// When requests to a host that keeps failing are held back, and for how long.
///
/// A failure is no connection, no answer in time, or a status code of 500 to 599; a status code of 400 to 499 is the
/// request's fault, and a cancelled request says nothing. After ``openTime`` one request tries the host; if that fails
/// too, the time doubles, up to ``maxOpenTime``.
///
/// ```swift
/// var policy = BreakerPolicy()
/// policy.failuresInARow = 10
/// policy.openTime = .seconds(1)
/// ```
///
/// Values out of range are brought into it when they are used; none is an error.
///
/// ## Concurrency
/// A value; use it from any thread.
///
/// ## Topics
/// - ``failuresInARow``
/// - ``failureRate``
/// - ``openTime``
public struct BreakerPolicy: Sendable, Hashable {
    /// So many failures in a row are enough; 5 by default, at least 1.
    public var failuresInARow: Int
    /// So large a share of failures is enough, in a row or not: 0.5 by default, above 0 to 1; nil: only those in a row.
    public var failureRate: Double? = 0.5
    /// The share is of the requests that ended in this time: 10 seconds by default, 1 millisecond to a day.
    public var window = Duration.seconds(10)
    /// The share counts from so many requests on in the ``window``; 20 by default, at least 1.
    public var minimumRequests = 20
    /// For how long the host is left alone the first time: 5 seconds by default, zero to a day.
    public var openTime: Duration
    /// For how long the host is left alone at most: 60 seconds by default, never less than ``openTime``, at most a day.
    public var maxOpenTime = Duration.seconds(60)

    /// Makes a policy.
    ///
    /// - Parameters:
    ///   - failuresInARow: so many failures in a row are enough.
    ///   - openTime: for how long the host is left alone the first time.
    public init(failuresInARow: Int = 5, openTime: Duration = .seconds(5)) {
        self.failuresInARow = failuresInARow
        self.openTime = openTime
    }

    /// The same with every value in its range, so that no sum with it overflows.
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
