// The clock of the system, with one timer source for the process.
// libdispatch's objects may be used from any thread; on Linux their protocols do not say so.
@preconcurrency import Dispatch
import Foundation

/// The system's clock: one timer source for all that waits.
///
/// ## Topics
/// - ``shared``
public final class SystemClock: RequestClock {
    /// The clock of the process.
    public static let shared = SystemClock()

    private struct State {
        var timers = TimerQueue()
        /// What the source is set to, or about to be.
        var armed: ContinuousClock.Instant?
        var source: (any DispatchSourceTimer)?
    }

    private let queue = DispatchQueue(label: "convoy.clock")
    private let state = Locked(State())

    private init() {
        let source = DispatchSource.makeTimerSource(queue: queue)
        source.setEventHandler { [unowned self] in fire() }
        state.withLock { $0.source = source }
        source.activate()
    }

    /// The moment on the continuous clock.
    public var now: ContinuousClock.Instant { .now }
    /// The calendar's date.
    public var date: Date { Date() }

    /// Fires a timer at a moment, or at once when that has passed, on the clock's own queue (`convoy.clock`).
    ///
    /// - Complexity: O(log *n*) for *n* timers, amortised.
    public func wake(at instant: ContinuousClock.Instant, _ work: @escaping @Sendable () -> Void) -> ClockTimer {
        let timer = ClockTimer(work)
        let isEarlier = state.withLock { state in
            state.timers.insert(timer, at: instant)
            guard state.armed.map({ instant < $0 }) ?? true else { return false }
            state.armed = instant
            return true
        }
        // There, so that of two threads that set it the earlier moment wins.
        if isEarlier { queue.async { self.fire() } }
        return timer
    }

    /// Fires what is due, and sets the source to what is next.
    ///
    /// - Thread: the clock's queue.
    private func fire() {
        while let timer = state.withLock({ $0.timers.takeDue(.now) }) { timer.fire() }
        let (next, source) = state.withLock { state in
            state.armed = state.timers.next
            return (state.armed, state.source)
        }
        guard let next, let source else { return }
        // At most an hour at a time: what is further away is looked at again, and no arithmetic can overflow.
        let wait = min(max(.zero, ContinuousClock.now.duration(to: next)), .seconds(3_600))
        // Rounded up: a timer that is early by a fraction would find nothing due and be set again.
        source.schedule(deadline: .now() + .nanoseconds(Int((wait.seconds * 1e9).rounded(.up)) + 1))
    }
}
