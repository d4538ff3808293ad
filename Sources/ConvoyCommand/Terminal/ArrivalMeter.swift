// How fast bytes arrive at the moment.

/// A rate over the arrivals of the last five seconds, by moments that the caller gives.
///
/// The rate is measured from arrival to arrival, without the first: a server that sends a second's worth at once each
/// second has its true rate, and so has a smooth one. What is overdue, by the longest pause so far, lowers it.
struct ArrivalMeter: Equatable {
    private struct Arrival: Equatable {
        let moment: ContinuousClock.Instant
        /// Of all bytes, those of this arrival included.
        let total: Int64
    }

    static let window = Duration.seconds(5)
    private static let leastTime = Duration.seconds(1)
    private static let leastTimeForForecast = Duration.seconds(2)

    private var arrivals: [Arrival] = []
    private var total: Int64 = 0
    private var last: Int64 = 0
    /// The last moment at which nothing had come.
    private var began: ContinuousClock.Instant?

    /// Notes a count; one that runs backwards goes on from there.
    mutating func note(_ bytes: Int64, at now: ContinuousClock.Instant) {
        let arrived = bytes - last
        last = bytes
        guard arrived > 0 else {
            if arrivals.isEmpty { began = now }
            return
        }
        // After a pause that long the earlier arrivals say nothing about now.
        if isStalled(at: now) { (arrivals, began) = ([], now) }
        if began == nil { began = now }
        total &+= arrived
        arrivals.append(Arrival(moment: now, total: total))
        while arrivals.count > 2, now - arrivals[0].moment > Self.window { arrivals.removeFirst() }
    }

    /// The rate; nil in the first second, and before the first byte.
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

    /// Whether no byte has come for five seconds, after some had.
    func isStalled(at now: ContinuousClock.Instant) -> Bool {
        arrivals.last.map { now - $0.moment >= Self.window } ?? false
    }

    /// How long so many bytes take at this rate; nil in the first two seconds and while nothing moves.
    func secondsLeft(for bytes: Double, at now: ContinuousClock.Instant) -> Double? {
        guard let began, now - began >= Self.leastTimeForForecast, let rate = bytesPerSecond(at: now), rate >= 1 else {
            return nil
        }
        return max(0, bytes) / rate
    }
}
