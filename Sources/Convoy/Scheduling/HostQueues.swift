// Decides which operation is next, and counts those that run. A value, without lock.
import Foundation

// Within a priority the order is first in, first out (or last in, first out), over all hosts. Operations that return
// for another attempt precede the new ones. A host at its limit or on hold is skipped, so that it blocks no other
// host. When an operation leaves its queue, a stale entry remains there and is skipped later. So every move costs
// O(1), plus O(log *h*) for *h* hosts with waiting operations.
//
// The slot of an operation that has not begun does not count against operations that have begun. Otherwise a deadlock
// is possible: A waits for a retry, and B has the only slot, but the operation queue starts B only after A. So A may
// use that slot. B requests a slot again when it begins (``SchedulerState/begins(_:_:)``).
struct HostQueues {
    let limits: HostLimits
    let prioritization: RequestPrioritization
    var hosts: [String: Host] = [:]
    /// Two heaps, because either kind may have to be skipped.
    private(set) var candidates = (begun: Heap<Turn>(), new: Heap<Turn>())
    private var sweepCount = 64
    private var lastQueueNumber: UInt64 = 0
    private(set) var running = 0
    var unstarted = 0

    /// When a candidate for a slot was last found; ``release(_:for:isUnsent:)`` uses it as the current time.
    private var lastLook: ContinuousClock.Instant?
    var pacer: RequestPacer?
    var holds = Holds()
    /// New holds with a known end, for which the scheduler sets timers.
    var newHolds: [NewHold] = []

    struct NewHold: Sendable {
        let host: String?
        let until: ContinuousClock.Instant
    }

    init(limits: HostLimits, _ prioritization: RequestPrioritization = .fifo, rate: RequestRate? = nil) {
        (self.limits, self.prioritization) = (limits, prioritization)
        pacer = rate.map { RequestPacer($0) }
    }

    mutating func join(_ queueEntry: QueueEntry) {
        lastQueueNumber += 1
        queueEntry.queueNumber = lastQueueNumber
        (queueEntry.status, queueEntry.isCandidate) = (.waiting, false)
        queueEntry.rank = queueEntry.hasSent ? .returning : queueEntry.hasBegun ? .started : .new
        let host = makeHost(queueEntry.host)
        queueEntry.queue = host
        host.append(queueEntry)
        hostChanged(host)
    }

    mutating func takeNext(limit: Int, takesNew: Bool = true, now: ContinuousClock.Instant) -> QueueEntry? {
        while true {
            let begun = running - unstarted < limit ? candidates.begun.first : nil
            let new = running < limit && takesNew ? candidates.new.first : nil
            guard begun != nil || new != nil, pacer == nil || !isPaced(now) else { return nil }
            let isNew = if let begun, let new { new < begun } else { begun == nil }
            let candidate = isNew ? candidates.new.popFirst() : candidates.begun.popFirst()
            lastLook = now
            guard let candidate, candidate.isLive, let host = candidate.queueEntry.queue else { continue }
            let queueEntry = candidate.queueEntry
            queueEntry.isCandidate = false
            guard host.hasRoom(hasBegun: !isNew) else { continue }
            if limits.rate != nil || limits.breaker != nil, !host.admits(queueEntry, now: now) {
                noteHold(of: host)
                continue
            }
            queueEntry.status = .dispatched
            queueEntry.slotCount &+= 1
            host.waiting -= 1
            host.running += 1
            running += 1
            if isNew {
                host.unstarted += 1
                unstarted += 1
            }
            if pacer != nil || limits.rate != nil { takeToken(queueEntry, at: host, now) }
            hostChanged(host)
            return queueEntry
        }
    }

    mutating func record(_ sample: HostSample, of queueEntry: QueueEntry, now: ContinuousClock.Instant) {
        guard queueEntry.status == .dispatched, let host = queueEntry.queue else { return }
        host.record(sample, pass: queueEntry.pass, now: now)
        queueEntry.pass = nil
        noteHold(of: host)
        hostChanged(host)
    }

    /// With `isUnsent`, the operation has begun but sent nothing since it got the slot.
    mutating func release(_ queueEntry: QueueEntry, for status: QueueEntry.Status = .ended, isUnsent: Bool = false) {
        guard let host = queueEntry.queue else { return }
        let hasSlot = queueEntry.status == .dispatched
        (queueEntry.status, queueEntry.queue) = (status, nil)
        if hasSlot {
            if queueEntry.token != nil { leaveToken(queueEntry, at: host, isUnsent: isUnsent || !queueEntry.hasBegun) }
            running -= 1
            host.running -= 1
            if !queueEntry.hasBegun {
                unstarted -= 1
                host.unstarted -= 1
            }
            // The attempt ended without a result for its host: the request was cancelled or never sent.
            if let pass = queueEntry.pass, let lastLook {
                host.giveBack(pass, now: lastLook)
                queueEntry.pass = nil
            }
        } else {
            host.waiting -= 1
            host.sweepIfNeeded()
        }
        hostChanged(host)
    }

    // Afterwards, a host with room and waiting entries has a candidate in a heap. A host with nothing waiting may be
    // removed, if many hosts are stored.
    mutating func hostChanged(_ host: Host) {
        guard host.waiting > 0 else {
            // The host may be used again, and its learned limits are useful. But only a limited number of them is kept.
            let isKept = hosts.count <= 64 || !host.isIdle || host.hasLearned && hosts.count <= 1_024
            if !isKept, hosts[host.name] === host { hosts[host.name] = nil }
            return
        }
        if let best = host.takeBest(hasBegun: true) { candidates.begun.insert(Turn(best, prioritization)) }
        if let best = host.takeBest(hasBegun: false) { candidates.new.insert(Turn(best, prioritization)) }
        guard candidates.begun.count + candidates.new.count > sweepCount else { return }
        candidates.begun.removeAll { !$0.isLive }
        candidates.new.removeAll { !$0.isLive }
        sweepCount = 2 * (candidates.begun.count + candidates.new.count) + 64
    }

    mutating func makeHost(_ name: String) -> Host {
        if let host = hosts[name] { return host }
        let host = Host(name, limits, prioritization)
        hosts[name] = host
        return host
    }
}

// The lowest turn is first: by priority and rank, then by the order of queueing. With `lifo`, the newest operation
// precedes, except among those that return for another attempt.
struct Turn: Comparable {
    let queueEntry: QueueEntry
    private let queueNumber: UInt64
    private let status: QueueEntry.Status
    private let priorityIndex: Int
    private let order: UInt64

    init(_ queueEntry: QueueEntry, _ prioritization: RequestPrioritization) {
        (self.queueEntry, queueNumber) = (queueEntry, queueEntry.queueNumber)
        (status, priorityIndex) = (queueEntry.status, queueEntry.priorityIndex)
        order = prioritization == .lifo && queueEntry.rank != .returning ? .max - queueNumber : queueNumber
    }

    var isLive: Bool {
        queueEntry.status == status && queueEntry.queueNumber == queueNumber
            && queueEntry.priorityIndex == priorityIndex
    }

    static func < (left: Turn, right: Turn) -> Bool {
        left.priorityIndex != right.priorityIndex ? left.priorityIndex < right.priorityIndex : left.order < right.order
    }

    static func == (left: Turn, right: Turn) -> Bool {
        left.priorityIndex == right.priorityIndex && left.order == right.order
    }
}

extension HostQueues {
    mutating func hold(_ name: String, until instant: ContinuousClock.Instant, _ reason: RetryAfterReason) -> Bool {
        let host = makeHost(name)
        if let held = host.holds.end(of: .asked), held >= instant { return false }
        host.holds.set(.asked, until: instant)
        host.reason = reason
        noteHold(of: host)
        return true
    }

    /// Ends the expired holds of one host or, if the name is nil, those that apply to every host.
    mutating func lift(_ name: String?, now: ContinuousClock.Instant) {
        guard let name else { return holds.lift(now) }
        guard let host = hosts[name] else { return }
        host.holds.lift(now)
        if !host.holds.has(.asked) { host.reason = nil }
        noteHold(of: host)
        hostChanged(host)
    }

    mutating func takeNewHolds() -> [NewHold] {
        defer { newHolds = [] }
        return newHolds
    }

    mutating func noteHold(of host: Host) {
        if let until = host.holds.takeTimer() { newHolds.append(NewHold(host: host.name, until: until)) }
    }

    /// Whether the manager's rate limit is used up; if so, all hosts are put on hold until the next token.
    mutating func isPaced(_ now: ContinuousClock.Instant) -> Bool {
        guard let due = pacer?.due(after: now) else { return false }
        holds.set(.rate, until: due)
        if let until = holds.takeTimer() { newHolds.append(NewHold(host: nil, until: until)) }
        return true
    }

    mutating func takeToken(_ queueEntry: QueueEntry, at host: Host, _ now: ContinuousClock.Instant) {
        // The moment is rounded, so that the queue entry and the rate limits store equal values, which are compared
        // later.
        let taken = CompactInstant(now)
        queueEntry.token = taken
        pacer?.take(now: taken.instant)
        host.pacer?.take(now: taken.instant)
    }

    mutating func leaveToken(_ queueEntry: QueueEntry, at host: Host, isUnsent: Bool) {
        guard let takenAt = queueEntry.token?.instant else { return }
        queueEntry.token = nil
        guard isUnsent else { return }
        pacer?.giveBack(takenAt: takenAt)
        host.pacer?.giveBack(takenAt: takenAt)
        host.holds.end(.rate)
    }

    /// Why the requests to a host cannot be sent before a deadline; nil if no reason is known.
    func holdWords(
        of host: String, past deadline: ContinuousClock.Instant, now: ContinuousClock.Instant
    ) -> String? {
        if let words = hosts[host]?.holdWords(past: deadline, now: now) { return words }
        return pacer?.words(past: deadline, now: now).map { "its manager sends \($0)" }
    }

    func holdWords(of host: String, now: ContinuousClock.Instant) -> String? {
        if let words = hosts[host]?.holdWords(now: now) { return words }
        guard let rate = pacer?.rate, let due = pacer?.due(after: now) else { return nil }
        return "its turn: the manager sends at most \(rate.words), the next in \(now.duration(to: due).words)"
    }
}
