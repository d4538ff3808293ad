// Lists, cancels and awaits all operations of a manager, and describes why one operation waits.
import Foundation

extension Scheduler {
    /// The operations of callers and groups that have not finished or have running callbacks, in the order of
    /// enqueueing.
    var operations: [AnyRequestOperation] { operations { !$0.isInternal } }

    func operations(_ isMeant: (QueueEntry.Role) -> Bool) -> [AnyRequestOperation] {
        state.withLock { state in
            state.queueEntries.compactMap { queueEntry -> (sequence: UInt64, operation: AnyRequestOperation)? in
                guard let queueEntry, isMeant(queueEntry.role), let operation = queueEntry.operation else { return nil }
                return (queueEntry.sequence, operation)
            }
        }.sorted { $0.sequence < $1.sequence }.map(\.operation)
    }

    /// Cancels all operations, and the producers that would make more.
    func cancelAll() {
        frozen {
            for producer in producers.withLock({ Array($0.values) }) { producer.cancel() }
            cancelAll { _ in true }
        }
    }

    /// - Complexity: O(*n* log *n*) for *n* operations.
    func cancelAll(where isMeant: (AnyRequestOperation) -> Bool) {
        frozen {
            for producer in producers.withLock({ Array($0.values) }) { producer.cancel(where: isMeant) }
            for operation in operations where isMeant(operation) { operation.cancel() }
        }
    }

    /// Runs work while no operation gets a slot.
    ///
    /// Otherwise the slot of a cancelled operation would go to another operation that is about to be cancelled. That
    /// operation would be sent in vain.
    func frozen(_ work: () -> Void) {
        state.withLock { $0.cancellations += 1 }
        work()
        suspend { $0.cancellations -= 1 }
    }

    /// Runs the cancellation of one operation of a caller's queue while no operation gets a slot.
    ///
    /// Foundation's `cancelAllOperations()` cancels the operations of a queue one by one. Each cancelled operation frees
    /// its place, and the queue starts the next operation, which would be sent in vain. The end of the loop cannot be
    /// observed, but its thread is nearly always inside `cancel`. So slots are given again after a time without a
    /// cancellation: 0.1 ms after a single one, and up to 50 ms in a loop, whose thread the system may interrupt. They
    /// are given again after 500 ms at the latest, because a cancellation may wait for another request.
    func withholdSlots(for operation: AnyRequestOperation, while cancel: () -> Void) {
        // The manager's own queue withholds slots itself.
        guard operation.isInQueue(otherThan: ownQueue) else { return cancel() }
        let isFirst = state.withLock { state in
            state.queueCancellations.begun += 1
            state.queueCancellations.running += 1
            let isFirst = state.queueCancellations.begun == 1
            if isFirst { state.cancellations += 1 }
            return isFirst
        }
        if isFirst { giveSlotsAgain(after: .microseconds(100), begun: 1, until: .now() + .milliseconds(500)) }
        cancel()
        state.withLock { $0.queueCancellations.running -= 1 }
    }

    /// Gives slots again, or looks again later if a cancellation is running or has begun since the last look.
    private func giveSlotsAgain(after delay: DispatchTimeInterval, begun: Int, until end: DispatchTime) {
        context.taskControl.asyncAfter(deadline: .now() + delay) {
            let newCount = self.state.withLock { state -> Int? in
                let (nowBegun, running) = state.queueCancellations
                guard (nowBegun == begun && running == 0) || .now() >= end else { return nowBegun - begun }
                state.queueCancellations.begun = 0
                return nil
            }
            guard let newCount else { return self.suspend { $0.cancellations -= 1 } }
            let next = DispatchTimeInterval.milliseconds(min(max(1, newCount), 50))
            self.giveSlotsAgain(after: next, begun: begun + newCount, until: end)
        }
    }

    func shutDown() {
        state.withLock { $0.isShutDown = true }
        cancelAll()
    }

    /// Waits until no operation is left, or the task is cancelled.
    func drain() async {
        let identity = state.withLock { state in
            state.lastDrain += 1
            return state.lastDrain
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let waits = state.withLock { state in
                    !Task.isCancelled && state.awaitEnd({ continuation.resume() }, identity: identity)
                }
                if !waits { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.drains.removeValue(forKey: identity) }?()
        }
    }

    func why(_ operation: AnyRequestOperation) -> String {
        let now = context.clock.now
        let view = change(operation) { state, queueEntry in
            let host = state.queues.hosts[queueEntry.host]
            // Operations that have begun do not wait for those that have not.
            let unstarted = queueEntry.rank == .new ? 0 : state.queues.unstarted
            return (
                status: queueEntry.status, host: queueEntry.host, transfer: state.coalescer.operation(queueEntry),
                hasBegun: queueEntry.hasBegun,
                exclusion: queueEntry.exclusion.flatMap { exclusion in
                    exclusion.holder === queueEntry ? nil : (name: exclusion.name, holder: exclusion.holder?.operation)
                },
                runningThere: host?.running ?? 0,
                hold: queueEntry.status == .waiting ? state.queues.holdWords(of: queueEntry.host, now: now) : nil,
                learned: host?.words(now: now), running: state.queues.running - unstarted,
                limit: state.slotLimit, isHeldBack: state.isSuspended || !queueEntry.hasBegun && state.isQueueSuspended
            )
        }
        guard let view else { return operation.whyWithoutManager }
        switch view.status {
        case .blocked: return operation.whyBlocked
        case .preparing: return "waits for its request to be built"
        case .suspended: return view.hasBegun ? operation.whyRunning : "waits for its owner: it is suspended"
        case .awaitingPermit:
            if operation.isGroup { return "waits for the manager: it is suspended" }
            guard let exclusion = view.exclusion else { return operation.whyBlocked }
            let holder = exclusion.holder.map { ": \($0.label) has it" } ?? ""
            return "waits for the name “\(exclusion.name)”\(holder)"
        case .yielded, .awaitingDescriptor: return operation.whyRunning
        case .sharing: return view.transfer.map { "shares a transfer that \(why($0))" } ?? operation.whyRunning
        case .waiting:
            if view.isHeldBack { return "waits for the manager: it is suspended" }
            let learned = view.learned.map { "; \($0)" } ?? ""
            if let hold = view.hold { return "waits for \(hold)" }
            if view.running >= view.limit { return "waits for a slot: \(view.running) running, the limit" }
            return "waits for \(view.host): \(view.runningThere) running there, its limit\(learned)"
        case .dispatched, .inQueue:
            guard operation.state.withLock({ $0.machine.isWaitingToStart }) else { return operation.whyRunning }
            return whyNotStarted(operation)
        case .ended: return operation.whyFinished
        }
    }

    /// Why the operation queue has not started an operation.
    private func whyNotStarted(_ operation: AnyRequestOperation) -> String {
        if !operation.unfinishedDependencies.isEmpty { return operation.whyBlocked }
        if queue.isSuspended { return "waits for the queue: it is suspended" }
        guard operation.isBehindBarrier else { return "waits for the queue to start it" }
        let earlier = queue.operations.prefix { $0 !== operation }
        let waiting = earlier.filter { !$0.isFinished && ($0 as? AnyRequestOperation)?.isBehindBarrier != true }
        return waiting.isEmpty
            ? "waits for a barrier of its queue"
            : "waits for a barrier, which waits for: \(AnyRequestOperation.names(waiting))"
    }
}

extension SchedulerState {
    /// Stores a callback for when no operation is left; false if none is left now.
    mutating func awaitEnd(_ call: @escaping @Sendable () -> Void, identity: Int) -> Bool {
        guard count > 0 else { return false }
        drains[identity] = call
        return true
    }
}
