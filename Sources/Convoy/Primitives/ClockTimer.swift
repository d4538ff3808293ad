// Work that a clock runs at a moment.

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
