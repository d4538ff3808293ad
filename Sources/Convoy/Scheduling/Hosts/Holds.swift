// Why nothing is sent to a host, or to any host, for now.

/// The reasons that delay requests which are otherwise ready, each at most once.
///
/// The scheduler sets a timer for the reason that ends first.
struct Holds {
    enum Reason: Sendable {
        /// The host requested a back-off (`Retry-After`).
        case asked
        /// The host kept failing; see ``HostBreaker``.
        case broken
        /// The rate limit is used up; see ``RequestRate``.
        case rate
        /// There is no network. The reason ends when there is a network again.
        case offline
    }

    private var entries: [(reason: Reason, until: ContinuousClock.Instant?)] = []
    /// The moment of the timer that was requested last; nil once that moment has passed.
    private var timer: ContinuousClock.Instant?

    var isEmpty: Bool { entries.isEmpty }

    /// The reason that ends last, and the moment of its end; nil if no reason ends at a known moment.
    var last: (reason: Reason, until: ContinuousClock.Instant)? {
        var last: (reason: Reason, until: ContinuousClock.Instant)?
        for case (let reason, let until?) in entries where last.map({ $0.until < until }) ?? true {
            last = (reason, until)
        }
        return last
    }

    func has(_ reason: Reason) -> Bool { entries.contains { $0.reason == reason } }
    func end(of reason: Reason) -> ContinuousClock.Instant? { entries.first { $0.reason == reason }?.until }

    /// - Parameter until: nil for a reason that an event ends.
    mutating func set(_ reason: Reason, until: ContinuousClock.Instant?) {
        end(reason)
        entries.append((reason, until))
    }

    mutating func end(_ reason: Reason) {
        if !entries.isEmpty { entries.removeAll { $0.reason == reason } }
    }

    /// Removes the reasons that have ended.
    mutating func lift(_ now: ContinuousClock.Instant) {
        entries.removeAll { $0.until.map { $0 <= now } ?? false }
        if let timer, timer <= now { self.timer = nil }
    }

    /// The moment for which a timer must be set; nil if no further timer is needed.
    mutating func takeTimer() -> ContinuousClock.Instant? {
        guard let next = entries.compactMap(\.until).min(), timer.map({ next < $0 }) ?? true else { return nil }
        timer = next
        return next
    }
}
