// A barrier of a manager's own queue, as an operation among its requests.
import Foundation
import Synchronization

/// Runs a block when all operations before it have finished.
///
/// Its edges are part of the ``DependencyGraph``, which therefore finds a cycle through a barrier like any other.
/// Callers never see it.
final class BarrierOperation: AnyRequestOperation, @unchecked Sendable {
    // @unchecked: this class adds only the constant `block`, which has its own lock.

    private static let queue = DispatchQueue(label: "convoy.barriers", attributes: .concurrent)
    private let block: Locked<(@Sendable () -> Void)?>

    init(_ scheduler: any OperationScheduler, block: @escaping @Sendable () -> Void) {
        self.block = Locked(block)
        super.init(requestPlan: .none, context: scheduler.context, scheduler, isMonitored: false)
        name = "a barrier"
    }

    /// Ignores a cancellation while the block is running: the barrier finishes after the block.
    override func postpones(_ outcome: AnyOutcome) -> Bool { isExecuting }

    override func begin(_: OperationState.Beginning) {
        // The block may be slow, so it has its own thread.
        Self.queue.async {
            let block = self.block.withLock { block in
                defer { block = nil }
                return block
            }
            block?()
            self.conclude(AnyOutcome(error: nil))
        }
    }
}

/// Finds a request that is queued before a barrier but waits, directly or not, for a request after that barrier.
///
/// Foundation would wait for such a request forever, so the request fails. An operation in a queue depends on every
/// barrier that was added before it. So a barrier on which only the second of two operations depends was added between
/// them, and waits for the first. On Apple platforms no cycle is found, because Foundation hides its barriers.
enum BarrierCycles {
    /// The number of requests that were added after a barrier and have not finished.
    private static let barred = Atomic(0)

    /// Called after an operation was added to a caller's queue; a second call has no effect.
    static func added(_ operation: AnyRequestOperation) {
        guard operation.isBehindBarrier else { return }
        // The operation may finish now. If it has the mark, its end decrements the count. So the count comes first.
        barred.add(1, ordering: .relaxed)
        let isFirst = operation.state.withLock { state in
            guard !state.isBarred, !state.machine.delivery.hasNotifiedEnd else { return false }
            state.isBarred = true
            return true
        }
        if isFirst { endEarlier(behind: operation) } else { left() }
    }

    static func left() { barred.subtract(1, ordering: .relaxed) }

    static func edgeMade(from operation: AnyRequestOperation, to dependency: AnyRequestOperation) {
        guard barred.load(ordering: .relaxed) > 0 else { return }
        // If no queue has read `isReady` of a waiting operation, none is queued: the caller is still building a chain.
        let waiting = DependencyGraph.search(from: operation, .dependents).reached
        guard waiting.contains(where: { $0.state.withLock { $0.wasAskedReadiness } }) else { return }
        for operation in DependencyGraph.search(from: dependency, .dependencies).reached
        where operation.state.withLock({ $0.isBarred }) { endEarlier(behind: operation) }
    }

    /// Fails the operations that form a cycle with `operation`.
    ///
    /// Such an operation waits for `operation`, which waits for a barrier, which waits for that operation again.
    private static func endEarlier(behind operation: AnyRequestOperation) {
        let search = DependencyGraph.search(from: operation, .dependents)
        guard search.reached.count > 1, let queue = FoundationFields.queue(of: operation) else { return }
        // Foundation lists the operations in the order in which they were added.
        let operations = queue.operations
        guard let index = operations.firstIndex(where: { $0 === operation }) else { return }
        let earlier = Set(operations[..<index].map { ObjectIdentifier($0) })
        let barriers = FoundationFields.barriers(before: operation).filter { !$0.isFinished }
        for waiting in search.reached where earlier.contains(ObjectIdentifier(waiting)) {
            // A barrier that is not in `others` was added after `waiting`, so the barrier waits for `waiting`. Barriers
            // that have run are in `others` too.
            let others = FoundationFields.barriers(before: waiting)
            guard barriers.contains(where: { barrier in !others.contains { $0 === barrier } }) else { continue }
            let names = search.way(to: waiting).map(\.label)
            waiting.conclude(
                .dependencyCycle,
                "\(names.joined(separator: " waits for ")), which is queued after a barrier that waits for \(waiting.label)",
                onlyBeforeStart: true)
        }
    }
}
