// The clock of the system, with one timer for the process.
// libdispatch's objects may be used from any thread; on Linux their protocols do not say so.
@preconcurrency import Dispatch
import Foundation

/// The system's clock: one timer for all that waits.
///
/// ## Topics
/// - ``shared``
public final class SystemClock: RequestClock {
    /// The clock of the process.
    public static let shared = SystemClock()

    private struct State {
        var agenda = TimerQueue()
        /// What the timer is set to, or about to be.
        var armed: ContinuousClock.Instant?
        var timer: (any DispatchSourceTimer)?
    }

    private let queue = DispatchQueue(label: "convoy.clock")
    private let state = Locked(State())

    private init() {
        let timer = DispatchSource.makeTimerSource(queue: queue)
        timer.setEventHandler { [unowned self] in ring() }
        state.withLock { $0.timer = timer }
        timer.activate()
    }

    /// The moment on the continuous clock.
    public var now: ContinuousClock.Instant { .now }
    /// The calendar's date.
    public var date: Date { Date() }

    /// Rings an alarm at a moment, or at once when that has passed, on the clock's own queue (`convoy.clock`).
    ///
    /// - Complexity: O(log *n*) for *n* alarms, amortised.
    public func wake(at instant: ContinuousClock.Instant, _ work: @escaping @Sendable () -> Void) -> Alarm {
        let alarm = Alarm(work)
        let isEarlier = state.withLock { state in
            state.agenda.insert(alarm, at: instant)
            guard state.armed.map({ instant < $0 }) ?? true else { return false }
            state.armed = instant
            return true
        }
        // There, so that of two threads that set it the earlier moment wins.
        if isEarlier { queue.async { self.ring() } }
        return alarm
    }

    /// Rings what is due, and sets the timer to what is next.
    ///
    /// - Thread: the clock's queue.
    private func ring() {
        while let alarm = state.withLock({ $0.agenda.takeDue(.now) }) { alarm.ring() }
        let (next, timer) = state.withLock { state in
            state.armed = state.agenda.next
            return (state.armed, state.timer)
        }
        guard let next, let timer else { return }
        // At most an hour at a time: what is further away is looked at again, and no arithmetic can overflow.
        let wait = min(max(.zero, ContinuousClock.now.duration(to: next)), .seconds(3_600))
        // Rounded up: a timer that is early by a fraction would find nothing due and be set again.
        timer.schedule(deadline: .now() + .nanoseconds(Int((wait.seconds * 1e9).rounded(.up)) + 1))
    }
}
