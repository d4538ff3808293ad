// So many requests a second: as users configure it, and its token bucket.

/// How many requests are sent in a time.
///
/// A token bucket: one request every ``period`` / ``requests``, and after a pause up to ``burst`` at once. Each attempt
/// counts, redirects and retries too. Requests over the limit wait in their queue, so that priorities and their order are
/// kept; those to other hosts go on.
///
/// ```swift
/// var configuration = RequestManager.Configuration()
/// configuration.requestRatePerHost = .perSecond(10)
/// configuration.requestRate = RequestRate(600, per: .seconds(60), burst: 20)
/// ```
///
/// Values out of range are brought into it when they are used; none is an error.
///
/// ## Concurrency
/// A value; use it from any thread.
///
/// ## Topics
/// - ``perSecond(_:)``
/// - ``requests``
/// - ``period``
/// - ``burst``
public struct RequestRate: Sendable, Hashable {
    /// How many requests in each ``period``; at least 1.
    public var requests: Int
    /// The time for which ``requests`` counts; a second by default, zero to a day, and zero means no limit.
    public var period: Duration
    /// How many may be sent at once after a pause; 1 by default, which keeps them evenly apart; 1 to 1,000,000.
    public var burst: Int

    /// Makes a rate.
    public init(_ requests: Int, per period: Duration = .seconds(1), burst: Int = 1) {
        self.requests = requests
        self.period = period
        self.burst = burst
    }

    /// So many requests a second, evenly apart.
    public static func perSecond(_ requests: Int) -> RequestRate { RequestRate(requests) }

    /// The time from one request to the next.
    fileprivate var interval: Duration { min(max(.zero, period), .seconds(86_400)) / max(1, requests) }

    var words: String { "\(max(1, requests)) requests in \(period.words)" }
}

/// The token bucket of a ``RequestRate``, as the moment at which all tokens that were taken will have come (GCRA).
///
/// - Complexity: O(1), every member.
struct RequestPacer {
    let rate: RequestRate
    private let interval: Duration
    /// How far ahead of the clock tokens may be taken.
    private let credit: Duration
    private var paidAt: ContinuousClock.Instant?

    init(_ rate: RequestRate) {
        self.rate = rate
        interval = rate.interval
        credit = interval * (min(max(1, rate.burst), 1_000_000) - 1)
    }

    /// When there is a token; nil when there is one now.
    func due(after now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        paidAt.flatMap { $0 - credit > now ? $0 - credit : nil }
    }

    /// Takes a token, whether there is one or not: what comes later waits for it.
    mutating func take(now: ContinuousClock.Instant) { paidAt = max(paidAt ?? now, now) + interval }

    /// Gives a token back with which nothing was sent.
    mutating func giveBack() { paidAt = paidAt.map { $0 - interval } }
}
