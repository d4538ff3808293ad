// The interface through which a group's function adds members.
import Foundation

/// The members of a ``GroupOperation``, as its function sees them.
///
/// A member is any operation that the group waits for: a request, a link of a chain, a download, another group.
/// Callbacks of members may add more members, because the group finishes after the last callback of its last member. An
/// operation that is added to a stopped group fails with `.cancelled`, to a finished one with `.invalidRequest`,
/// without being sent.
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
    private var scheduler: Scheduler { operation.scheduler }

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

    /// Makes, enqueues and returns an operation as a member, whose handler may add members.
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

    /// Sends a request as a member and waits for its response; cancelling the task cancels the request.
    ///
    /// A failure stops the group only if the group's function throws it.
    ///
    /// - Throws: the error with which the request failed.
    @discardableResult
    public func send<Output>(_ request: Request<Output>) async throws(RequestError) -> Response<Output> {
        let operation = RequestOperation(request, of: scheduler, isInternal: true)
        if Task.isCancelled { operation.cancel() }
        add(operation, onFailure: .ignore)
        return try await operation.response()
    }

    /// Stops the group: cancels its members, also those added later, and the task of its function, then fails with
    /// `.cancelled`; no effect on a group that has been stopped or has failed.
    public func cancel() { operation.cancel() }

    /// Whether the group has been stopped: it was cancelled, or a member or its function failed.
    public var isCancelled: Bool { state.withLock { $0.isStopped } }

    private func add(_ member: AnyRequestOperation, onFailure policy: DependencyPolicy) {
        // An internal operation has no dependencies, because no caller has it, so it cannot be part of a cycle.
        if !member.isInternal,
            case .cycle(let cycle) = operation.connect(to: member, policy: .ignore, isMember: true)
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
                scheduler.taskControl.async {
                    if !operation.isSuspended { member.setSuspended(false, by: .group) }
                }
            }
            member.whenSettled { [unowned member] outcome in
                let failure = policy == .fail ? outcome.error.map { self.failure(of: member, $0) } : nil
                perform(state.withLock { $0.leave(member, failure) })
            }
        }
        scheduler.enqueue(member, as: .member)
    }

    private func failure(of member: AnyRequestOperation, _ error: RequestError) -> AnyOutcome {
        let reason = FailureReason(member, error)
        return AnyOutcome(
            error: RequestError(
                .dependencyFailed, "\(reason.dependency), one of its members, \(reason.what)",
                request: operation.label,
                underlying: reason.root))
    }

    func perform(_ effects: GroupState.Effects?) {
        guard let effects else { return }
        effects.task?.cancel()
        if !effects.members.isEmpty {
            // Nested groups may be deep, so the trampoline cancels one level after the other instead of recursing.
            Trampoline.run { scheduler.holdingStarts { for member in effects.members { member.cancel() } } }
        }
        // The serial executor runs this after the group's own callbacks, and not on a transport's thread.
        if let outcome = effects.outcome { operation.onExecutor { operation.conclude(outcome) } }
    }
}

// A ``GroupOperation`` passes one event at a time, under a lock, and performs the ``Effects`` after releasing it.
struct GroupState {
    typealias Work = @Sendable (OperationGroup) async -> AnyOutcome

    enum Phase {
        /// The function has not been called. Next: running, ended.
        case pending
        /// The function runs. Next: returned.
        case running
        /// The function has returned, but members may still run and may add further members. Next: ended.
        case returned
        /// Nothing can be added any more. Terminal.
        case ended
    }

    private var phase = Phase.pending
    private(set) var work: Work?
    private(set) var members: [ObjectIdentifier: AnyRequestOperation] = [:]
    private var task: Task<Void, Never>?
    private var value: AnyOutcome?
    private var failure: AnyOutcome?

    init(_ work: @escaping Work) { self.work = work }

    struct Effects: Sendable {
        var members: [AnyRequestOperation] = []
        var task: Task<Void, Never>?
        var outcome: AnyOutcome?
    }

    enum Admission {
        /// If the group is stopped, the new member is cancelled at once.
        case joined(isStopped: Bool)
        case isMember
        case late
    }

    var isRunning: Bool { if case .running = phase { true } else { false } }
    var isStopped: Bool { failure != nil }

    /// A group that was stopped before this call does not call its function.
    mutating func begin(_ start: (@escaping Work) -> Task<Void, Never>) {
        guard case .pending = phase, failure == nil, let work else { return }
        (phase, task) = (.running, start(work))
    }

    mutating func add(_ member: AnyRequestOperation) -> Admission {
        if case .ended = phase { return .late }
        guard members.updateValue(member, forKey: ObjectIdentifier(member)) == nil else { return .isMember }
        return .joined(isStopped: isStopped)
    }

    mutating func leave(_ member: AnyRequestOperation, _ failure: AnyOutcome? = nil) -> Effects {
        members[ObjectIdentifier(member)] = nil
        return ending(failure.flatMap { stop($0) })
    }

    mutating func returned(_ outcome: AnyOutcome) -> Effects {
        guard isRunning else { return Effects() }
        (phase, task) = (.returned, nil)
        value = outcome
        return ending(outcome.error == nil ? nil : stop(outcome))
    }

    // The group finishes with the outcome of the first call, when the function and all members have finished. Nil
    // before the function is called, because the operation can then finish at once, and after the group has finished.
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
