// Decides whether one host receives requests, none, or one as a probe. A value, without lock or clock.

/// The circuit breaker of one host (Nygard, "Release It!").
struct HostBreaker {
    enum Phase: Equatable {
        /// Requests are sent. Next: open.
        case closed
        /// No request is sent before `until`. Next: half-open, with the first request after that moment.
        case open(until: ContinuousClock.Instant)
        /// One request probes the host. If the probe has no result by `until`, another request may probe. Next: closed,
        /// open.
        case halfOpen(until: ContinuousClock.Instant)
    }

    /// Distinguishes the probe from requests that were sent before the breaker opened, whose late results are ignored.
    struct Pass: Equatable {
        fileprivate let era: UInt32
    }

    enum Admission: Equatable {
        case admit(Pass)
        case probe(Pass)
        case refuse(until: ContinuousClock.Instant)
    }

    /// How long other requests wait for a probe without a result: longer than most timeouts.
    private static let patience = Duration.seconds(60)

    private let policy: BreakerPolicy
    private(set) var phase = Phase.closed
    /// Incremented with each change of phase; a value repeats only after four billion changes.
    private var era: UInt32 = 0
    private var failuresInARow = 0
    private var tally: FailureTally
    private var openTime: Duration
    private var reason = ""

    init(_ policy: BreakerPolicy) {
        self.policy = policy.inRange
        openTime = self.policy.openTime
        tally = FailureTally(window: self.policy.window)
    }

    var isPristine: Bool { phase == .closed && failuresInARow == 0 && tally.failures == 0 }

    // A caller that gets `probe` must report the result or the cancellation of the request. Otherwise other requests
    // wait for a minute, and then the next one may probe.
    mutating func admits(now: ContinuousClock.Instant) -> Admission {
        switch phase {
        case .closed: return .admit(Pass(era: era))
        case .open(let until):
            guard now >= until else { return .refuse(until: until) }
            enter(.halfOpen(until: now + Self.patience))
            return .probe(Pass(era: era))
        case .halfOpen(let until):
            guard now >= until else { return .refuse(until: until) }
            // The new probe gets the same pass, so the first result decides.
            phase = .halfOpen(until: now + Self.patience)
            return .probe(Pass(era: era))
        }
    }

    func isCurrent(_ pass: Pass) -> Bool { pass.era == era }

    mutating func finished(_ pass: Pass, isFailure: Bool, now: ContinuousClock.Instant) {
        guard pass.era == era else { return }
        switch phase {
        case .closed:
            failuresInARow = isFailure ? min(failuresInARow + 1, policy.failuresInARow) : 0
            tally.count(isFailure: isFailure, now: now)
            if failuresInARow == policy.failuresInARow {
                open(now: now, because: "failed \(Self.times(failuresInARow)) in a row")
            } else if let rate = policy.failureRate, tally.total >= policy.minimumRequests,
                Double(tally.failures) >= rate * Double(tally.total)
            {
                open(now: now, because: "failed \(tally.failures) of its last \(tally.total) requests")
            }
        // No request has a pass from this phase.
        case .open: break
        case .halfOpen:
            if isFailure {
                openTime = min(openTime * 2, policy.maxOpenTime)
                enter(.open(until: now + openTime))
            } else {
                openTime = policy.openTime
                (failuresInARow, tally) = (0, FailureTally(window: policy.window))
                enter(.closed)
            }
        }
    }

    /// If it was the probe, the next request may probe.
    mutating func cancelled(_ pass: Pass, now: ContinuousClock.Instant) {
        guard pass.era == era, case .halfOpen = phase else { return }
        enter(.open(until: now))
    }

    func words(now: ContinuousClock.Instant) -> String? {
        switch phase {
        case .closed: return nil
        case .open(let until):
            let tenths = (max(.zero, until - now) / .milliseconds(100)).rounded(.up)
            return "its host \(reason); the next test is in \(tenths / 10) s"
        case .halfOpen: return "its host \(reason); one request tests it now"
        }
    }

    private mutating func open(now: ContinuousClock.Instant, because reason: String) {
        self.reason = reason
        enter(.open(until: now + openTime))
    }

    private mutating func enter(_ phase: Phase) {
        self.phase = phase
        era &+= 1
    }

    private static func times(_ count: Int) -> String { count == 1 ? "once" : "\(count) times" }
}

struct FailureTally {
    private let half: Duration
    private var began: ContinuousClock.Instant?
    private var older = (total: 0, failures: 0)
    private var newer = (total: 0, failures: 0)

    init(window: Duration) { half = window / 2 }

    var total: Int { older.total + newer.total }
    var failures: Int { older.failures + newer.failures }

    mutating func count(isFailure: Bool, now: ContinuousClock.Instant) {
        let start = began ?? now
        if now - start >= half * 2 {
            (older, newer, began) = ((0, 0), (0, 0), now)
        } else if now - start >= half {
            (older, newer, began) = (newer, (0, 0), start + half)
        } else {
            began = start
        }
        newer.total += 1
        if isFailure { newer.failures += 1 }
    }
}

/// When requests to a failing host are delayed, and for how long.
///
/// A failed connection, no response in time, or a status code of 500 to 599 counts as a failure. Status codes of 400 to
/// 499 are errors of the request and do not count, nor do cancelled requests. With ``AdaptiveLimits``, an overload
/// first lowers the limit of the host, and counts as a failure only at the minimum limit. After ``openTime`` one
/// request probes the host. If that request fails too, the time doubles, up to ``maxOpenTime``.
/// While requests are delayed, the breaker of the host is open.
///
/// ```swift
/// var policy = BreakerPolicy()
/// policy.failuresInARow = 10
/// policy.openTime = .seconds(1)
/// ```
///
/// Values out of range are clamped when they are used, without an error.
///
/// ## Concurrency
/// A value; use it from any thread.
///
/// ## Topics
/// - ``failuresInARow``
/// - ``failureRate``
/// - ``openTime``
public struct BreakerPolicy: Sendable, Hashable {
    /// The number of failures in a row that opens the breaker; 5 by default, at least 1.
    public var failuresInARow: Int
    /// The share of failures that opens the breaker: 0.5 by default, above 0 to 1.
    ///
    /// With nil, or with a value of 0 or less, only failures in a row count.
    public var failureRate: Double? = 0.5
    /// The period for ``failureRate``: 10 seconds by default, 1 millisecond to a day.
    public var window = Duration.seconds(10)
    /// The number of requests in ``window`` from which ``failureRate`` applies; 20 by default, at least 1.
    public var minimumRequests = 20
    /// How long the breaker is open the first time: 5 seconds by default, zero to a day.
    public var openTime: Duration
    /// The longest time that the breaker is open: 60 seconds by default, from ``openTime`` to a day.
    public var maxOpenTime = Duration.seconds(60)

    /// Makes a policy.
    ///
    /// - Parameters:
    ///   - failuresInARow: the number of failures in a row that opens the breaker.
    ///   - openTime: how long the breaker is open the first time.
    public init(failuresInARow: Int = 5, openTime: Duration = .seconds(5)) {
        self.failuresInARow = failuresInARow
        self.openTime = openTime
    }

    /// The same policy clamped to its ranges, so that no sum overflows.
    var inRange: BreakerPolicy {
        let day = Duration.seconds(86_400)
        var policy = self
        policy.failuresInARow = max(1, failuresInARow)
        policy.failureRate = failureRate.flatMap { $0 > 0 ? min($0, 1) : nil }
        policy.window = min(max(.milliseconds(1), window), day)
        policy.minimumRequests = max(1, minimumRequests)
        policy.openTime = min(max(.zero, openTime), day)
        policy.maxOpenTime = min(max(policy.openTime, maxOpenTime), day)
        return policy
    }
}
