// Ends transfers that are too slow.

/// The handler is called on the clock's queue, without a lock.
final class StallDetector: Sendable {
    private struct State {
        var window: SpeedWindow
        var timer = TimerSlot()
        var isOver = false
        var tell: (@Sendable (RequestError) -> Void)?
    }

    private let minimum: MinimumSpeed
    private let clock: any RequestClock
    private let state: Locked<State>

    init(_ minimum: MinimumSpeed, clock: any RequestClock) {
        self.minimum = minimum
        self.clock = clock
        state = Locked(State(window: SpeedWindow(minimum)))
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
        let tell = state.withLock { state in
            state.isOver = true
            defer { state.tell = nil }
            return state.tell
        }
        withExtendedLifetime(tell) { perform(state.withLock { $0.timer.move(to: nil) }) }
    }

    private func change(_ change: (inout State, ContinuousClock.Instant) -> Void) {
        let now = clock.now
        perform(
            state.withLock { state in
                guard !state.isOver else { return nil }
                change(&state, now)
                return state.timer.move(to: state.window.due)
            })
    }

    private func perform(_ move: TimerSlot.Move?) {
        move?.perform(on: clock, withSlot: { change in state.withLock { change(&$0.timer) } }) { [weak self] number in
            self?.fire(number)
        }
    }

    /// - Thread: the clock's queue.
    private func fire(_ number: UInt64) {
        let now = clock.now
        let (move, tell, verdict) = state.withLock {
            state -> (TimerSlot.Move?, (@Sendable (RequestError) -> Void)?, SpeedWindow.Verdict) in
            guard state.timer.fired(number), !state.isOver else { return (nil, nil, .goesOn) }
            let verdict = state.window.look(now: now)
            guard case .isTooSlow = verdict else { return (state.timer.move(to: state.window.due), nil, verdict) }
            state.isOver = true
            defer { state.tell = nil }
            return (nil, state.tell, verdict)
        }
        perform(move)
        guard case .isTooSlow(let bytes, let time) = verdict else { return }
        tell?(
            RequestError(
                .timedOut,
                "it stalled: \(bytes) bytes in \(time.words), slower than the minimum of \(minimum.bytesPerSecond) a second"
            ))
    }
}

struct MinimumSpeed: Hashable, Sendable {
    var bytesPerSecond: Int64
    /// A window with too few bytes fails the transfer.
    var duration: Duration
}

struct SpeedWindow {
    enum Verdict: Equatable {
        /// The speed is sufficient, or not known yet.
        case goesOn
        case isTooSlow(bytes: Int64, time: Duration)
    }

    private let minimum: MinimumSpeed
    /// How long the transfer has run in this window, up to `runningSince`.
    private var counted = Duration.zero
    /// The time up to which running time was added to `counted`; nil while the transfer is paused.
    private var runningSince: ContinuousClock.Instant?
    private var bytes: Int64 = 0
    private var lastChange: UInt32?

    init(_ minimum: MinimumSpeed) { self.minimum = minimum }

    /// When to check the speed; nil while the transfer is paused.
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

    mutating func look(now: ContinuousClock.Instant) -> Verdict {
        count(now)
        guard runningSince != nil, counted >= length else { return .goesOn }
        let (came, time) = (bytes, counted)
        (bytes, counted) = (0, .zero)
        let isEnough = Double(came) >= Double(minimum.bytesPerSecond) * length.seconds
        return isEnough ? .goesOn : .isTooSlow(bytes: came, time: time)
    }

    private mutating func count(_ now: ContinuousClock.Instant) {
        guard let since = runningSince else { return }
        counted += max(.zero, since.duration(to: now))
        runningSince = max(since, now)
    }
}
