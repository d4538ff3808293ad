// Events that move waiting operations: dependencies, suspension, priority, an outcome before the start.
import Foundation

extension Scheduler {
    func dependenciesChanged(of operation: AnyRequestOperation, _ reference: QueueEntryReference) {
        let isDependent = DependencyGraph.isDependent(operation)
        let event = { (state: inout SchedulerState) in state.dependenciesTold(state[reference], isDependent) }
        // A newly blocked operation may have released a slot, so another operation may start.
        perform(isDependent.value ? handingOver(event) : state.withLock(event), for: operation)
    }

    /// Builds and checks the request of an operation, or starts a group.
    func prepare(_ operation: AnyRequestOperation) {
        if operation.isGroup { return startGroup(operation) }
        let prepare = { @Sendable in
            if let wish = operation.prepare() { self.awaitSlot(operation, wish) }
        }
        // Building a chain's link is user code, and checking a file may be slow.
        let isFast = operation.state.withLock { ($0.requestPlan?.build == nil && !$0.usesDisk) || $0.prepared != nil }
        if isFast { prepare() } else { operation.onExecutor(prepare) }
    }

    private func startGroup(_ group: AnyRequestOperation) {
        let suspension = group.suspension
        if change(group, { $0.groupStarts($1, suspension) }) == true { group.start() }
    }

    /// Makes an operation with a known request wait for a slot or for a shared response.
    func awaitSlot(_ operation: AnyRequestOperation, _ wish: OperationState.Wish) {
        if wish.isCoalesced, share(operation, wish) {
            // A suspension may still send this operation back to the queue. Its state machine therefore notes that the
            // earlier slots are released.
            if wish.hasBegun, let slots = change(operation, { $1.slotCount }) {
                operation.resumeAttempt(after: .queued(slots: slots))
            }
        } else if let engine = context.cache {
            consult(engine, operation, wish)
        } else {
            queue(operation, wish)
        }
    }

    /// Makes an operation wait for a slot, or start with the response of the cache.
    func queue(_ operation: AnyRequestOperation, _ wish: OperationState.Wish) {
        guard let reference = wish.queueEntry else { return }
        let now = context.clock.now
        let (effects, slots, hold) = handingOver { state in
            let queueEntry = state[reference]
            let effects = state.prepared(queueEntry, wish)
            let isQueued = queueEntry.status == .waiting || queueEntry.status == .suspended
            let words = wish.deadline.flatMap { state.queues.holdWords(of: queueEntry.host, past: $0, now: now) }
            return (effects, queueEntry.slotCount, isQueued ? words : nil)
        }
        if wish.hasBegun { operation.resumeAttempt(after: .queued(slots: slots)) }
        // A request that could only be sent after its deadline fails now.
        if let hold { return operation.conclude(.deadlineExceeded, "not sent: \(hold)") }
        perform(effects, for: operation)
    }

    /// Changes a property on which ``SchedulerState/isHoldingBack`` depends, then starts the groups that may start.
    func suspend(_ change: (inout SchedulerState) -> Void) {
        let groups = handingOver { state in
            change(&state)
            return state.takeHeldGroups()
        }
        for group in groups { startGroup(group) }
    }

    /// Called when the caller sets or removes the concurrency limit of the manager's own queue.
    func limitQueue(_ isLimited: Bool) {
        guard isLimited else { return state.withLock { $0.isQueueLimited = false } }
        for operation in handingOver({ $0.limitQueue() }) { enter(operation) }
    }

    func suspensionChanged(
        of operation: AnyRequestOperation, to suspension: Versioned<OperationStateMachine.Suspension>
    ) {
        let effects = handingOver(operation) { $0.suspensionTold($1, suspension) }
        if let effects { perform(effects, for: operation) }
    }

    func priorityChanged(of operation: AnyRequestOperation, to priority: Versioned<Operation.QueuePriority>) {
        let effects = handingOver(operation) { $0.priorityTold($1, priority) }
        if let effects { perform(effects, for: operation) }
    }

    func abandoned(_ operation: AnyRequestOperation, _ reference: QueueEntryReference) -> Bool {
        let effects = state.withLock { $0.abandoned($0[reference]) }
        if let transfer = effects.transfer { perform(transfer) }
        return effects.starts
    }

    func hasHandedOver(_ operation: AnyRequestOperation) -> Bool {
        change(operation) { [.dispatched, .inQueue, .ended].contains($1.status) || $1.hasBegun } ?? false
    }
}
