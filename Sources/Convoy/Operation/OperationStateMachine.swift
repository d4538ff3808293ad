// What states a request operation can be in, and what moves it: a pure value.

/// Decides what an operation does next.
///
/// No lock, no I/O: an event goes in, an effect comes out.
///
/// `AnyRequestOperation` holds it behind its lock and performs the effects after the lock has been given back.
struct OperationStateMachine {
    enum Phase: Equatable {
        /// Made, perhaps queued; not started. Next: executing, abandoned.
        case pending
        /// Cancelled or failed before it was started; the outcome is stored and delivered. Next: finishing, in `start()`.
        case abandoned
        /// An attempt with this number is under way. Next: deciding, decoding, waiting, executing with a higher number,
        /// finishing.
        case executing(attempt: Int)
        /// The attempt is over, and what follows from it is being decided. Next: decoding, waiting for the next number,
        /// finishing.
        case deciding(attempt: Int)
        /// The attempt with this number is to come: it waits for its time, for a slot, or for an interceptor. Next:
        /// executing, finishing.
        case waiting(attempt: Int)
        /// The body is complete and becomes the output. Committed: its file is being put in its place, so that it is too
        /// late to end otherwise. Next: finishing.
        case decoding(attempt: Int, isCommitted: Bool)
        /// The outcome is stored, the notifications are on their way. Next: finished.
        case finishing(wasExecuting: Bool)
        /// Terminal.
        case finished
    }

    enum StartEffect: Equatable {
        /// Make a task for this attempt.
        case execute(attempt: Int)
        /// The outcome is known already: send the notifications.
        case finish
        /// Started before.
        case ignore
    }

    enum ClaimEffect: Equatable {
        /// Store the outcome and deliver it; `start()` will finish the operation.
        case abandon
        /// Store the outcome, then notify, commit and deliver.
        case finish
        /// An outcome was stored before, or the attempt is over: drop it.
        case ignore
    }

    private(set) var phase = Phase.pending

    var isExecuting: Bool {
        switch phase {
        case .executing, .deciding, .waiting, .decoding, .finishing(wasExecuting: true): true
        case .pending, .abandoned, .finishing(wasExecuting: false), .finished: false
        }
    }

    var isFinished: Bool { phase == .finished }

    /// The number of the attempt under way; nil before the first, between two, and once the body is complete.
    var currentAttempt: Int? {
        if case .executing(let attempt) = phase { attempt } else { nil }
    }

    /// Whether what arrives for an attempt still counts.
    func accepts(attempt: Int) -> Bool { currentAttempt == attempt }

    mutating func start() -> StartEffect {
        switch phase {
        case .pending:
            phase = .executing(attempt: 1)
            return .execute(attempt: 1)
        case .abandoned:
            phase = .finishing(wasExecuting: false)
            return .finish
        case .executing, .deciding, .waiting, .decoding, .finishing, .finished:
            return .ignore
        }
    }

    /// Ends the attempt under way and numbers the next one; nil when none is under way.
    mutating func nextAttempt() -> Int? {
        guard let attempt = currentAttempt else { return nil }
        phase = .executing(attempt: attempt + 1)
        return attempt + 1
    }

    /// The attempt has come to its end, and it is to be decided what that means; false when it is over already.
    mutating func endAttempt(_ attempt: Int) -> Bool {
        guard accepts(attempt: attempt) else { return false }
        phase = .deciding(attempt: attempt)
        return true
    }

    /// It was decided that another attempt follows.
    mutating func repeatAttempt(after attempt: Int) -> Bool {
        guard phase == .deciding(attempt: attempt) else { return false }
        phase = .waiting(attempt: attempt + 1)
        return true
    }

    /// The attempt cannot be begun yet.
    mutating func putOff(attempt: Int) -> Bool {
        guard accepts(attempt: attempt) else { return false }
        phase = .waiting(attempt: attempt)
        return true
    }

    /// The attempt that waited begins; nil when none did.
    mutating func beginWaitingAttempt() -> Int? {
        guard case .waiting(let attempt) = phase else { return nil }
        phase = .executing(attempt: attempt)
        return attempt
    }

    /// The body of an attempt is complete; false when that attempt is over.
    ///
    /// - Parameter commits: whether what comes next shows outside the process, so that only the attempt's own end counts.
    mutating func bodyComplete(attempt: Int, commits: Bool = false) -> Bool {
        guard accepts(attempt: attempt) || phase == .deciding(attempt: attempt) else { return false }
        phase = .decoding(attempt: attempt, isCommitted: commits)
        return true
    }

    /// Claims the outcome of an operation that has not been started; later it has no effect.
    mutating func abandon() -> ClaimEffect {
        guard phase == .pending else { return .ignore }
        phase = .abandoned
        return .abandon
    }

    /// Claims the one outcome: the first claim wins.
    ///
    /// - Parameter attempt: the attempt whose end this is; nil for what ends the operation whatever it does, as a cancellation.
    mutating func claim(attempt: Int? = nil) -> ClaimEffect {
        switch phase {
        case .pending where attempt == nil:
            return abandon()
        case .executing(let current) where attempt == nil || attempt == current,
            .deciding(let current) where attempt == nil || attempt == current,
            .waiting(let current) where attempt == nil || attempt == current:
            phase = .finishing(wasExecuting: true)
            return .finish
        case .decoding(let current, let isCommitted) where attempt == current || attempt == nil && !isCommitted:
            phase = .finishing(wasExecuting: true)
            return .finish
        case .pending, .executing, .deciding, .waiting, .decoding, .abandoned, .finishing, .finished:
            return .ignore
        }
    }

    /// The notifications are on their way: `isExecuting` turns false, `isFinished` true.
    mutating func commit() {
        if case .finishing = phase { phase = .finished }
    }
}

extension OperationStateMachine {
    /// Whether `start()` is still to come.
    var isWaitingToStart: Bool { phase == .pending || phase == .abandoned }
}
