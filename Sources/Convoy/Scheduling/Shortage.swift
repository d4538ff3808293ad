// Too few file descriptors: fewer in flight, and a wait until one is given back.
import Foundation

/// The operations that found no descriptor, and how many may be in flight because of that; a value, without lock.
///
/// The limit falls to what is in flight when a descriptor is missing, and rises by one each time that many operations have
/// ended without another miss (additive increase).
struct Shortage {
    private var waiting: [Ticket] = []
    /// How many may be in flight; nil for as many as there are slots.
    private(set) var limit: Int?
    private var endedSince = 0
    /// How often descriptors have been given back, ever.
    private(set) var releases: UInt64 = 0

    /// An operation waits, with nothing in its hands.
    ///
    /// - Parameter running: how many others have a slot.
    mutating func add(_ ticket: Ticket, running: Int) {
        ticket.lacksDescriptor = true
        waiting.append(ticket)
        limit = max(1, min(limit ?? .max, running))
        endedSince = 0
        releases += 1
    }

    /// An operation has ended: the first that waits may try again.
    mutating func noteEnd(slots: Int) -> Ticket? {
        releases += 1
        if let limit {
            endedSince += 1
            if endedSince >= limit { (self.limit, endedSince) = (limit + 1 < slots ? limit + 1 : nil, 0) }
        }
        return takeFirst()
    }

    /// The first that still waits.
    mutating func takeFirst() -> Ticket? {
        while !waiting.isEmpty {
            let ticket = waiting.removeFirst()
            guard ticket.lacksDescriptor, ticket.status == .aside else { continue }
            ticket.lacksDescriptor = false
            return ticket
        }
        return nil
    }
}

extension Ticket {
    /// Whether its operation may have descriptors that it gives back when it ends.
    fileprivate var mayHoldDescriptors: Bool {
        switch status {
        case .handed: true
        case .aside: !lacksDescriptor
        case .waiting: isReturning
        // Paused, with its connection.
        case .suspended: hasBegun
        case .blocked, .preparing, .crowded, .riding, .parked, .gone: false
        }
    }
}

extension Scheduler {
    /// Whether an operation that found no descriptor may find one later: others here will give some back, or have done so
    /// since it got its slot.
    func mayGetDescriptor(_ operation: AnyRequestOperation) -> Bool {
        change(operation) { state, ticket in
            ticket.releasesSeen != state.shortage.releases || state.othersMayHoldDescriptors(than: ticket)
        } ?? false
    }

    /// An operation has given its slot and its files back, and tries again when another has ended.
    func awaitDescriptor(_ operation: AnyRequestOperation, host: String) {
        let isIn = change(operation) { state, ticket -> Bool in
            state.standAside(ticket)
            guard ticket.status == .aside else { return false }
            state.leaveInterceptors(ticket)
            ticket.host = host
            state.shortage.add(ticket, running: state.room.running)
            // The others have ended meanwhile.
            if !state.othersMayHoldDescriptors(than: ticket), let first = state.shortage.takeFirst() {
                state.room.join(first)
            }
            return true
        }
        guard isIn == true else { return operation.goOn() }
        pump()
    }
}

extension Scheduler.State {
    /// - Complexity: O(*n*) for *n* operations; asked only when there is no descriptor.
    fileprivate func othersMayHoldDescriptors(than ticket: Ticket) -> Bool {
        tickets.contains { $0.map { $0 !== ticket && $0.mayHoldDescriptors } ?? false }
    }
}
