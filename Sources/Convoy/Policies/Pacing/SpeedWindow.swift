// Measures the speed of a transfer in windows of time.

/// The minimum speed of a transfer.
struct MinimumSpeed: Hashable, Sendable {
    /// The minimum number of bytes per second; at least 1.
    var bytesPerSecond: Int64
    /// The length of the windows in which the speed is measured; positive.
    ///
    /// A window with too few bytes fails the transfer.
    var duration: Duration
}

/// Counts bytes in consecutive windows of time.
///
/// Time in which the transfer is paused does not count.
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

    /// Starts a new measurement.
    ///
    /// The transfer counts as paused until `note` reports that it runs.
    mutating func begin() { self = SpeedWindow(minimum) }

    /// Records whether the transfer runs or is paused.
    ///
    /// - Parameter change: the number of the change. A change with a lower number than the last one is ignored.
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

    /// Counts received bytes.
    mutating func add(_ count: Int) { bytes = bytes.addingReportingOverflow(Int64(count)).partialValue }

    /// Checks the speed, and starts the next window when this one is over.
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
