// Decides which operation is next, and counts those that run. A value, without lock.
import Foundation

/// The operations that are ready and wait for a slot, in queues for each host.
///
/// Within a priority the order is first in, first out (or last in, first out), over all hosts. Operations that return
/// for another attempt precede the new ones. A host at its limit or on hold is skipped, so that it blocks no other
/// host. When an operation leaves its queue, a stale entry remains there and is skipped later. So every move costs
/// O(1), plus O(log *h*) for *h* hosts with waiting operations.
///
/// The slot of an operation that has not begun does not count against operations that have begun. Otherwise a deadlock
/// is possible: A waits for a retry, and B has the only slot, but the operation queue starts B only after A. So A may
/// use that slot. B requests a slot again when it begins (``begin(_:limit:)``).
struct HostQueues {
    /// The best entry of one host at the time of the offer.
    ///
    /// Outdated candidates are skipped.
    struct Candidate: Comparable {
        let turn: Turn
        let queueNumber: UInt64
        let host: Host

        static func < (left: Candidate, right: Candidate) -> Bool { left.turn < right.turn }
        static func == (left: Candidate, right: Candidate) -> Bool { left.queueNumber == right.queueNumber }

        var hasBegun: Bool { turn.rank != .new }
    }

    let limits: HostLimits
    let prioritization: RequestPrioritization
    var hosts: [String: Host] = [:]
    /// Two heaps, for operations that have begun and for new ones, because either kind may have to be skipped.
    private(set) var candidates = (begun: Heap<Candidate>(), new: Heap<Candidate>())
    private var lastQueueNumber: UInt64 = 0
    /// The number of operations with a slot.
    private(set) var running = 0
    /// The number of operations with a slot that have not begun.
    private(set) var unstarted = 0

    /// When a candidate for the next slot was last found.
    private var lastLook: ContinuousClock.Instant?
    /// The rate limit for all hosts together.
    var pacer: RequestPacer?
    var holds = Holds()
    /// Whether there is no network.
    ///
    /// If so, a remote host is put on hold when one of its requests is next.
    var isOffline = false
    /// Holds that end at a moment, for which the scheduler sets timers.
    var newHolds: [NewHold] = []

    /// A new hold of one host, or of all hosts if `host` is nil.
    struct NewHold: Sendable {
        let host: String?
        let until: ContinuousClock.Instant
    }

    /// - Parameter rate: the rate limit for all hosts together.
    init(limits: HostLimits, _ prioritization: RequestPrioritization = .fifo, rate: RequestRate? = nil) {
        (self.limits, self.prioritization) = (limits, prioritization)
        pacer = rate.map { RequestPacer($0) }
    }

    /// Appends a queue entry to a queue of its host.
    mutating func join(_ queueEntry: QueueEntry) {
        lastQueueNumber += 1
        queueEntry.queueNumber = lastQueueNumber
        queueEntry.status = .waiting
        queueEntry.rank = queueEntry.hasSent ? .returning : queueEntry.hasBegun ? .started : .new
        let host = makeHost(queueEntry.host)
        queueEntry.queue = host
        host.append(Host.Entry(queueEntry: queueEntry, queueNumber: lastQueueNumber))
        host.waiting += 1
        offerBest(of: host)
    }

    /// Removes a waiting queue entry from its queue.
    mutating func leave(_ queueEntry: QueueEntry, for status: QueueEntry.Status) {
        guard queueEntry.status == .waiting, let host = queueEntry.queue else { return }
        (queueEntry.status, queueEntry.queue) = (status, nil)
        host.waiting -= 1
        host.sweepIfNeeded()
        offerBest(of: host)
        if host.isIdle { forgetIfIdle(host) }
    }

    /// Gives the next operation a slot and returns its queue entry; nil if no operation may run.
    ///
    /// - Parameters:
    ///   - limit: the maximum number of operations with a slot.
    ///   - takesNew: whether the operation may be one that has not begun.
    mutating func takeNext(limit: Int, takesNew: Bool = true, now: ContinuousClock.Instant) -> QueueEntry? {
        while let candidate = takeCandidate(limit, takesNew, now) {
            lastLook = now
            let (host, hasBegun) = (candidate.host, candidate.hasBegun)
            if host.offered(hasBegun: hasBegun) == candidate.queueNumber { host.setOffered(0, hasBegun: hasBegun) }
            guard host.hasRoom(hasBegun: hasBegun), let entry = host.best(hasBegun: hasBegun),
                entry.queueNumber == candidate.queueNumber
            else { continue }
            guard host.admits(entry.queueEntry, isOffline: isOffline, now: now) else {
                noteHold(of: host)
                continue
            }
            host.waiting -= 1
            takeSlot(entry.queueEntry, at: host)
            if pacer != nil || limits.rate != nil { takeToken(entry.queueEntry, at: host, now) }
            offerBest(of: host)
            return entry.queueEntry
        }
        return nil
    }

    /// Removes and returns the best candidate for which there is a slot; nil without one, or if the rate limit delays
    /// all.
    private mutating func takeCandidate(_ limit: Int, _ takesNew: Bool, _ now: ContinuousClock.Instant) -> Candidate? {
        let begun = running - unstarted < limit ? candidates.begun.first : nil
        let new = running < limit && takesNew ? candidates.new.first : nil
        if begun != nil || new != nil, pacer != nil, isPaced(now) { return nil }
        guard let new else { return begun == nil ? nil : candidates.begun.popFirst() }
        guard let begun, begun < new else { return candidates.new.popFirst() }
        return candidates.begun.popFirst()
    }

    /// Called when an operation has started and wants to send its request.
    ///
    /// Returns whether the operation may send.
    ///
    /// If not, the operation has no slot and requests one. There are three causes. The caller or a queue of the caller
    /// has started the operation, its host was put on hold after it got its slot, or operations that began earlier use
    /// its slot.
    mutating func begin(_ queueEntry: QueueEntry, limit: Int) -> Bool {
        queueEntry.hasBegun = true
        switch queueEntry.status {
        case .dispatched:
            guard let host = queueEntry.queue else { return false }
            unstarted -= 1
            host.unstarted -= 1
            if host.holds.isEmpty || host.mayBegin(queueEntry), running - unstarted <= limit,
                host.running - host.unstarted <= host.currentLimit
            {
                return true
            }
            release(queueEntry, for: .yielded, isUnsent: true)
        case .waiting: leave(queueEntry, for: .yielded)
        case .blocked, .preparing, .suspended, .awaitingPermit, .inQueue: queueEntry.status = .yielded
        case .sharing, .yielded, .awaitingDescriptor, .ended: break
        }
        return false
    }

    private mutating func takeSlot(_ queueEntry: QueueEntry, at host: Host) {
        (queueEntry.status, queueEntry.queue) = (.dispatched, host)
        queueEntry.slotCount &+= 1
        host.running += 1
        running += 1
        guard !queueEntry.hasBegun else { return }
        host.unstarted += 1
        unstarted += 1
    }

    /// Records how an attempt ended, while its queue entry still has a slot.
    mutating func record(_ sample: HostSample, of queueEntry: QueueEntry, now: ContinuousClock.Instant) {
        guard queueEntry.status == .dispatched, let host = queueEntry.queue else { return }
        host.record(sample, pass: queueEntry.pass, now: now)
        queueEntry.pass = nil
        noteHold(of: host)
        offerBest(of: host)
    }

    /// Releases the slot of a queue entry, if it has one.
    ///
    /// - Parameter isUnsent: whether the operation has begun but sent nothing since it got the slot.
    mutating func release(_ queueEntry: QueueEntry, for status: QueueEntry.Status = .ended, isUnsent: Bool = false) {
        guard queueEntry.status == .dispatched, let host = queueEntry.queue else { return }
        (queueEntry.status, queueEntry.queue) = (status, nil)
        if queueEntry.token != nil { leaveToken(queueEntry, at: host, isUnsent: isUnsent || !queueEntry.hasBegun) }
        running -= 1
        host.running -= 1
        if !queueEntry.hasBegun {
            unstarted -= 1
            host.unstarted -= 1
        }
        // The attempt ended without a result for its host: the request was cancelled or never sent.
        if let pass = queueEntry.pass, let lastLook { host.giveBack(pass, now: lastLook) }
        queueEntry.pass = nil
        offerBest(of: host)
        if host.isIdle { forgetIfIdle(host) }
    }

    /// Offers the best entry of a host.
    ///
    /// If a host has room and waiting operations, the heap has a candidate for it.
    mutating func offerBest(of host: Host) {
        guard host.waiting > 0 else { return }
        offerBest(of: host, hasBegun: true)
        offerBest(of: host, hasBegun: false)
    }

    private mutating func offerBest(of host: Host, hasBegun: Bool) {
        guard host.hasRoom(hasBegun: hasBegun), let best = host.best(hasBegun: hasBegun),
            best.queueNumber != host.offered(hasBegun: hasBegun)
        else { return }
        host.setOffered(best.queueNumber, hasBegun: hasBegun)
        let candidate = Candidate(
            turn: Turn(best.queueEntry, prioritization), queueNumber: best.queueNumber, host: host)
        if hasBegun { candidates.begun.insert(candidate) } else { candidates.new.insert(candidate) }
        if candidates.new.count + candidates.begun.count > 4 * hosts.count + 128 { offerAgain() }
    }

    /// Drops the outdated candidates; amortised O(1).
    private mutating func offerAgain() {
        candidates = (Heap(), Heap())
        for host in hosts.values {
            host.setOffered(0, hasBegun: true)
            host.setOffered(0, hasBegun: false)
            offerBest(of: host)
        }
    }

    mutating func makeHost(_ name: String) -> Host {
        if let host = hosts[name] { return host }
        let host = Host(name, limits, prioritization)
        hosts[name] = host
        return host
    }

    mutating func forgetIfIdle(_ host: Host) {
        // The host may be used again, and its learned limits are useful. But only a limited number of hosts is stored.
        guard hosts.count > (host.hasLearned ? 1_024 : 64), hosts[host.name] === host else { return }
        hosts[host.name] = nil
    }
}
