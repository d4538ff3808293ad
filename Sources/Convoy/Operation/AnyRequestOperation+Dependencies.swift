// Dependencies: Foundation's calls, kept in our own graph.
import Foundation

extension AnyRequestOperation {
    /// A queue for the bridges to operations that are not ours; they do nothing but tell us.
    private static let bridges = OperationQueue()

    /// Adds a dependency with a policy for its failure.
    ///
    /// Adding it twice has no effect, nor has adding one when this operation has started. A dependency that would close a
    /// cycle is not added: this operation ends with `.dependencyCycle`, whose message names the cycle: it would
    /// wait for ever.
    ///
    /// - Thread: any.
    /// - Complexity: O(1), unless both operations have edges that lead towards each other.
    public final func addDependency(_ dependency: AnyRequestOperation, onFailure policy: DependencyPolicy) {
        guard joinsGraph() else { return }
        switch DependencyGraph.connect(self, to: dependency, policy: policy) {
        case .met: break
        case .waiting: dependenciesChanged()
        case .failed(let error): dependencyFailed(dependency, error)
        case .cycle(let members):
            let round = members + members.prefix(1)
            var names = round.prefix(8).map { ($0 as? AnyRequestOperation)?.label ?? $0.description }
            if round.count > 8 { names.append("\(round.count - 9) more, and so for \(names[0])") }
            conclude(
                .dependencyCycle, "\(label) would wait for itself: \(names.joined(separator: " waits for "))",
                onlyBeforeStart: true)
        }
    }

    /// A dependency that is not ours: a bridge, which Foundation starts when it has finished, tells the graph.
    func addForeignDependency(_ dependency: Operation) {
        guard joinsGraph(), DependencyGraph.connect(self, toForeign: dependency) else { return }
        dependenciesChanged()
        let bridge = BlockOperation { [weak self, weak dependency] in
            guard let self, let dependency else { return }
            DependencyGraph.foreignFinished(dependency, for: self)
        }
        bridge.addDependency(dependency)
        Self.bridges.addOperation(bridge)
    }

    /// Whether it may wait for others: it has not been started.
    ///
    /// Noted before the edge is made, and so before a manager that takes the operation can overlook it.
    private func joinsGraph() -> Bool {
        state.withLock { state in
            guard state.machine.phase == .pending else { return false }
            state.hasEdges = true
            return true
        }
    }

    /// Whether a dependency has not finished.
    var isBlocked: Bool { state.withLock { $0.hasEdges } && DependencyGraph.isBlocked(self) }

    /// The same, with the number of the change.
    var isDependent: Versioned<Bool> {
        state.withLock { $0.hasEdges } ? DependencyGraph.isDependent(self) : Versioned(false, version: 1)
    }

    /// It has something to wait for, or nothing any more.
    func dependenciesChanged() {
        tellReadiness()
        state.withLock { $0.scheduler }?.dependenciesChanged(of: self)
    }

    /// A dependency failed whose failure is ours.
    func dependencyFailed(_ dependency: Operation, _ error: RequestError) {
        let label = (dependency as? AnyRequestOperation)?.label ?? dependency.description
        let root = error.code == .dependencyFailed ? error.underlying ?? error : error
        let what = error.code == .cancelled ? "was cancelled" : "failed"
        guard state.withLock({ $0.machine.phase == .pending }) else { return }
        conclude(
            AnyOutcome(
                error: RequestError(
                    .dependencyFailed, "nothing was sent: \(label), which it depends on, \(what)",
                    summary: RequestSummary(text: self.label),
                    underlying: root)), onlyBeforeStart: true)
    }

    /// A short name for messages: its own name, or method and URL, or of a link without a request what it follows.
    var label: String {
        let (prepared, core, link, error) = state.withLock {
            ($0.prepared, $0.requestPlan?.core, $0.requestPlan?.link ?? $0.finalLink, $0.outcome?.error)
        }
        // Of one that could not be sent, what it was to do has been let go of at its end: its failure names it.
        return name?.oneLine ?? prepared?.description ?? core?.summary.description ?? link?.description
            ?? error?.request ?? "a request not built yet"
    }

    /// What a link is called that follows this operation, and perhaps others too.
    func linkLabel(others: Int) -> LinkLabel {
        let (requestPlan, prepared) = state.withLock { ($0.requestPlan, $0.prepared) }
        if let name { return LinkLabel(root: RequestSummary(text: name.oneLine), others: others) }
        if let link = requestPlan?.link, prepared == nil {
            // In words once for all that follow: when a chain fails, each of its links is named.
            let root = link.distance == 1 ? RequestSummary(text: link.root.description) : link.root
            return LinkLabel(root: root, others: link.others + others, distance: link.distance + 1)
        }
        let summary = prepared?.summary ?? requestPlan?.core?.summary
        return LinkLabel(root: summary ?? RequestSummary(text: label), others: others)
    }
}
