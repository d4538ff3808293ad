// Compares a host's latency with its best latency, and measures the best latency anew when it is old.

/// Compares a host's current latency with the best seen.
///
/// The best is the lowest *average* of about a round trip. A single fast response may come from a cache and say nothing
/// about other responses. Queues that this client causes hide the best latency while they exist. A best value that
/// simply expired would accept such a queue as normal. One that never expired would mistake a longer network path for a
/// queue forever, as TCP Vegas does. So an old best value is measured anew, with fewer requests at once, as in BBR
/// (ProbeRTT).
struct LatencyEstimator {
    /// The minimum number of responses that make an average.
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

    /// The average as a multiple of the best; 1 if the best is unknown or 0.
    var growth: Double {
        guard let best, best > 0 else { return 1 }
        return average / best
    }

    /// Records the latency of a response, in seconds.
    ///
    /// - Parameter limit: the current limit of the host, which is about the number of responses in a round trip.
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
