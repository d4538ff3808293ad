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
        /// The host is overloaded: 429, 503, no response in time, connection refused.
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
    /// The growth of latency at which a queue begins to form.
    private static let queueGrowth = 1.25

    private let limits: AdaptiveLimits
    /// The limit with its fraction.
    private var allowed: Double
    /// The last limit that was too high.
    private var tooMuch: Double?
    private var lastDecrease: ContinuousClock.Instant?
    /// How many decreases there were since the last success of a request that was sent after a decrease.
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
    /// Only then does a rejection count as a failure for the breaker. Before that, the limit is learned from
    /// rejections, and a burst of rejections between successes is normal.
    var isAtBottom: Bool { decreasesInVain == 3 && current == limits.minimum }

    /// Why the limit is no higher; nil unless more requests have overloaded the host.
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
        // At the third decrease without a success, the host is down rather than full. So `tooMuch` does not change.
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
        // A limit that is not used up says nothing about a higher one.
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
            // A round trip has as many responses as the limit allows requests.
            allowed = min(allowed + step / allowed, Double(limits.maximum))
        }
    }

    /// How much the limit grows in a round trip: at most to its double (slow start).
    private var step: Double {
        guard let tooMuch else { return allowed }
        // A limit of one less than `tooMuch` was acceptable.
        let distance = max(tooMuch - 1 - allowed, allowed - tooMuch)
        return min(max(distance * Self.stride, min(Self.gentle.step, Self.gentle.share * allowed)), allowed)
    }

    private mutating func decrease(to limit: Double, now: ContinuousClock.Instant) {
        allowed = min(max(Double(limits.minimum), limit), Double(limits.maximum))
        lastDecrease = now
    }
}
