// The interface through which a group's function adds members.
import Foundation

/// The members of a ``GroupOperation``, as its function sees them.
///
/// A member is any operation that the group waits for: a request, a link of a chain, a download, another group. The
/// group finishes when its function and the last callback of its last member have returned. Callbacks of members may
/// therefore add more members.
///
/// An operation that is added to a stopped group fails with `.cancelled`. An operation that is added to a finished
/// group fails with `.invalidRequest`. In both cases nothing is sent.
///
/// ## Concurrency
/// Use the value from any thread.
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
    /// The group also waits for operations that were enqueued or started before. If an operation depends on the group
    /// itself, the group fails with `.dependencyCycle`, and the message lists the cycle.
    ///
    /// - Parameters:
    ///   - operations: the operations; adding one a second time has no effect.
    ///   - policy: what the group does when one of the operations fails or is cancelled. By default the group stops all
    ///     members and fails with `.dependencyFailed`. With `.ignore` it continues.
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
    ///   - policy: what the group does when the operation fails.
    ///   - handler: receives the outcome; the handler may add members.
    /// - Returns: the operation, to cancel or observe it, or to let other operations depend on it.
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
    /// The caller handles a failure. A failure does not stop the group unless the group's function throws it.
    /// Cancelling the task cancels the request.
    ///
    /// - Throws: the error with which the request failed.
    @discardableResult
    public func send<Output>(_ request: Request<Output>) async throws(RequestError) -> Response<Output> {
        let operation = RequestOperation(request, of: scheduler, isInternal: true)
        if Task.isCancelled { operation.cancel() }
        add(operation, onFailure: .ignore)
        return try await operation.response()
    }

    /// Stops the group.
    ///
    /// The call cancels the members, including those added later, and the task of the group's function.
    ///
    /// The group fails with `.cancelled` when the function and all members have finished. A second call, or a call
    /// after a failure, has no effect.
    public func cancel() { operation.cancel() }

    /// Whether the group has been stopped: it was cancelled, or a member or its function failed.
    public var isCancelled: Bool { state.withLock { $0.isStopped } }

    private func add(_ member: AnyRequestOperation, onFailure policy: DependencyPolicy) {
        // An internal operation has no dependencies, because no caller can reference it. So it cannot be part of a
        // cycle.
        if !member.isInternal,
            case .cycle(let cycle) = DependencyGraph.connect(operation, to: member, policy: .ignore, isMember: true)
        {
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
                // If the group was resumed since the check, the member is resumed, too.
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
                .dependencyFailed, "\(reason.dependency), one of its members, \(reason.what)",
                request: operation.label,
                underlying: reason.root))
    }

    /// Suspends or resumes the members to match the group.
    ///
    /// A serial queue applies the changes, so the members follow the group's latest state.
    func adjustMembers() {
        operation.context.taskControl.async {
            let members = state.withLock { Array($0.members.values) }
            let isSuspended = operation.isSuspended
            for member in members { member.setSuspended(isSuspended, by: .group) }
        }
    }

    func perform(_ effects: GroupState.Effects?) {
        guard let effects else { return }
        effects.task?.cancel()
        if !effects.members.isEmpty {
            // Nested groups may be deep, so the trampoline cancels one level after the other instead of recursing.
            Trampoline.run { scheduler.frozen { for member in effects.members { member.cancel() } } }
        }
        // The serial executor runs this after the group's own callbacks, and not on a transport's thread.
        if let outcome = effects.outcome { operation.onExecutor { operation.conclude(outcome) } }
    }
}

/// The state of a group.
///
/// The state has no lock and calls no other code. A ``GroupOperation`` guards it with a lock, passes one event at a
/// time, and performs the ``Effects`` after releasing the lock.
struct GroupState {
    /// The function of the group, with its output type erased.
    typealias Work = @Sendable (OperationGroup) async -> AnyOutcome

    enum Phase {
        /// The function has not been called.
        ///
        /// Next: running, ended.
        case pending
        /// The function runs.
        ///
        /// Next: returned.
        case running
        /// The function has returned.
        ///
        /// Members may still run and may still add further members. Next: ended.
        case returned
        /// Nothing can be added any more.
        ///
        /// Terminal.
        case ended
    }

    private var phase = Phase.pending
    /// The function, stored for copies until the group finishes.
    private(set) var work: Work?
    /// The members whose last callback has not returned.
    private(set) var members: [ObjectIdentifier: AnyRequestOperation] = [:]
    /// The task that runs the function.
    private var task: Task<Void, Never>?
    /// The outcome of the function; nil until it has returned.
    private var value: AnyOutcome?
    /// The first failure, which stops all remaining work.
    private var failure: AnyOutcome?

    init(_ work: @escaping Work) { self.work = work }

    /// The effects of an event.
    struct Effects: Sendable {
        /// The members to cancel.
        var members: [AnyRequestOperation] = []
        var task: Task<Void, Never>?
        /// The outcome with which the operation finishes.
        var outcome: AnyOutcome?
    }

    enum Admission {
        /// The group waits for the new member.
        ///
        /// If the group is stopped, the member is cancelled at once.
        case joined(isStopped: Bool)
        /// The operation is already a member.
        case isMember
        /// The group has finished.
        case late
    }

    /// Whether the function has been called and has not returned.
    var isRunning: Bool { if case .running = phase { true } else { false } }
    /// Whether the group has failed, or will fail when its members have finished.
    var isStopped: Bool { failure != nil }

    /// Starts the group.
    ///
    /// Returns the function to call; nil for a group that was stopped before.
    mutating func begin() -> Work? {
        guard case .pending = phase, failure == nil else { return nil }
        phase = .running
        return work
    }

    /// Stores the task that runs the function.
    ///
    /// Returns whether to cancel the task.
    mutating func hold(_ task: Task<Void, Never>) -> Bool {
        if isRunning { self.task = task }
        return isStopped
    }

    mutating func add(_ member: AnyRequestOperation) -> Admission {
        if case .ended = phase { return .late }
        guard members.updateValue(member, forKey: ObjectIdentifier(member)) == nil else { return .isMember }
        return .joined(isStopped: isStopped)
    }

    /// Records that a member has finished and its last callback has returned.
    ///
    /// - Parameter failure: the group's failure, if this member makes it fail.
    mutating func leave(_ member: AnyRequestOperation, _ failure: AnyOutcome? = nil) -> Effects {
        members[ObjectIdentifier(member)] = nil
        return ending(failure.flatMap { stop($0) })
    }

    /// Records that the function has returned or thrown.
    mutating func returned(_ outcome: AnyOutcome) -> Effects {
        guard isRunning else { return Effects() }
        (phase, task) = (.returned, nil)
        value = outcome
        return ending(outcome.error == nil ? nil : stop(outcome))
    }

    /// Stops the function and all members.
    ///
    /// The group finishes with the outcome of the first call, when the function and all members have finished.
    ///
    /// The result is nil before the function is called, because the operation can then finish at once. It is also nil
    /// after the group has finished.
    mutating func stop(_ outcome: AnyOutcome) -> Effects? {
        switch phase {
        case .pending:
            failure = failure ?? outcome
            return nil
        case .running, .returned:
            guard failure == nil else { return Effects() }
            failure = outcome
            return Effects(members: Array(members.values), task: task)
        case .ended: return nil
        }
    }

    /// Records that the operation has finished.
    ///
    /// Returns the function, which the caller must release outside the lock.
    mutating func end() -> Work? {
        defer { (phase, work) = (.ended, nil) }
        return work
    }

    private mutating func ending(_ effects: Effects?) -> Effects {
        var effects = effects ?? Effects()
        guard case .returned = phase, members.isEmpty else { return effects }
        phase = .ended
        effects.outcome = failure ?? value
        return effects
    }
}
