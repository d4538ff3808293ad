// What is asked of all operations at once, and why one waits.
import Foundation

extension Scheduler {
    /// Every operation that is not over, in the order of enqueueing.
    var operations: [AnyRequestOperation] {
        state.withLock { state in
            state.tickets.compactMap { ticket -> (sequence: UInt64, operation: AnyRequestOperation)? in
                guard let ticket, !ticket.isCarrier, let operation = ticket.operation else { return nil }
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
        state.withLock { $0.freezes += 1 }
        work()
        state.withLock { $0.freezes -= 1 }
        pump()
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
                let isOver = state.withLock { state in
                    guard state.count > 0, !Task.isCancelled else { return true }
                    state.drains[identity] = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.drains.removeValue(forKey: identity) }?.resume()
        }
    }

    /// What an operation waits for, for people.
    func why(_ operation: AnyRequestOperation) -> String {
        let queueLimit = queue.maxConcurrentOperationCount
        let now = context.clock.now
        let view = change(operation) { state, ticket in
            // Operations that have begun do not wait for those that have not.
            let unstarted = ticket.isReturning ? state.room.unstarted : 0
            return (
                status: ticket.status, host: ticket.host, flight: ticket.flight, hasBegun: ticket.hasBegun,
                count: state.room.count(of: ticket.host), hold: state.room.hold(of: ticket.host),
                learned: state.room.words(of: ticket.host, now: now), running: state.room.running - unstarted,
                limit: state.slotLimit, places: ticket.isReturning ? 0 : state.room.places,
                isHeldBack: state.isSuspended
            )
        }
        guard let view else { return operation.whyWithoutManager }
        let (host, placeLimit) = (view.host, State.placeLimit(queueLimit))
        let isSuspended = view.isHeldBack || queue.isSuspended
        switch view.status {
        case .blocked: return operation.whyBlocked
        case .preparing: return "waits for its request to be built"
        case .suspended: return view.hasBegun ? operation.whyRunning : "waits for its owner: it is suspended"
        case .parked: return operation.whyBlocked
        case .crowded: return "waits until fewer requests are with their interceptors"
        case .aside: return operation.whyRunning
        case .riding:
            guard let carrier = view.flight.flatMap({ key in coalescer.withLock { $0.carrier(key) } }) else {
                return operation.whyRunning
            }
            return "shares a transfer that \(why(carrier))"
        case .waiting:
            if isSuspended { return "waits for the manager: it is suspended" }
            let learned = view.learned.map { "; \($0)" } ?? ""
            if let hold = view.hold {
                return "waits for \(host): it is on hold for another \(now.duration(to: hold).words)\(learned)"
            }
            if view.running >= view.limit { return "waits for a slot: \(view.running) running, the limit" }
            if view.places >= placeLimit { return "waits for a place in the queue: \(view.places) there, its limit" }
            return "waits for \(host): \(view.count.running) running there, its limit\(learned)"
        case .handed:
            guard operation.state.withLock({ $0.machine.isWaitingToStart }) else { return operation.whyRunning }
            return isSuspended ? "waits for the queue: it is suspended" : "waits for the queue to start it"
        case .gone: return "has finished"
        }
    }
}
