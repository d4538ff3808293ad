// Dependencies: Foundation's calls, kept in our own graph.
import Foundation

extension AnyRequestOperation {
    /// A queue for the bridges to operations that are not ours; they do nothing but tell us.
    private static let bridges = OperationQueue()

    /// Adds a dependency with a policy for its failure.
    ///
    /// Added twice it counts once, and of two policies the stricter counts: ``DependencyPolicy/fail``. Adding one when this
    /// operation has started has no effect. A dependency that would close a
    /// cycle is not added: this operation ends with `.dependencyCycle`, whose message names the cycle: it would
    /// wait for ever.
    ///
    /// - Thread: any.
    /// - Complexity: O(1), unless both operations have edges that lead towards each other.
    public final func addDependency(_ dependency: AnyRequestOperation, onFailure policy: DependencyPolicy) {
        guard joinsGraph() else { return }
        switch DependencyGraph.connect(self, to: dependency, policy: policy) {
        case .met: break
        case .waiting:
            dependenciesChanged()
            BarrierCycles.edgeMade(from: self, to: dependency)
        case .failed(let error):
            // At once: there is no edge that would keep this one from being sent meanwhile.
            let reason = DependencyGraph.FailureReason(dependency, error)
            dependencyFailed(reason.message, reason.root)
        case .cycle(let members):
            // A barrier runs: what is before it and waits for what is behind it ends.
            let ending = self is BarrierOperation ? dependency : self
            ending.conclude(.dependencyCycle, message(of: members), onlyBeforeStart: true)
        }
    }

    /// Names the members of a cycle that an edge from this operation would close.
    func message(of cycle: [Operation]) -> String {
        let round = cycle + cycle.prefix(1)
        var names = round.prefix(8).map { ($0 as? AnyRequestOperation)?.label ?? $0.description }
        if round.count > 8 { names.append("\(round.count - 9) more, and so for \(names[0])") }
        return "\(label) would wait for itself: \(names.joined(separator: " waits for "))"
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

    /// Whether it waits for others, and has no outcome without them.
    ///
    /// While it is handed over to a queue an outcome does not count: the queue would start it twice.
    var isBlocked: Bool {
        let isKnown = state.withLock { state in
            !state.hasEdges || state.machine.hasOutcome && state.machine.handover == .none
        }
        return !isKnown && DependencyGraph.isBlocked(self)
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

    /// It has something to wait for, or nothing any more.
    func dependenciesChanged() {
        let (scheduler, queueEntry, notifiesReadiness) = state.withLock {
            ($0.scheduler, $0.queueEntry, $0.notifiesReadiness)
        }
        if notifiesReadiness { notifyReadiness() }
        if let scheduler, let queueEntry { scheduler.dependenciesChanged(of: self, queueEntry) }
    }

    /// A dependency failed whose failure is ours.
    ///
    /// - Parameters:
    ///   - message: says so.
    ///   - root: what was the first to fail.
    func dependencyFailed(_ message: String, _ root: any Error) {
        guard let caption = state.withLock({ $0.machine.phase == .pending ? $0.caption : nil }) else { return }
        let summary = name.map { RequestSummary(text: $0.oneLine) } ?? caption.summary
        let error = RequestError(
            .dependencyFailed, message, summary: summary ?? RequestSummary(text: caption.link?.description ?? ""),
            underlying: root)
        conclude(AnyOutcome(error: error), onlyBeforeStart: true)
    }

    /// A short name for messages: its own name, or method and URL, or of a link without a request what it follows.
    var label: String {
        let (caption, error) = state.withLock { ($0.caption, $0.outcome?.error) }
        // Of one that could not be sent, what it was to do has been let go of at its end: its failure names it.
        return name?.oneLine ?? caption.summary?.description ?? caption.link?.description
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
