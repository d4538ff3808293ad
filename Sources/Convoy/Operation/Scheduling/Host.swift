// One host: the operations that wait for it, and how many may run at once.
import Foundation

struct HostLimits: Sendable {
    var fixed: Int
    var adaptive: AdaptiveLimits?
    var breaker: BreakerPolicy?
    var rate: RequestRate?

    var isSampled: Bool { adaptive != nil || breaker != nil }
}

struct HostSample {
    let latency: Duration
    let load: HostLimit.Outcome
    let isFailure: Bool

    init(latency: Duration, statusCode: Int?, failure: RequestError.Code?) {
        self.latency = latency
        let hasNoAnswer = failure == .timedOut || (failure == .deadlineExceeded && statusCode == nil)
        let isUnreachable = hasNoAnswer || failure?.facts.contains(.failureOfHost) == true
        let isServerError = failure == nil && (500..<600).contains(statusCode ?? 0)
        isFailure = isUnreachable || isServerError
        load =
            switch statusCode {
            case 429, 503: .overloaded
            case _ where hasNoAnswer || failure == .connectionFailed: .overloaded
            case _ where isFailure || failure != nil: .neutral
            default: .succeeded
            }
    }
}

// Used only under the manager's lock. An object, so that a record finds it without a lookup.
final class Host {
    // `@exclusivity(unchecked)` is safe, because no code that is called during a change accesses these properties.
    @exclusivity(unchecked) var running = 0
    @exclusivity(unchecked) var unstarted = 0
    /// The waiting operations that have begun, and the new ones.
    private(set) lazy var begun = Line(self)
    private(set) lazy var new = Line(self)
    @exclusivity(unchecked) var holds = Holds()
    var reason: RetryAfterReason?
    let name: String
    private let fixedLimit: Int
    @exclusivity(unchecked) private(set) var limit: HostLimit?
    @exclusivity(unchecked) var breaker: HostBreaker?
    @exclusivity(unchecked) var pacer: RequestPacer?
    private let prioritization: RequestPrioritization

    init(_ name: String, _ limits: HostLimits, _ prioritization: RequestPrioritization) {
        (self.name, self.prioritization) = (name, prioritization)
        pacer = limits.rate.map { RequestPacer($0) }
        fixedLimit = max(1, limits.fixed)
        limit = limits.adaptive.map { HostLimit($0) }
        breaker = limits.breaker.map { HostBreaker($0) }
    }

    var currentLimit: Int { limit?.current ?? fixedLimit }

    func holdWords(past deadline: ContinuousClock.Instant, now: ContinuousClock.Instant) -> String? {
        if let words = pacer?.words(past: deadline, now: now) { return "\(name) is sent \(words)" }
        guard let last = holds.last, last.until >= deadline else { return nil }
        return "\(name) is on hold until after its deadline" + (words(now: now).map { "; \($0)" } ?? "")
    }

    /// The circuit breaker's hold does not block its own probe; a back-off that the host requested blocks every
    /// request.
    func mayBegin(_ pass: HostBreaker.Pass?) -> Bool {
        holds.isEmpty
            || !holds.has(.asked) && (!holds.has(.broken) || pass.map { breaker?.isCurrent($0) == true } == true)
    }

    func words(now: ContinuousClock.Instant) -> String? { reason?.words ?? breaker?.words(now: now) ?? limit?.words }

    func holdWords(now: ContinuousClock.Instant) -> String? {
        guard let last = holds.last else { return nil }
        let time = now.duration(to: last.until).words
        if last.reason == .rate, let rate = pacer?.rate {
            return "\(name): it is sent at most \(rate.words), the next in \(time)"
        }
        return "\(name): it is on hold for another \(time)" + (words(now: now).map { "; \($0)" } ?? "")
    }

    var isIdle: Bool { running == 0 && waiting == 0 && holds.isEmpty }
    var hasLearned: Bool { limit != nil || pacer != nil || breaker?.isPristine == false }

    var waiting: Int { begun.queue.count + new.queue.count }

    func line(of operation: AnyRequestOperation) -> Line {
        operation.record.line % 3 == OperationRecord.Rank.new.rawValue ? new : begun
    }

    /// The turn of a line's first operation; nil if the host has no room for it.
    func turn(_ line: Line) -> Turn? {
        // For a started operation, for example a retry, the slots of operations that have not started do not count.
        let counted = line === begun ? running - unstarted : running
        guard counted < currentLimit, holds.isEmpty, let first = line.queue.first(prioritization) else { return nil }
        let (index, order) = (first.record.line, first.record.order)
        let isNewestFirst = prioritization == .lifo && index % 3 != OperationRecord.Rank.returning.rawValue
        return Turn(line: index, order: isNewestFirst ? .max - order : order)
    }

    /// Whether an operation may be sent, perhaps with a pass of the breaker; if not, the host is put on hold.
    func admits(now: ContinuousClock.Instant) -> (isAdmitted: Bool, pass: HostBreaker.Pass?) {
        if let due = pacer?.due(after: now) {
            holds.set(.rate, until: due)
        } else {
            switch breaker?.admits(now: now) {
            case nil: break
            case .admit(let pass), .probe(let pass): return (holds.isEmpty, pass)
            case .refuse(let until): holds.set(.broken, until: until)
            }
        }
        return (holds.isEmpty, nil)
    }

    func record(_ sample: HostSample, pass: HostBreaker.Pass?, now: ContinuousClock.Instant) {
        limit?.finished(latency: sample.latency, outcome: sample.load, inFlight: running, now: now)
        guard let pass, breaker != nil else { return }
        // A limit is learned from rejections, so some rejections are normal. They count as failures only once the host
        // rejects even the minimum number of requests, or once the breaker has opened.
        let isUsual = sample.load == .overloaded && limit?.isAtBottom == false && breaker?.phase == .closed
        if isUsual {
            breaker?.cancelled(pass, now: now)
        } else {
            breaker?.finished(pass, isFailure: sample.isFailure, now: now)
        }
        switch breaker?.phase {
        case .open(let until): holds.set(.broken, until: until)
        case .closed, nil: holds.end(.broken)
        case .halfOpen: break
        }
    }

    func giveBack(_ pass: HostBreaker.Pass, now: ContinuousClock.Instant) {
        breaker?.cancelled(pass, now: now)
        // The next request may probe the host.
        if case .open = breaker?.phase { holds.end(.broken) }
    }
}

/// Each reason occurs at most once; the scheduler sets a timer for the one that ends first.
struct Holds {
    enum Reason: Sendable {
        /// The host requested a back-off (`Retry-After`).
        case asked
        /// The host kept failing; see ``HostBreaker``.
        case broken
        /// The rate limit is used up; see ``RequestRate``.
        case rate
    }

    private var entries: [(reason: Reason, until: ContinuousClock.Instant)] = []
    /// The moment of the timer that was requested last; nil once that moment has passed.
    private var timer: ContinuousClock.Instant?

    var isEmpty: Bool { entries.isEmpty }

    /// The reason that ends last, and the moment of its end.
    var last: (reason: Reason, until: ContinuousClock.Instant)? { entries.max { $0.until < $1.until } }

    func has(_ reason: Reason) -> Bool { entries.contains { $0.reason == reason } }
    func end(of reason: Reason) -> ContinuousClock.Instant? { entries.first { $0.reason == reason }?.until }

    mutating func set(_ reason: Reason, until: ContinuousClock.Instant) {
        end(reason)
        entries.append((reason, until))
    }

    mutating func end(_ reason: Reason) {
        if !entries.isEmpty { entries.removeAll { $0.reason == reason } }
    }

    mutating func lift(_ now: ContinuousClock.Instant) {
        entries.removeAll { $0.until <= now }
        if let timer, timer <= now { self.timer = nil }
    }

    mutating func takeTimer() -> ContinuousClock.Instant? {
        guard let next = entries.map(\.until).min(), timer.map({ next < $0 }) ?? true else { return nil }
        timer = next
        return next
    }
}
