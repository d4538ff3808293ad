// Operations that wait, and what moves them: dependencies, suspension, priority, an end before the start.
import Foundation

extension Scheduler {
    /// A dependency of an operation was added, removed or has finished.
    ///
    /// May come late and in any order: it looks itself whether the operation is blocked, until what was looked at is what was
    /// acted on. Told of an end after another dependency had been added, it would give a slot to what still waits.
    func dependenciesChanged(of operation: AnyRequestOperation) {
        var (begins, flight) = (false, CoalescingKey?.none)
        var isBlocked: Bool
        repeat {
            isBlocked = operation.isBlocked
            let left = change(operation) { [isBlocked] state, ticket -> (begins: Bool, flight: CoalescingKey?) in
                isBlocked ? (false, state.block(ticket)) : (state.unblock(ticket), nil)
            }
            if left?.begins == true { begins = true }
            flight = left?.flight ?? flight
        } while operation.isBlocked != isBlocked
        if let flight { leaveSharedTransfer(operation, flight) }
        if isBlocked { pump() }
        guard begins else { return }
        if operation.state.withLock({ ($0.requestPlan?.build == nil && !$0.usesDisk) || $0.prepared != nil }) {
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
        if blocks == true { return dependenciesChanged(of: operation) }
        // Between the look and the move its owner may have changed his mind.
        if operation.isSuspended != isSuspended { suspensionChanged(of: operation) }
        dropIfTooLate(operation)
        pump()
    }

    /// A barrier that is next to run, and the operations that it waits for.
    struct Barrier: Sendable {
        let block: @Sendable () -> Void
        let earlier: [AnyRequestOperation]
    }

    /// Holds back what is enqueued from now on.
    ///
    /// The barrier does not wait for what waits for another operation now: that other may come behind it. What another thread
    /// enqueues meanwhile comes neither before it nor behind it.
    func addBarrier(_ block: @escaping @Sendable () -> Void) {
        let earlier = operations.filter { !$0.isFinished && !$0.isBlocked }
        state.withLock { $0.barriers.append((Barrier(block: block, earlier: earlier), [])) }
    }

    /// The first barrier, which is to run now.
    func takeBarrier() -> Barrier? {
        state.withLock { $0.barriers.first?.barrier }
    }

    /// The first barrier has run: what it held back goes on.
    func passBarrier() {
        let released = state.withLock { state -> [AnyRequestOperation] in
            guard !state.barriers.isEmpty else { return [] }
            let held = state.barriers.removeFirst().held
            for ticket in held { ticket.isBarred = false }
            return held.compactMap(\.operation)
        }
        for operation in released { dependenciesChanged(of: operation) }
    }

    /// An operation was suspended or resumed, or has come to rest because it was suspended: one that is suspended stands in
    /// no line, and one that has come to rest has no slot.
    func suspensionChanged(of operation: AnyRequestOperation) {
        // Until what was looked at is what was acted on: another thread may have changed it between the two.
        var suspension: OperationState.Suspension
        var kept: OperationStateMachine.Slot??
        repeat {
            suspension = operation.suspension
            kept = change(operation) { [suspension] state, ticket -> OperationStateMachine.Slot? in
                ticket.suspension = suspension
                switch ticket.status {
                case .waiting where suspension.isSuspended:
                    state.room.leave(ticket, for: .suspended)
                    state.leaveInterceptors(ticket)
                case .crowded where suspension.isSuspended: ticket.status = .suspended
                case .handed where ticket.hasBegun && suspension.awaitsSlot:
                    guard suspension.isSuspended else { return ticket.operationSlot }
                    state.room.giveBack(ticket, for: .suspended)
                    state.leaveInterceptors(ticket)
                case .suspended where !suspension.isSuspended: state.room.join(ticket)
                // Started by hand: no slot will come for it.
                case .blocked, .preparing, .crowded, .riding, .parked, .gone:
                    let goesOn = ticket.hasBegun && suspension.awaitsSlot && !suspension.isSuspended
                    return goesOn ? ticket.operationSlot : nil
                case .waiting, .suspended, .handed, .aside: break
                }
                return nil
            }
        } while operation.suspension != suspension
        // Resumed before others could have its slot.
        if let slot = kept ?? nil { operation.goOn(after: .slotKept(slot)) }
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
            change(operation) { state, ticket -> (Bool, CoalescingKey?) in
                let flight = ticket.status == .riding ? ticket.flight : nil
                switch ticket.status {
                case .waiting: state.room.leave(ticket, for: .gone)
                case .blocked, .preparing, .suspended, .riding, .crowded: ticket.status = .gone
                case .handed, .parked, .aside, .gone: return (false, nil)
                }
                return (true, flight)
            } ?? (false, nil)
        if let flight { leaveSharedTransfer(operation, flight) }
        if isOurs { operation.start() }
    }

    /// Whether an operation is in the operation queue, which decides itself when it starts.
    func hasHandedOver(_ operation: AnyRequestOperation) -> Bool {
        change(operation) { $1.status == .handed || $1.status == .parked || $1.status == .gone } ?? false
    }
}

extension Scheduler.State {
    /// Takes a ticket out of its line, or its slot away: it waits for a dependency.
    ///
    /// - Returns: the shared transfer it leaves.
    fileprivate mutating func block(_ ticket: Ticket) -> CoalescingKey? {
        // It was started while the dependency was being added: that is too late.
        guard !ticket.hasBegun else { return nil }
        switch ticket.status {
        case .waiting:
            room.leave(ticket, for: .blocked)
            leaveInterceptors(ticket)
        case .suspended, .crowded: ticket.status = .blocked
        case .preparing: ticket.mustBlock = true
        // It has not been started: the operation that it waits for may need the slot.
        case .handed:
            room.giveBack(ticket, for: .parked)
            leaveInterceptors(ticket)
        case .riding:
            // Its answer, if it has come, waits as well.
            ticket.status = .blocked
            return ticket.flight
        case .blocked, .parked, .aside, .gone: break
        }
        return nil
    }

    /// Nothing is left that a ticket waits for; true when its request is to be prepared.
    fileprivate mutating func unblock(_ ticket: Ticket) -> Bool {
        switch ticket.status {
        case .parked: room.takeBack(ticket)
        case .preparing: ticket.mustBlock = false
        case .blocked:
            guard !ticket.isBarred else { return false }
            ticket.status = .preparing
            return true
        case .waiting, .suspended, .crowded, .handed, .riding, .aside, .gone: break
        }
        return false
    }
}
