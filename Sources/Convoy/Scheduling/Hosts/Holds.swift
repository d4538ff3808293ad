// Why nothing is sent to a host, or to any, for now.

/// What keeps requests back that have everything else: each reason at most once, with the moment at which it ends.
///
/// Part of a scheduler's state: one timer at a time is asked for, for the reason that ends first.
struct Holds {
    enum Reason: Sendable {
        /// A host has asked for it (`Retry-After`).
        case asked
        /// A host failed again and again; see ``HostBreaker``.
        case broken
        /// As many requests as are allowed in a time have been sent; see ``RequestRate``.
        case rate
        /// There is no network; ends when there is one.
        case offline
    }

    private var entries: [(reason: Reason, until: ContinuousClock.Instant?)] = []
    /// The timer that was asked for last and has not fired.
    private var timer: ContinuousClock.Instant?

    var isEmpty: Bool { entries.isEmpty }

    /// When the last of them ends that end at a moment, and which it is.
    var last: (reason: Reason, until: ContinuousClock.Instant)? {
        var last: (reason: Reason, until: ContinuousClock.Instant)?
        for case (let reason, let until?) in entries where last.map({ $0.until < until }) ?? true {
            last = (reason, until)
        }
        return last
    }

    func has(_ reason: Reason) -> Bool { entries.contains { $0.reason == reason } }
    func end(of reason: Reason) -> ContinuousClock.Instant? { entries.first { $0.reason == reason }?.until }

    /// - Parameter until: nil for one that an event ends.
    mutating func set(_ reason: Reason, until: ContinuousClock.Instant?) {
        end(reason)
        entries.append((reason, until))
    }

    mutating func end(_ reason: Reason) {
        if !entries.isEmpty { entries.removeAll { $0.reason == reason } }
    }

    /// Ends those whose moment has come.
    mutating func lift(_ now: ContinuousClock.Instant) {
        entries.removeAll { $0.until.map { $0 <= now } ?? false }
        if let timer, timer <= now { self.timer = nil }
    }

    /// When a timer is to fire that has not been asked for yet.
    mutating func takeTimer() -> ContinuousClock.Instant? {
        guard let next = entries.compactMap(\.until).min(), timer.map({ next < $0 }) ?? true else { return nil }
        timer = next
        return next
    }
}
