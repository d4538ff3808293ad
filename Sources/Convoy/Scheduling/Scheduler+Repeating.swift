// Operations that have begun and wait again: for a retry's time, for interceptors, for a host on hold.
import Foundation

extension Scheduler {
    /// An operation waits for something else than a slot: others may have its slot.
    ///
    /// - Parameter isIntercepted: whether it waits for interceptors.
    func yieldSlot(_ operation: AnyRequestOperation, isIntercepted: Bool) {
        change(operation) { state, ticket in
            state.yieldSlot(ticket)
            // One that has finished meanwhile has no place to give back.
            guard isIntercepted, ticket.status == .aside else { return state.leaveInterceptors(ticket) }
            state.interceptorLimiter.take(ticket)
        }
        pump()
    }

    /// Interceptors are done with an operation for good.
    func leaveInterceptors(_ operation: AnyRequestOperation) {
        if change(
            operation,
            { state, ticket in
                guard ticket.isIntercepted else { return false }
                state.leaveInterceptors(ticket)
                return true
            }) == true
        {
            pump()
        }
    }

    /// An operation that has begun is ready for another attempt, perhaps at another host.
    func requeue(_ operation: AnyRequestOperation, host: String) {
        let isSuspended = operation.isSuspended
        let isIn = change(operation) { state, ticket -> Bool in
            state.yieldSlot(ticket)
            guard ticket.status == .aside else { return false }
            state.leaveInterceptors(ticket)
            ticket.host = host
            if isSuspended { ticket.status = .suspended } else { state.room.join(ticket) }
            return true
        }
        // Without a place here, started by hand for example, it waits for no slot.
        guard isIn == true else { return operation.goOn() }
        if operation.isSuspended != isSuspended { suspensionChanged(of: operation) }
        dropIfTooLate(operation)
        pump()
    }

    /// A host wants to be left alone until a moment: nothing that has not been sent yet goes there before.
    func hold(_ host: String, until instant: ContinuousClock.Instant, _ reason: RetryAfterReason) {
        if state.withLock({ $0.room.hold(host, until: instant, reason) }) { liftLater(host, at: instant) }
    }

    /// Ends the holds of a host whose time has come by a moment.
    func liftLater(_ host: String, at instant: ContinuousClock.Instant) {
        _ = context.clock.wake(at: instant) { [weak self] in
            guard let self else { return }
            let now = context.clock.now
            state.withLock { $0.room.lift(host, now: now) }
            // Elsewhere: many may start now, and this is the clock's queue.
            (startQueue ?? .global()).async { self.pump() }
        }
    }

    /// What can only be sent after its deadline is not kept waiting for it.
    func dropIfTooLate(_ operation: AnyRequestOperation) {
        guard let deadline = operation.deadline else { return }
        let now = context.clock.now
        let held = change(operation) { state, ticket -> (host: String, why: String)? in
            guard let hold = state.room.hold(of: ticket.host), hold >= deadline else { return nil }
            return (ticket.host, state.room.words(of: ticket.host, now: now).map { "; \($0)" } ?? "")
        }
        guard let (host, why) = held ?? nil else { return }
        operation.conclude(.deadlineExceeded, "not sent: \(host) is on hold until after its deadline\(why)")
    }

    /// Learns from the end of an attempt what its host takes.
    func learn(
        from operation: AnyRequestOperation, started: ContinuousClock.Instant, statusCode: Int?, failure: RequestError?
    ) {
        guard context.samplesHosts else { return }
        let now = context.clock.now
        let answered = operation.timings.firstByte.flatMap { $0 >= started ? $0 : nil } ?? now
        let lesson = HostSample(latency: started.duration(to: answered), statusCode: statusCode, failure: failure?.code)
        let hold = change(operation) { state, ticket in
            (ticket.host, ticket.status == .handed ? state.room.learn(ticket, lesson, now: now) : nil)
        }
        if let (host, until) = hold, let until { liftLater(host, at: until) }
        pump()
    }

    /// Whether one more retry is within the budget.
    func takeFromRetryBudget() -> Bool {
        let now = context.clock.now
        return state.withLock { $0.retryBudget.take(now: now) }
    }
}

extension Scheduler.State {
    /// Takes a ticket that has begun out of everything, for a wait that is not one for a slot.
    mutating func yieldSlot(_ ticket: Ticket) {
        room.giveBack(ticket, for: .aside)
        // Started by hand while it stood in line.
        room.leave(ticket, for: .aside)
        // It came to rest, suspended, and its attempt has ended all the same.
        if ticket.status == .suspended, ticket.hasBegun { ticket.status = .aside }
    }

    /// Interceptors are done with a ticket: the next of the crowd may come.
    mutating func leaveInterceptors(_ ticket: Ticket) {
        if let next = interceptorLimiter.leave(ticket) { room.join(next) }
    }
}
