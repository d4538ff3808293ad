// What a clock does at a moment.

/// Something that will be done at a moment, unless it is cancelled; what a ``RequestClock`` fires.
///
/// ## Concurrency
/// Use it from any thread: of two that fire or cancel it, one does.
public final class ClockTimer: Sendable {
    private let work: Locked<(@Sendable () -> Void)?>
    private let endsSomething = Locked(false)

    /// Makes a timer; a clock fires it.
    public init(_ work: @escaping @Sendable () -> Void) { self.work = Locked(work) }

    /// Does it; a second time, or after `cancel()`, nothing.
    public func fire() { take()?() }

    /// What was to be done is let go of.
    public func cancel() { withExtendedLifetime(take()) {} }

    /// Whether it has fired or was cancelled: then nothing follows.
    public var isOver: Bool { work.withLock { $0 == nil } }

    /// Whether it ends an operation, whose deadline it is.
    package var isDeadline: Bool { endsSomething.withLock { $0 } }

    func noteDeadline() { endsSomething.withLock { $0 = true } }

    private func take() -> (@Sendable () -> Void)? {
        work.withLock { work in
            defer { work = nil }
            return work
        }
    }
}
