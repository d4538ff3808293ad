// The rate covers the time between the first and the last arrival, without the bytes of the first one, so it is
// correct for smooth servers and for bursts. An overdue arrival lowers it.
struct ArrivalMeter {
    static let window = Duration.seconds(5)
    private static let leastTime = Duration.seconds(1)
    private static let leastTimeForForecast = Duration.seconds(2)

    private var arrivals: [(moment: ContinuousClock.Instant, total: Int64)] = []
    private var total: Int64 = 0
    private var last: Int64 = 0
    private var began: ContinuousClock.Instant?

    // If the total decreases, measuring continues from the lower total.
    mutating func note(_ bytes: Int64, at now: ContinuousClock.Instant) {
        let arrived = bytes - last
        last = bytes
        guard arrived > 0 else {
            if arrivals.isEmpty { began = now }
            return
        }
        // After a pause of five seconds, earlier arrivals do not describe the current rate.
        if isStalled(at: now) { (arrivals, total, began) = ([], 0, now) }
        if began == nil { began = now }
        total &+= arrived
        arrivals.append((now, total))
        while arrivals.count > 2, now - arrivals[0].moment > Self.window { arrivals.removeFirst() }
    }

    /// The current rate; nil in the first second and before the first byte.
    func bytesPerSecond(at now: ContinuousClock.Instant) -> Double? {
        guard let began, now - began >= Self.leastTime, let first = arrivals.first, let last = arrivals.last else {
            return nil
        }
        if isStalled(at: now) { return 0 }
        guard first.moment < last.moment else { return Double(first.total) / (now - began).inSeconds }
        let longestPause = zip(arrivals, arrivals.dropFirst()).map { $1.moment - $0.moment }.max() ?? .zero
        let end = max(last.moment, now - longestPause)
        return Double(last.total - first.total) / (end - first.moment).inSeconds
    }

    func isStalled(at now: ContinuousClock.Instant) -> Bool {
        arrivals.last.map { now - $0.moment >= Self.window } ?? false
    }

    /// The seconds that a number of bytes needs at the current rate; nil in the first two seconds and below 1 byte/s.
    func secondsLeft(for bytes: Double, at now: ContinuousClock.Instant) -> Double? {
        guard let began, now - began >= Self.leastTimeForForecast, let rate = bytesPerSecond(at: now), rate >= 1 else {
            return nil
        }
        return max(0, bytes) / rate
    }
}
