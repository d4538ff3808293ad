// What a group knows of its function and its members: a model. Events go in, effects come out.

/// The state of a group.
///
/// No lock, and nothing is called: a ``GroupOperation`` holds it behind its lock, gives it an event at a time, and performs
/// the ``Effects`` after the lock has been given back.
struct GroupState {
    /// The function of the group, with its output's type erased.
    typealias Work = @Sendable (OperationGroup) async -> AnyOutcome

    enum Phase {
        /// Its function has not been called. Next: running, ended.
        case pending
        /// Its function runs. Next: returned.
        case running
        /// Its function has returned; members may have to end, and may still add others. Next: ended.
        case returned
        /// Nothing can be added any more. Terminal.
        case ended
    }

    private var phase = Phase.pending
    /// The function, until the end: for copies.
    private(set) var work: Work?
    /// The members whose last callback has not returned.
    private(set) var members: [ObjectIdentifier: AnyRequestOperation] = [:]
    /// Calls the function, while that runs.
    private var task: Task<Void, Never>?
    /// What the function has returned.
    private var value: AnyOutcome?
    /// The first reason to fail, which stops all that is left.
    private var failure: AnyOutcome?

    init(_ work: @escaping Work) { self.work = work }

    /// What is to be done after an event.
    struct Effects: Sendable {
        /// What is stopped.
        var members: [AnyRequestOperation] = []
        var task: Task<Void, Never>?
        /// The operation ends with this.
        var outcome: AnyOutcome?
    }

    enum Admission {
        /// It is waited for; stopped: it is to be cancelled at once.
        case joined(isStopped: Bool)
        /// It is one already.
        case isMember
        /// The group has ended.
        case late
    }

    /// Whether its function has been called and has not returned.
    var isRunning: Bool { if case .running = phase { true } else { false } }
    /// Whether it ends with a failure, or has.
    var isStopped: Bool { failure != nil }

    /// The operation has been started; the result is the function to be called, nil for a group that was stopped before.
    mutating func begin() -> Work? {
        guard case .pending = phase, failure == nil else { return nil }
        phase = .running
        return work
    }

    /// The task that calls the function has been made; true when it is to be cancelled.
    mutating func hold(_ task: Task<Void, Never>) -> Bool {
        if isRunning { self.task = task }
        return isStopped
    }

    mutating func add(_ member: AnyRequestOperation) -> Admission {
        if case .ended = phase { return .late }
        guard members.updateValue(member, forKey: ObjectIdentifier(member)) == nil else { return .isMember }
        return .joined(isStopped: isStopped)
    }

    /// A member has ended, and its last callback has returned.
    ///
    /// - Parameter failure: why the group fails with it, if it does.
    mutating func leave(_ member: AnyRequestOperation, _ failure: AnyOutcome? = nil) -> Effects {
        members[ObjectIdentifier(member)] = nil
        return ending(failure.flatMap { stop($0) })
    }

    /// The function has returned, or thrown.
    mutating func returned(_ outcome: AnyOutcome) -> Effects {
        guard isRunning else { return Effects() }
        (phase, task) = (.returned, nil)
        value = outcome
        return ending(outcome.error == nil ? nil : stop(outcome))
    }

    /// Stops all there is: the group ends with this when everything has.
    ///
    /// Nil before its function is called, and after its end: the operation itself ends at once, or has.
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

    /// The operation has ended; the result is what is to be let go of, outside the lock.
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
