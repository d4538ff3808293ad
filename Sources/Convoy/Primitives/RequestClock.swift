// Time: what waits are measured by, and what wakes them.
import Foundation

/// What a manager measures its waits by: back-off, deadlines, holds of hosts, limits of bytes a second.
///
/// The system's unless ``RequestManager/Configuration/clock`` is another; `VirtualClock` of `ConvoyTesting` moves when a test
/// says so, so that retries and deadlines are tested without waiting.
///
/// ## Concurrency
/// Every member is called from any thread. ``now`` and ``date`` are asked often and call nothing of a manager's.
public protocol RequestClock: AnyObject, Sendable {
    /// The moment on the continuous clock: it is never set forward or back.
    var now: ContinuousClock.Instant { get }
    /// The calendar's date, for header fields that name one.
    var date: Date { get }
    /// Makes a timer with the work, and fires it at a moment, or soon when that has passed; never from within this call.
    ///
    /// A clock that stands still until a test moves it may have what is due wait for the next move.
    ///
    /// The work is brief and may run on any thread, one timer after the other.
    ///
    /// - Returns: the timer, which the caller may cancel.
    func wake(at instant: ContinuousClock.Instant, _ work: @escaping @Sendable () -> Void) -> ClockTimer
}
