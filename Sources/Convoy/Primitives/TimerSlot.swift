// One timer at a time, recorded under a lock and set outside of it.

/// Records, under a lock, the moment at which a timer fires.
///
/// The ``Move`` sets or cancels timers outside the lock.
struct TimerSlot {
    /// The work to do outside the lock.
    struct Move {
        fileprivate let old: ClockTimer?
        fileprivate let due: ContinuousClock.Instant?
        fileprivate let number: UInt64
    }

    private var due: ContinuousClock.Instant?
    private var number: UInt64 = 0
    private var timer: ClockTimer?

    /// Records another moment, nil for never.
    ///
    /// Returns nil when nothing has to be done.
    mutating func move(to instant: ContinuousClock.Instant?) -> Move? {
        guard instant != due else { return nil }
        number += 1
        defer { (due, timer) = (instant, nil) }
        return Move(old: timer, due: instant, number: number)
    }

    /// Records that a timer fires.
    ///
    /// False for an outdated timer, which must be ignored.
    mutating func fired(_ numberOfFired: UInt64) -> Bool {
        guard numberOfFired == number, due != nil else { return false }
        (due, timer) = (nil, nil)
        return true
    }

    /// Stores a timer so that it can be cancelled.
    ///
    /// False if the timer is outdated or has fired.
    fileprivate mutating func keep(_ made: ClockTimer, _ numberOfMade: UInt64) -> Bool {
        guard numberOfMade == number, due != nil else { return false }
        timer = made
        return true
    }
}

extension TimerSlot.Move {
    /// Cancels the old timer, and sets a new one if there is a next moment.
    ///
    /// - Parameters:
    ///   - withSlot: accesses the slot under its lock.
    ///   - work: runs on the clock's queue, with a number for ``TimerSlot/fired(_:)``.
    func perform(
        on clock: any RequestClock, withSlot: ((inout TimerSlot) -> Bool) -> Bool,
        _ work: @escaping @Sendable (UInt64) -> Void
    ) {
        old?.cancel()
        guard let due else { return }
        let timer = clock.wake(at: due) { [number] in work(number) }
        if !withSlot({ $0.keep(timer, number) }) { timer.cancel() }
    }
}
