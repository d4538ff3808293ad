// What an operation waits for or does, for people.
import Foundation

extension AnyRequestOperation {
    /// What it waits for, where no manager knows more.
    var whyWithoutManager: String {
        if isFinished { return "has finished" }
        if isExecuting { return whyRunning }
        return dependencies.isEmpty ? "waits to be enqueued or started" : whyBlocked
    }

    /// What it does since it has been started.
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

    /// Which dependencies it waits for.
    var whyBlocked: String {
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
