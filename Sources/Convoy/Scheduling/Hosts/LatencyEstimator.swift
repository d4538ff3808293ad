// Whether a host has become slow, and since when the comparison is good.

/// What a host's latency is now, against the best that it has been.
///
/// The best is the least *average* of about a round trip, not the least answer: one that came from a cache says nothing
/// about the others. Queues of our own making hide the best for as long as they stand, and a best that simply aged
/// would take them for normal after a while; one that did not would take a longer way for a queue for ever, as TCP
/// Vegas does. So it is measured anew when it is old, with fewer requests at once, as BBR does (ProbeRTT).
struct LatencyEstimator {
    /// So many answers make an average.
    private static let leastCount = 8

    private let tolerance: Double
    private let memory: Duration
    /// The average of the last round trip or so, in seconds.
    private(set) var average = 0.0
    private var count = 0
    private var best: Double?
    /// When the average was last near the best.
    private var bestSeen: ContinuousClock.Instant?
    private var measuringSince: ContinuousClock.Instant?
    private var measured = (sum: 0.0, count: 0)

    init(tolerance: Double, memory: Duration) {
        self.tolerance = tolerance
        self.memory = memory
    }

    /// Whether the best is being measured: with only so many requests at once that they make no queue.
    var isMeasuring: Bool { measuringSince != nil }

    /// The average as a multiple of the best; 1 while neither is known.
    var growth: Double {
        guard let best, best > 0 else { return 1 }
        return average / best
    }

    /// Takes in the latency of an answer, in seconds.
    ///
    /// - Parameter limit: how many answers make a round trip.
    /// - Complexity: O(1).
    mutating func record(_ latency: Double, limit: Double, sent: ContinuousClock.Instant, now: ContinuousClock.Instant)
    {
        count = min(count + 1, 1 << 20)
        // One answer that took ages says as much as one that took twice too long, so that it alone changes nothing.
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
