// Operations that have begun and wait again: for a retry's delay, interceptors, a host on hold, or a descriptor.
import Foundation

extension Scheduler {
    func yieldSlot(_ operation: AnyRequestOperation, isUnsent: Bool) {
        handingOver(operation) { $0.yieldSlot($1, isUnsent: isUnsent) }
    }

    func requeue(_ operation: AnyRequestOperation) {
        let wish = operation.state.withLock { $0.wish(in: operation.context, hasBegun: true) }
        // An operation without a queue entry waits for no slot.
        guard let wish, wish.queueEntry != nil else { return operation.resumeAttempt() }
        awaitSlot(operation, wish)
    }

    func hold(_ host: String, until instant: ContinuousClock.Instant, _ reason: RetryAfterReason) {
        handingOver { _ = $0.queues.hold(host, until: instant, reason) }
    }

    /// Sets a timer for the end of a hold.
    ///
    /// The timer ends the expired holds of that host, or those of every host.
    func liftLater(_ hold: HostQueues.NewHold) {
        _ = context.clock.wake(at: hold.until) { [weak self] in
            guard let self else { return }
            let now = context.clock.now
            state.withLock { $0.queues.lift(hold.host, now: now) }
            pumpElsewhere()
        }
    }

    /// Records the result of an attempt for its host.
    func sample(
        from operation: AnyRequestOperation, started: ContinuousClock.Instant, statusCode: Int?, failure: RequestError?
    ) {
        guard context.samplesHosts else { return }
        let now = context.clock.now
        let answered = operation.timings.firstByte.flatMap { $0 >= started ? $0 : nil } ?? now
        let sample = HostSample(latency: started.duration(to: answered), statusCode: statusCode, failure: failure?.code)
        handingOver(operation) { $0.queues.record(sample, of: $1, now: now) }
    }

    func takeFromRetryBudget() -> Bool {
        let now = context.clock.now
        return state.withLock { $0.retryBudget.take(now: now) }
    }

    func lookForNetwork(to host: String, _ then: @escaping @Sendable (_ isConnected: Bool) -> Void) -> Bool {
        guard let connectivity, !Host.isLocal(host) else { return false }
        connectivity.look(then)
        return true
    }

    func connectivityChanged(_ isConnected: Bool) {
        state.withLock { $0.queues.setOffline(!isConnected) }
        pumpElsewhere()
    }

    func mayGetDescriptor(_ operation: AnyRequestOperation) -> Bool {
        change(operation) { $0.mayGetDescriptor($1) } ?? false
    }

    func awaitDescriptor(_ operation: AnyRequestOperation, host: String) {
        let slots = handingOver(operation) { $0.lacksDescriptor($1, host: host) ? $1.slotCount : nil }
        guard let slots = slots ?? nil else { return operation.resumeAttempt() }
        operation.resumeAttempt(after: .queued(slots: slots))
        watchDescriptorLimit()
    }

    /// Sets a timer that raises the descriptor limit, whether or not an operation finishes.
    private func watchDescriptorLimit() {
        guard let wait = state.withLock({ $0.descriptorLimit.takeWait() }) else { return }
        _ = context.clock.wake(at: context.clock.now + wait) { [weak self] in
            guard let self else { return }
            // The rest runs on another queue, because an operation may start now and this is the clock's queue.
            context.taskControl.async {
                self.handingOver { $0.descriptorTimePassed() }
                self.watchDescriptorLimit()
            }
        }
    }
}
