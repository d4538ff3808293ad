// The handlers of an outcome: which have been called, and whether all have returned. A pure value.

/// The progress of delivering an outcome; a part of ``OperationStateMachine``.
struct HandlerDelivery: Hashable, Sendable {
    enum Phase: Hashable, Sendable {
        /// The handlers have not been called. Next: sending.
        case unsent
        /// The handlers are being called. Handlers added now run after them. Next: sent.
        case sending
        /// All handlers have been called or dispatched. Later handlers are called at once.
        case sent
    }

    enum Event: Hashable, Sendable {
        /// The outcome is stored. The first event of this kind starts the calls of the handlers.
        case begin
        /// Handlers are about to be dispatched; this many of them will report their return.
        case handlersSent(Int)
        case handlerReturned
        /// All handlers have been dispatched.
        case sentOff
        /// The observers have been notified that the operation has finished.
        case endNotified
    }

    private(set) var phase = Phase.unsent
    /// The number of dispatched handlers that have not returned.
    ///
    /// The dispatch itself counts as one.
    private(set) var runningHandlers = 0
    /// Whether the last handler has returned.
    private(set) var isSettled = false
    /// Whether the observers have been notified that the operation has finished.
    private(set) var hasNotifiedEnd = false

    /// Whether handlers are being called or have been called.
    var hasBegun: Bool { phase != .unsent }

    /// Whether the operation has finished and its last handler has returned.
    ///
    /// The manager then releases the operation.
    var isOver: Bool { isSettled && hasNotifiedEnd }

    mutating func handle(_ event: Event) -> OperationStateMachine.Effects {
        switch event {
        case .begin:
            guard phase == .unsent else { return .dropped }
            // The dispatch counts as one, so the operation cannot settle before all handlers are dispatched.
            (phase, runningHandlers) = (.sending, runningHandlers + 1)
        case .handlersSent(let count):
            guard phase == .sending else { return .dropped }
            runningHandlers += count
        case .handlerReturned:
            guard runningHandlers > 0 else { return .dropped }
            runningHandlers -= 1
        case .sentOff:
            guard phase == .sending else { return .dropped }
            (phase, runningHandlers) = (.sent, runningHandlers - 1)
        case .endNotified: hasNotifiedEnd = true
        }
        guard runningHandlers == 0, phase == .sent, !isSettled else { return .taken }
        isSettled = true
        return OperationStateMachine.Effects(isTaken: true, settles: true)
    }
}
