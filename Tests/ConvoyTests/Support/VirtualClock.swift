// Time that moves when the test says so.
import Foundation

@testable import Convoy

/// A clock for tests: nothing waits, and nothing happens before its moment.
final class VirtualClock: RequestClock {
    private struct State {
        var now = ContinuousClock.now
        var date: Date
        var agenda = TimerQueue()
    }

    /// An entry for each alarm that is set: how long after the beginning of the test it rings.
    let armed = EventLog<Duration>()
    let beginning: ContinuousClock.Instant
    private let state: Locked<State>

    init(date: Date = Date(timeIntervalSince1970: 1_700_000_000)) {
        let state = State(date: date)
        beginning = state.now
        self.state = Locked(state)
    }

    var now: ContinuousClock.Instant { state.withLock { $0.now } }
    var date: Date { state.withLock { $0.date } }
    /// The time that has passed.
    var elapsed: Duration { beginning.duration(to: now) }

    func wake(at instant: ContinuousClock.Instant, _ work: @escaping @Sendable () -> Void) -> Alarm {
        let alarm = Alarm(work)
        state.withLock { $0.agenda.insert(alarm, at: instant) }
        armed.record(beginning.duration(to: instant))
        return alarm
    }

    /// Moves on and rings what is due, in order, each at its moment.
    func advance(by duration: Duration) {
        let end = now + duration
        while moveToNext(notAfter: end) {}
        move(to: end)
    }

    /// Moves on to the next alarm that has not been cancelled; false when there is none.
    @discardableResult
    func advanceToNext() -> Bool { moveToNext(notAfter: nil) }

    /// The calendar is set forward or back, as by its owner; the moments stay.
    func setCalendar(forward interval: TimeInterval) {
        state.withLock { $0.date += interval }
    }

    private func moveToNext(notAfter end: ContinuousClock.Instant?) -> Bool {
        while let next = state.withLock({ $0.agenda.next }), end.map({ next <= $0 }) ?? true {
            guard let alarm = state.withLock({ $0.agenda.takeDue(next) }), !alarm.isOver else { continue }
            move(to: next)
            alarm.ring()
            return true
        }
        return false
    }

    private func move(to instant: ContinuousClock.Instant) {
        state.withLock { state in
            guard instant > state.now else { return }
            state.date += state.now.duration(to: instant).seconds
            state.now = instant
        }
    }
}
