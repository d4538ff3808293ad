// Time: what waits are measured by, and who wakes what waits.
// libdispatch's objects may be used from any thread; on Linux their protocols do not say so.
@preconcurrency import Dispatch
import Foundation

/// A clock that can be replaced, so that back-off and deadlines are tested in virtual time.
protocol RequestClock: AnyObject, Sendable {
    /// The moment on the continuous clock: nobody sets it forward or back.
    var now: ContinuousClock.Instant { get }
    /// The calendar's date, for header fields that name one.
    var date: Date { get }
    /// Does something at a moment, or at once when that has passed; on the clock's own queue, so be brief.
    func wake(at instant: ContinuousClock.Instant, _ work: @escaping @Sendable () -> Void) -> Alarm
}

/// Something that will be done at a moment, unless it is cancelled.
final class Alarm: Sendable {
    private let work: Locked<(@Sendable () -> Void)?>

    init(_ work: @escaping @Sendable () -> Void) { self.work = Locked(work) }

    /// Does it; a second time, or after `cancel()`, nothing.
    func ring() { take()?() }

    /// What was to be done is let go of.
    func cancel() { withExtendedLifetime(take()) {} }

    var isOver: Bool { work.withLock { $0 == nil } }

    private func take() -> (@Sendable () -> Void)? {
        work.withLock { work in
            defer { work = nil }
            return work
        }
    }
}

/// The moments to come, the next one first; cancelled ones go when they outnumber the others.
struct Agenda {
    private struct Entry: Comparable {
        let instant: ContinuousClock.Instant
        let number: UInt64
        let alarm: Alarm

        static func < (left: Entry, right: Entry) -> Bool {
            left.instant != right.instant ? left.instant < right.instant : left.number < right.number
        }

        static func == (left: Entry, right: Entry) -> Bool { left.number == right.number }
    }

    private var entries = Heap<Entry>()
    private var lastNumber: UInt64 = 0
    private var countAfterSweep = 64

    /// The next moment.
    var next: ContinuousClock.Instant? { entries.first?.instant }

    /// - Complexity: O(log *n*) amortised.
    mutating func insert(_ alarm: Alarm, at instant: ContinuousClock.Instant) {
        if entries.count >= 2 * countAfterSweep {
            entries.removeAll { $0.alarm.isOver }
            countAfterSweep = max(64, entries.count)
        }
        lastNumber += 1
        entries.insert(Entry(instant: instant, number: lastNumber, alarm: alarm))
    }

    /// The first alarm whose moment has come.
    mutating func takeDue(_ now: ContinuousClock.Instant) -> Alarm? {
        guard let next, next <= now else { return nil }
        return entries.popFirst()?.alarm
    }
}

/// The system's clock: one timer for all that waits.
final class SystemClock: RequestClock {
    static let shared = SystemClock()

    private struct State {
        var agenda = Agenda()
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

    var now: ContinuousClock.Instant { .now }
    var date: Date { Date() }

    func wake(at instant: ContinuousClock.Instant, _ work: @escaping @Sendable () -> Void) -> Alarm {
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
