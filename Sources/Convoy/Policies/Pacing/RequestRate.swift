// A limit of requests per second: its configuration and its token bucket.

/// A limit of requests per period, as a token bucket: one every ``period`` / ``requests``, and ``burst`` after a pause.
///
/// Each attempt counts, including redirects and retries. Requests over the limit wait in their queue, by priority and
/// order; requests to other hosts continue. If a deadline is earlier than the next token, the request fails at once
/// with `.deadlineExceeded`, even if a cancelled request might return a token.
///
/// ```swift
/// var configuration = RequestManager.Configuration()
/// configuration.requestRatePerHost = .perSecond(10)
/// configuration.requestRate = RequestRate(600, per: .seconds(60), burst: 20)
/// ```
///
/// ## Concurrency
/// A value; use it from any thread. What is out of range is clamped when it is used.
///
/// ## Topics
/// - ``perSecond(_:)``
/// - ``requests``
/// - ``period``
/// - ``burst``
public struct RequestRate: Sendable, Hashable {
    /// The number of requests in each ``period``; at least 1.
    public var requests: Int
    /// The period of ``requests``, up to a day; a second by default, and zero for no limit.
    public var period: Duration
    /// How many requests may be sent at once after a pause, up to 1,000,000; by default 1, so they are evenly spaced.
    public var burst: Int

    /// Makes a rate.
    public init(_ requests: Int, per period: Duration = .seconds(1), burst: Int = 1) {
        (self.requests, self.period, self.burst) = (requests, period, burst)
    }

    /// A number of requests per second, evenly spaced.
    public static func perSecond(_ requests: Int) -> RequestRate { RequestRate(requests) }

    var words: String { "\(max(1, requests)) request\(requests > 1 ? "s" : "") in \(period.words)" }
}

/// GCRA, the generic cell rate algorithm: it stores the time at which all used tokens are replenished.
struct RequestPacer {
    let rate: RequestRate
    private let interval: Duration
    /// How far `paidAt`, the time at which all used tokens are replenished, may be ahead while a token is available.
    private let credit: Duration
    private var paidAt: ContinuousClock.Instant?
    private var wasFull: ContinuousClock.Instant?

    init(_ rate: RequestRate) {
        self.rate = rate
        interval = min(max(.zero, rate.period), .seconds(86_400)) / max(1, rate.requests)
        credit = interval * (min(max(1, rate.burst), 1_000_000) - 1)
    }

    func due(after now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        paidAt.flatMap { $0 - credit > now ? $0 - credit : nil }
    }

    func words(past deadline: ContinuousClock.Instant, now: ContinuousClock.Instant) -> String? {
        guard let due = due(after: now), due >= deadline else { return nil }
        return "at most \(rate.words), the next after its deadline, in \(now.duration(to: due).words)"
    }

    /// Even if none is available; later requests then wait longer.
    mutating func take(now: ContinuousClock.Instant) {
        if paidAt.map({ $0 <= now }) ?? true { wasFull = now }
        paidAt = max(paidAt ?? now, now) + interval
    }

    /// No effect if the bucket was full after the token was used, because it has already replaced the token.
    mutating func giveBack(takenAt: ContinuousClock.Instant) {
        if let paidAt, let wasFull, takenAt >= wasFull { self.paidAt = paidAt - interval }
    }
}
