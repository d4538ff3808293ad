// The dependencies between operations.
import Foundation

/// The effect on a dependent when a dependency fails or is cancelled.
public enum DependencyPolicy: Sendable {
    /// The dependent fails with `.dependencyFailed` without being sent. Its own dependents fail in turn.
    case fail
    /// The dependent runs once the dependency has finished, as with Foundation's `addDependency`.
    case ignore
}

// The edges of one operation, made with the first, and used only under the lock of its manager. Not `Sendable`, so the
// compiler prevents any other use.
//
// On Linux, Foundation keeps unretained pointers to dependents, and rescans every blocked operation on every event.
// Here an edge costs O(1), and an operation is notified once, when its last dependency has finished. An edge between
// two managers has its ends behind two locks, which are never held together: the dependent counts up before its entry
// is made in the dependency, and the call that removes that entry counts down.
final class DependencyEdges {
    struct Dependent: Sendable {
        // Weak: if there is no other reference to a dependent, no caller waits for its result.
        weak var operation: AnyRequestOperation?
        /// Not a strong reference, which could be the last one and would be released under the lock.
        let identity: ObjectIdentifier
        var policy: DependencyPolicy
        /// A group is not notified when its member finishes.
        let isGroup: Bool

        init(_ operation: AnyRequestOperation, _ policy: DependencyPolicy, isGroup: Bool) {
            (self.operation, identity, self.policy) = (operation, ObjectIdentifier(operation), policy)
            self.isGroup = isGroup
        }
    }

    var dependencies: [Operation] = []
    // Nil up to 16 dependencies. Adding 100,000 with linear searches would take quadratic time.
    private var identities: Set<ObjectIdentifier>?
    var dependents: [Dependent] = []
    // ``AnyRequestOperation/foreignFinished(_:)`` may be called late, twice, or after a removal. A call for a
    // dependency that is not in the set is ignored.
    var unfinishedForeign: Set<ObjectIdentifier> = []

    func contains(_ operation: Operation) -> Bool {
        identities?.contains(ObjectIdentifier(operation)) ?? dependencies.contains { $0 === operation }
    }

    func insert(_ dependency: Operation) {
        dependencies.append(dependency)
        if identities == nil, dependencies.count > 16 { identities = Set(dependencies.map { ObjectIdentifier($0) }) }
        identities?.insert(ObjectIdentifier(dependency))
    }

    func remove(_ dependency: Operation) -> Bool {
        guard contains(dependency) else { return false }
        dependencies.removeAll { $0 === dependency }
        identities?.remove(ObjectIdentifier(dependency))
        return true
    }

    func tighten(_ dependent: AnyRequestOperation) {
        let index = dependents.lastIndex { $0.identity == ObjectIdentifier(dependent) && !$0.isGroup }
        if let index { dependents[index].policy = .fail }
    }
}

struct ReleasedEdges: Sendable {
    let dependencies: [Operation]
    let dependents: [DependencyEdges.Dependent]
}

extension OperationRecord {
    mutating func makeEdges() -> DependencyEdges {
        let made = edges ?? DependencyEdges()
        edges = made
        return made
    }

    // When the operation has finished, or has an outcome and is in no queue. A finished operation releases its
    // dependencies, so a chain is freed link by link.
    mutating func releaseEdges() -> ReleasedEdges? {
        (isReleased, unfinished) = (true, 0)
        guard let released = edges else { return nil }
        edges = nil
        return ReleasedEdges(dependencies: released.dependencies, dependents: released.dependents)
    }
}

extension AnyRequestOperation {
    enum Connection {
        /// Or there is nothing to wait for.
        case connected
        case failed(RequestError)
        case cycle([AnyRequestOperation])
    }

    // A group waits for a member to finish, but only the member stores that edge, because a group may have very many
    // members over time. O(1) if this operation has no dependents, or `dependency` has no dependencies; otherwise
    // linear in the direct and indirect dependents of this operation or dependencies of `dependency`, whichever are
    // fewer.
    func connect(to dependency: AnyRequestOperation, policy: DependencyPolicy, isMember: Bool = false) -> Connection {
        if self === dependency { return .cycle([self]) }
        let (isReleased, isAbandoned, error) = dependency.withLock { record in
            (record.isReleased, record.phase == .ended && !record.isEnqueued, record.outcome?.error)
        }
        if policy == .fail, let error { return .failed(error) }
        // If no queue has an operation with an outcome, nothing may ever finish it.
        if isReleased || isAbandoned && !dependency.isInQueue { return .connected }
        if !isMember {
            switch insert(dependency) {
            case nil: return .connected
            case false?:
                if policy == .fail { dependency.withLock { $0.edges?.tighten(self) } }
                return .connected
            case true?: break
            }
        }
        let isWaiting = dependency.withLock { record in
            guard !record.isReleased else { return false }
            record.makeEdges().dependents.append(.init(self, policy, isGroup: isMember))
            return true
        }
        guard isWaiting else {
            // It has finished since it was looked at.
            if !isMember {
                remove(dependency)
                dependencyFinished()
            }
            let error = policy == .fail ? dependency.withLock { $0.outcome?.error } : nil
            return error.map { .failed($0) } ?? .connected
        }
        // Two simultaneous edges must not close a cycle, so each is looked for after both of its ends are written.
        let cycle = cycle(through: dependency)
        if let cycle {
            if !isMember { remove(dependency) }
            if dependency.removeDependent(self, isGroup: isMember), !isMember { dependencyFinished() }
            return .cycle(cycle)
        }
        // Another thread may have removed the dependency before its entry was made.
        if !isMember, !withLock({ $0.edges?.contains(dependency) == true }), dependency.removeDependent(self) {
            dependencyFinished()
        }
        return .connected
    }

    // Nil if the operation has begun or has an outcome, false if it has the dependency already.
    private func insert(_ dependency: Operation) -> Bool? {
        var notifies = false
        let isNew = schedule { schedule -> Bool? in
            guard record.isPending else { return nil }
            let edges = record.makeEdges()
            if edges.contains(dependency) { return false }
            edges.insert(dependency)
            record.unfinished += 1
            if !(dependency is AnyRequestOperation) { edges.unfinishedForeign.insert(ObjectIdentifier(dependency)) }
            if record.unfinished == 1 {
                notifies = record.notifiesReadiness
                schedule.block(self)
            }
            return true
        }
        if notifies { notifyReadiness() }
        return isNew
    }

    @discardableResult
    private func remove(_ dependency: Operation) -> Bool { withLock { $0.edges?.remove(dependency) == true } }

    private func removeDependent(_ dependent: AnyRequestOperation, isGroup: Bool = false) -> Bool {
        withLock { record in
            guard let edges = record.edges else { return false }
            let count = edges.dependents.count
            edges.dependents.removeAll { $0.identity == ObjectIdentifier(dependent) && $0.isGroup == isGroup }
            return edges.dependents.count < count
        }
    }

    func disconnect(from dependency: Operation) {
        guard remove(dependency) else { return }
        let isCounted =
            (dependency as? AnyRequestOperation)?.removeDependent(self)
            ?? withLock { $0.edges?.unfinishedForeign.remove(ObjectIdentifier(dependency)) != nil }
        if isCounted { dependencyFinished() }
    }

    /// Counts down: a dependency has finished, or was removed.
    func dependencyFinished() {
        let (step, notifies) = schedule { schedule -> (Schedule.Step?, Bool) in
            guard !record.isReleased else { return (nil, false) }
            record.unfinished -= 1
            guard record.unfinished == 0 else { return (nil, false) }
            return (schedule.unblock(self), record.notifiesReadiness)
        }
        if notifies { notifyReadiness() }
        perform(step)
    }

    /// A `BlockOperation`, called the bridge, depends on the dependency and reports its end.
    func connect(toForeign dependency: Operation) {
        guard insert(dependency) == true else { return }
        let bridge = BlockOperation { [weak self, weak dependency] in
            if let self, let dependency { foreignFinished(dependency) }
        }
        bridge.addDependency(dependency)
        Self.bridges.addOperation(bridge)
    }

    private static let bridges = OperationQueue()

    private func foreignFinished(_ dependency: Operation) {
        if withLock({ $0.edges?.unfinishedForeign.remove(ObjectIdentifier(dependency)) != nil }) {
            dependencyFinished()
        }
    }

    var unfinishedDependencies: [Operation] {
        withLock { $0.edges?.dependencies ?? [] }.filter { dependency in
            guard let dependency = dependency as? AnyRequestOperation else { return !dependency.isFinished }
            return dependency.withLock { !$0.isReleased && !$0.isFinished }
        }
    }

    /// Fails the dependents with the policy `fail`, because the operation has failed before its start.
    func failDependents(because error: RequestError) {
        let failing = withLock { record -> [AnyRequestOperation] in
            guard let edges = record.edges else { return [] }
            let failing = edges.dependents.filter { $0.policy == .fail }.compactMap(\.operation)
            edges.dependents.removeAll { $0.policy == .fail }
            return failing
        }
        fail(failing, error)
    }

    // O(*d*) for *d* dependents in the complete cascade, without recursion. Each dependency has released its own
    // dependencies, so no chain is freed recursively.
    func notifyDependents(_ edges: ReleasedEdges, error: RequestError?) {
        var failing: [AnyRequestOperation] = []
        for dependent in edges.dependents where !dependent.isGroup {
            guard let operation = dependent.operation else { continue }
            if error != nil, dependent.policy == .fail {
                failing.append(operation)
            } else {
                Trampoline.run { operation.dependencyFinished() }
            }
        }
        if let error { fail(failing, error) }
    }

    private func fail(_ dependents: [AnyRequestOperation], _ error: RequestError) {
        guard !dependents.isEmpty else { return }
        let reason = FailureReason(self, error)
        let message = reason.message
        // A chain of 100,000 operations fails in a loop, not in nested calls.
        for dependent in dependents { Trampoline.run { dependent.dependencyFailed(message, reason.root) } }
    }
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

extension AnyRequestOperation {
    // The search alternates between both ends and stops when either end is exhausted, so it is fast for common graphs.
    // A group does not list its members. So once the search from `dependency` has met a group, its exhaustion proves
    // nothing, and the search continues until the other end is exhausted.
    private func cycle(through dependency: AnyRequestOperation) -> [AnyRequestOperation]? {
        if withLock({ $0.edges?.dependents.isEmpty != false }) { return nil }
        var (down, up) = (Search(from: dependency), Search(from: self))
        var middle: AnyRequestOperation?
        var seesAllBelow = true
        while middle == nil {
            let below = down.open.popLast()
            guard below != nil || !seesAllBelow, let above = up.open.popLast() else { break }
            if let below {
                if below.isGroup { seesAllBelow = false }
                let dependencies = below.withLock { $0.edges?.dependencies ?? [] }
                middle = down.visit(dependencies.compactMap { $0 as? AnyRequestOperation }, from: below, until: up)
                if middle != nil { break }
            }
            let dependents = above.withLock { $0.edges?.dependents ?? [] }
            middle = up.visit(dependents.compactMap(\.operation), from: above, until: down)
        }
        // The path leads from the new dependency down to the meeting point, then to the operation.
        return middle.map { down.way(to: $0).reversed() + up.way(to: $0).dropFirst() }
    }

    private struct Search {
        var open: [AnyRequestOperation]
        private var seen: [ObjectIdentifier: AnyRequestOperation?] = [:]

        init(from first: AnyRequestOperation) {
            open = [first]
            seen.updateValue(nil, forKey: ObjectIdentifier(first))
        }

        mutating func visit(
            _ next: [AnyRequestOperation], from last: AnyRequestOperation, until other: Search
        ) -> AnyRequestOperation? {
            for operation in next where seen[ObjectIdentifier(operation)] == nil {
                seen[ObjectIdentifier(operation)] = last
                if other.seen[ObjectIdentifier(operation)] != nil { return operation }
                open.append(operation)
            }
            return nil
        }

        func way(to operation: AnyRequestOperation) -> [AnyRequestOperation] {
            Array(sequence(first: operation) { seen[ObjectIdentifier($0)] ?? nil })
        }
    }
}
