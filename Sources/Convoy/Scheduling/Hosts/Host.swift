// One host: the operations that wait for it, and how many it takes at a time.
import Foundation

/// How the limits of hosts are set.
struct HostLimits: Sendable {
    /// For every host, unless limits are learned.
    var fixed: Int
    var adaptive: AdaptiveLimits?
    var breaker: BreakerPolicy?

    init(fixed: Int, adaptive: AdaptiveLimits? = nil, breaker: BreakerPolicy? = nil) {
        self.fixed = max(1, fixed)
        self.adaptive = adaptive
        self.breaker = breaker
    }

    /// Whether the ends of attempts matter.
    var learn: Bool { adaptive != nil || breaker != nil }
}

/// What the end of an attempt says about its host.
struct HostSample {
    let latency: Duration
    let load: HostLimit.Outcome
    let isFailure: Bool

    /// - Parameter failure: why there was no whole answer; nil when there was.
    init(latency: Duration, statusCode: Int?, failure: RequestError.Code?) {
        self.latency = latency
        let hasNoAnswer = failure == .timedOut || (failure == .deadlineExceeded && statusCode == nil)
        let isUnreachable = hasNoAnswer || failure == .connectionFailed || failure == .connectionLost
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

/// A host's queues, by the ranks of tickets, and its limits.
///
/// Part of a scheduler's state, and touched only under its lock; an object, so that a ticket finds it without a look-up.
final class Host {
    struct Entry {
        let ticket: Ticket
        let queueNumber: UInt64
        var isLive: Bool { ticket.queueNumber == queueNumber && ticket.status == .waiting }
    }

    /// The waiting operations of one rank, first in, first out.
    struct Queue {
        private var entries: [Entry?] = []
        private var first = 0

        mutating func append(_ entry: Entry) { entries.append(entry) }

        /// The first that still waits.
        mutating func peek() -> Entry? {
            while first < entries.count, entries[first]?.isLive != true {
                // An entry that was passed is let go of at once: an operation must not live as long as its queue.
                entries[first] = nil
                first += 1
            }
            if first == entries.count { (entries, first) = ([], 0) }
            // Leftovers go when they are half of it: amortised O(1).
            if first > 64, first * 2 > entries.count {
                entries.removeFirst(first)
                first = 0
            }
            return first < entries.count ? entries[first] : nil
        }

        /// How many entries it holds, leftovers included.
        var count: Int { entries.count - first }

        mutating func sweep() {
            entries = entries[first...].filter { $0?.isLive == true }
            first = 0
        }
    }

    var running = 0
    /// How many of them have not begun.
    var unstarted = 0
    var waiting = 0
    /// The queue numbers offered last, of returning and of new operations; an entry with one of them needs no second
    /// offer.
    private var offeredNumbers = (returning: UInt64(0), new: UInt64(0))
    /// Nothing is sent there before this moment: it asked for that.
    private var heldUntil: ContinuousClock.Instant?
    /// How it asked.
    private var reason: RetryAfterReason?
    /// Nor before this one: it failed again and again.
    private var brokenUntil: ContinuousClock.Instant?
    /// By the rank of a ticket, highest priority first; those that return have the even ones.
    var queues = [Queue](repeating: Queue(), count: 10)
    let name: String
    private let fixedLimit: Int
    private(set) var limit: HostLimit?
    var breaker: HostBreaker?

    init(_ name: String, _ limits: HostLimits) {
        self.name = name
        fixedLimit = limits.fixed
        limit = limits.adaptive.map { HostLimit($0) }
        breaker = limits.breaker.map { HostBreaker($0) }
    }

    /// How many may run.
    var currentLimit: Int { limit?.current ?? fixedLimit }

    /// Whether another one may run: one that has begun does not wait for those that have not.
    func hasRoom(returning: Bool) -> Bool {
        (returning ? running - unstarted : running) < currentLimit && heldUntil == nil && brokenUntil == nil
    }

    /// Until when nothing is sent there.
    var hold: ContinuousClock.Instant? {
        guard let heldUntil, let brokenUntil else { return heldUntil ?? brokenUntil }
        return max(heldUntil, brokenUntil)
    }

    /// Whether one that was let out may still go there; the one that tries a broken host does not wait for itself.
    func mayBegin(_ ticket: Ticket) -> Bool {
        guard heldUntil == nil else { return false }
        return brokenUntil == nil || ticket.pass.map { breaker?.isCurrent($0) == true } == true
    }

    /// Holds it; false when it is held for longer already.
    func hold(until instant: ContinuousClock.Instant, _ why: RetryAfterReason) -> Bool {
        if let heldUntil, heldUntil >= instant { return false }
        (heldUntil, reason) = (instant, why)
        return true
    }

    /// What it has asked, or what has been learned of it, for people.
    func words(now: ContinuousClock.Instant) -> String? { reason?.words ?? breaker?.words(now: now) ?? limit?.words }

    var isIdle: Bool { running == 0 && waiting == 0 && hold == nil }
    var hasLearned: Bool { limit != nil || breaker?.isPristine == false }

    func offered(returning: Bool) -> UInt64 { returning ? offeredNumbers.returning : offeredNumbers.new }

    func setOffered(_ queueNumber: UInt64, returning: Bool) {
        if returning { offeredNumbers.returning = queueNumber } else { offeredNumbers.new = queueNumber }
    }

    /// The first of those that return, or of the others.
    func best(returning: Bool) -> Entry? {
        for index in stride(from: returning ? 0 : 1, to: queues.count, by: 2) {
            if let entry = queues[index].peek() { return entry }
        }
        return nil
    }

    /// Stale entries behind a waiting one are not reached by `peek`; they are removed when they outnumber the waiting
    /// entries.
    func sweepIfNeeded() {
        guard queues.reduce(0, { $0 + $1.count }) > 2 * waiting + 64 else { return }
        for index in queues.indices { queues[index].sweep() }
    }

    /// Asks the breaker whether a ticket may go; until when not, if not.
    func refusal(of ticket: Ticket, now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        switch breaker?.admits(now: now) {
        case nil: return nil
        case .admit(let pass), .probe(let pass):
            ticket.pass = pass
            return nil
        case .refuse(let until):
            brokenUntil = until
            return until
        }
    }

    /// Takes in what an attempt's end says; until when the host is to be left alone because of it.
    func record(
        _ sample: HostSample, pass: HostBreaker.Pass?, now: ContinuousClock.Instant
    ) -> ContinuousClock.Instant? {
        limit?.finished(latency: sample.latency, outcome: sample.load, inFlight: running, now: now)
        guard let pass, breaker != nil else { return nil }
        // A host that is learned about refuses some all the time: that is how its limit is found.
        let isUsual = sample.load == .overloaded && limit?.isAtBottom == false && breaker?.phase == .closed
        if isUsual {
            breaker?.cancelled(pass, now: now)
        } else {
            breaker?.finished(pass, isFailure: sample.isFailure, now: now)
        }
        switch breaker?.phase {
        case .open(let until): brokenUntil = until
        case .closed, nil: brokenUntil = nil
        case .halfOpen: break
        }
        return brokenUntil
    }

    /// Ends the holds whose time has come.
    func lift(_ now: ContinuousClock.Instant) {
        if let held = heldUntil, held <= now { (heldUntil, reason) = (nil, nil) }
        if let broken = brokenUntil, broken <= now { brokenUntil = nil }
    }

    /// An attempt ended that says nothing about the host.
    func giveBack(_ pass: HostBreaker.Pass, now: ContinuousClock.Instant) {
        breaker?.cancelled(pass, now: now)
        // The next one may try.
        if case .open = breaker?.phase { brokenUntil = nil }
    }
}
