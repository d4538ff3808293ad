// Cycles that lead through a barrier of a caller's queue.
import Foundation
import Synchronization

/// Finds a request that stands before a barrier and waits, perhaps through others, for one behind it.
///
/// Foundation's own operations wait for ever then. It tells of its barriers only whether an operation waits for one. That is
/// enough: of two operations of a queue the first waits for no barrier and the second does. Then that barrier was added between
/// them, and waits for the first. Where the first has waited for an earlier barrier, both may be about to be told that it
/// has run: so it is looked at again a little later. Of what was added by `addOperation` nothing is known.
enum BarrierCycles {
    /// How many requests were behind a barrier when they were enqueued, and have not finished.
    private static let barred = Atomic(0)

    /// An operation has been put into a caller's queue.
    static func entered(_ operation: AnyRequestOperation) {
        let isBarred = operation.isBehindBarrier
        let (isCounted, hasEdges) = operation.state.withLock { state -> (Bool, Bool) in
            guard state.entry == .none, !state.machine.isFinished else { return (false, false) }
            state.entry = isBarred || state.wasBehindBarrier ? .behindBarrier : .free
            return (state.entry == .behindBarrier, state.hasEdges)
        }
        guard isCounted else { return }
        barred.add(1, ordering: .relaxed)
        if hasEdges { end(behind: operation) }
    }

    /// An operation of a caller's queue has finished.
    static func left(_ entry: OperationState.Entry) {
        if entry == .behindBarrier { barred.subtract(1, ordering: .relaxed) }
    }

    /// An operation waits for another from now on.
    static func edgeMade(from operation: AnyRequestOperation, to dependency: AnyRequestOperation) {
        guard barred.load(ordering: .relaxed) > 0 else { return }
        // Nothing of a chain that is being built is in a queue.
        let waiting = DependencyGraph.search(from: operation, .dependents).reached
        guard waiting.contains(where: { $0.state.withLock { $0.entry != .none } }) else { return }
        for operation in DependencyGraph.search(from: dependency, .dependencies).reached { end(behind: operation) }
    }

    /// Ends those before a barrier that wait for an operation behind it.
    private static func end(behind operation: AnyRequestOperation) {
        guard operation.state.withLock({ $0.entry == .behindBarrier }), operation.isBehindBarrier else { return }
        for waiting in DependencyGraph.search(from: operation, .dependents).reached {
            switch waiting.state.withLock({ $0.entry }) {
            case .free: end(waiting, behind: operation)
            case .behindBarrier: lookLater(at: waiting)
            case .none: break
            }
        }
    }

    /// Looks again, 100 ms after its barrier has run, at an operation that may wait for one behind another barrier.
    ///
    /// Also notifies its queue of `isReady` once more. corelibs calls `isReady` on the thread that ends the barrier. That
    /// thread may store an old answer after a newer one.
    static func lookLater(at operation: AnyRequestOperation) {
        guard !operation.isBehindBarrier else { return }
        let isFirst = operation.state.withLock { state in
            defer { state.isLookedAtLater = true }
            return !state.isLookedAtLater
        }
        guard isFirst else { return }
        let context = operation.context
        _ = context.clock.wake(at: context.clock.now + .milliseconds(100)) { [weak operation] in
            guard let operation else { return }
            context.taskControl.async {
                let isWaiting = operation.state.withLock { state in
                    state.isLookedAtLater = false
                    return state.machine.isWaitingToStart
                }
                guard isWaiting, !operation.isBehindBarrier else { return }
                for other in DependencyGraph.search(from: operation, .dependencies).reached
                where other.state.withLock({ $0.entry == .behindBarrier }) && other.isBehindBarrier {
                    end(operation, behind: other)
                }
                if operation.error != nil || !DependencyGraph.isBlocked(operation) {
                    operation.tellReadiness(looksLater: false)
                }
            }
        }
    }

    /// Ends an operation, if it stands before another in their queue.
    private static func end(_ operation: AnyRequestOperation, behind other: AnyRequestOperation) {
        let scheduler = operation.state.withLock { $0.scheduler }
        let queue = other.state.withLock { $0.scheduler }?.queue
        guard let scheduler, operation !== other, queue === scheduler.queue else { return }
        // In the order of adding.
        guard let first = scheduler.queue.operations.first(where: { $0 === operation || $0 === other }),
            first === operation
        else { return }
        let way = DependencyGraph.search(from: other, .dependents).way(to: operation)
        let names = way.map { ($0 as? AnyRequestOperation)?.label ?? $0.description }
        operation.conclude(
            .dependencyCycle,
            "\(names.joined(separator: " waits for ")), which is behind a barrier that waits for \(operation.label)",
            onlyBeforeStart: true)
    }
}
