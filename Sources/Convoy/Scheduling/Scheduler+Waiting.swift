// What moves operations that wait: dependencies, suspension, priority, barriers, an end before the start.
import Foundation

extension Scheduler {
    func dependenciesChanged(of operation: AnyRequestOperation, _ reference: TicketReference) {
        let isDependent = DependencyGraph.isDependent(operation)
        let event = { (state: inout SchedulerState) in
            let ticket = reference.ticket(in: &state)
            return state.dependenciesTold(ticket, isDependent)
        }
        // One that waits for others now may have left a slot.
        perform(isDependent.value ? handingOver(event) : state.withLock(event), for: operation)
    }

    /// Has the request of an operation built and checked.
    func prepare(_ operation: AnyRequestOperation) {
        if operation.traits.isGroup { return startLater(operation) }
        if operation.state.withLock({ ($0.requestPlan?.build == nil && !$0.usesDisk) || $0.prepared != nil }) {
            prepareHere(operation)
        } else {
            // Building a chain's link is user code, and looking at a file may take its time.
            operation.onLane { self.prepareHere(operation) }
        }
    }

    private func prepareHere(_ operation: AnyRequestOperation) {
        guard let readiness = operation.prepare(), let reference = readiness.ticket else { return }
        if readiness.policies?.isCoalesced == true, share(operation) { return }
        let (asksInterceptors, now) = (context.asksInterceptors(readiness.policies), context.clock.now)
        let hold = handingOver { state in
            let ticket = reference.ticket(in: &state)
            let isQueued = state.prepared(
                ticket, host: readiness.host, asksInterceptors: asksInterceptors,
                exclusion: readiness.policies?.exclusion, readiness.suspension)
            return isQueued ? state.hold(of: ticket, past: readiness.deadline, now) : nil
        }
        if let hold { drop(operation, hold) }
    }

    /// Ends what could only be sent after its deadline.
    func drop(_ operation: AnyRequestOperation, _ hold: String) {
        operation.conclude(.deadlineExceeded, "not sent: \(hold)")
    }

    /// The first barrier, which is to run now.
    func takeBarrier() -> SchedulerState.Barrier? {
        state.withLock { $0.barriers.first?.barrier }
    }

    /// The first barrier has run: what it held back goes on.
    func passBarrier() {
        for operation in state.withLock({ $0.barrierPassed() }) { prepare(operation) }
    }

    func suspensionChanged(
        of operation: AnyRequestOperation, to suspension: Versioned<OperationStateMachine.Suspension>
    ) {
        let effects = handingOver(operation) { $0.suspensionTold($1, suspension) }
        if let effects { perform(effects, for: operation) }
    }

    /// A raised priority takes effect while the operation waits; it joins the end of its new queue.
    func priorityChanged(of operation: AnyRequestOperation, to priority: Versioned<Operation.QueuePriority>) {
        let transfer = handingOver(operation) { state, ticket in
            state.priorityTold(ticket, priority)
            return ticket.status == .sharing ? ticket.sharedTransfer : nil
        }
        if let transfer = transfer ?? nil { setPriority(priority, of: operation, sharing: transfer) }
    }

    func abandoned(_ operation: AnyRequestOperation, _ reference: TicketReference) -> Bool {
        let effects = state.withLock { state in
            let ticket = reference.ticket(in: &state)
            return state.abandoned(ticket)
        }
        if let transfer = effects.leaves { leaveSharedTransfer(operation, transfer) }
        return effects.starts
    }

    func hasHandedOver(_ operation: AnyRequestOperation) -> Bool {
        change(operation) { [.dispatched, .blockedInQueue, .ended].contains($1.status) || $1.hasBegun } ?? false
    }
}
