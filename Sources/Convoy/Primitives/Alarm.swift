// What a clock does at a moment.

/// Something that will be done at a moment, unless it is cancelled; what a ``RequestClock`` rings.
///
/// ## Concurrency
/// Use it from any thread: of two that ring or cancel it, one does.
public final class Alarm: Sendable {
    private let work: Locked<(@Sendable () -> Void)?>

    /// Makes an alarm; a clock rings it.
    public init(_ work: @escaping @Sendable () -> Void) { self.work = Locked(work) }

    /// Does it; a second time, or after `cancel()`, nothing.
    public func ring() { take()?() }

    /// What was to be done is let go of.
    public func cancel() { withExtendedLifetime(take()) {} }

    /// Whether it has rung or was cancelled: then nothing follows.
    public var isOver: Bool { work.withLock { $0 == nil } }

    private func take() -> (@Sendable () -> Void)? {
        work.withLock { work in
            defer { work = nil }
            return work
        }
    }
}
