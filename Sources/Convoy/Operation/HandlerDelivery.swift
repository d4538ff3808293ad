// The handlers that wait for an outcome: which have been called, and whether all have returned. A pure value.

/// How far the delivery of an outcome is; a part of ``OperationStateMachine``.
struct HandlerDelivery: Hashable, Sendable {
    enum Phase: Hashable, Sendable {
        /// Not called yet. Next: sending.
        case unsent
        /// They are being called; handlers added now come behind them. Next: sent.
        case sending
        /// All have been called or sent to their place; later ones are called at once.
        case sent
    }

    enum Event: Hashable, Sendable {
        /// The outcome is stored: the first that says so calls the handlers.
        case begin
        /// Handlers are sent off, so many of which are told when they return.
        case handlersSent(Int)
        case handlerReturned
        /// All handlers are sent off.
        case sentOff
        /// The observers have been told that the operation has finished.
        case endNotified
    }

    private(set) var phase = Phase.unsent
    /// How many handlers have been sent off and have not returned, the sending itself included.
    private(set) var runningHandlers = 0
    /// Whether the last handler has returned.
    private(set) var isSettled = false
    /// Whether the observers have been told that the operation has finished.
    private(set) var hasNotifiedEnd = false

    /// Whether handlers are called or have been.
    var hasBegun: Bool { phase != .unsent }

    /// Whether the operation has finished and its last handler has returned: its manager forgets it.
    var isOver: Bool { isSettled && hasNotifiedEnd }

    mutating func handle(_ event: Event) -> OperationStateMachine.Effects {
        switch event {
        case .begin:
            guard phase == .unsent else { return .dropped }
            // It counts for one itself, so that nothing settles before all have been sent off.
            (phase, runningHandlers) = (.sending, runningHandlers + 1)
        case .handlersSent(let count):
            guard phase == .sending else { return .dropped }
            runningHandlers += count
        case .handlerReturned:
            guard runningHandlers > 0 else { return .dropped }
            return handlerReturned()
        case .sentOff:
            guard phase == .sending else { return .dropped }
            phase = .sent
            return handlerReturned()
        case .endNotified: hasNotifiedEnd = true
        }
        return .taken
    }

    private mutating func handlerReturned() -> OperationStateMachine.Effects {
        runningHandlers -= 1
        guard runningHandlers == 0, phase == .sent, !isSettled else { return .taken }
        isSettled = true
        return OperationStateMachine.Effects(isTaken: true, settles: true)
    }
}
