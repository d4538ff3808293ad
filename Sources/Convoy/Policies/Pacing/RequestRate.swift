// So many requests a second: as users configure it, and its token bucket.

/// How many requests are sent in a time.
///
/// A token bucket: one request every ``period`` / ``requests``, and after a pause up to ``burst`` at once. Each attempt
/// counts, redirects and retries too. Requests over the limit wait in their queue, so that priorities and their order are
/// kept; those to other hosts go on. One whose deadline comes before the next token ends at once, with `.deadlineExceeded`
/// and a message that names the rate, as a retry does that could only come too late: though a request that is cancelled
/// before it is sent may give its token back.
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
    /// When a token was last taken while all were there.
    private var wasFull: ContinuousClock.Instant?

    init(_ rate: RequestRate) {
        self.rate = rate
        interval = rate.interval
        credit = interval * (min(max(1, rate.burst), 1_000_000) - 1)
    }

    /// When there is a token; nil when there is one now.
    func due(after now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        paidAt.flatMap { $0 - credit > now ? $0 - credit : nil }
    }

    /// That there is no token before a deadline, for people; nil when there is one.
    func words(past deadline: ContinuousClock.Instant, now: ContinuousClock.Instant) -> String? {
        guard let due = due(after: now), due >= deadline else { return nil }
        return "\(rate.words) at most, the next after its deadline, in \(now.duration(to: due).words)"
    }

    /// Takes a token, whether there is one or not: what comes later waits for it.
    mutating func take(now: ContinuousClock.Instant) {
        if paidAt.map({ $0 <= now }) ?? true { wasFull = now }
        paidAt = max(paidAt ?? now, now) + interval
    }

    /// Gives a token back with which nothing was sent.
    ///
    /// Without effect when all tokens have been there since it was taken: time has brought another in its place.
    mutating func giveBack(takenAt: ContinuousClock.Instant) {
        if let paidAt, let wasFull, takenAt >= wasFull { self.paidAt = paidAt - interval }
    }
}
