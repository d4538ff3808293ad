// Ends transfers that are too slow.

/// The handler is called on the clock's queue, without a lock.
final class StallDetector: Sendable {
    private struct State {
        var window: SpeedWindow
        var isOver = false
        var tell: (@Sendable (RequestError) -> Void)?
    }

    private let minimum: MinimumSpeed
    private let clock: any RequestClock
    private let state: TimedState<State>

    init(_ minimum: MinimumSpeed, clock: any RequestClock) {
        (self.minimum, self.clock) = (minimum, clock)
        state = TimedState(State(window: SpeedWindow(minimum)), clock: clock)
    }

    // When `note` reports a running transfer; a second call starts again, and has no effect after `stop()`. `tell` is
    // called at most once, when too few bytes have arrived in a window.
    func begin(_ tell: @escaping @Sendable (RequestError) -> Void) {
        change { state, _ in
            state.window.begin()
            state.tell = tell
        }
    }

    /// - Parameter change: a change with a lower number than the last one is ignored.
    func note(isRunning: Bool, change number: UInt32) {
        change { state, now in
            if state.tell != nil { state.window.note(isRunning: isRunning, change: number, now: now) }
        }
    }

    func add(_ count: Int) { state.withLock { $0.window.add(count) } }

    func stop() {
        let tell = change { state, _ in
            state.isOver = true
            defer { state.tell = nil }
            return state.tell
        }
        // What the closure holds is released outside the lock.
        withExtendedLifetime(tell) {}
    }

    @discardableResult
    private func change<Result: Sendable>(_ body: (inout State, ContinuousClock.Instant) -> Result) -> Result? {
        let now = clock.now
        return state.change(wake: { [weak self] in self?.check() }) { state in
            let result = state.isOver ? nil : body(&state, now)
            return (result, due: state.isOver ? nil : state.window.due)
        }
    }

    /// - Thread: the clock's queue.
    private func check() {
        let told = change { state, now -> (tell: (@Sendable (RequestError) -> Void)?, words: String)? in
            guard let (bytes, time) = state.window.stall(now: now) else { return nil }
            state.isOver = true
            defer { state.tell = nil }
            return (state.tell, "it stalled: \(bytes) bytes in \(time.words), slower than the minimum of ")
        }
        guard let told, let (tell, words) = told else { return }
        tell?(RequestError(.timedOut, words + "\(minimum.bytesPerSecond) a second"))
    }
}

struct MinimumSpeed: Hashable, Sendable {
    var bytesPerSecond: Int64
    var duration: Duration
}

struct SpeedWindow {
    private let minimum: MinimumSpeed
    /// How long the transfer has run in this window, up to `runningSince`.
    private var counted = Duration.zero
    /// The time up to which running time was added to `counted`; nil while the transfer is paused.
    private var runningSince: ContinuousClock.Instant?
    private var bytes: Int64 = 0
    private var lastChange: UInt32?

    init(_ minimum: MinimumSpeed) { self.minimum = minimum }

    var due: ContinuousClock.Instant? { runningSince.map { $0 + (length - counted) } }

    /// The length of a window, limited to 1,000,000,000 seconds, because an overflowing sum would trap.
    private var length: Duration { min(minimum.duration, .seconds(1_000_000_000)) }

    /// The transfer counts as paused until `note` reports that it runs.
    mutating func begin() { self = SpeedWindow(minimum) }

    /// - Parameter change: a change with a lower number than the last one is ignored.
    mutating func note(isRunning: Bool, change: UInt32, now: ContinuousClock.Instant) {
        if let lastChange, change < lastChange { return }
        lastChange = change
        if isRunning {
            runningSince = runningSince ?? now
        } else {
            count(now)
            runningSince = nil
        }
    }

    mutating func add(_ count: Int) { bytes = bytes.addingReportingOverflow(Int64(count)).partialValue }

    /// The bytes of a window that was too slow; nil if the speed is sufficient, or not known yet.
    mutating func stall(now: ContinuousClock.Instant) -> (bytes: Int64, time: Duration)? {
        count(now)
        guard runningSince != nil, counted >= length else { return nil }
        defer { (bytes, counted) = (0, .zero) }
        let isEnough = Double(bytes) >= Double(minimum.bytesPerSecond) * length.seconds
        return isEnough ? nil : (bytes, counted)
    }

    private mutating func count(_ now: ContinuousClock.Instant) {
        guard let since = runningSince else { return }
        counted += max(.zero, since.duration(to: now))
        runningSince = max(since, now)
    }
}
