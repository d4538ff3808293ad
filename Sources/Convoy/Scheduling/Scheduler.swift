// Decides when operations run: what is ready goes to the operation queue, the rest waits here.
import Foundation

/// The working half of a manager.
///
/// Its operations keep it alive, so that a manager may be let go of while they run.
///
/// Foundation's queue gets only what is ready and has a slot: it rescans every operation that is not ready on every
/// event, which makes long chains quadratic. Here each enqueue, finish and cancel is O(1) amortised.
final class Scheduler: Sendable {
    struct State {
        var room: WaitingRoom
        var limit: Int
        var tickets: [Ticket?] = []
        var freeSlots: [Int] = []
        var count = 0
        var lastSequence: UInt64 = 0
        var isPumping = false
        var isShutDown = false
        var isSuspended = false
        /// How many are cancelling a crowd: what they free must not go to those who are next to be cancelled.
        var freezes = 0
        var drains: [Int: CheckedContinuation<Void, Never>] = [:]
        var lastDrain = 0
        var retryBudget: RetryBudgetState
        var interceptions = Interceptions()
        var shortage = Shortage()
    }

    /// How many operations a thread starts that only came to enqueue or to finish one.
    private static let inlineStartLimit = 64

    let queue: OperationQueue
    /// The queue under the operation queue when that is the manager's own; an operation queue does not keep it alive.
    let startQueue: DispatchQueue?
    /// The operation queue, when it starts operations on the thread that hands them over.
    private let inlineQueue: InlineQueue?
    let context: ExecutionContext
    let state: Locked<State>
    /// Whether the ends of attempts say something about their hosts.
    let learns: Bool
    /// The transfers that are shared.
    let flights = Locked(Flights())
    /// The batches and the like that have not ended.
    let undertakings = Locked<[ObjectIdentifier: any Undertaking]>([:])

    init(
        queue: OperationQueue, startQueue: DispatchQueue?, configuration: RequestManager.Configuration
    ) {
        self.queue = queue
        inlineQueue = queue as? InlineQueue
        self.startQueue = startQueue
        context = ExecutionContext(configuration)
        let limits = HostLimits(
            fixed: configuration.maxConcurrentPerHost, adaptive: configuration.hostLimits,
            breaker: configuration.breaker)
        learns = limits.learn
        state = Locked(
            State(
                room: WaitingRoom(limits: limits),
                limit: max(1, configuration.maxConcurrentOperationCount),
                retryBudget: RetryBudgetState(configuration.retryBudget)))
    }

    /// Takes an operation; one that has been taken or started before is left alone.
    func enqueue(_ operation: AnyRequestOperation, isCarrier: Bool = false) {
        guard operation.state.withLock({ $0.scheduler == nil && $0.machine.isWaitingToStart }) else { return }
        let priority = operation.queuePriority
        let now = context.clock.now
        // Among the tickets before the operation knows of it: it may be cancelled, and finish, as soon as it does.
        let (ticket, isShutDown) = state.withLock { state in
            state.lastSequence += 1
            let ticket = Ticket(operation, sequence: state.lastSequence, priority: priority)
            ticket.isCarrier = isCarrier
            state.insert(ticket)
            return (ticket, state.isShutDown)
        }
        let isTaken = operation.state.withLock { state in
            guard state.scheduler == nil, state.machine.isWaitingToStart else { return false }
            state.scheduler = self
            state.ticket = ticket
            state.timings.queued = now
            return true
        }
        guard isTaken else {
            // Another manager, or a start by hand, came between.
            let drains = state.withLock { $0.remove(ticket) }
            for drain in drains { drain.resume() }
            return
        }
        // It may have changed before there was a ticket to change.
        if operation.queuePriority != priority { priorityChanged(of: operation) }
        operation.emit(.queued)
        operation.armDeadline()
        if isShutDown {
            operation.conclude(
                .managerShutDown, "nothing was sent: its manager has been shut down; make another manager")
        }
        if operation.state.withLock({ $0.outcome != nil }) {
            // It had ended before it came here.
            if operation.state.withLock({ $0.isSettled }) { settled(operation) }
            abandoned(operation)
        } else if !DependencyGraph.isBlocked(operation) {
            unblock(operation)
        }
    }

    /// A dependency was added to an operation that is here already.
    func block(_ operation: AnyRequestOperation) {
        var left: FlightKey?
        change(operation) { state, ticket in
            switch ticket.status {
            case .waiting:
                state.room.leave(ticket, for: .blocked)
                state.leaveInterceptors(ticket)
            case .suspended, .crowded: ticket.status = .blocked
            case .preparing: ticket.mustBlock = true
            // It has not been started: whoever it waits for may need the slot.
            case .handed:
                state.room.giveBack(ticket, for: .parked)
                state.leaveInterceptors(ticket)
            case .riding:
                // Its answer, if it has come, waits as well.
                ticket.status = .blocked
                left = ticket.flight
            case .blocked, .parked, .aside, .gone: break
            }
        }
        if let left { leaveFlight(operation, left) }
        // It may have finished between the two.
        if !DependencyGraph.isBlocked(operation) { unblock(operation) }
        pump()
    }

    /// The last dependency of an operation has finished.
    func unblock(_ operation: AnyRequestOperation) {
        let begins = change(operation) { state, ticket in
            if ticket.status == .parked { state.room.takeBack(ticket) }
            guard ticket.status == .blocked else { return false }
            ticket.status = .preparing
            return true
        }
        guard begins == true else { return }
        if operation.state.withLock({ ($0.recipe?.build == nil && !$0.usesDisk) || $0.prepared != nil }) {
            prepare(operation)
        } else {
            // Building a chain's link is user code, and looking at a file may take its time.
            operation.onLane { self.prepare(operation) }
        }
    }

    private func prepare(_ operation: AnyRequestOperation) {
        guard operation.request != nil || operation.prepare(), !ride(operation) else { return }
        let host = operation.request?.hostKey ?? ""
        let asksInterceptors = operation.asksInterceptors
        let isSuspended = operation.isSuspended
        let blocks = change(operation) { state, ticket -> Bool in
            guard ticket.status == .preparing else { return false }
            (ticket.host, ticket.asksInterceptors) = (host, asksInterceptors)
            if ticket.mustBlock {
                (ticket.status, ticket.mustBlock) = (.blocked, false)
                return true
            }
            if isSuspended { ticket.status = .suspended } else { state.room.join(ticket) }
            return false
        }
        if blocks == true, !DependencyGraph.isBlocked(operation) { return unblock(operation) }
        // Between the look and the move its owner may have changed his mind.
        if operation.isSuspended != isSuspended { suspensionChanged(of: operation) }
        dropIfTooLate(operation)
        pump()
    }

    /// An operation was suspended or resumed: a suspended one stands in no line.
    func suspensionChanged(of operation: AnyRequestOperation) {
        // Until what was looked at is what was acted on: another thread may have changed it between the two.
        var isSuspended: Bool
        repeat {
            isSuspended = operation.isSuspended
            change(operation) { [isSuspended] state, ticket in
                if isSuspended {
                    state.room.leave(ticket, for: .suspended)
                    if ticket.status == .suspended { state.leaveInterceptors(ticket) }
                    if ticket.status == .crowded { ticket.status = .suspended }
                } else if ticket.status == .suspended {
                    state.room.join(ticket)
                }
            }
        } while operation.isSuspended != isSuspended
        pump()
    }

    /// A raised priority takes effect while the operation waits; it joins the end of its new line.
    func priorityChanged(of operation: AnyRequestOperation) {
        var priority: Operation.QueuePriority
        repeat {
            priority = operation.queuePriority
            change(operation) { [priority] state, ticket in
                guard ticket.priority != priority else { return }
                let wasWaiting = ticket.status == .waiting
                if wasWaiting { state.room.leave(ticket, for: .preparing) }
                ticket.priority = priority
                if wasWaiting { state.room.join(ticket) }
            }
        } while operation.queuePriority != priority
        raiseCarrier(of: operation)
        pump()
    }

    /// An operation has an outcome before its start.
    ///
    /// One that the queue does not have yet is started here, which takes no slot; the queue starts the others when it
    /// comes to them.
    func abandoned(_ operation: AnyRequestOperation) {
        let (isOurs, flight) =
            change(operation) { state, ticket -> (Bool, FlightKey?) in
                let flight = ticket.status == .riding ? ticket.flight : nil
                switch ticket.status {
                case .waiting: state.room.leave(ticket, for: .gone)
                case .blocked, .preparing, .suspended, .riding, .crowded: ticket.status = .gone
                case .handed, .parked, .aside, .gone: return (false, nil)
                }
                return (true, flight)
            } ?? (false, nil)
        if let flight { leaveFlight(operation, flight) }
        if isOurs { operation.start() }
    }

    /// An operation has finished: its slot is free.
    func finished(_ operation: AnyRequestOperation) {
        change(operation) { state, ticket in
            state.leaveInterceptors(ticket)
            state.room.giveBack(ticket)
            // Started by hand while it stood in line.
            state.room.leave(ticket, for: .gone)
            ticket.status = .gone
            ticket.isFinished = true
            if let next = state.shortage.noteEnd(slots: state.limit) { state.room.join(next) }
        }
        removeIfOver(operation)
        pump()
        // Behind what it made room for, so that who waits for the queue to be empty is not told so in between.
        inlineQueue?.finished(operation)
    }

    /// The last callback of an operation has returned.
    func settled(_ operation: AnyRequestOperation) {
        change(operation) { $1.isSettled = true }
        removeIfOver(operation)
    }

    private func removeIfOver(_ operation: AnyRequestOperation) {
        let drains = change(operation) { state, ticket -> [CheckedContinuation<Void, Never>]? in
            guard ticket.isFinished, ticket.isSettled else { return nil }
            // The caller holds the operation: this is not its last reference.
            ticket.operation = nil
            return state.remove(ticket)
        }
        guard let drains = drains ?? nil else { return }
        operation.state.withLock { ($0.scheduler, $0.ticket) = (nil, nil) }
        for drain in drains { drain.resume() }
    }

    /// Whether an operation is in the operation queue, which decides itself when it starts.
    func hasHandedOver(_ operation: AnyRequestOperation) -> Bool {
        change(operation) { $1.status == .handed || $1.status == .parked || $1.status == .gone } ?? false
    }

    /// Hands over what may run.
    ///
    /// One thread at a time, so that what was first in line is first in the queue.
    func pump() {
        let isPumping = state.withLock { state in
            defer { state.isPumping = true }
            return state.isPumping
        }
        guard !isPumping else { return }
        var count = 0
        while let operation = takeNext() {
            if !operation.state.withLock({ $0.machine.isWaitingToStart }) {
                // It goes on after a wait; or it was started by hand meanwhile, and keeps its slot until it finishes.
                operation.goOn()
            } else if !handOver(operation) {
                continue
            }
            count += 1
            // This may be somebody's main thread, and others may add as fast as it starts.
            if count == Self.inlineStartLimit, let startQueue {
                state.withLock { $0.isPumping = false }
                return startQueue.async { self.pump() }
            }
        }
    }

    /// Starts an operation here, or gives it to the operation queue to start it; false for the latter.
    @discardableResult
    func handOver(_ operation: AnyRequestOperation) -> Bool {
        if inlineQueue?.run(operation) == true { return true }
        operation.handOver(to: queue)
        return false
    }

    private func takeNext() -> AnyRequestOperation? {
        let queueLimit = queue.maxConcurrentOperationCount
        let now = context.clock.now
        let (operation, holds) = state.withLock { state in
            var operation: AnyRequestOperation?
            if !state.isSuspended, state.freezes == 0 {
                operation = state.takeNext(limit: state.limit(within: queueLimit), now: now)?.operation
            }
            if operation == nil { state.isPumping = false }
            return (operation, state.room.takeNewHolds())
        }
        for hold in holds { liftLater(hold.host, at: hold.until) }
        return operation
    }

    @discardableResult
    func change<Result>(
        _ operation: AnyRequestOperation, _ body: (inout State, Ticket) -> Result
    ) -> Result? {
        guard let ticket = operation.state.withLock({ $0.ticket }) else { return nil }
        return state.withLock { body(&$0, ticket) }
    }
}

extension OperationStateMachine {
    /// Whether `start()` is still to come.
    var isWaitingToStart: Bool { phase == .pending || phase == .abandoned }
}

extension Scheduler.State {
    /// How many may have a slot.
    ///
    /// A queue that takes none now still gets one: it waits there for the queue's owner.
    func limit(within queueLimit: Int) -> Int {
        let limit = min(limit, shortage.limit ?? .max)
        return queueLimit < 0 ? limit : min(limit, max(1, queueLimit))
    }

    /// The next one to run; those that would be too many with their interceptors are put aside.
    mutating func takeNext(limit: Int, now: ContinuousClock.Instant) -> Ticket? {
        while let ticket = room.takeNext(limit: limit, now: now) {
            ticket.releasesSeen = shortage.releases
            // Who returns has begun: it waits for nobody who has not.
            if ticket.isReturning { return ticket }
            if !ticket.asksInterceptors || interceptions.admit(ticket) {
                retryBudget.noteRequest(now: now)
                return ticket
            }
            room.giveBack(ticket, for: .crowded)
        }
        return nil
    }

    mutating func insert(_ ticket: Ticket) {
        count += 1
        if let slot = freeSlots.popLast() {
            ticket.slot = slot
            tickets[slot] = ticket
        } else {
            ticket.slot = tickets.count
            tickets.append(ticket)
        }
    }

    /// Forgets a ticket; the result is who waited for the last one.
    mutating func remove(_ ticket: Ticket) -> [CheckedContinuation<Void, Never>] {
        guard ticket.slot < tickets.count, tickets[ticket.slot] === ticket else { return [] }
        tickets[ticket.slot] = nil
        freeSlots.append(ticket.slot)
        count -= 1
        guard count == 0 else { return [] }
        // Room for a crowd that has gone is given back.
        (tickets, freeSlots) = ([], [])
        defer { drains = [:] }
        return Array(drains.values)
    }
}
