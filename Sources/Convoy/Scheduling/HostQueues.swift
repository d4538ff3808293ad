// Which operation is next, and how many run: a value, without lock.
import Foundation

/// The operations that are ready and wait for a slot, in queues for each host.
///
/// Within a priority first come, first served, over all hosts, those that return for another attempt before the others; a
/// host at its limit is passed over and takes no slot from others. A ticket that leaves its queue leaves an entry behind
/// that is skipped later, so that every move costs O(1), and O(log *h*) for *h* hosts with waiting operations.
///
/// A slot is what an operation needs to send; a place is what it has in the operation queue. An operation that waits between
/// two attempts, or is suspended, gives its slot back and keeps its place: where the queue has a limit, no other operation
/// is put in instead.
///
/// The slot of an operation that has not begun does not count against those that have. With a limit of 1, A waits for a retry
/// and has the only place, and B, behind it in the queue, has the only slot: A may use it, or both would wait for ever. B is
/// asked once more when it begins (``begin(_:limit:)``).
struct HostQueues {
    /// The best of one host, as seen when it was offered; outdated ones are skipped.
    private struct Offer: Comparable {
        let rank: Int
        let queueNumber: UInt64
        let host: Host

        static func < (left: Offer, right: Offer) -> Bool {
            left.rank != right.rank ? left.rank < right.rank : left.queueNumber < right.queueNumber
        }

        static func == (left: Offer, right: Offer) -> Bool { left.queueNumber == right.queueNumber }

        var isReturning: Bool { rank % 2 == 0 }
    }

    private let limits: HostLimits
    private var hosts: [String: Host] = [:]
    /// Of those that have begun, and of those that have not: either may have to be passed over for the other.
    private var offers = (returning: Heap<Offer>(), new: Heap<Offer>())
    private var lastQueueNumber: UInt64 = 0
    /// How many have a slot.
    private(set) var running = 0
    /// How many of them have not begun.
    private(set) var unstarted = 0
    /// How many have a place in the operation queue.
    private(set) var places = 0

    /// When the next one was last looked for.
    private var lastLook: ContinuousClock.Instant?
    /// Hosts that were found to be held, and until when: the scheduler looks again then.
    private var newHolds: [NewHold] = []

    /// A host that was found to be held.
    struct NewHold: Sendable {
        let host: String
        let until: ContinuousClock.Instant
    }

    init(limits: HostLimits) { self.limits = limits }

    /// Puts a ticket at the end of its queue.
    mutating func join(_ ticket: Ticket) {
        lastQueueNumber += 1
        ticket.queueNumber = lastQueueNumber
        ticket.status = .waiting
        ticket.isReturning = ticket.hasBegun
        let host = makeHost(ticket.host)
        ticket.queue = host
        host.queues[ticket.rank].append(Host.Entry(ticket: ticket, queueNumber: lastQueueNumber))
        host.waiting += 1
        offerBest(of: host)
    }

    /// Takes a waiting ticket out of its queue, for good or to put it elsewhere.
    mutating func leave(_ ticket: Ticket, for status: Ticket.Status) {
        guard ticket.status == .waiting, let host = ticket.queue else { return }
        (ticket.status, ticket.queue) = (status, nil)
        host.waiting -= 1
        host.sweepIfNeeded()
        offerBest(of: host)
        forgetIfIdle(host)
    }

    /// The next one to run, with a slot; nil when none may.
    ///
    /// - Parameters:
    ///   - limit: how many may have a slot.
    ///   - placeLimit: how many may be in the operation queue.
    mutating func takeNext(limit: Int, placeLimit: Int = .max, now: ContinuousClock.Instant) -> Ticket? {
        while let offer = takeOffer(limit, placeLimit) {
            lastLook = now
            let (host, returns) = (offer.host, offer.isReturning)
            if host.offered(returning: returns) == offer.queueNumber { host.setOffered(0, returning: returns) }
            guard host.hasRoom(returning: returns), let entry = host.best(returning: returns),
                entry.queueNumber == offer.queueNumber
            else { continue }
            if let until = host.refusal(of: entry.ticket, now: now) {
                newHolds.append(NewHold(host: host.name, until: until))
                continue
            }
            host.waiting -= 1
            takeSlot(entry.ticket, at: host)
            offerBest(of: host)
            return entry.ticket
        }
        return nil
    }

    /// The best offer that there is a slot for.
    private mutating func takeOffer(_ limit: Int, _ placeLimit: Int) -> Offer? {
        let returning = running - unstarted < limit ? offers.returning.first : nil
        let new = running < limit && places < placeLimit ? offers.new.first : nil
        guard let new else { return returning == nil ? nil : offers.returning.popFirst() }
        guard let returning, returning < new else { return offers.new.popFirst() }
        return offers.returning.popFirst()
    }

    /// An operation has been started, and wants to send: whether it may.
    ///
    /// One that may not has given its slot back, and returns when it may: its host is on hold meanwhile, or others that had
    /// begun before have gone on with its slot.
    mutating func begin(_ ticket: Ticket, limit: Int) -> Bool {
        guard !ticket.hasBegun else { return true }
        switch ticket.status {
        case .dispatched:
            noteBegun(ticket)
            guard let host = ticket.queue else { return true }
            if host.mayBegin(ticket), running - unstarted <= limit, host.running - host.unstarted <= host.currentLimit {
                return true
            }
            giveBack(ticket, for: .yielded)
            return false
        case .blockedInQueue:
            // What it was given to wait for came too late, or has just finished.
            takePlace(ticket)
            (ticket.hasBegun, ticket.status) = (true, .yielded)
            return false
        case .blocked, .preparing, .waiting, .suspended, .yielded, .awaitingDescriptor, .awaitingPermit, .sharing,
            .ended:
            // By hand: it waits for no slot.
            ticket.hasBegun = true
            return true
        }
    }

    /// An operation has been started that sends nothing: no limit and no hold concerns it.
    mutating func beginUnsent(_ ticket: Ticket) {
        if ticket.status == .blockedInQueue { takeBack(ticket) }
        if !ticket.hasBegun { noteBegun(ticket) }
    }

    private mutating func noteBegun(_ ticket: Ticket) {
        ticket.hasBegun = true
        guard ticket.status == .dispatched else { return }
        unstarted -= 1
        ticket.queue?.unstarted -= 1
    }

    private mutating func takeSlot(_ ticket: Ticket, at host: Host) {
        (ticket.status, ticket.queue) = (.dispatched, host)
        ticket.slotCount &+= 1
        host.running += 1
        running += 1
        guard !ticket.hasBegun else { return }
        host.unstarted += 1
        unstarted += 1
        takePlace(ticket)
    }

    private mutating func takePlace(_ ticket: Ticket) {
        guard !ticket.hasPlace else { return }
        ticket.hasPlace = true
        places += 1
    }

    /// An operation has left the operation queue, or stands there in the way of none.
    mutating func leavePlace(_ ticket: Ticket) {
        guard ticket.hasPlace else { return }
        ticket.hasPlace = false
        places -= 1
    }

    /// The holds that have been found since the last look.
    mutating func takeNewHolds() -> [NewHold] {
        guard !newHolds.isEmpty else { return [] }
        defer { newHolds = [] }
        return newHolds
    }

    /// Takes in how an attempt ended, while its ticket still has its slot.
    ///
    /// - Returns: until when the host is to be left alone because of it.
    mutating func record(_ sample: HostSample, of ticket: Ticket, now: ContinuousClock.Instant) -> NewHold? {
        guard ticket.status == .dispatched, let host = ticket.queue else { return nil }
        let until = host.record(sample, pass: ticket.pass, now: now)
        ticket.pass = nil
        offerBest(of: host)
        return until.map { NewHold(host: host.name, until: $0) }
    }

    /// Gives the slot of a ticket back.
    mutating func giveBack(_ ticket: Ticket, for status: Ticket.Status = .ended) {
        guard ticket.status == .dispatched, let host = ticket.queue else { return }
        (ticket.status, ticket.queue) = (status, nil)
        running -= 1
        host.running -= 1
        if !ticket.hasBegun {
            unstarted -= 1
            host.unstarted -= 1
            leavePlace(ticket)
        }
        // It ended without telling anything of its host: cancelled, or never sent.
        if let pass = ticket.pass, let lastLook { host.giveBack(pass, now: lastLook) }
        ticket.pass = nil
        offerBest(of: host)
        forgetIfIdle(host)
    }

    /// Takes the slot of a ticket that was blocked in the operation queue again, whatever the limits: it is there already.
    mutating func takeBack(_ ticket: Ticket) { takeSlot(ticket, at: makeHost(ticket.host)) }

    /// Sends nothing to a host before a moment; false when it is held for longer already.
    mutating func hold(_ host: String, until instant: ContinuousClock.Instant, _ reason: RetryAfterReason) -> Bool {
        makeHost(host).hold(until: instant, reason)
    }

    /// Ends a hold whose time has come.
    mutating func lift(_ name: String, now: ContinuousClock.Instant) {
        guard let host = hosts[name] else { return }
        host.lift(now)
        offerBest(of: host)
        forgetIfIdle(host)
    }

    /// Until when a host is held; nil when it is not.
    func hold(of host: String) -> ContinuousClock.Instant? { hosts[host]?.hold }

    /// What a host has asked, or what has been learned of it, that holds its requests up, for people.
    func words(of host: String, now: ContinuousClock.Instant) -> String? { hosts[host]?.words(now: now) }

    /// How many of a host run and wait.
    func count(of host: String) -> (running: Int, waiting: Int) {
        hosts[host].map { ($0.running, $0.waiting) } ?? (0, 0)
    }

    /// Whenever a host may run another and has waiting operations, an offer for the best of them is in the heap.
    private mutating func offerBest(of host: Host) {
        guard host.waiting > 0 else { return }
        offerBest(of: host, returning: true)
        offerBest(of: host, returning: false)
    }

    private mutating func offerBest(of host: Host, returning: Bool) {
        guard host.hasRoom(returning: returning), let best = host.best(returning: returning),
            best.queueNumber != host.offered(returning: returning)
        else { return }
        host.setOffered(best.queueNumber, returning: returning)
        let offer = Offer(rank: best.ticket.rank, queueNumber: best.queueNumber, host: host)
        if returning { offers.returning.insert(offer) } else { offers.new.insert(offer) }
    }

    private mutating func makeHost(_ name: String) -> Host {
        if let host = hosts[name] { return host }
        let host = Host(name, limits)
        hosts[name] = host
        return host
    }

    private mutating func forgetIfIdle(_ host: Host) {
        // The next request may go there again, and what was learned is worth keeping; but not of any number of hosts.
        guard host.isIdle, hosts.count > (host.hasLearned ? 1_024 : 64), hosts[host.name] === host else { return }
        hosts[host.name] = nil
    }
}

extension Operation.QueuePriority {
    /// 0 for the highest, 4 for the lowest; values between Foundation's five count as the nearest below.
    var rank: Int {
        switch rawValue {
        case Operation.QueuePriority.veryHigh.rawValue...: 0
        case Operation.QueuePriority.high.rawValue...: 1
        case Operation.QueuePriority.normal.rawValue...: 2
        case Operation.QueuePriority.low.rawValue...: 3
        default: 4
        }
    }

    /// The highest priority of a rank.
    init(rank: Int) {
        switch rank {
        case ...0: self = .veryHigh
        case 1: self = .high
        case 2: self = .normal
        case 3: self = .low
        default: self = .veryLow
        }
    }
}
