// One timer at a time, recorded under a lock and set outside of it.

/// Records the moment at which its owner's timer fires.
///
/// The owner guards the slot with a lock. A ``Move`` then sets or cancels the timer outside the lock.
struct TimerSlot {
    /// A change of the timer, to be performed outside the lock.
    struct Move {
        fileprivate let old: ClockTimer?
        fileprivate let due: ContinuousClock.Instant?
        fileprivate let number: UInt64
    }

    private var due: ContinuousClock.Instant?
    private var number: UInt64 = 0
    private var timer: ClockTimer?

    /// Records when the timer fires next; nil for never.
    ///
    /// Returns the work to do outside the lock; nil if the moment is the same as before.
    mutating func move(to instant: ContinuousClock.Instant?) -> Move? {
        guard instant != due else { return nil }
        number += 1
        defer { (due, timer) = (instant, nil) }
        return Move(old: timer, due: instant, number: number)
    }

    /// Records that a timer fires.
    ///
    /// Returns false if `move(to:)` has replaced that timer. The caller then ignores the timer.
    mutating func fired(_ numberOfFired: UInt64) -> Bool {
        guard numberOfFired == number, due != nil else { return false }
        (due, timer) = (nil, nil)
        return true
    }

    /// Stores a timer so that it can be cancelled.
    ///
    /// Returns false if `move(to:)` has replaced the timer, or if it has fired.
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
