// Dependencies of an operation: adding one, its failure, and the labels in messages.
import Foundation

extension AnyRequestOperation {
    private static let bridges = OperationQueue()

    /// Adds a dependency with a policy for its failure.
    ///
    /// If it is added twice, it counts once with the stricter policy, which is ``DependencyPolicy/fail``.
    ///
    /// Adding a dependency to an operation that has started or has an outcome has no effect. A dependency that would
    /// close a cycle is not added. This operation then fails with `.dependencyCycle`, or the dependency does if this
    /// operation is a barrier. The message names the cycle.
    ///
    /// - Thread: any.
    /// - Complexity: O(1) if this operation has no dependents, or the dependency has no dependencies.
    public final func addDependency(_ dependency: AnyRequestOperation, onFailure policy: DependencyPolicy) {
        guard joinsGraph() else { return }
        switch DependencyGraph.connect(self, to: dependency, policy: policy) {
        case .met: break
        case .waiting:
            dependenciesChanged()
            BarrierCycles.edgeMade(from: self, to: dependency)
        case .failed(let error):
            // The dependency has already failed. No edge was made, so this operation fails now.
            let reason = DependencyGraph.FailureReason(dependency, error)
            dependencyFailed(reason.message, reason.root)
        case .cycle(let members):
            // A barrier always runs. The dependency, which waits for the barrier, fails instead.
            let ending = self is BarrierOperation ? dependency : self
            ending.conclude(.dependencyCycle, message(of: members), onlyBeforeStart: true)
        }
    }

    func message(of cycle: [AnyRequestOperation]) -> String {
        let round = cycle + cycle.prefix(1)
        var names = round.prefix(8).map(\.label)
        if round.count > 8 { names.append("\(round.count - 9) more, and finally for \(names[0])") }
        let links = names.dropFirst().joined(separator: ", which waits for ")
        return "\(label) would wait for itself: \(names[0]) waits for \(links)"
    }

    /// Adds a dependency that is not a request.
    ///
    /// A `BlockOperation`, called the bridge, depends on the dependency. The bridge notifies the graph when the
    /// dependency has finished.
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

    /// Whether the operation waits for dependencies and has no outcome yet.
    var isBlocked: Bool { !state.withLock { $0.isUnblocked } && DependencyGraph.isBlocked(self) }

    /// Marks that the operation may have edges; false if it has started or has an outcome.
    ///
    /// The caller makes the edge after the mark. So a manager that enqueues the operation in between cannot miss the
    /// edge.
    private func joinsGraph() -> Bool {
        state.withLock { state in
            guard state.machine.phase == .pending else { return false }
            state.hasEdges = true
            return true
        }
    }

    func dependenciesChanged() {
        let (scheduler, queueEntry, notifiesReadiness) = state.withLock {
            ($0.scheduler, $0.queueEntry, $0.notifiesReadiness)
        }
        if notifiesReadiness { notifyReadiness() }
        if let scheduler, let queueEntry { scheduler.dependenciesChanged(of: self, queueEntry) }
    }

    func dependencyFailed(_ message: String, _ root: any Error) {
        guard let caption = state.withLock({ $0.machine.phase == .pending ? $0.caption : nil }) else { return }
        let summary = name.map { RequestSummary(text: $0.oneLine) } ?? caption.summary
        let error = RequestError(
            .dependencyFailed, message, summary: summary ?? RequestSummary(text: caption.link?.description ?? ""),
            underlying: root)
        conclude(AnyOutcome(error: error), onlyBeforeStart: true)
    }

    /// A short label for messages: the operation's name, or method and URL.
    var label: String {
        let (caption, error) = state.withLock { ($0.caption, $0.outcome?.error) }
        // A finished operation that sent nothing may have neither a request nor a plan. Its error names the request.
        return name?.oneLine ?? caption.summary?.resolved(context.defaults.resolved).description
            ?? caption.link?.description ?? error?.request ?? "a request not built yet"
    }

    func linkLabel(others: Int) -> LinkLabel {
        let (requestPlan, prepared) = state.withLock { ($0.requestPlan, $0.prepared) }
        if let name { return LinkLabel(root: RequestSummary(text: name.oneLine), others: others) }
        if let link = requestPlan?.link, prepared == nil {
            // The text of the root is built once and reused by later links, because a failing chain names each link.
            let root = link.distance == 1 ? RequestSummary(text: link.root.description) : link.root
            return LinkLabel(root: root, others: link.others + others, distance: link.distance + 1)
        }
        let summary = prepared?.summary ?? requestPlan?.core?.summary
        return LinkLabel(root: summary ?? RequestSummary(text: label), others: others)
    }
}
