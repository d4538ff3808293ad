// The clock that measures and ends waits.
@preconcurrency import Dispatch
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

/// Cancelled timers are removed whenever the number of entries has doubled since the last removal.
struct TimerQueue {
    private struct Entry: Comparable {
        let instant: ContinuousClock.Instant
        let number: UInt64
        let timer: ClockTimer

        static func < (left: Entry, right: Entry) -> Bool {
            left.instant != right.instant ? left.instant < right.instant : left.number < right.number
        }

        static func == (left: Entry, right: Entry) -> Bool { left.number == right.number }
    }

    private var entries = Heap<Entry>()
    private var lastNumber: UInt64 = 0
    private var countAfterSweep = 64

    var next: ContinuousClock.Instant? { entries.first?.instant }

    /// - Complexity: O(log *n*) amortised.
    mutating func insert(_ timer: ClockTimer, at instant: ContinuousClock.Instant) {
        if entries.count >= 2 * countAfterSweep {
            entries.removeAll { $0.timer.isOver }
            countAfterSweep = max(64, entries.count)
        }
        lastNumber += 1
        entries.insert(Entry(instant: instant, number: lastNumber, timer: timer))
    }

    mutating func takeDue(_ now: ContinuousClock.Instant) -> ClockTimer? {
        guard let next, next <= now else { return nil }
        return entries.popFirst()?.timer
    }
}

/// Work that a ``RequestClock`` runs at a moment, unless it is cancelled.
///
/// ## Concurrency
/// Use a timer from any thread. If two threads fire or cancel the timer, only the first call has an effect.
public final class ClockTimer: Sendable {
    private let work: Locked<(@Sendable () -> Void)?>
    private let endsSomething = Locked(false)

    /// Makes a timer with the work that it runs when a clock fires it.
    public init(_ work: @escaping @Sendable () -> Void) { self.work = Locked(work) }

    /// Runs the work.
    ///
    /// A second call, or a call after `cancel()`, has no effect.
    public func fire() { take()?() }

    /// Releases the work without running it.
    public func cancel() { withExtendedLifetime(take()) {} }

    /// Whether the timer has fired or was cancelled.
    public var isOver: Bool { work.withLock { $0 == nil } }

    /// Whether the timer is the deadline of an operation.
    package var isDeadline: Bool { endsSomething.withLock { $0 } }

    func noteDeadline() { endsSomething.withLock { $0 = true } }

    private func take() -> (@Sendable () -> Void)? {
        work.withLock { work in
            defer { work = nil }
            return work
        }
    }
}

// The owner guards the slot with a lock. A ``Move`` then sets or cancels the timer outside the lock.
struct TimerSlot {
    struct Move {
        fileprivate let old: ClockTimer?
        fileprivate let due: ContinuousClock.Instant?
        fileprivate let number: UInt64
    }

    private var due: ContinuousClock.Instant?
    private var number: UInt64 = 0
    private var timer: ClockTimer?

    // Nil for never. Returns the work to do outside the lock; nil if the moment is the same as before.
    mutating func move(to instant: ContinuousClock.Instant?) -> Move? {
        guard instant != due else { return nil }
        number += 1
        defer { (due, timer) = (instant, nil) }
        return Move(old: timer, due: instant, number: number)
    }

    /// Returns false if `move(to:)` has replaced that timer; the caller then ignores it.
    mutating func fired(_ numberOfFired: UInt64) -> Bool {
        guard numberOfFired == number, due != nil else { return false }
        (due, timer) = (nil, nil)
        return true
    }

    /// Returns false if `move(to:)` has replaced the timer, or if it has fired.
    fileprivate mutating func keep(_ made: ClockTimer, _ numberOfMade: UInt64) -> Bool {
        guard numberOfMade == number, due != nil else { return false }
        timer = made
        return true
    }
}

extension TimerSlot.Move {
    /// Cancels the old timer, and sets a new one if there is a next moment.
    ///
    /// - Parameters:
    ///   - withSlot: accesses the slot under its lock.
    ///   - work: runs on the clock's queue, with a number for ``TimerSlot/fired(_:)``.
    func perform(
        on clock: any RequestClock, withSlot: ((inout TimerSlot) -> Bool) -> Bool,
        _ work: @escaping @Sendable (UInt64) -> Void
    ) {
        old?.cancel()
        guard let due else { return }
        let timer = clock.wake(at: due) { [number] in work(number) }
        if !withSlot({ $0.keep(timer, number) }) { timer.cancel() }
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

    /// The duration as a text: whole milliseconds below a second, then seconds with one decimal, up to 1,000,000.
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
