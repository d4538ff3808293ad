// What the function of a group adds members with.
import Foundation

/// The members of a ``GroupOperation``, as its function sees them.
///
/// A member is any operation that the group waits for: a request, a link of a chain, a download, another group. The group
/// ends when its function has returned and the last callback of its last member has too, so callbacks of members may add
/// more.
///
/// Once the group has been stopped, what is added ends as `.cancelled`; once it has ended, as `.invalidRequest`, with a
/// message that says so. Nothing of it is sent then.
///
/// ## Concurrency
/// Use it from any thread.
///
/// ## Topics
/// - ``enqueue(_:onFailure:)-(AnyRequestOperation...,_)``
/// - ``send(_:)``
/// - ``cancel()``
public struct OperationGroup: Sendable {
    let operation: AnyRequestOperation
    let state: Locked<GroupState>
    let scheduler: Scheduler

    /// Enqueues operations as members of the group, in the group's manager.
    ///
    /// One that was enqueued or started before is waited for like the others. One that waits for the group itself would
    /// wait for ever: the group fails with `.dependencyCycle`, whose message names the cycle.
    ///
    /// - Parameters:
    ///   - operations: the operations; once in a group, again has no effect.
    ///   - policy: what the group does when one of them fails or is cancelled: by default it stops all there is, and fails with
    ///     `.dependencyFailed`; with `.ignore` it goes on.
    /// - Thread: any.
    /// - Complexity: O(1) amortised each.
    public func enqueue(_ operations: AnyRequestOperation..., onFailure policy: DependencyPolicy = .fail) {
        enqueue(contentsOf: operations, onFailure: policy)
    }

    /// Enqueues the operations of a sequence as members, as ``enqueue(_:onFailure:)-(AnyRequestOperation...,_)`` does.
    public func enqueue<Operations: Sequence>(
        contentsOf operations: Operations, onFailure policy: DependencyPolicy = .fail
    )
    where Operations.Element: AnyRequestOperation {
        for operation in operations { add(operation, onFailure: policy) }
    }

    /// Makes an operation and enqueues it as a member.
    ///
    /// - Parameters:
    ///   - request: what to send.
    ///   - policy: what the group does when it fails.
    ///   - handler: receives the outcome; it may add members.
    /// - Returns: the operation, to cancel it, watch it or let others depend on it.
    @discardableResult
    public func enqueue<Output>(
        _ request: Request<Output>, onFailure policy: DependencyPolicy = .fail,
        onFinish handler: (@Sendable (RequestOperation<Output>.Result) -> Void)? = nil
    ) -> RequestOperation<Output> {
        let operation = RequestOperation(request, of: scheduler)
        if let handler { operation.onFinish(handler) }
        add(operation, onFailure: policy)
        return operation
    }

    /// Sends a request as a member and waits for its response.
    ///
    /// A failure is the caller's: it does not stop the group, unless its function throws it. Cancelling the task cancels
    /// the request.
    ///
    /// - Throws: why it failed.
    @discardableResult
    public func send<Output>(_ request: Request<Output>) async throws(RequestError) -> Response<Output> {
        let operation = RequestOperation(request, of: scheduler, isUnseen: true)
        if Task.isCancelled { operation.cancel() }
        add(operation, onFailure: .ignore)
        return try await operation.response()
    }

    /// Stops the group: cancels its members, those that are added later too, and the task that runs its function.
    ///
    /// It ends as `.cancelled` when all of them have ended. Again, or when it has failed: no effect.
    public func cancel() { operation.cancel() }

    /// Whether the group has been stopped: it was cancelled, or a member or its function has failed.
    public var isCancelled: Bool { state.withLock { $0.isStopped } }

    private func add(_ member: AnyRequestOperation, onFailure policy: DependencyPolicy) {
        // What only this type holds waits for nothing.
        if !member.traits.isUnseen, let cycle = DependencyGraph.join(member, to: operation) {
            let error = RequestError(.dependencyCycle, operation.message(of: cycle), request: operation.label)
            perform(state.withLock { $0.stop(AnyOutcome(error: error)) })
            scheduler.enqueue(member, as: .member)
            return
        }
        switch state.withLock({ $0.add(member) }) {
        case .isMember: return
        case .late:
            member.conclude(
                .invalidRequest, "nothing was sent: its group, \(operation.label), had ended before it was added",
                onlyBeforeStart: true)
        case .joined(let isStopped):
            if isStopped { member.cancel() }
            if operation.isSuspended {
                member.setSuspended(true, by: .group)
                // The group may have been resumed meanwhile.
                operation.context.taskControl.async {
                    if !operation.isSuspended { member.setSuspended(false, by: .group) }
                }
            }
            member.whenSettled { [unowned member] outcome in
                let error = policy == .fail ? outcome.error : nil
                let failure = error.map { self.failure(of: member, $0) }
                perform(state.withLock { $0.leave(member, failure) })
            }
        }
        scheduler.enqueue(member, as: .member)
    }

    private func failure(of member: AnyRequestOperation, _ error: RequestError) -> AnyOutcome {
        let reason = DependencyGraph.FailureReason(member, error)
        return AnyOutcome(
            error: RequestError(
                .dependencyFailed, "\(reason.dependency), which it stands for, \(reason.what)",
                request: operation.label,
                underlying: reason.root))
    }

    /// Suspends the members, or resumes them, as the group is: what changes last is seen last.
    func adjustMembers() {
        operation.context.taskControl.async {
            let members = state.withLock { Array($0.members.values) }
            let isSuspended = operation.isSuspended
            for member in members { member.setSuspended(isSuspended, by: .group) }
        }
    }

    /// Performs what an event has led to.
    func perform(_ effects: GroupState.Effects?) {
        guard let effects else { return }
        effects.task?.cancel()
        if !effects.members.isEmpty {
            // Groups in groups may be as deep as a site's pages: one level after the other.
            Trampoline.run { scheduler.frozen { for member in effects.members { member.cancel() } } }
        }
        // Behind what the group itself has to call, and not on a transport's thread.
        if let outcome = effects.outcome { operation.onLane { operation.conclude(outcome) } }
    }
}
