// Decides when operations run: what is ready goes to the operation queue, the rest waits here.
import Foundation

/// The working half of a manager.
///
/// Its operations keep it alive, so that a manager may be let go of while they run.
///
/// Foundation's queue gets only what is ready and has a slot: it rescans every operation that is not ready on every
/// event, which makes long chains quadratic. Here each enqueue, finish and cancel is O(1) amortised (rule 15).
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
        var holds = 0
        var drains: [Int: CheckedContinuation<Void, Never>] = [:]
        var lastDrain = 0
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

    init(
        queue: OperationQueue, startQueue: DispatchQueue?, context: ExecutionContext, limit: Int, limitPerHost: Int
    ) {
        self.queue = queue
        inlineQueue = queue as? InlineQueue
        self.startQueue = startQueue
        self.context = context
        state = Locked(State(room: WaitingRoom(limitPerHost: limitPerHost), limit: max(1, limit)))
    }

    /// Takes an operation; one that has been taken or started before is left alone.
    func enqueue(_ operation: AnyRequestOperation) {
        guard operation.state.withLock({ $0.scheduler == nil && $0.machine.isWaitingToStart }) else { return }
        let priority = operation.queuePriority
        // Among the tickets before the operation knows of it: it may be cancelled, and finish, as soon as it does.
        let (ticket, isShutDown) = state.withLock { state in
            state.lastSequence += 1
            let ticket = Ticket(operation, sequence: state.lastSequence, priority: priority)
            state.insert(ticket)
            return (ticket, state.isShutDown)
        }
        let isTaken = operation.state.withLock { state in
            guard state.scheduler == nil, state.machine.isWaitingToStart else { return false }
            state.scheduler = self
            state.ticket = ticket
            state.timings.queued = .now
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
        change(operation) { state, ticket in
            switch ticket.status {
            case .waiting: state.room.leave(ticket, for: .blocked)
            case .held: ticket.status = .blocked
            case .preparing: ticket.mustBlock = true
            // It has not been started: whoever it waits for may need the slot.
            case .handed: state.room.giveBack(ticket, for: .parked)
            case .blocked, .parked, .gone: break
            }
        }
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
        guard operation.request != nil || operation.prepare() else { return }
        let host = operation.request?.hostKey ?? ""
        let isSuspended = operation.isSuspended
        let blocks = change(operation) { state, ticket -> Bool in
            guard ticket.status == .preparing else { return false }
            ticket.host = host
            if ticket.mustBlock {
                (ticket.status, ticket.mustBlock) = (.blocked, false)
                return true
            }
            if isSuspended { ticket.status = .held } else { state.room.join(ticket) }
            return false
        }
        if blocks == true, !DependencyGraph.isBlocked(operation) { return unblock(operation) }
        // Between the look and the move its owner may have changed his mind.
        if operation.isSuspended != isSuspended { suspensionChanged(of: operation) }
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
                    state.room.leave(ticket, for: .held)
                } else if ticket.status == .held {
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
        pump()
    }

    /// An operation has an outcome before its start.
    ///
    /// One that the queue does not have yet is started here, which takes no slot; the queue starts the others when it
    /// comes to them.
    func abandoned(_ operation: AnyRequestOperation) {
        let isOurs = change(operation) { state, ticket -> Bool in
            switch ticket.status {
            case .waiting: state.room.leave(ticket, for: .gone)
            case .blocked, .preparing, .held: ticket.status = .gone
            case .handed, .parked, .gone: return false
            }
            return true
        }
        if isOurs == true { operation.start() }
    }

    /// An operation has finished: its slot is free.
    func finished(_ operation: AnyRequestOperation) {
        change(operation) { state, ticket in
            state.room.giveBack(ticket)
            // Started by hand while it stood in line.
            state.room.leave(ticket, for: .gone)
            ticket.status = .gone
            ticket.isFinished = true
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
            // One that was started by hand meanwhile keeps its slot until it finishes; no queue would take it.
            guard operation.state.withLock({ $0.machine.isWaitingToStart }) else { continue }
            guard let inlineQueue, inlineQueue.run(operation) else {
                operation.handOver(to: queue)
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

    private func takeNext() -> AnyRequestOperation? {
        let queueLimit = queue.maxConcurrentOperationCount
        return state.withLock { state in
            if !state.isSuspended, state.holds == 0,
                let operation = state.room.takeNext(limit: state.limit(within: queueLimit))?.operation
            {
                return operation
            }
            state.isPumping = false
            return nil
        }
    }

    @discardableResult
    private func change<Result>(
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
    func limit(within queueLimit: Int) -> Int { queueLimit < 0 ? limit : min(limit, max(1, queueLimit)) }

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
