// Whether one host gets requests at all, or is left alone for a while: a value, without lock or clock.

/// The circuit breaker of one host (Nygard, "Release It!").
struct HostBreaker {
    enum Phase: Equatable {
        /// Requests go out. Next: open.
        case closed
        /// None goes out before that time. Next: half-open, by the first request that asks after it.
        case open(until: ContinuousClock.Instant)
        /// One is on its way to try the host; another may when it is not heard of by that time. Next: closed, open.
        case halfOpen(until: ContinuousClock.Instant)
    }

    /// What a request was let out with; its end is told with it.
    ///
    /// It tells the answer of the request that tries the host from late ones, which were sent before the host was left
    /// alone and say nothing new.
    struct Pass: Equatable {
        fileprivate let era: UInt32
    }

    enum Admission: Equatable {
        /// It may go.
        case admit(Pass)
        /// It may go, and what becomes of it decides about all others.
        case probe(Pass)
        /// Not before that time.
        case refuse(until: ContinuousClock.Instant)
    }

    /// How long the others wait for a request that is not heard of: longer than most timeouts.
    private static let patience = Duration.seconds(60)

    private let policy: BreakerPolicy
    private(set) var phase = Phase.closed
    /// Counts what passes were given out for; they never meet again after four billion changes.
    private var era: UInt32 = 0
    private var failuresInARow = 0
    private var tally: FailureTally
    private var openTime: Duration
    /// What opened it.
    private var reason = ""

    init(_ policy: BreakerPolicy) {
        self.policy = policy.inRange
        openTime = self.policy.openTime
        tally = FailureTally(window: self.policy.window)
    }

    /// Whether it is as new, and nothing is lost when it is thrown away.
    var isPristine: Bool { phase == .closed && failuresInARow == 0 && tally.failures == 0 }

    /// Asks whether a request may go now.
    ///
    /// The caller that gets `probe` must tell how it ended, or that it was cancelled; otherwise the others wait for a
    /// minute, then the next may try.
    ///
    /// - Complexity: O(1).
    mutating func admits(now: ContinuousClock.Instant) -> Admission {
        switch phase {
        case .closed: return .admit(Pass(era: era))
        case .open(let until):
            guard now >= until else { return .refuse(until: until) }
            enter(.halfOpen(until: now + Self.patience))
            return .probe(Pass(era: era))
        case .halfOpen(let until):
            guard now >= until else { return .refuse(until: until) }
            // The same pass: whichever is heard of first decides.
            phase = .halfOpen(until: now + Self.patience)
            return .probe(Pass(era: era))
        }
    }

    /// Whether nothing has been decided about the host since a request was let out.
    func isCurrent(_ pass: Pass) -> Bool { pass.era == era }

    /// Takes in how a request ended that was let out; late ones are ignored.
    ///
    /// - Complexity: O(1).
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
        // No operation holds a pass of that time.
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

    /// A request that was let out has been cancelled: if it was to try the host, the next one may.
    ///
    /// - Complexity: O(1).
    mutating func cancelled(_ pass: Pass, now: ContinuousClock.Instant) {
        guard pass.era == era, case .halfOpen = phase else { return }
        enter(.open(until: now))
    }

    /// Why requests wait, for people; nil when none does.
    func words(now: ContinuousClock.Instant) -> String? {
        switch phase {
        case .closed: return nil
        case .open(let until):
            let tenths = (max(.zero, until - now) / .milliseconds(100)).rounded(.up)
            return "its host \(reason); the next try is in \(tenths / 10) s"
        case .halfOpen: return "its host \(reason); one request is trying it now"
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

/// How many of the requests of a while failed.
///
/// Two counts, of this half of the window and of the one before, so that what is old goes without a list of times.
struct FailureTally {
    private let half: Duration
    private var began: ContinuousClock.Instant?
    private var older = (total: 0, failures: 0)
    private var newer = (total: 0, failures: 0)

    init(window: Duration) { half = window / 2 }

    /// How many ended in the last half to whole window.
    var total: Int { older.total + newer.total }
    /// How many of them failed.
    var failures: Int { older.failures + newer.failures }

    mutating func count(isFailure: Bool, now: ContinuousClock.Instant) {
        let age = began.map { now - $0 } ?? .zero
        if began == nil || age >= half {
            older = age < half * 2 ? newer : (0, 0)
            newer = (0, 0)
            began = now
        }
        newer.total += 1
        if isFailure { newer.failures += 1 }
    }
}
