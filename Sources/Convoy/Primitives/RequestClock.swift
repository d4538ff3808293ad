// The clock that measures and ends waits.
@preconcurrency import Dispatch
import Foundation

/// The clock for a manager's waits: back-off, deadlines, host back-offs, rate limits.
///
/// It is the system's clock unless you set ``RequestManager/Configuration/clock``: tests of retries and deadlines move
/// the `VirtualClock` of `ConvoyTesting` instead of waiting.
///
/// ## Concurrency
/// Every member is called from any thread. ``now`` and ``date`` are called often and must not call the manager.
public protocol RequestClock: AnyObject, Sendable {
    /// The current moment of the continuous clock, which is never set forward or back.
    var now: ContinuousClock.Instant { get }
    /// The calendar date, for header fields that contain one.
    var date: Date { get }
    /// Makes a timer with the work and fires it at a moment, or soon if the moment has passed, but not in this call.
    ///
    /// The work is brief and may run on any thread, but never at the same time as that of another timer. A virtual
    /// clock may fire a due timer at its next move.
    ///
    /// - Returns: the timer, which the caller may cancel.
    func wake(at instant: ContinuousClock.Instant, _ work: @escaping @Sendable () -> Void) -> ClockTimer
}

/// The system's clock, with one timer source for all timers.
///
/// ## Topics
/// - ``shared``
public final class SystemClock: RequestClock {
    /// The clock of the process.
    public static let shared = SystemClock()

    private let queue = DispatchQueue(label: "convoy.clock")
    private let source: any DispatchSourceTimer
    private let timers = Locked(TimerQueue())

    private init() {
        source = DispatchSource.makeTimerSource(queue: queue)
        source.setEventHandler { [unowned self] in fire() }
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
        // Only `fire` sets the source, on the queue. So if two threads add timers, the earlier moment wins.
        if timers.withLock({ $0.insert(timer, at: instant) }) { queue.async { self.fire() } }
        return timer
    }

    /// - Thread: the clock's queue.
    private func fire() {
        while let timer = timers.withLock({ $0.takeDue(.now) }) { timer.fire() }
        guard let next = timers.withLock({ $0.next }) else { return }
        // At most an hour, so that no sum overflows; the source is then set again.
        let wait = min(max(.zero, ContinuousClock.now.duration(to: next)), .seconds(3_600))
        // The wait is rounded up, because a source that fires slightly early would find no due timer.
        source.schedule(deadline: .now() + .nanoseconds(Int((wait.seconds * 1e9).rounded(.up)) + 1))
    }
}

/// Cancelled timers are removed whenever the number of entries has doubled since the last removal.
struct TimerQueue {
    private struct Entry: Comparable {
        let instant: ContinuousClock.Instant
        let number: UInt64
        let timer: ClockTimer

        static func < (left: Entry, right: Entry) -> Bool {
            (left.instant, left.number) < (right.instant, right.number)
        }

        static func == (left: Entry, right: Entry) -> Bool { left.number == right.number }
    }

    private var entries = Heap<Entry>()
    private var lastNumber: UInt64 = 0
    private var countAfterSweep = 64

    var next: ContinuousClock.Instant? { entries.first?.instant }

    /// Returns whether the timer is the next.
    mutating func insert(_ timer: ClockTimer, at instant: ContinuousClock.Instant) -> Bool {
        if entries.count >= 2 * countAfterSweep {
            entries.removeAll { $0.timer.isOver }
            countAfterSweep = max(64, entries.count)
        }
        lastNumber += 1
        entries.insert(Entry(instant: instant, number: lastNumber, timer: timer))
        return entries.first?.number == lastNumber
    }

    mutating func takeDue(_ now: ContinuousClock.Instant) -> ClockTimer? {
        guard let next, next <= now else { return nil }
        return entries.popFirst()?.timer
    }
}

/// Work that a ``RequestClock`` runs at a moment, unless it is cancelled.
///
/// ## Concurrency
/// Use a timer from any thread. Only the first call of ``fire()`` or ``cancel()`` has an effect.
public final class ClockTimer: Sendable {
    private let state: Locked<(work: (@Sendable () -> Void)?, isDeadline: Bool)>

    /// Makes a timer with the work that it runs when a clock fires it.
    public init(_ work: @escaping @Sendable () -> Void) { state = Locked((work, false)) }

    /// Runs the work, unless it has run or was cancelled.
    public func fire() { take()?() }

    /// Releases the work without running it.
    public func cancel() { withExtendedLifetime(take()) {} }

    /// Whether the timer has fired or was cancelled.
    public var isOver: Bool { state.withLock { $0.work == nil } }

    /// Whether the timer is the deadline of an operation.
    package var isDeadline: Bool { state.withLock { $0.isDeadline } }

    func noteDeadline() { state.withLock { $0.isDeadline = true } }

    private func take() -> (@Sendable () -> Void)? {
        state.withLock { state in
            defer { state.work = nil }
            return state.work
        }
    }
}

/// A state with its lock, and the timer for the next moment at which the state has something to do.
final class TimedState<State>: Sendable {
    private struct Timed {
        var state: State
        var due: ContinuousClock.Instant?
        var timer: ClockTimer?
    }

    private let clock: any RequestClock
    private let timed: Locked<Timed>

    init(_ state: @autoclosure () -> State, clock: any RequestClock) {
        self.clock = clock
        timed = Locked(Timed(state: state()))
    }

    func withLock<Result: Sendable>(_ body: (inout State) -> Result) -> Result { timed.withLock { body(&$0.state) } }

    // `body` also returns the next moment or nil. Then `wake` is called without the lock, on the clock's queue, unless a
    // later change returns another moment.
    func change<Result: Sendable>(
        wake: @escaping @Sendable () -> Void, _ body: (inout State) -> (Result, due: ContinuousClock.Instant?)
    ) -> Result {
        let (result, due, old) = timed.withLock { timed -> (Result, ContinuousClock.Instant?, ClockTimer?) in
            let (result, due) = body(&timed.state)
            guard due != timed.due else { return (result, nil, nil) }
            defer { (timed.due, timed.timer) = (due, nil) }
            return (result, due, timed.timer)
        }
        old?.cancel()
        guard let due else { return result }
        let timer = clock.wake(at: due) { [weak self] in
            // Of two timers for this moment, which concurrent changes may make, the first to fire calls `wake`.
            let isDue = self?.timed.withLock { timed in
                guard timed.due == due else { return false }
                (timed.due, timed.timer) = (nil, nil)
                return true
            }
            if isDue == true { wake() }
        }
        let isKept = timed.withLock { timed in
            guard timed.due == due, timed.timer == nil else { return false }
            timed.timer = timer
            return true
        }
        if !isKept { timer.cancel() }
        return result
    }
}

extension Int64 {
    func saturatingSum(_ other: Int64) -> Int64 {
        let (sum, overflows) = addingReportingOverflow(other)
        return overflows ? (other > 0 ? .max : .min) : sum
    }
}

extension Duration {
    /// From 0 to 1,000,000 (eleven and a half days): some implementations of URLSession fail with longer timeouts.
    var seconds: TimeInterval {
        // The duration is compared first, because the conversion traps when the seconds overflow `Int64`.
        guard self < .seconds(1_000_000) else { return 1_000_000 }
        guard self > .zero else { return 0 }
        let (seconds, attoseconds) = components
        return TimeInterval(seconds) + TimeInterval(attoseconds) * 1e-18
    }

    /// Whole milliseconds below a second, then seconds with one decimal, up to 1,000,000.
    var words: String {
        let milliseconds = Int((seconds * 1_000).rounded())
        guard milliseconds >= 1_000 else { return "\(milliseconds) ms" }
        let tenths = Int((seconds * 10).rounded())
        return "\(tenths / 10).\(tenths % 10) s"
    }
}

// `ContinuousClock.Instant` has a resilient layout, so copying a struct that contains one looks up its size at run
// time. A struct with this type is copied as plain bytes.
struct CompactInstant: Sendable, Hashable {
    fileprivate let nanoseconds: Int64

    /// The moment that counts as zero, because an instant has no numeric value.
    private static let origin = ContinuousClock.now

    var instant: ContinuousClock.Instant { Self.origin.advanced(by: .nanoseconds(nanoseconds)) }
}

extension CompactInstant {
    init(_ instant: ContinuousClock.Instant) {
        // A moment more than 292 years away becomes the first or last moment that fits. `Int64.min` is not used,
        // because it means nil in `OptionalMoment`.
        let nanoseconds = Int64(clamping: Self.origin.duration(to: instant).attoseconds / 1_000_000_000)
        self.nanoseconds = max(nanoseconds, .min + 1)
    }
}

/// An `Optional` of ``CompactInstant`` takes nine bytes, and the next property then begins at byte sixteen.
@propertyWrapper
struct OptionalMoment: Sendable, Hashable {
    private var nanoseconds = Int64.min

    var wrappedValue: CompactInstant? {
        get { nanoseconds == .min ? nil : CompactInstant(nanoseconds: nanoseconds) }
        set { nanoseconds = newValue?.nanoseconds ?? .min }
    }
}
