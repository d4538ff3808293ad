// How many requests one host gets at once, learned from its answers: a value, without lock or clock.

/// The limit of one host.
///
/// Additive increase and multiplicative decrease (TCP, RFC 5681), with concurrent requests for the window, as in
/// Netflix's concurrency-limits. The way back up is CUBIC's (RFC 9438): fast far below the last limit that was too
/// much, slow near it, and faster again beyond. Growing latency ends growth before the host has to refuse anything
/// (TCP Vegas, Netflix's gradient).
struct HostLimit {
    enum Outcome {
        /// The host has done what it was asked to.
        case succeeded
        /// Too much for it: 429, 503, no answer in time, connection refused.
        case overloaded
        /// Says nothing about load: other errors, cancelled.
        case neutral
    }

    /// How fast the limit grows at the least, near the last one that was too much, in requests a round trip; and as a
    /// share of a small limit, where one more is much more.
    private static let gentle = (step: 0.2, share: 0.03)
    /// The share of the way to the last limit that was good, or from the one that was too much, in a round trip.
    private static let stride = 0.7
    /// The growth of latency at which a queue begins to form.
    private static let queueGrowth = 1.25

    private let limits: AdaptiveLimits
    /// The limit with its fraction.
    private var allowed: Double
    /// The last limit that was too much.
    private var tooMuch: Double?
    private var lastDecrease: ContinuousClock.Instant?
    /// How many decreases there have been since a request succeeded that was sent after one of them.
    private var decreasesInVain = 0
    private var gauge: LatencyEstimator

    init(_ limits: AdaptiveLimits) {
        self.limits = limits.inRange
        allowed = Double(self.limits.initial)
        gauge = LatencyEstimator(tolerance: self.limits.latencyTolerance, memory: self.limits.latencyMemory)
    }

    /// How many requests may be under way at once now.
    var current: Int {
        max(limits.minimum, Int(gauge.isMeasuring ? allowed / limits.latencyTolerance : allowed))
    }

    /// Whether the host refuses even the least it is sent.
    ///
    /// Only then is a refusal a failure for the breaker: before, it is what limits are learned from, and a burst
    /// of them between successes is usual.
    var isAtBottom: Bool { decreasesInVain == 3 && current == limits.minimum }

    /// Why the limit is no higher, for people; nil unless the host has had too much with more.
    var words: String? {
        guard let tooMuch, Int(tooMuch) > current else { return nil }
        return "its host takes \(current) at once for now; \(Int(tooMuch)) were too many"
    }

    /// Takes in how a request ended.
    ///
    /// - Parameters:
    ///   - latency: from sending to the head of the answer, or to the failure.
    ///   - inFlight: how many were under way when it ended, itself included.
    /// - Complexity: O(1).
    mutating func finished(
        latency: Duration, outcome: Outcome, inFlight: Int, now: ContinuousClock.Instant
    ) {
        // Brought into a range in which no difference overflows.
        let latency = min(max(.zero, latency), .seconds(86_400))
        let sent = now - latency
        switch outcome {
        case .neutral: break
        case .overloaded: refused(sent: sent, inFlight: Double(inFlight), now: now)
        case .succeeded: succeeded(latency, sent: sent, inFlight: Double(inFlight), now: now)
        }
    }

    private mutating func refused(sent: ContinuousClock.Instant, inFlight: Double, now: ContinuousClock.Instant) {
        // What was sent before the last decrease tells what that already answered.
        if let lastDecrease, sent < lastDecrease { return }
        // A third time nothing but refusals: the host is down rather than full, and where it was full before is still
        // worth knowing.
        decreasesInVain = min(decreasesInVain + 1, 3)
        guard decreasesInVain < 3 else { return decrease(to: allowed / 2, now: now) }
        // What was under way was too much, not an unused limit (RFC 5681, FlightSize); but one refusal out of the
        // blue halves it at most.
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
            // A round trip for the host to work off what it had, and one to see what came of it.
            guard sent >= lastDecrease + .seconds(min(gauge.average, 60)) else { return }
        }
        // A limit that is not used up says nothing about the next.
        guard !wasMeasuring, !gauge.isMeasuring, inFlight >= 0.8 * allowed.rounded(.down) else { return }
        let growth = gauge.growth
        // No more doubling: what is under way already has not told yet how much too much it is (HyStart, RFC 9406).
        if tooMuch == nil, growth > Self.queueGrowth { tooMuch = allowed }
        if allowed > Double(limits.initial), growth > limits.latencyTolerance {
            tooMuch = allowed
            // Half of it at the least: the gauge sees no growth beyond twice the tolerance.
            decrease(to: max(Double(limits.initial), allowed * limits.latencyTolerance / growth), now: now)
        } else if allowed < Double(limits.initial) || growth <= (1 + limits.latencyTolerance) / 2 {
            // A round trip has as many answers as the limit allows requests.
            allowed = min(allowed + step / allowed, Double(limits.maximum))
        }
    }

    /// How much the limit grows in a round trip: at most to its double (slow start).
    private var step: Double {
        guard let tooMuch else { return allowed }
        // One less than what was too much was good.
        let distance = max(tooMuch - 1 - allowed, allowed - tooMuch)
        return min(max(distance * Self.stride, min(Self.gentle.step, Self.gentle.share * allowed)), allowed)
    }

    private mutating func decrease(to limit: Double, now: ContinuousClock.Instant) {
        allowed = min(max(Double(limits.minimum), limit), Double(limits.maximum))
        lastDecrease = now
    }
}
