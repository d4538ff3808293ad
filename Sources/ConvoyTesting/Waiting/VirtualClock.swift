import Convoy
import Foundation

/// A clock whose time only a test advances, so that retries, deadlines and delays take no real time.
///
/// ```swift
/// let clock = VirtualClock()
/// let stub = StubTransport(clock: clock)
/// stub.route(.get, "/a", replies: .status(503), .status(503), .json("[]"))
/// let manager = RequestManager(
///     configuration: .init(
///         retries: .standard, transport: .custom(stub), clock: clock))
/// let operation = manager.enqueue(Request<Data>.get("http://example.com/a"))
/// for _ in 1...2 { try await clock.advanceToNextTimer() }
/// try await operation.response()
/// ```
///
/// The clock controls all waits of a manager: back-off, `Retry-After`, deadlines, limits of bytes per second, delays of
/// a `StubTransport`. The timeouts of a real transport use the system's clock. With a constant
/// `RequestManager.Configuration.jitter`, the waits of retries are exact too.
///
/// ## Concurrency
/// Use the clock from any thread. Timers fire on the thread that advances the clock, in order and without a lock. When
/// a timer fires, the clock shows the time of that timer.
///
/// ## Topics
/// - ``advance(by:)``
/// - ``advanceToNextTimer(dueWithin:within:)``
/// - ``timersSet(count:within:)``
public final class VirtualClock: RequestClock {
    private struct Entry: Sendable {
        let instant: ContinuousClock.Instant
        let timer: ClockTimer
    }

    private struct State {
        var now: ContinuousClock.Instant
        var date: Date
        var timers: [Entry] = []
        var setCount = 0
        var waiters: [Waiter<Void>] = []

        mutating func insert(_ entry: Entry) {
            var (low, high) = (0, timers.count)
            while low < high {
                let middle = (low + high) / 2
                if timers[middle].instant > entry.instant { high = middle } else { low = middle + 1 }
            }
            timers.insert(entry, at: low)
        }
    }

    private let beginning = ContinuousClock.now
    private let state: Locked<State>

    /// Makes a clock.
    ///
    /// - Parameter date: the initial date; by default one in November 2023.
    public init(date: Date = Date(timeIntervalSince1970: 1_700_000_000)) {
        state = Locked(State(now: beginning, date: date))
    }

    /// The current moment.
    public var now: ContinuousClock.Instant { state.withLock { $0.now } }

    /// The current date.
    public var date: Date { state.withLock { $0.date } }

    /// The time since the clock was made.
    public var elapsed: Duration { beginning.duration(to: now) }

    /// The number of timers set so far, including fired and cancelled ones.
    public var timerCount: Int { state.withLock { $0.setCount } }

    /// Sets a timer.
    ///
    /// Timers fire only when the clock is advanced, so that the test decides when. A timer whose time has passed fires
    /// at the next advance, even an advance by zero.
    ///
    /// - Complexity: O(log *n* + *m*) for *n* pending timers, of which *m* are due later than this one.
    public func wake(at instant: ContinuousClock.Instant, _ work: @escaping @Sendable () -> Void) -> ClockTimer {
        let timer = ClockTimer(work)
        let waiters = state.withLock { state in
            state.insert(Entry(instant: instant, timer: timer))
            state.setCount += 1
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter.resolve(.success(())) }
        return timer
    }

    /// Advances the clock, and fires every timer that becomes due, in order.
    ///
    /// A timer that is set while another one fires is fired too, if it is due.
    ///
    /// - Parameter duration: how far; a negative duration counts as zero.
    public func advance(by duration: Duration) {
        let end = now + max(.zero, duration)
        while fireNext(notAfter: end) {}
        move(to: end)
    }

    /// Waits until a timer is set, advances to the next timer and fires it.
    ///
    /// The call skips deadlines of requests, because a retry before the deadline may not have set its timer yet. Use
    /// `dueWithin` or ``advance(by:)`` to reach a deadline.
    ///
    /// - Parameters:
    ///   - limit: the maximum time from now to the timer. With a limit, the timer may be a deadline. With nil, the
    ///     default, deadlines are skipped.
    ///   - bound: the longest wait in real time, 60 seconds by default.
    /// - Throws: ``TestServerError/timedOut(waitingFor:bound:)`` or ``TestServerError/cancelled``.
    public func advanceToNextTimer(
        dueWithin limit: Duration? = nil, within bound: Duration = .seconds(60)
    ) async throws(TestServerError) {
        try await wait(for: "a timer to be set", within: bound) {
            self.fireNext(notAfter: limit.map { self.now + $0 }, passesDeadlines: limit == nil)
        }
    }

    /// Waits until a total of `count` timers have been set, counted as in ``timerCount``.
    ///
    /// - Parameters:
    ///   - count: the number of timers, including fired and cancelled ones.
    ///   - bound: the longest wait in real time, 60 seconds by default.
    /// - Throws: ``TestServerError/timedOut(waitingFor:bound:)`` or ``TestServerError/cancelled``.
    public func timersSet(count: Int, within bound: Duration = .seconds(60)) async throws(TestServerError) {
        try await wait(for: "\(count) timer(s) to be set", within: bound) { self.timerCount >= count }
    }

    /// Sets the date forward or back, but not the continuous time, `now`.
    package func setCalendar(forward interval: TimeInterval) { state.withLock { $0.date += interval } }

    private func wait(
        for what: String, within bound: Duration, until isTrue: () -> Bool
    ) async throws(TestServerError) {
        let end = ContinuousClock.now + bound
        while true {
            // The waiter is registered before the check, so that a timer that is set in between resumes it.
            let waiter = Waiter<Void>()
            state.withLock { $0.waiters.append(waiter) }
            if isTrue() { return }
            try await waiter.value(within: max(.zero, ContinuousClock.now.duration(to: end)), of: what)
        }
    }

    /// False if there is no timer left that is not cancelled.
    package func fireNext(notAfter end: ContinuousClock.Instant? = nil, passesDeadlines: Bool = false) -> Bool {
        while let entry = takeNext(notAfter: end, passesDeadlines) {
            guard !entry.timer.isOver else { continue }
            move(to: entry.instant)
            entry.timer.fire()
            return true
        }
        return false
    }

    private func takeNext(notAfter end: ContinuousClock.Instant?, _ passesDeadlines: Bool) -> Entry? {
        state.withLock { state in
            let next = state.timers.firstIndex { !passesDeadlines || !$0.timer.isDeadline }
            guard let next, end.map({ state.timers[next].instant <= $0 }) ?? true else { return nil }
            return state.timers.remove(at: next)
        }
    }

    private func move(to instant: ContinuousClock.Instant) {
        state.withLock { state in
            guard instant > state.now else { return }
            state.date += state.now.duration(to: instant) / .seconds(1)
            state.now = instant
        }
    }
}
