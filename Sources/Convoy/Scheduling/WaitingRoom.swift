// Which operation is next, and how many run: a value, without lock.
import Foundation

/// The operations that are ready and wait for a slot, in a line for each host.
///
/// Within a priority first come, first served, over all hosts; a host at its limit is passed over and takes no slot from
/// others (rules 14 and 17). Who leaves a line leaves an entry behind that is skipped later, so that every move costs
/// O(1), and O(log *h*) for *h* hosts that have somebody waiting.
struct WaitingRoom {
    private struct Entry {
        let ticket: Ticket
        let turn: UInt64
        var isLive: Bool { ticket.turn == turn && ticket.status == .waiting }
    }

    /// One priority's line of one host.
    private struct Line {
        private var entries: [Entry?] = []
        private var first = 0

        mutating func append(_ entry: Entry) { entries.append(entry) }

        /// The first who still waits.
        mutating func peek() -> Entry? {
            while first < entries.count, entries[first]?.isLive != true {
                // Who has been passed is let go of at once: an operation must not live as long as its line.
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

    private struct Host {
        var running = 0
        var waiting = 0
        /// The turn that was offered last: the same one needs no second offer.
        var offeredTurn: UInt64 = 0
        /// By priority, highest first.
        var lines = [Line](repeating: Line(), count: 5)

        mutating func best() -> Entry? {
            for index in lines.indices {
                if let entry = lines[index].peek() { return entry }
            }
            return nil
        }

        /// Leftovers behind somebody who waits are not reached by `peek`; they go when they outnumber those who wait.
        mutating func sweepIfNeeded() {
            guard lines.reduce(0, { $0 + $1.count }) > 2 * waiting + 64 else { return }
            for index in lines.indices { lines[index].sweep() }
        }
    }

    /// The best of one host, as seen when it was offered; outdated ones are skipped.
    private struct Offer: Comparable {
        let rank: Int
        let turn: UInt64
        let host: String

        static func < (left: Offer, right: Offer) -> Bool {
            left.rank != right.rank ? left.rank < right.rank : left.turn < right.turn
        }

        static func == (left: Offer, right: Offer) -> Bool { left.turn == right.turn }
    }

    private let limitPerHost: Int
    private var hosts: [String: Host] = [:]
    private var offers = Heap<Offer>()
    private var lastTurn: UInt64 = 0
    /// How many have a slot.
    private(set) var running = 0

    init(limitPerHost: Int) { self.limitPerHost = max(1, limitPerHost) }

    /// Puts a ticket at the end of its line.
    mutating func join(_ ticket: Ticket) {
        lastTurn += 1
        ticket.turn = lastTurn
        ticket.status = .waiting
        hosts[ticket.host, default: Host()].lines[ticket.priority.rank].append(Entry(ticket: ticket, turn: lastTurn))
        hosts[ticket.host]?.waiting += 1
        offerBest(of: ticket.host)
    }

    /// Takes a waiting ticket out of its line, for good or to put it elsewhere.
    mutating func leave(_ ticket: Ticket, for status: Ticket.Status) {
        guard ticket.status == .waiting else { return }
        ticket.status = status
        hosts[ticket.host]?.waiting -= 1
        hosts[ticket.host]?.sweepIfNeeded()
        offerBest(of: ticket.host)
        forgetIfIdle(ticket.host)
    }

    /// The next one to run, with a slot; nil when nobody may.
    mutating func takeNext(limit: Int) -> Ticket? {
        guard running < limit else { return nil }
        while let offer = offers.popFirst() {
            if hosts[offer.host]?.offeredTurn == offer.turn { hosts[offer.host]?.offeredTurn = 0 }
            // No copy of the host while its line is changed: that would copy the line.
            guard hosts[offer.host]?.running ?? .max < limitPerHost,
                let entry = hosts[offer.host]?.best(), entry.turn == offer.turn
            else { continue }
            entry.ticket.status = .handed
            hosts[offer.host]?.running += 1
            hosts[offer.host]?.waiting -= 1
            running += 1
            offerBest(of: offer.host)
            return entry.ticket
        }
        return nil
    }

    /// Gives the slot of a ticket back.
    mutating func giveBack(_ ticket: Ticket, for status: Ticket.Status = .gone) {
        guard ticket.status == .handed else { return }
        ticket.status = status
        running -= 1
        hosts[ticket.host]?.running -= 1
        offerBest(of: ticket.host)
        forgetIfIdle(ticket.host)
    }

    /// Takes the slot of a parked ticket again, whatever the limits: it is in the operation queue already.
    mutating func takeBack(_ ticket: Ticket) {
        ticket.status = .handed
        running += 1
        hosts[ticket.host, default: Host()].running += 1
    }

    /// How many of a host run and wait.
    func count(of host: String) -> (running: Int, waiting: Int) {
        hosts[host].map { ($0.running, $0.waiting) } ?? (0, 0)
    }

    /// Whenever a host has room and somebody waits there, an offer for the best of them is in the heap.
    private mutating func offerBest(of host: String) {
        guard hosts[host]?.running ?? .max < limitPerHost, hosts[host]?.waiting ?? 0 > 0,
            let best = hosts[host]?.best(), best.turn != hosts[host]?.offeredTurn
        else { return }
        hosts[host]?.offeredTurn = best.turn
        offers.insert(Offer(rank: best.ticket.priority.rank, turn: best.turn, host: host))
    }

    private mutating func forgetIfIdle(_ host: String) {
        if let state = hosts[host], state.running == 0, state.waiting == 0 { hosts[host] = nil }
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
}
