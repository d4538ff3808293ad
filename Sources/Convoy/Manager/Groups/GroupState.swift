// The state of a group's function and members: a state machine that receives events and returns effects.

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
