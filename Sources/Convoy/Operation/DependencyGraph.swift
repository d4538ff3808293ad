// The edges between operations, behind one lock.
import Foundation

/// The edges of one operation; made with the first edge.
///
/// Touched only under the graph's lock; not `Sendable`, so that it cannot leave it.
final class DependencyNode {
    struct Dependent {
        // Weak: a dependent without other references has nothing to wait for.
        weak var operation: AnyRequestOperation?
        /// Which it is, without holding it for a moment: that might be the last reference, let go of under the lock.
        let identity: ObjectIdentifier
        var policy: DependencyPolicy
        /// Whether it is a group that waits for one of its members, and is told of its end by other means.
        let isGroup: Bool

        init(_ operation: AnyRequestOperation, _ policy: DependencyPolicy, isGroup: Bool = false) {
            (self.operation, identity, self.policy) = (operation, ObjectIdentifier(operation), policy)
            self.isGroup = isGroup
        }
    }

    var dependencies: [Operation] = []
    /// The same by identity, once there are many: a linear search for each of 100,000 would be quadratic.
    var identities: Set<ObjectIdentifier>?
    var dependents: [Dependent] = []
    var unfinished = 0 { didSet { changes &+= 1 } }
    /// How often that has changed.
    var changes: UInt32 = 0
    /// Those of them that are not ours, whose bridges may tell late, twice, or after a removal.
    var unfinishedForeign: Set<ObjectIdentifier> = []

    func contains(_ operation: Operation) -> Bool {
        identities?.contains(ObjectIdentifier(operation)) ?? dependencies.contains { $0 === operation }
    }

    func insert(_ dependency: Operation) {
        dependencies.append(dependency)
        if identities == nil, dependencies.count > 16 { identities = Set(dependencies.map { ObjectIdentifier($0) }) }
        identities?.insert(ObjectIdentifier(dependency))
        unfinished += 1
    }

    /// Has a dependent fail with this one, which it depends on already; the last are looked at first.
    func tighten(_ dependent: AnyRequestOperation) {
        let index = dependents.lastIndex { $0.identity == ObjectIdentifier(dependent) && !$0.isGroup }
        if let index { dependents[index].policy = .fail }
    }

    /// One dependency fewer to wait for; true for the last.
    func loseUnfinished() -> Bool {
        unfinished -= 1
        return unfinished == 0
    }
}

/// The dependency graph of all request operations of the process that have edges.
///
/// Others never come here: an operation notes itself that it has edges (``OperationState/joinGraph()``).
///
/// Foundation keeps unretained pointers to dependents on Linux and rescans every blocked operation on every event; here
/// an edge costs O(1), an operation is told once when its last dependency has finished, and a finished operation lets
/// go of its dependencies, so that a chain is freed link by link.
///
/// One lock for all: an edge concerns two operations, and two edges made at the same time must not close a cycle.
enum DependencyGraph {
    /// It guards what the operations hold: their `node`, `isReleased` and `releasedFailure`.
    ///
    /// The count is there because the thread sanitizer takes an access to nothing at all for one to the box, and
    /// reports races.
    private static let locked = Locked(0)

    /// Makes an edge between two request operations.
    ///
    /// - Complexity: O(1) when either has no other edges in the direction of the other; else O(*r*), where *r* is the
    ///   smaller of what `operation` leads to and what leads to `dependency`.
    static func connect(
        _ operation: AnyRequestOperation, to dependency: AnyRequestOperation, policy: DependencyPolicy
    ) -> Connection {
        if operation === dependency { return .cycle([operation]) }
        let (isInGraph, error) = dependency.state.withLock { ($0.joinGraph(), $0.outcome?.error) }
        if policy == .fail, let error { return .failed(error) }
        guard isInGraph else { return .met }
        // Operations that the search has met are released outside the lock: these may be their last references.
        var met: [AnyRequestOperation] = []
        return locked.withLock { edges in
            if policy == .fail, let error = dependency.releasedFailure { return .failed(error) }
            if dependency.isReleased { return .met }
            if operation.isReleased { return .met }
            if operation.node?.contains(dependency) == true {
                if policy == .fail { dependency.node?.tighten(operation) }
                return .met
            }
            if let cycle = cycle(closedBy: operation, dependingOn: dependency, &met) { return .cycle(cycle) }
            edges += 1
            makeNode(operation).insert(dependency)
            makeNode(dependency).dependents.append(.init(operation, policy))
            return .waiting
        }
    }

    /// Notes that a group waits for a member until that has finished, so that cycles through it are found.
    ///
    /// The edge stands with the member only: a group may have very many in its time.
    ///
    /// - Returns: the members of the cycle that this would close; nil when it closes none.
    static func join(_ member: AnyRequestOperation, to group: AnyRequestOperation) -> [Operation]? {
        if member === group { return [group] }
        guard member.state.withLock({ $0.joinGraph() }) else { return nil }
        var met: [AnyRequestOperation] = []
        return locked.withLock { edges in
            if member.isReleased || group.isReleased { return nil }
            if let cycle = cycle(closedBy: group, dependingOn: member, &met) { return cycle }
            edges += 1
            makeNode(member).dependents.append(.init(group, .ignore, isGroup: true))
            return nil
        }
    }

    /// Makes an edge to an operation that is not ours; ``foreignFinished(_:for:)`` has to follow.
    static func connect(_ operation: AnyRequestOperation, toForeign dependency: Operation) -> Bool {
        locked.withLock { _ in
            if operation.isReleased || operation.node?.contains(dependency) == true { return false }
            makeNode(operation).insert(dependency)
            operation.node?.unfinishedForeign.insert(ObjectIdentifier(dependency))
            return true
        }
    }

    /// An operation that is not ours has finished.
    static func foreignFinished(_ dependency: Operation, for operation: AnyRequestOperation) {
        let isReady = locked.withLock { _ -> Bool in
            let node = operation.node
            return node?.unfinishedForeign.remove(ObjectIdentifier(dependency)) != nil && node?.loseUnfinished() == true
        }
        if isReady { operation.dependenciesChanged() }
    }

    /// Removes an edge; true when that leaves nothing to wait for.
    static func disconnect(_ operation: AnyRequestOperation, from dependency: Operation) -> Bool {
        locked.withLock { _ in
            guard let node = operation.node, node.contains(dependency) else { return false }
            node.dependencies.removeAll { $0 === dependency }
            node.identities?.remove(ObjectIdentifier(dependency))
            if let dependency = dependency as? AnyRequestOperation {
                dependency.node?.dependents.removeAll { $0.identity == ObjectIdentifier(operation) }
                guard !dependency.isReleased else { return false }
            } else if node.unfinishedForeign.remove(ObjectIdentifier(dependency)) == nil {
                return false
            }
            return node.loseUnfinished()
        }
    }

    static func dependencies(of operation: AnyRequestOperation) -> [Operation] {
        locked.withLock { _ in operation.node?.dependencies ?? [] }
    }

    static func isBlocked(_ operation: AnyRequestOperation) -> Bool {
        locked.withLock { _ in (operation.node?.unfinished ?? 0) > 0 }
    }

    /// Whether an operation waits for another, with the number of the change; one that has finished says what was before all.
    static func isDependent(_ operation: AnyRequestOperation) -> Versioned<Bool> {
        locked.withLock { _ in
            guard let node = operation.node else { return Versioned(false, version: 1) }
            return Versioned(node.unfinished > 0, version: node.changes &+ 1)
        }
    }

    /// Fails the dependents that fail with an operation, before it has finished itself: it was abandoned.
    static func fail(dependentsOf operation: AnyRequestOperation, error: RequestError?) {
        guard let error else { return }
        let failing = locked.withLock { _ -> [AnyRequestOperation] in
            operation.releasedFailure = error
            guard let node = operation.node else { return [] }
            let failing = node.dependents.filter { $0.policy == .fail }.compactMap(\.operation)
            node.dependents.removeAll { $0.policy == .fail }
            return failing
        }
        fail(failing, because: operation, error)
    }

    /// Tells the dependents of an operation that it has finished, and lets go of its dependencies.
    ///
    /// - Complexity: O(*d*) for *d* dependents, over a whole cascade, without recursion.
    static func release(_ operation: AnyRequestOperation, error: RequestError?) {
        typealias Operations = [AnyRequestOperation]
        let (dropped, failing, ready) = locked.withLock { _ -> ([Operation], Operations, Operations) in
            operation.isReleased = true
            operation.releasedFailure = error
            guard let node = operation.node else { return ([], [], []) }
            operation.node = nil
            var (dropped, failing, ready) = (node.dependencies, Operations(), Operations())
            for dependent in node.dependents {
                guard let operation = dependent.operation else { continue }
                if dependent.isGroup {
                    dropped.append(operation)
                } else if error != nil, dependent.policy == .fail {
                    failing.append(operation)
                } else {
                    if operation.node?.loseUnfinished() == true {
                        ready.append(operation)
                    } else {
                        dropped.append(operation)
                    }
                }
            }
            return (dropped, failing, ready)
        }
        // Released here, outside the lock. The dependencies have let go of theirs: no chain hangs on them.
        withExtendedLifetime(dropped) {}
        if let error { fail(failing, because: operation, error) }
        for operation in ready { Trampoline.run { operation.dependenciesChanged() } }
    }

    /// Fails operations because of the failure of one that they depend on.
    private static func fail(
        _ operations: [AnyRequestOperation], because dependency: AnyRequestOperation, _ error: RequestError
    ) {
        guard !operations.isEmpty else { return }
        let reason = FailureReason(dependency, error)
        let message = reason.message
        // A chain of 100,000 fails in a loop, not in 100,000 frames.
        for operation in operations { Trampoline.run { operation.dependencyFailed(message, reason.root) } }
    }

    /// All that an operation waits for, or all that wait for it, directly or through others.
    ///
    /// - Complexity: O(*r*) for *r* that are reached.
    static func search(from operation: AnyRequestOperation, _ direction: Search.Direction) -> Search {
        var search = Search(from: operation)
        locked.withLock { _ in search.run(direction) }
        return search
    }

    /// The dependents of an operation that are still there, but no more than so many.
    static func dependents(of operation: AnyRequestOperation, atMost limit: Int) -> [AnyRequestOperation] {
        locked.withLock { _ in operation.node?.dependents.prefix(limit).compactMap(\.operation) ?? [] }
    }

    private static func makeNode(_ operation: AnyRequestOperation) -> DependencyNode {
        let node = operation.node ?? DependencyNode()
        operation.node = node
        return node
    }
}
