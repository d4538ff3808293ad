// What is asked of all operations at once, and why one waits.
import Foundation

extension Scheduler {
    /// Every operation that is not over, in the order of enqueueing.
    var operations: [AnyRequestOperation] {
        state.withLock { $0.tickets.compactMap { $0?.isCarrier == false ? $0 : nil } }
            .sorted { $0.sequence < $1.sequence }.compactMap(\.operation)
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
        guard let ticket = operation.state.withLock({ $0.ticket }) else { return operation.whyWithoutManager }
        let queueLimit = queue.maxConcurrentOperationCount
        let now = context.clock.now
        let (status, host, count, hold, running, limit, isHeldBack) = state.withLock { state in
            (
                ticket.status, ticket.host, state.room.count(of: ticket.host), state.room.hold(of: ticket.host),
                state.room.running, state.limit(within: queueLimit), state.isSuspended
            )
        }
        let isSuspended = isHeldBack || queue.isSuspended
        switch status {
        case .blocked: return operation.whyBlocked
        case .preparing: return "waits for its request to be built"
        case .suspended: return "waits for its owner: it is suspended"
        case .parked: return operation.whyBlocked
        case .crowded: return "waits until fewer requests are with their interceptors"
        case .aside: return operation.whyRunning
        case .riding:
            let key = state.withLock { _ in ticket.flight }
            guard let carrier = key.flatMap({ key in flights.withLock { $0.carrier(key) } }) else {
                return operation.whyRunning
            }
            return "shares a transfer that \(why(carrier))"
        case .waiting:
            if isSuspended { return "waits for the manager: it is suspended" }
            let learned = state.withLock { $0.room.words(of: host, now: now) }.map { "; \($0)" } ?? ""
            if let hold {
                return "waits for \(host): it is on hold for another \(now.duration(to: hold).words)\(learned)"
            }
            if running < limit { return "waits for \(host): \(count.running) running there, its limit\(learned)" }
            return "waits for a slot: \(running) running, the limit"
        case .handed:
            guard operation.state.withLock({ $0.machine.isWaitingToStart }) else { return operation.whyRunning }
            return isSuspended ? "waits for the queue: it is suspended" : "waits for the queue to start it"
        case .gone: return "has finished"
        }
    }
}

extension AnyRequestOperation {
    var whyWithoutManager: String {
        if isFinished { return "has finished" }
        if isExecuting { return whyRunning }
        return dependencies.isEmpty ? "waits to be enqueued or started" : whyBlocked
    }

    fileprivate var whyRunning: String {
        let (machine, wait) = state.withLock { ($0.machine, $0.course?.wait) }
        let phase =
            switch machine.phase {
            case .abandoned, .finished: "has \(machine.phase.words)"
            default: machine.whyBetween(wait, context.clock.now) ?? "is \(machine.phase.words)"
            }
        return isSuspended ? "\(phase), suspended by its owner" : phase
    }

    fileprivate var whyBlocked: String {
        let waiting = dependencies.filter { !$0.isFinished }
        // The last has just finished, or there was none: its turn is being taken.
        guard !waiting.isEmpty else { return "waits for its turn" }
        let named = waiting.prefix(3).map { dependency in
            guard let dependency = dependency as? AnyRequestOperation else { return dependency.description }
            let (phase, isQueued) = dependency.state.withLock { ($0.machine.phase, $0.scheduler != nil) }
            return "\(dependency.label) (\(phase == .pending ? isQueued ? "queued" : "not enqueued" : phase.words))"
        }
        let more = waiting.count > 3 ? " and \(waiting.count - 3) more" : ""
        return "waits for: \(named.joined(separator: ", "))\(more)"
    }
}

extension OperationStateMachine {
    /// What it waits for between two attempts; nil when it does not.
    fileprivate func whyBetween(_ wait: Course.Wait?, _ now: ContinuousClock.Instant) -> String? {
        guard case .waiting(let attempt) = phase else {
            if case .deciding(let attempt) = phase { return "is deciding what follows attempt \(attempt)" }
            return nil
        }
        return switch wait {
        case .time(let due, let reason):
            "is executing, attempt \(attempt) in \(now.duration(to: due).words)"
                + (reason.map { ", \($0.wordsForItself)" } ?? "")
        case .interceptor: "is executing, attempt \(attempt) waits for an interceptor"
        case .descriptor: "is executing, attempt \(attempt) waits for a file descriptor"
        case .slot, nil: "is executing, attempt \(attempt) waits for a slot"
        }
    }
}

extension Duration {
    /// The duration for people: whole milliseconds below a second, then seconds with one decimal.
    var words: String {
        let milliseconds = Int((seconds * 1_000).rounded())
        guard milliseconds >= 1_000 else { return "\(milliseconds) ms" }
        let tenths = Int((seconds * 10).rounded())
        return "\(tenths / 10).\(tenths % 10) s"
    }
}
