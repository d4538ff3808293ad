// What a clock does at a moment.

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
