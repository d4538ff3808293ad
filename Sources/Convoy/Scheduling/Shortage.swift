// Too few file descriptors: fewer in flight, and a wait until one is given back.
import Foundation

/// The operations that found no descriptor, and how many may be in flight because of that; a value, without lock.
///
/// The limit falls to what is in flight when a descriptor is missing, and rises by one each time that many operations have
/// ended without another miss (additive increase), and after a time in any case: those in flight may never end, and the
/// descriptors may have been used by other parts of the process.
struct Shortage {
    /// So often a request is tried again because of the time alone.
    static let mostTrials = 10
    private static let longestWait = Duration.seconds(30)

    private var waiting: [Ticket] = []
    /// How many may be in flight; nil for as many as there are slots.
    private(set) var limit: Int?
    private var endedSince = 0
    /// How long until the time alone lets another try.
    private var wait = Duration.seconds(1)
    private var isTimed = false
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
        wait = .seconds(1)
        if let limit {
            endedSince += 1
            if endedSince >= limit { (self.limit, endedSince) = (limit + 1 < slots ? limit + 1 : nil, 0) }
        }
        return takeFirst()
    }

    /// The first that still waits; what its owner has suspended waits on.
    mutating func takeFirst() -> Ticket? {
        waiting.removeAll { !$0.lacksDescriptor || $0.status != .aside }
        guard let index = waiting.firstIndex(where: { $0.suspension?.isSuspended != true }) else { return nil }
        let ticket = waiting.remove(at: index)
        ticket.lacksDescriptor = false
        return ticket
    }

    /// How long until time alone changes something; nil when that has been asked, or nothing is missing.
    mutating func takeWait() -> Duration? {
        guard !isTimed, limit != nil || !waiting.isEmpty else { return nil }
        isTimed = true
        defer { wait = min(wait * 2, Self.longestWait) }
        return wait
    }

    /// That time is over: the limit rises, and the first that waits may try again.
    mutating func timePassed(slots: Int) -> Ticket? {
        isTimed = false
        if let limit { self.limit = limit + 1 < slots ? limit + 1 : nil }
        let first = takeFirst()
        first?.trials += 1
        return first
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
            ticket.trials < Shortage.mostTrials
                && (ticket.releasesSeen != state.shortage.releases || state.othersMayHoldDescriptors(than: ticket))
        } ?? false
    }

    /// An operation has given its slot and its files back, and tries again when another has ended.
    func awaitDescriptor(_ operation: AnyRequestOperation, host: String) {
        let isIn = change(operation) { state, ticket -> Bool in
            state.yieldSlot(ticket)
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
        watchShortage()
        pump()
    }

    /// Has time end a shortage that no operation ends.
    private func watchShortage() {
        guard let wait = state.withLock({ $0.shortage.takeWait() }) else { return }
        _ = context.clock.wake(at: context.clock.now + wait) { [weak self] in
            guard let self else { return }
            // Elsewhere: something may start now, and this is the clock's queue.
            context.taskControl.async {
                self.handingOver { state in
                    if let next = state.shortage.timePassed(slots: state.limit) { state.room.join(next) }
                }
                self.watchShortage()
            }
        }
    }
}

extension Scheduler.State {
    /// - Complexity: O(*n*) for *n* operations; asked only when there is no descriptor.
    fileprivate func othersMayHoldDescriptors(than ticket: Ticket) -> Bool {
        tickets.contains { $0.map { $0 !== ticket && $0.mayHoldDescriptors } ?? false }
    }
}
