// Operations that wait, and what moves them: dependencies, suspension, priority, an end before the start.
import Foundation

extension Scheduler {
    /// A dependency was added to an operation that is here already.
    func block(_ operation: AnyRequestOperation) {
        var left: FlightKey?
        change(operation) { state, ticket in
            // It was started while the dependency was being added: that is too late.
            guard !ticket.hasBegun else { return }
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

    /// An operation was suspended or resumed, or has come to rest because it was suspended: one that is suspended stands in
    /// no line, and one that has come to rest has no slot.
    func suspensionChanged(of operation: AnyRequestOperation) {
        // Until what was looked at is what was acted on: another thread may have changed it between the two.
        var suspension: OperationState.Suspension
        var keepsSlot: Bool?
        repeat {
            suspension = operation.suspension
            keepsSlot = change(operation) { [suspension] state, ticket in
                ticket.suspensions = suspension.number
                switch ticket.status {
                case .waiting where suspension.isSuspended:
                    state.room.leave(ticket, for: .suspended)
                    state.leaveInterceptors(ticket)
                case .crowded where suspension.isSuspended: ticket.status = .suspended
                case .handed where ticket.hasBegun && suspension.awaitsSlot:
                    guard suspension.isSuspended else { return true }
                    state.room.giveBack(ticket, for: .suspended)
                    state.leaveInterceptors(ticket)
                case .suspended where !suspension.isSuspended: state.room.join(ticket)
                // Started by hand: no slot will come for it.
                case .blocked, .preparing, .crowded, .riding, .parked, .gone:
                    return ticket.hasBegun && suspension.awaitsSlot && !suspension.isSuspended
                case .waiting, .suspended, .handed, .aside: break
                }
                return false
            }
        } while operation.suspension != suspension
        // Resumed before others could have its slot.
        if keepsSlot == true { operation.goOn(after: suspension.number) }
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

    /// Whether an operation is in the operation queue, which decides itself when it starts.
    func hasHandedOver(_ operation: AnyRequestOperation) -> Bool {
        change(operation) { $1.status == .handed || $1.status == .parked || $1.status == .gone } ?? false
    }
}
