// Describes what an operation waits for or does.
import Foundation

extension AnyRequestOperation {
    /// What the operation waits for or does, as far as it is known without a manager.
    var whyWithoutManager: String {
        if isFinished { return whyFinished }
        if isExecuting { return whyRunning }
        return unfinishedDependencies.isEmpty ? "waits to be enqueued or started" : whyBlocked
    }

    var whyFinished: String {
        attempts.last?.isFromCache == true ? "has finished, from the cache" : "has finished"
    }

    var whyRunning: String {
        let (machine, wait) = state.withLock { ($0.machine, $0.followUp?.wait) }
        let what =
            switch machine.phase {
            case .abandoned, .finished: "has \(machine.phase.words)"
            case .deciding(let attempt): "is deciding what follows attempt \(attempt)"
            case .waiting(let attempt): "is executing, attempt \(attempt) \(wait.words(context.clock.now))"
            default: "is \(activity ?? machine.phase.words)"
            }
        return machine.isSuspended ? "\(what), suspended by its owner" : what
    }

    var unfinishedDependencies: [Operation] { DependencyGraph.unfinishedDependencies(of: self) }

    var whyBlocked: String {
        let waiting = unfinishedDependencies
        // The last dependency has just finished, or a barrier had none. The operation still waits for its turn.
        guard !waiting.isEmpty else { return "waits for its turn" }
        if let barrier = waiting.last as? BarrierOperation, waiting.count == 1 {
            return barrier.isExecuting
                ? "waits for a barrier, which is executing" : "waits for a barrier, which \(barrier.whyBlocked)"
        }
        return "waits for: \(Self.names(waiting))"
    }

    static func names(_ operations: [Operation]) -> String {
        let named = operations.prefix(3).map { operation in
            guard let operation = operation as? AnyRequestOperation else { return operation.description }
            let (phase, isQueued) = operation.state.withLock { ($0.machine.phase, $0.queueEntry != nil) }
            return "\(operation.label) (\(phase == .pending ? isQueued ? "queued" : "not enqueued" : phase.words))"
        }
        let more = operations.count > 3 ? " and \(operations.count - 3) more" : ""
        return named.joined(separator: ", ") + more
    }
}

extension FollowUpState.Wait? {
    fileprivate func words(_ now: ContinuousClock.Instant) -> String {
        switch self {
        case .time(let due, let reason):
            "in \(now.duration(to: due).words)" + (reason.map { ", \($0.wordsForItself)" } ?? "")
        case .interceptor: "waits for an interceptor"
        case .descriptor: "waits for a file descriptor"
        case .slot, nil: "waits for a slot"
        }
    }
}
