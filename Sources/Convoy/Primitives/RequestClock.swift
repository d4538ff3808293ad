// Time: what waits are measured by, and what wakes them.
import Foundation

/// A clock that can be replaced, so that back-off and deadlines are tested in virtual time.
protocol RequestClock: AnyObject, Sendable {
    /// The moment on the continuous clock: it is never set forward or back.
    var now: ContinuousClock.Instant { get }
    /// The calendar's date, for header fields that name one.
    var date: Date { get }
    /// Does something at a moment, or at once when that has passed; on the clock's own queue, so be brief.
    func wake(at instant: ContinuousClock.Instant, _ work: @escaping @Sendable () -> Void) -> Alarm
}
