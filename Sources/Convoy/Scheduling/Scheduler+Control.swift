// What is asked of all operations at once, and why one waits.
import Foundation

extension Scheduler {
    /// Every operation that is not over, in the order of enqueueing.
    var operations: [AnyRequestOperation] {
        state.withLock { state in
            state.tickets.compactMap { ticket -> (sequence: UInt64, operation: AnyRequestOperation)? in
                guard let ticket, !ticket.isShared, let operation = ticket.operation else { return nil }
                return (ticket.sequence, operation)
            }
        }.sorted { $0.sequence < $1.sequence }.map(\.operation)
    }

    /// Cancels all there is, and what would make more of it.
    func cancelAll() {
        frozen {
            for undertaking in undertakings.withLock({ Array($0.values) }) { undertaking.cancel() }
            cancelAll { _ in true }
        }
    }

    /// - Complexity: O(*n* log *n*) for *n* operations.
    func cancelAll(where isMeant: (AnyRequestOperation) -> Bool) {
        frozen { for operation in operations where isMeant(operation) { operation.cancel() } }
    }

    /// Hands nothing over meanwhile: a slot that a cancelled operation frees would go to the next to be cancelled, which
    /// would be sent for nothing.
    func frozen(_ work: () -> Void) {
        state.withLock { $0.cancellations += 1 }
        work()
        handingOver { $0.cancellations -= 1 }
    }

    func shutDown() {
        state.withLock { $0.isShutDown = true }
        cancelAll()
    }

    /// Waits until no operation is left, or the task is cancelled.
    func drain() async {
        let identity = state.withLock { state in
            state.lastDrain += 1
            return state.lastDrain
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let waits = state.withLock { state in
                    !Task.isCancelled && state.awaitEnd({ continuation.resume() }, identity: identity)
                }
                if !waits { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.drains.removeValue(forKey: identity) }?()
        }
    }

    func why(_ operation: AnyRequestOperation) -> String {
        let queueLimit = queue.maxConcurrentOperationCount
        let now = context.clock.now
        let view = change(operation) { state, ticket in
            // Operations that have begun do not wait for those that have not.
            let unstarted = ticket.isReturning ? state.queues.unstarted : 0
            return (
                status: ticket.status, host: ticket.host, transfer: ticket.sharedTransfer, hasBegun: ticket.hasBegun,
                exclusion: ticket.exclusion.flatMap { exclusion in
                    exclusion.holder === ticket ? nil : (name: exclusion.name, holder: exclusion.holder?.operation)
                },
                count: state.queues.count(of: ticket.host),
                hold: ticket.status == .waiting ? state.queues.holdWords(of: ticket.host, now: now) : nil,
                learned: state.queues.words(of: ticket.host, now: now), running: state.queues.running - unstarted,
                limit: state.slotLimit, places: ticket.isReturning ? 0 : state.queues.places,
                isHeldBack: state.isSuspended
            )
        }
        guard let view else { return operation.whyWithoutManager }
        let (host, placeLimit) = (view.host, SchedulerState.placeLimit(queueLimit))
        let isSuspended = view.isHeldBack || queue.isSuspended
        switch view.status {
        case .blocked, .blockedInQueue: return operation.whyBlocked
        case .preparing where operation.traits.isGroup:
            guard operation.state.withLock({ $0.machine.isWaitingToStart }) else { return operation.whyRunning }
            return isSuspended ? "waits for the queue: it is suspended" : "waits for the queue to start it"
        case .preparing: return "waits for its request to be built"
        case .suspended: return view.hasBegun ? operation.whyRunning : "waits for its owner: it is suspended"
        case .awaitingPermit:
            guard let exclusion = view.exclusion else {
                return "waits until fewer requests are with their interceptors"
            }
            let holder = exclusion.holder.map { ": \($0.label) has it" } ?? ""
            return "waits for the name “\(exclusion.name)”\(holder)"
        case .yielded, .awaitingDescriptor: return operation.whyRunning
        case .sharing:
            guard let shared = view.transfer.flatMap({ key in coalescer.withLock { $0.operation(key) } }) else {
                return operation.whyRunning
            }
            return "shares a transfer that \(why(shared))"
        case .waiting:
            if isSuspended { return "waits for the manager: it is suspended" }
            let learned = view.learned.map { "; \($0)" } ?? ""
            if let hold = view.hold { return "waits for \(hold)" }
            if view.running >= view.limit { return "waits for a slot: \(view.running) running, the limit" }
            if view.places >= placeLimit { return "waits for a place in the queue: \(view.places) there, its limit" }
            return "waits for \(host): \(view.count.running) running there, its limit\(learned)"
        case .dispatched:
            guard operation.state.withLock({ $0.machine.isWaitingToStart }) else { return operation.whyRunning }
            return isSuspended ? "waits for the queue: it is suspended" : "waits for the queue to start it"
        case .ended: return "has finished"
        }
    }
}
