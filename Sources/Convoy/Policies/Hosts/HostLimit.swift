// How many requests one host gets at once, learned from its responses. A value, without lock or clock.

// The algorithm is additive increase and multiplicative decrease (TCP, RFC 5681). The number of concurrent requests
// corresponds to TCP's window, as in Netflix's concurrency-limits. Recovery follows CUBIC (RFC 9438). Growth is fast
// far below the last limit that was too high, slow near it, and faster again beyond. Rising latency stops the growth
// before the host has to reject requests (TCP Vegas, Netflix's gradient).
struct HostLimit {
    enum Outcome {
        /// The host has processed the request.
        case succeeded
        /// The host is overloaded: 429, 503, no response in time, or no connection.
        case overloaded
        /// The result says nothing about load: another failure, or a cancellation.
        case neutral
    }

    /// In requests per round trip; for a small limit a share of it, because one more request is a large step.
    private static let gentle = (step: 0.2, share: 0.03)
    /// The growth in a round trip, as a share of the distance between the limit and the last limit that was too high.
    private static let stride = 0.7
    /// If latency grows to this multiple of the best, requests are assumed to queue at the host.
    private static let queueGrowth = 1.25

    private let limits: AdaptiveLimits
    private var allowed: Double
    private var tooMuch: Double?
    private var lastDecrease: ContinuousClock.Instant?
    /// How many overloads have lowered the limit, up to 3, since a request sent after a decrease last succeeded.
    private var decreasesInVain = 0
    private var gauge: LatencyEstimator

    init(_ limits: AdaptiveLimits) {
        self.limits = limits.inRange
        allowed = Double(self.limits.initial)
        gauge = LatencyEstimator(tolerance: self.limits.latencyTolerance, memory: self.limits.latencyMemory)
    }

    var current: Int {
        max(limits.minimum, Int(gauge.isMeasuring ? allowed / limits.latencyTolerance : allowed))
    }

    // While the breaker is closed, a rejection counts as its failure only if this is true. Otherwise the limit is
    // learned from rejections, and a burst of rejections between successes is normal.
    var isAtBottom: Bool { decreasesInVain == 3 && current == limits.minimum }

    var words: String? {
        guard let tooMuch, Int(tooMuch) > current else { return nil }
        return "its host is limited to \(current) concurrent requests, because \(Int(tooMuch)) were too many"
    }

    // `latency` runs from sending to the head of the response, or to the failure. `inFlight` includes the request
    // itself.
    mutating func finished(
        latency: Duration, outcome: Outcome, inFlight: Int, now: ContinuousClock.Instant
    ) {
        // The latency is clamped, so that no difference overflows.
        let latency = min(max(.zero, latency), .seconds(86_400))
        let sent = now - latency
        switch outcome {
        case .neutral: break
        case .overloaded: refused(sent: sent, inFlight: Double(inFlight), now: now)
        case .succeeded: succeeded(latency, sent: sent, inFlight: Double(inFlight), now: now)
        }
    }

    private mutating func refused(sent: ContinuousClock.Instant, inFlight: Double, now: ContinuousClock.Instant) {
        // The request was sent before the last decrease, which already reacted to that load.
        if let lastDecrease, sent < lastDecrease { return }
        // At the third decrease without a success, the host is probably down, not full. So `tooMuch` does not change.
        decreasesInVain = min(decreasesInVain + 1, 3)
        guard decreasesInVain < 3 else { return decrease(to: allowed / 2, now: now) }
        // The number of running requests was too high; it may be below the limit (RFC 5681, FlightSize). But at least
        // half of the limit counts, so a single rejection cannot lower the limit to almost nothing.
        let refusedAt = min(allowed, max(inFlight, allowed / 2))
        tooMuch = refusedAt
        decrease(to: min(refusedAt * limits.decreaseFactor, refusedAt - 1), now: now)
    }

    private mutating func succeeded(
        _ latency: Duration, sent: ContinuousClock.Instant, inFlight: Double, now: ContinuousClock.Instant
    ) {
        let wasMeasuring = gauge.isMeasuring
        gauge.record(latency / .seconds(1), limit: allowed, sent: sent, now: now)
        if let lastDecrease {
            if sent >= lastDecrease { decreasesInVain = 0 }
            // The host needs one round trip to process its backlog. A second one shows the effect of the decrease.
            guard sent >= lastDecrease + .seconds(min(gauge.average, 60)) else { return }
        }
        // If less than four fifths of the limit are in use, the response says nothing about a higher limit.
        guard !wasMeasuring, !gauge.isMeasuring, inFlight >= 0.8 * allowed.rounded(.down) else { return }
        let growth = gauge.growth
        // Slow start ends when latency begins to grow, because the running requests will still add to it (HyStart, RFC
        // 9406).
        if tooMuch == nil, growth > Self.queueGrowth { tooMuch = allowed }
        if allowed > Double(limits.initial), growth > limits.latencyTolerance {
            tooMuch = allowed
            // `growth` is at most twice the tolerance, so this step at most halves the limit.
            decrease(to: max(Double(limits.initial), allowed * limits.latencyTolerance / growth), now: now)
        } else if allowed < Double(limits.initial) || growth <= (1 + limits.latencyTolerance) / 2 {
            // About `allowed` responses arrive in a round trip, so `step / allowed` for each adds up to `step`.
            allowed = min(allowed + step / allowed, Double(limits.maximum))
        }
    }

    /// How much the limit grows in a round trip: at most to its double (slow start).
    private var step: Double {
        guard let tooMuch else { return allowed }
        // A limit of `tooMuch` - 1 is assumed to be acceptable. Between these two limits, growth is minimal.
        let distance = max(tooMuch - 1 - allowed, allowed - tooMuch)
        return min(max(distance * Self.stride, min(Self.gentle.step, Self.gentle.share * allowed)), allowed)
    }

    private mutating func decrease(to limit: Double, now: ContinuousClock.Instant) {
        allowed = min(max(Double(limits.minimum), limit), Double(limits.maximum))
        lastDecrease = now
    }
}

// The best is the lowest *average* of about a round trip. A single fast response may come from a cache and say nothing
// about other responses. Queues that this client causes hide the best latency while they exist. A best value that
// simply expired would accept such a queue as normal. One that never expired would mistake a longer network path for a
// queue forever, as TCP Vegas does. So an old best value is measured anew, with fewer requests at once, as in BBR
// (ProbeRTT).
struct LatencyEstimator {
    private static let leastCount = 8

    private let tolerance: Double
    private let memory: Duration
    /// The average of about the last round trip, in seconds.
    private(set) var average = 0.0
    private var count = 0
    private var best: Double?
    /// When the average was last at most a tenth above the best.
    private var bestSeen: ContinuousClock.Instant?
    private var measuringSince: ContinuousClock.Instant?
    private var measured = (sum: 0.0, count: 0)

    init(tolerance: Double, memory: Duration) {
        self.tolerance = tolerance
        self.memory = memory
    }

    /// Whether the best value is being measured, with fewer requests at once, so that they form no queue.
    var isMeasuring: Bool { measuringSince != nil }

    var growth: Double {
        guard let best, best > 0 else { return 1 }
        return average / best
    }

    /// In seconds; `limit` is about the number of responses in a round trip.
    mutating func record(_ latency: Double, limit: Double, sent: ContinuousClock.Instant, now: ContinuousClock.Instant)
    {
        count = min(count + 1, 1 << 20)
        // A latency counts as at most 2 * `tolerance` * `best`, so that a single outlier changes the average little.
        let sample = best.map { min(latency, 2 * tolerance * $0) } ?? latency
        average += (sample - average) / min(Double(count), max(Double(Self.leastCount), limit))
        if let since = measuringSince {
            if sent >= since { measure(latency, now: now) }
        } else if count >= Self.leastCount {
            judge(now: now)
        }
    }

    private mutating func judge(now: ContinuousClock.Instant) {
        let least = min(best ?? average, average)
        best = least
        if average <= 1.1 * least { bestSeen = now }
        guard let bestSeen, now - bestSeen > memory else { return }
        measuringSince = now
        measured = (0, 0)
    }

    private mutating func measure(_ latency: Double, now: ContinuousClock.Instant) {
        measured.sum += latency
        measured.count += 1
        guard measured.count == Self.leastCount else { return }
        average = measured.sum / Double(measured.count)
        best = average
        bestSeen = now
        measuringSince = nil
    }
}

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
