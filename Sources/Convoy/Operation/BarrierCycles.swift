// Cycles that lead through a barrier of a caller's queue.
import Foundation
import Synchronization

/// Finds a request that stands before a barrier and waits, perhaps through others, for one behind it.
///
/// Foundation's own operations wait for ever then. An operation of a queue depends on every barrier that was there when it
/// was added. So of two operations of a queue, where the second depends on a barrier that the first does not depend on, that
/// barrier was added between them, and waits for the first. On Apple platforms nothing is found: Foundation does not show
/// its barriers there.
enum BarrierCycles {
    /// How many requests were behind a barrier when they were added, and have not finished.
    private static let barred = Atomic(0)

    /// A caller's queue has an operation; the second call has no effect.
    static func added(_ operation: AnyRequestOperation) {
        guard operation.isBehindBarrier else { return }
        // Before it is noted: its end may come now.
        barred.add(1, ordering: .relaxed)
        let isFirst = operation.state.withLock { state in
            guard !state.isBarred, !state.machine.delivery.hasNotifiedEnd else { return false }
            state.isBarred = true
            return true
        }
        if isFirst { endEarlier(behind: operation) } else { left() }
    }

    /// One that was behind a barrier has finished.
    static func left() { barred.subtract(1, ordering: .relaxed) }

    /// An operation waits for another from now on.
    static func edgeMade(from operation: AnyRequestOperation, to dependency: AnyRequestOperation) {
        guard barred.load(ordering: .relaxed) > 0 else { return }
        // No queue has asked for any operation of a chain that is being built.
        let waiting = DependencyGraph.search(from: operation, .dependents).reached
        guard waiting.contains(where: { $0.state.withLock { $0.wasAskedReadiness } }) else { return }
        for operation in DependencyGraph.search(from: dependency, .dependencies).reached
        where operation.state.withLock({ $0.isBarred }) { endEarlier(behind: operation) }
    }

    /// Ends those before a barrier that wait for an operation behind it.
    private static func endEarlier(behind operation: AnyRequestOperation) {
        let search = DependencyGraph.search(from: operation, .dependents)
        guard search.reached.count > 1, let queue = FoundationFields.queue(of: operation) else { return }
        // In the order of adding.
        let operations = queue.operations
        guard let index = operations.firstIndex(where: { $0 === operation }) else { return }
        let earlier = Set(operations[..<index].map { ObjectIdentifier($0) })
        let barriers = FoundationFields.barriers(before: operation).filter { !$0.isFinished }
        for waiting in search.reached where earlier.contains(ObjectIdentifier(waiting)) {
            // With those that have run meanwhile.
            let others = FoundationFields.barriers(before: waiting)
            guard barriers.contains(where: { barrier in !others.contains { $0 === barrier } }) else { continue }
            let names = search.way(to: waiting).map { ($0 as? AnyRequestOperation)?.label ?? $0.description }
            waiting.conclude(
                .dependencyCycle,
                "\(names.joined(separator: " waits for ")), which is behind a barrier that waits for \(waiting.label)",
                onlyBeforeStart: true)
        }
    }
}
