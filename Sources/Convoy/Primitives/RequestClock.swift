// The clock that measures and ends waits.
import Foundation

/// The clock for a manager's waits: back-off, deadlines, host back-offs, rate limits.
///
/// It is the system's clock unless you set ``RequestManager/Configuration/clock``. A test moves the `VirtualClock` of
/// `ConvoyTesting`, so that it can test retries and deadlines without waiting.
///
/// ## Concurrency
/// Every member is called from any thread. ``now`` and ``date`` are called often and must not call the manager.
public protocol RequestClock: AnyObject, Sendable {
    /// The current moment of the continuous clock, which is never set forward or back.
    var now: ContinuousClock.Instant { get }
    /// The calendar date, for header fields that contain one.
    var date: Date { get }
    /// Makes a timer with the work and fires it at a moment, or soon if the moment has passed.
    ///
    /// The timer never fires within this call.
    ///
    /// A virtual clock may fire a due timer at its next move.
    ///
    /// The work is brief and may run on any thread. A clock must not run the work of two timers at the same time.
    ///
    /// - Returns: the timer, which the caller may cancel.
    func wake(at instant: ContinuousClock.Instant, _ work: @escaping @Sendable () -> Void) -> ClockTimer
}
