// One timer at a time, noted behind a lock and set outside of it.

/// Notes under a lock when a timer is to fire; ``Move`` does, outside the lock, what follows from that.
struct TimerSlot {
    /// What is to be done outside the lock.
    struct Move {
        fileprivate let old: ClockTimer?
        fileprivate let due: ContinuousClock.Instant?
        fileprivate let number: UInt64
    }

    private var due: ContinuousClock.Instant?
    private var number: UInt64 = 0
    private var timer: ClockTimer?

    /// Notes another moment, nil for never; the result is nil when nothing is to be done.
    mutating func move(to instant: ContinuousClock.Instant?) -> Move? {
        guard instant != due else { return nil }
        number += 1
        defer { (due, timer) = (instant, nil) }
        return Move(old: timer, due: instant, number: number)
    }

    /// Notes that a timer fires; false for one that was moved meanwhile, which means nothing any more.
    mutating func fired(_ numberOfFired: UInt64) -> Bool {
        guard numberOfFired == number, due != nil else { return false }
        (due, timer) = (nil, nil)
        return true
    }

    /// Keeps a timer, so that it can be cancelled; false for one that was moved meanwhile, or has fired.
    fileprivate mutating func keep(_ made: ClockTimer, _ numberOfMade: UInt64) -> Bool {
        guard numberOfMade == number, due != nil else { return false }
        timer = made
        return true
    }
}

extension TimerSlot.Move {
    /// Cancels and sets timers.
    ///
    /// - Parameters:
    ///   - withSlot: reaches the slot under its lock.
    ///   - work: is done on the clock's queue, with a number for ``TimerSlot/fired(_:)``.
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
