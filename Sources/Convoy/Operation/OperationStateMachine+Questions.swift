// What is asked about the state of an operation.

extension OperationStateMachine {
    var isExecuting: Bool {
        switch phase {
        case .executing, .deciding, .waiting, .decoding, .finishing(wasExecuting: true): true
        case .pending, .abandoned, .finishing(wasExecuting: false), .finished: false
        }
    }

    var isFinished: Bool { phase == .finished }

    /// Whether `start()` is still to come.
    var isWaitingToStart: Bool { phase == .pending || phase == .abandoned }

    /// Whether the outcome is stored.
    var hasOutcome: Bool {
        switch phase {
        case .pending, .executing, .deciding, .waiting, .decoding: false
        case .abandoned, .finishing, .finished: true
        }
    }

    /// The number of the attempt under way; nil before the first, between two, and once the body is complete.
    var currentAttempt: Int? {
        if case .executing(let attempt) = phase { attempt } else { nil }
    }

    /// Whether what arrives for an attempt still counts.
    func accepts(attempt: Int) -> Bool { currentAttempt == attempt }

    /// Whether its bytes may not move: it is suspended, or was and has no slot yet.
    var isHeldBack: Bool { isSuspended || awaitsSlot }
}
