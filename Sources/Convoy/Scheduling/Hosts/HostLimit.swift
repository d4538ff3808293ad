// How many requests one host gets at once, learned from its responses. A value, without lock or clock.

/// The limit of one host.
///
/// The algorithm is additive increase and multiplicative decrease (TCP, RFC 5681). The number of concurrent requests
/// corresponds to TCP's window, as in Netflix's concurrency-limits. Recovery follows CUBIC (RFC 9438). Growth is fast
/// far below the last limit that was too high, slow near it, and faster again beyond. Rising latency stops the growth
/// before the host has to reject requests (TCP Vegas, Netflix's gradient).
struct HostLimit {
    enum Outcome {
        /// The host has processed the request.
        case succeeded
        /// The host is overloaded: 429, 503, no response in time, or no connection.
        case overloaded
        /// The result says nothing about load: another failure, or a cancellation.
        case neutral
    }

    /// The minimum growth near the last limit that was too high, in requests per round trip.
    ///
    /// For a small limit the minimum is a share of the limit, because one more request is a large step.
    private static let gentle = (step: 0.2, share: 0.03)
    /// The growth in a round trip, as a share of the distance between the limit and the last limit that was too high.
    private static let stride = 0.7
    /// If latency grows to this multiple of the best, requests are assumed to queue at the host.
    private static let queueGrowth = 1.25

    private let limits: AdaptiveLimits
    /// The limit as a real number; ``current`` rounds it down.
    private var allowed: Double
    /// The last limit that was too high.
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

    /// How many requests may run at once now.
    var current: Int {
        max(limits.minimum, Int(gauge.isMeasuring ? allowed / limits.latencyTolerance : allowed))
    }

    /// Whether the host rejects even the minimum number of requests.
    ///
    /// While the breaker is closed, a rejection counts as its failure only if this is true. Otherwise the limit is
    /// learned from rejections, and a burst of rejections between successes is normal.
    var isAtBottom: Bool { decreasesInVain == 3 && current == limits.minimum }

    /// Says which number of requests was too high; nil if there is none above the current limit.
    var words: String? {
        guard let tooMuch, Int(tooMuch) > current else { return nil }
        return "its host is limited to \(current) concurrent requests, because \(Int(tooMuch)) were too many"
    }

    /// Records how a request ended.
    ///
    /// - Parameters:
    ///   - latency: from sending to the head of the response, or to the failure.
    ///   - inFlight: how many requests were running when this one ended, itself included.
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
