// How much came in a stretch of time, as a value.

/// The least speed that is good enough.
struct MinimumSpeed: Sendable {
    /// At least 1.
    var bytesPerSecond: Int64
    /// How long less than that may come; positive.
    var duration: Duration
}

/// Counts what comes in stretches of time, in which the time that something holds the bytes back does not count.
struct SpeedWindow {
    enum Verdict: Equatable {
        /// As fast as it has to be, or not known yet.
        case goesOn
        case isTooSlow(bytes: Int64, time: Duration)
    }

    private let minimum: MinimumSpeed
    /// Counted before `runningSince`.
    private var counted = Duration.zero
    /// Nil while the bytes are held back.
    private var runningSince: ContinuousClock.Instant?
    private var bytes: Int64 = 0
    private var lastChange: UInt32?

    init(_ minimum: MinimumSpeed) { self.minimum = minimum }

    /// When to look; nil while the bytes are held back.
    var due: ContinuousClock.Instant? { runningSince.map { $0 + (length - counted) } }

    /// A sum that overflows would trap: thirty years are for ever.
    private var length: Duration { min(minimum.duration, .seconds(1_000_000_000)) }

    /// Begins afresh, with bytes that are held back until it is noted that they are not.
    mutating func begin() { self = SpeedWindow(minimum) }

    /// Notes whether bytes may come.
    ///
    /// - Parameter change: the number of the change that made it so; what was noted of a later one stands.
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

    /// Notes bytes that have come.
    mutating func add(_ count: Int) { bytes = bytes.addingReportingOverflow(Int64(count)).partialValue }

    /// Looks, and begins the next stretch when this one is over.
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
