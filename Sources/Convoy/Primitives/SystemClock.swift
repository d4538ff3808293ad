// The clock of the system, with one timer source for the process.
// `@preconcurrency`: libdispatch's objects may be used from any thread, but on Linux they are not declared `Sendable`.
@preconcurrency import Dispatch
import Foundation

/// The system's clock.
///
/// The clock uses one timer source for all timers.
///
/// ## Topics
/// - ``shared``
public final class SystemClock: RequestClock {
    /// The clock of the process.
    public static let shared = SystemClock()

    private struct State {
        var timers = TimerQueue()
        /// The moment for which `source` is set, or will be set by `fire()`.
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

    /// The current moment of the continuous clock.
    public var now: ContinuousClock.Instant { .now }
    /// The current calendar date.
    public var date: Date { Date() }

    /// Fires a timer at a moment, or at once if the moment has passed, on the clock's queue (`convoy.clock`).
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
        // Only `fire` sets the source, and only on the queue. If two threads add timers, the earlier moment therefore
        // wins.
        if isEarlier { queue.async { self.fire() } }
        return timer
    }

    /// Fires due timers, and sets the source for the next timer.
    ///
    /// - Thread: the clock's queue.
    private func fire() {
        while let timer = state.withLock({ $0.timers.takeDue(.now) }) { timer.fire() }
        let (next, source) = state.withLock { state in
            state.armed = state.timers.next
            return (state.armed, state.source)
        }
        guard let next, let source else { return }
        // The source waits at most an hour, so that no sum overflows. If the next timer is due later, the source is set
        // again after the hour.
        let wait = min(max(.zero, ContinuousClock.now.duration(to: next)), .seconds(3_600))
        // The wait is rounded up, because a source that fires slightly early would find no due timer.
        source.schedule(deadline: .now() + .nanoseconds(Int((wait.seconds * 1e9).rounded(.up)) + 1))
    }
}
