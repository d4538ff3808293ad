// One alarm at a time, noted behind a lock and set outside of it.

/// Notes under a lock when an alarm is to ring; ``Move`` does, outside the lock, what follows from that.
struct AlarmSlot {
    /// What is to be done outside the lock.
    struct Move {
        fileprivate let old: Alarm?
        fileprivate let due: ContinuousClock.Instant?
        fileprivate let number: UInt64
    }

    private var due: ContinuousClock.Instant?
    private var number: UInt64 = 0
    private var alarm: Alarm?

    /// Notes another moment, nil for never; the result is nil when nothing is to be done.
    mutating func move(to instant: ContinuousClock.Instant?) -> Move? {
        guard instant != due else { return nil }
        number += 1
        defer { (due, alarm) = (instant, nil) }
        return Move(old: alarm, due: instant, number: number)
    }

    /// Notes that an alarm rings; false for one that was moved meanwhile, which means nothing any more.
    mutating func rang(_ rung: UInt64) -> Bool {
        guard rung == number, due != nil else { return false }
        (due, alarm) = (nil, nil)
        return true
    }

    /// Keeps an alarm, so that it can be cancelled; false for one that was moved meanwhile, or has rung.
    fileprivate mutating func keep(_ made: Alarm, _ numberOfMade: UInt64) -> Bool {
        guard numberOfMade == number, due != nil else { return false }
        alarm = made
        return true
    }
}

extension AlarmSlot.Move {
    /// Cancels and sets alarms.
    ///
    /// - Parameters:
    ///   - withSlot: reaches the slot under its lock.
    ///   - work: is done on the clock's queue, with a number for ``AlarmSlot/rang(_:)``.
    func perform(
        on clock: any RequestClock, withSlot: ((inout AlarmSlot) -> Bool) -> Bool,
        _ work: @escaping @Sendable (UInt64) -> Void
    ) {
        old?.cancel()
        guard let due else { return }
        let alarm = clock.wake(at: due) { [number] in work(number) }
        if !withSlot({ $0.keep(alarm, number) }) { alarm.cancel() }
    }
}
