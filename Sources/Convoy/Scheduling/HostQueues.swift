// Which operation is next, and how many run: a value, without lock.
import Foundation

/// The operations that are ready and wait for a slot, in queues for each host.
///
/// Within a priority first come, first served (or the newest first), over all hosts, those that return for another attempt
/// before the others; a host at its limit or on hold is passed over and takes no slot from others. A queue entry that leaves its
/// queue leaves an entry behind that is skipped later, so that every move costs O(1), and O(log *h*) for *h* hosts with
/// waiting operations.
///
/// The slot of an operation that has not begun does not count against those that have. A waits for a retry, and B has the
/// only slot and is to be started by an operation queue that something else blocks: A may use that slot, or both would wait
/// for ever. B is asked once more when it begins (``begin(_:limit:)``).
struct HostQueues {
    /// The best of one host, as seen when it was offered; outdated ones are skipped.
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
    /// Of those that have begun, and of those that have not: either may have to be passed over for the other.
    private(set) var candidates = (begun: Heap<Candidate>(), new: Heap<Candidate>())
    private var lastQueueNumber: UInt64 = 0
    /// How many have a slot.
    private(set) var running = 0
    /// How many of them have not begun.
    private(set) var unstarted = 0

    /// When the next one was last looked for.
    private var lastLook: ContinuousClock.Instant?
    /// Of the requests to all hosts together.
    var pacer: RequestPacer?
    var holds = Holds()
    /// Whether there is no network: hosts elsewhere are put on hold when it is their turn.
    var isOffline = false
    /// Holds that end at a moment: the scheduler looks again then.
    var newHolds: [NewHold] = []

    /// A host that was found to be held; nil for all.
    struct NewHold: Sendable {
        let host: String?
        let until: ContinuousClock.Instant
    }

    /// - Parameter rate: of the requests to all hosts together.
    init(limits: HostLimits, _ prioritization: RequestPrioritization = .fifo, rate: RequestRate? = nil) {
        (self.limits, self.prioritization) = (limits, prioritization)
        pacer = rate.map { RequestPacer($0) }
    }

    /// Puts a queue entry at the end of its queue.
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

    /// Takes a waiting queue entry out of its queue, for good or to put it elsewhere.
    mutating func leave(_ queueEntry: QueueEntry, for status: QueueEntry.Status) {
        guard queueEntry.status == .waiting, let host = queueEntry.queue else { return }
        (queueEntry.status, queueEntry.queue) = (status, nil)
        host.waiting -= 1
        host.sweepIfNeeded()
        offerBest(of: host)
        if host.isIdle { forgetIfIdle(host) }
    }

    /// The next one to run, with a slot; nil when none may.
    ///
    /// - Parameters:
    ///   - limit: how many may have a slot.
    ///   - takesNew: whether it may be one that has not begun.
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

    /// The best candidate that there is a slot for.
    private mutating func takeCandidate(_ limit: Int, _ takesNew: Bool, _ now: ContinuousClock.Instant) -> Candidate? {
        let begun = running - unstarted < limit ? candidates.begun.first : nil
        let new = running < limit && takesNew ? candidates.new.first : nil
        if begun != nil || new != nil, pacer != nil, isPaced(now) { return nil }
        guard let new else { return begun == nil ? nil : candidates.begun.popFirst() }
        guard let begun, begun < new else { return candidates.new.popFirst() }
        return candidates.begun.popFirst()
    }

    /// An operation has been started, and wants to send: whether it may.
    ///
    /// One that may not has no slot, and asks for one: a queue of the caller's or the caller has started it; its host is on
    /// hold meanwhile; or others that had begun before use its slot.
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

    /// Takes in how an attempt ended, while its queue entry still has its slot.
    mutating func record(_ sample: HostSample, of queueEntry: QueueEntry, now: ContinuousClock.Instant) {
        guard queueEntry.status == .dispatched, let host = queueEntry.queue else { return }
        host.record(sample, pass: queueEntry.pass, now: now)
        queueEntry.pass = nil
        noteHold(of: host)
        offerBest(of: host)
    }

    /// Releases the slot of a queue entry, if it has one.
    ///
    /// - Parameter isUnsent: whether nothing was sent since it got the slot, though it has begun.
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
        // It ended without telling anything of its host: cancelled, or never sent.
        if let pass = queueEntry.pass, let lastLook { host.giveBack(pass, now: lastLook) }
        queueEntry.pass = nil
        offerBest(of: host)
        if host.isIdle { forgetIfIdle(host) }
    }

    /// Whenever a host may run another and has waiting operations, a candidate for the best of them is in the heap.
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
        // The next request may go there again, and what was learned is worth keeping; but not of any number of hosts.
        guard hosts.count > (host.hasLearned ? 1_024 : 64), hosts[host.name] === host else { return }
        hosts[host.name] = nil
    }
}
