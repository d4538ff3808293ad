// The timers of a clock.

/// The timers of a clock, the earliest first.
///
/// Cancelled timers are removed whenever the number of entries has doubled since the last removal.
struct TimerQueue {
    private struct Entry: Comparable {
        let instant: ContinuousClock.Instant
        let number: UInt64
        let timer: ClockTimer

        static func < (left: Entry, right: Entry) -> Bool {
            left.instant != right.instant ? left.instant < right.instant : left.number < right.number
        }

        static func == (left: Entry, right: Entry) -> Bool { left.number == right.number }
    }

    private var entries = Heap<Entry>()
    private var lastNumber: UInt64 = 0
    private var countAfterSweep = 64

    /// When the first timer is due; nil if there is none.
    ///
    /// That timer may have been cancelled.
    var next: ContinuousClock.Instant? { entries.first?.instant }

    /// - Complexity: O(log *n*) amortised.
    mutating func insert(_ timer: ClockTimer, at instant: ContinuousClock.Instant) {
        if entries.count >= 2 * countAfterSweep {
            entries.removeAll { $0.timer.isOver }
            countAfterSweep = max(64, entries.count)
        }
        lastNumber += 1
        entries.insert(Entry(instant: instant, number: lastNumber, timer: timer))
    }

    /// Removes and returns the first timer, if it is due.
    mutating func takeDue(_ now: ContinuousClock.Instant) -> ClockTimer? {
        guard let next, next <= now else { return nil }
        return entries.popFirst()?.timer
    }
}
