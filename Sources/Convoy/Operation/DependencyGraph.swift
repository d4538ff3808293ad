// The edges between operations, guarded by one lock.
import Foundation

// Made with the first edge, used only under the graph's lock. Not `Sendable`, so the compiler prevents any other use.
final class DependencyNode {
    struct Dependent {
        // Weak: if there is no other reference to a dependent, no caller waits for its result.
        weak var operation: AnyRequestOperation?
        /// Not a strong reference, which could be the last one and would be released under the lock.
        let identity: ObjectIdentifier
        var policy: DependencyPolicy
        /// The graph does not notify a group when its member finishes.
        let isGroup: Bool

        init(_ operation: AnyRequestOperation, _ policy: DependencyPolicy, isGroup: Bool) {
            (self.operation, identity, self.policy) = (operation, ObjectIdentifier(operation), policy)
            self.isGroup = isGroup
        }
    }

    var dependencies: [Operation] = []
    // Nil up to 16 dependencies. Adding 100,000 with linear searches would take quadratic time.
    var identities: Set<ObjectIdentifier>?
    var dependents: [Dependent] = []
    var unfinished = 0 { didSet { changes &+= 1 } }
    var changes: UInt32 = 0
    // ``DependencyGraph/foreignFinished(_:for:)`` may be called late, twice, or after a removal. A call for a
    // dependency that is not in the set is ignored.
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

    func tighten(_ dependent: AnyRequestOperation) {
        let index = dependents.lastIndex { $0.identity == ObjectIdentifier(dependent) && !$0.isGroup }
        if let index { dependents[index].policy = .fail }
    }

    func loseUnfinished() -> Bool {
        unfinished -= 1
        return unfinished == 0
    }
}

// An operation without edges is not part of the graph (``OperationState/joinGraph()``). On Linux, Foundation keeps
// unretained pointers to dependents, and rescans every blocked operation on every event. Here an edge costs O(1), and
// an operation is notified once, when its last dependency has finished. A finished operation releases its dependencies,
// so a chain is freed link by link. One lock guards the complete graph, because two simultaneous edges must not close a
// cycle.
enum DependencyGraph {
    // Guards the `node`, `isReleased` and `releasedFailure` of all operations. The value is a count, because the thread
    // sanitizer reports false races for a lock around an empty value.
    private static let locked = Locked(0)

    // A group waits for a member to finish, but only the member stores that edge, because a group may have very many
    // members over time. O(1) if `operation` has no dependents, or `dependency` has no dependencies; otherwise linear
    // in the direct and indirect dependents of `operation` or dependencies of `dependency`, whichever are fewer.
    static func connect(
        _ operation: AnyRequestOperation, to dependency: AnyRequestOperation, policy: DependencyPolicy,
        isMember: Bool = false
    ) -> Connection {
        if operation === dependency { return .cycle([operation]) }
        let (isInGraph, isAbandoned, error) = dependency.withLock { state in
            (state.joinGraph(), state.machine.phase == .abandoned && state.queueEntry == nil, state.outcome?.error)
        }
        if policy == .fail, let error { return .failed(error) }
        // If no queue has an operation with an outcome, nothing may ever finish it.
        guard isInGraph, !isAbandoned || dependency.isInQueue else { return .met }
        // The search may retain the last reference to an operation. Such references are released outside the lock.
        var met: [AnyRequestOperation] = []
        return locked.withLock { edges in
            if policy == .fail, let error = dependency.releasedFailure { return .failed(error) }
            if dependency.isReleased || operation.isReleased { return .met }
            if !isMember, operation.node?.contains(dependency) == true {
                if policy == .fail { dependency.node?.tighten(operation) }
                return .met
            }
            if let cycle = cycle(closedBy: operation, dependingOn: dependency, &met) { return .cycle(cycle) }
            edges += 1
            if !isMember { makeNode(operation).insert(dependency) }
            makeNode(dependency).dependents.append(.init(operation, policy, isGroup: isMember))
            return .waiting
        }
    }

    /// A call of ``foreignFinished(_:for:)`` must follow, unless the result is false because no edge was made.
    static func connect(_ operation: AnyRequestOperation, toForeign dependency: Operation) -> Bool {
        locked.withLock { _ in
            if operation.isReleased || operation.node?.contains(dependency) == true { return false }
            makeNode(operation).insert(dependency)
            operation.node?.unfinishedForeign.insert(ObjectIdentifier(dependency))
            return true
        }
    }

    static func foreignFinished(_ dependency: Operation, for operation: AnyRequestOperation) {
        let isReady = locked.withLock { _ -> Bool in
            let node = operation.node
            return node?.unfinishedForeign.remove(ObjectIdentifier(dependency)) != nil && node?.loseUnfinished() == true
        }
        if isReady { operation.dependenciesChanged() }
    }

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

    static func unfinishedDependencies(of operation: AnyRequestOperation) -> [Operation] {
        let dependencies = locked.withLock { _ in
            operation.node?.dependencies.filter { ($0 as? AnyRequestOperation)?.isReleased != true } ?? []
        }
        return dependencies.filter { !$0.isFinished }
    }

    static func isBlocked(_ operation: AnyRequestOperation) -> Bool {
        locked.withLock { _ in (operation.node?.unfinished ?? 0) > 0 }
    }

    /// The version grows with each change; it is 1 for an operation without edges, such as a finished one.
    static func isDependent(_ operation: AnyRequestOperation) -> Versioned<Bool> {
        locked.withLock { _ in
            guard let node = operation.node else { return Versioned(false, version: 1) }
            return Versioned(node.unfinished > 0, version: node.changes &+ 1)
        }
    }

    /// Fails the dependents with the policy `fail`, because the operation has failed before its start.
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

    // For an operation that has finished, or has an outcome and is in no queue; a second call has no effect. O(*d*) for
    // *d* dependents in the complete cascade, without recursion.
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
        // The operations are released outside the lock. Each dependency has released its own dependencies, so no chain
        // is freed recursively.
        withExtendedLifetime(dropped) {}
        if let error { fail(failing, because: operation, error) }
        for operation in ready { Trampoline.run { operation.dependenciesChanged() } }
    }

    private static func fail(
        _ operations: [AnyRequestOperation], because dependency: AnyRequestOperation, _ error: RequestError
    ) {
        guard !operations.isEmpty else { return }
        let reason = FailureReason(dependency, error)
        let message = reason.message
        // A chain of 100,000 operations fails in a loop, not in nested calls.
        for operation in operations { Trampoline.run { operation.dependencyFailed(message, reason.root) } }
    }

    static func dependents(of operation: AnyRequestOperation, atMost limit: Int) -> [AnyRequestOperation] {
        locked.withLock { _ in
            operation.node.map { Array($0.dependents.lazy.compactMap(\.operation).prefix(limit)) } ?? []
        }
    }

    private static func makeNode(_ operation: AnyRequestOperation) -> DependencyNode {
        let node = operation.node ?? DependencyNode()
        operation.node = node
        return node
    }
}

extension DependencyGraph {
    // The search alternates between both ends and stops when either end is exhausted, so it is fast for common graphs.
    // A group does not list its members. So once the search from `dependency` has met a group, its exhaustion proves
    // nothing, and the search continues until the other end is exhausted.
    static func cycle(
        closedBy operation: AnyRequestOperation, dependingOn dependency: AnyRequestOperation,
        _ met: inout [AnyRequestOperation]
    ) -> [AnyRequestOperation]? {
        if operation.node?.dependents.isEmpty != false { return nil }
        var (down, up) = (Search(from: dependency), Search(from: operation))
        var middle: AnyRequestOperation?
        var seesAllBelow = true
        while middle == nil {
            let below = down.open.popLast()
            guard below != nil || !seesAllBelow, let above = up.open.popLast() else { break }
            if let below {
                if below.isGroup { seesAllBelow = false }
                let dependencies = (below.node?.dependencies ?? []).lazy.compactMap { $0 as? AnyRequestOperation }
                middle = down.visit(dependencies, from: below, until: up)
                if middle != nil { break }
            }
            let dependents = (above.node?.dependents ?? []).compactMap(\.operation)
            met += dependents
            middle = up.visit(dependents, from: above, until: down)
        }
        // The path leads from the new dependency down to the meeting point, then to the operation.
        return middle.map { down.way(to: $0).reversed() + up.way(to: $0).dropFirst() }
    }

    /// Used under the graph's lock.
    struct Search {
        var open: [AnyRequestOperation]
        private var seen: [ObjectIdentifier: AnyRequestOperation?] = [:]

        init(from first: AnyRequestOperation) {
            open = [first]
            seen.updateValue(nil, forKey: ObjectIdentifier(first))
        }

        mutating func visit(
            _ next: some Sequence<AnyRequestOperation>, from last: AnyRequestOperation, until other: Search? = nil
        ) -> AnyRequestOperation? {
            for operation in next where seen[ObjectIdentifier(operation)] == nil {
                seen[ObjectIdentifier(operation)] = last
                if other?.seen[ObjectIdentifier(operation)] != nil { return operation }
                open.append(operation)
            }
            return nil
        }

        func way(to operation: AnyRequestOperation) -> [AnyRequestOperation] {
            Array(sequence(first: operation) { seen[ObjectIdentifier($0)] ?? nil })
        }
    }
}

/// The effect on a dependent when a dependency fails or is cancelled.
public enum DependencyPolicy: Sendable {
    /// The dependent fails with `.dependencyFailed` without being sent. Its own dependents fail in turn.
    case fail
    /// The dependent runs once the dependency has finished, as with Foundation's `addDependency`.
    case ignore
}

extension DependencyGraph {
    enum Connection {
        case waiting
        case met
        case failed(RequestError)
        case cycle([AnyRequestOperation])
    }

    struct FailureReason {
        let (dependency, what): (String, String)
        let root: any Error

        init(_ dependency: AnyRequestOperation, _ error: RequestError) {
            let request = error.request
            self.dependency = dependency.name?.oneLine ?? (request.isEmpty ? dependency.label : request)
            what = error.code == .cancelled ? "was cancelled" : "failed"
            root = error.code == .dependencyFailed ? error.underlying ?? error : error
        }

        var message: String { "nothing was sent: \(dependency), which it depends on, \(what)" }
    }
}
