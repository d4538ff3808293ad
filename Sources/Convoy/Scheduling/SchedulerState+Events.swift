// What happens to an operation between its coming and its end, and to hosts.
import Foundation

extension SchedulerState {
    // MARK: Before the start

    /// A dependency of an operation was added, removed or has finished.
    mutating func dependenciesTold(_ queueEntry: QueueEntry, _ isDependent: Versioned<Bool>) -> Effects {
        guard queueEntry.isDependent.take(isDependent) else { return Effects() }
        return isDependent.value ? block(queueEntry) : unblock(queueEntry)
    }

    /// Takes a queue entry out of its queue, or its slot away: it waits for a dependency.
    private mutating func block(_ queueEntry: QueueEntry) -> Effects {
        // It was started while the dependency was being added: that is too late.
        guard !queueEntry.hasBegun else { return Effects() }
        switch queueEntry.status {
        case .waiting:
            queues.leave(queueEntry, for: .blocked)
            leavePermits(queueEntry)
        case .suspended, .awaitingPermit:
            queueEntry.status = .blocked
            leavePermits(queueEntry)
        // The operation queue has it, and starts it when it is ready: the operation that it waits for may need the slot.
        case .dispatched:
            queues.release(queueEntry, for: .inQueue)
            leavePermits(queueEntry)
        case .sharing:
            queueEntry.status = .blocked
            return Effects(transfer: coalescer.leave(queueEntry))
        case .preparing, .blocked, .inQueue, .yielded, .awaitingDescriptor, .ended: break
        }
        return Effects()
    }

    /// Nothing is left that a queue entry waits for.
    private mutating func unblock(_ queueEntry: QueueEntry) -> Effects {
        guard queueEntry.status == .blocked else { return Effects() }
        queueEntry.status = .preparing
        return Effects(prepares: true)
    }

    /// What an operation asks of its manager once its request is known; before another attempt, that of the attempt.
    struct Wish {
        var host: String
        /// Whether it had been started when it asked: what is told late does not count.
        var hasBegun = false
        var asksInterceptors = false
        /// The name that no other that runs may have.
        var exclusion: String?
        /// Whether a cache has answered the attempt before.
        var followsAnswer = false
        var suspension: Versioned<OperationStateMachine.Suspension>
    }

    /// The request of an operation has been built and checked, or it has begun and is ready for an attempt.
    mutating func prepared(_ queueEntry: QueueEntry, _ wish: Wish) -> Effects {
        guard wish.hasBegun == queueEntry.hasBegun else { return Effects() }
        leaveAnswer(queueEntry, wish)
        // It was started by hand just when the answer of another came.
        if queueEntry.hasBegun, queueEntry.status == .inQueue { return Effects(resumes: true) }
        if queueEntry.hasBegun { yieldSlot(queueEntry) }
        guard queueEntry.status == (queueEntry.hasBegun ? .yielded : .preparing) else { return Effects() }
        if queueEntry.hasBegun { leaveInterceptors(queueEntry) }
        (queueEntry.host, queueEntry.asksInterceptors) = (wish.host, wish.asksInterceptors)
        setExclusion(wish.exclusion, of: queueEntry)
        guard queueEntry.hasBegun || !queueEntry.isDependent.value else {
            queueEntry.status = .blocked
            return Effects()
        }
        _ = queueEntry.suspension.take(wish.suspension)
        return queue(queueEntry)
    }

    /// Nothing that a group depends on is left: it starts, unless its owner or the queue is suspended, or all is being
    /// cancelled.
    mutating func groupStarts(
        _ queueEntry: QueueEntry, _ suspension: Versioned<OperationStateMachine.Suspension>
    ) -> Bool {
        guard queueEntry.status == .preparing, !queueEntry.hasBegun else { return false }
        _ = queueEntry.suspension.take(suspension)
        if queueEntry.isDependent.value {
            queueEntry.status = .blocked
        } else if queueEntry.suspension.value.isSuspended {
            queueEntry.status = .suspended
        } else if isSuspended || isQueueSuspended || cancellations > 0 {
            queueEntry.status = .awaitingPermit
            heldGroups.append(queueEntry)
        } else {
            (queueEntry.hasBegun, queueEntry.status) = (true, .inQueue)
        }
        return queueEntry.hasBegun
    }

    /// The groups that may start now, the highest priority first.
    mutating func takeHeldGroups() -> [AnyRequestOperation] {
        guard !isSuspended, !isQueueSuspended, cancellations == 0, !heldGroups.isEmpty else { return [] }
        defer { heldGroups = [] }
        let groups = heldGroups.filter { $0.status == .awaitingPermit }
        for group in groups { group.status = .preparing }
        return groups.sorted { ($0.priorityIndex, $0.sequence) < ($1.priorityIndex, $1.sequence) }.compactMap(
            \.operation)
    }

    /// The manager's own queue has a limit from now on, which decides what is next.
    ///
    /// - Returns: what it is given.
    mutating func limitQueue() -> [AnyRequestOperation] {
        isQueueLimited = true
        let waiting = queueEntries.compactMap { $0 }.filter {
            $0.status == .waiting && !$0.hasBegun && $0.role == .caller
        }
        for queueEntry in waiting {
            queues.leave(queueEntry, for: .inQueue)
            leavePermits(queueEntry)
        }
        return waiting.sorted { $0.queueNumber < $1.queueNumber }.compactMap(\.operation)
    }

    /// An operation whose request is known shares the transfer of others; nil when it is too late for that.
    mutating func shares(
        _ queueEntry: QueueEntry, _ key: CoalescingKey, new: RequestOperation<Data>, _ wish: Wish
    ) -> (change: Coalescer.Change, isNew: Bool)? {
        guard wish.hasBegun == queueEntry.hasBegun,
            queueEntry.hasBegun
                ? queueEntry.status == .yielded && !queueEntry.hasSent
                : queueEntry.status == .preparing && !queueEntry.isDependent.value
        else { return nil }
        queueEntry.host = wish.host
        _ = queueEntry.suspension.take(wish.suspension)
        return coalescer.join(queueEntry, key, new: new)
    }

    /// The transfer that an operation shares has ended with an answer; nil when it waits for something else by now.
    mutating func answerCame(
        _ queueEntry: QueueEntry, of key: CoalescingKey, _ suspension: Versioned<OperationStateMachine.Suspension>
    ) -> Effects? {
        guard queueEntry.shares(key) else { return nil }
        queueEntry.sharedTransfer = nil
        guard !latest(queueEntry, suspension).isSuspended else {
            queueEntry.status = .suspended
            return Effects()
        }
        // It needs no connection any more, and so no slot of its host.
        queueEntry.status = .inQueue
        if queueEntry.hasBegun { return Effects(resumes: true) }
        // What belongs to others is in no queue of the caller's.
        let enters = queueKind == .own || queueEntry.role == .caller
        return Effects(enters: enters, starts: !enters)
    }

    /// The priority of an operation was changed: one that waits joins the end of its new queue.
    mutating func priorityTold(_ queueEntry: QueueEntry, _ priority: Versioned<Operation.QueuePriority>) -> Effects {
        let earlier = queueEntry.priority.value
        guard queueEntry.priority.take(priority), earlier != priority.value else { return Effects() }
        if queueEntry.status == .awaitingPermit, let exclusion = queueEntry.exclusion, exclusion.holder !== queueEntry {
            exclusion.wait(queueEntry, Turn(queueEntry, queues.prioritization))
        }
        if queueEntry.status == .waiting {
            queues.leave(queueEntry, for: .preparing)
            queues.join(queueEntry)
        }
        return Effects(transfer: coalescer.priorityChanged(of: queueEntry))
    }

    /// An operation was suspended or resumed, or has come to rest because it was suspended: one that is suspended is in no
    /// queue, and one that has come to rest has no slot.
    mutating func suspensionTold(
        _ queueEntry: QueueEntry, _ word: Versioned<OperationStateMachine.Suspension>
    ) -> Effects {
        guard queueEntry.suspension.take(word) else { return Effects() }
        let (isSuspended, awaitsSlot) = (word.value.isSuspended, word.value.awaitsSlot)
        switch queueEntry.status {
        case .waiting where isSuspended:
            queues.leave(queueEntry, for: .suspended)
            if queueEntry.hasSent { leaveInterceptors(queueEntry) } else { leavePermits(queueEntry) }
        case .awaitingPermit where isSuspended:
            queueEntry.status = .suspended
            if !queueEntry.hasSent { leavePermits(queueEntry) }
        // Resumed before others could have its slot; perhaps even before it could be told that it may send.
        case .dispatched where awaitsSlot && !isSuspended: return Effects(keeps: queueEntry.slot)
        case .dispatched where awaitsSlot && queueEntry.hasBegun:
            queues.release(queueEntry, for: .suspended)
            leaveInterceptors(queueEntry)
        case .suspended where !isSuspended && queueEntry.isGroup:
            queueEntry.status = .preparing
            return Effects(prepares: true)
        case .suspended where !isSuspended: return queue(queueEntry)
        // It has the answer of another: no slot will come for it.
        case .blocked, .preparing, .awaitingPermit, .sharing, .inQueue, .ended:
            if awaitsSlot, !isSuspended { return Effects(keeps: queueEntry.slot) }
        case .waiting, .suspended, .dispatched, .yielded, .awaitingDescriptor: break
        }
        return Effects()
    }

    // MARK: From the start on

    /// An operation has been started: whether it may send at once.
    ///
    /// One that may not has no slot, and asks for one by ``prepared(_:_:)``: no manager's queue has started it, it is suspended,
    /// its host has been put on hold while it waited for the operation queue, or another that had begun before uses its
    /// slot.
    ///
    /// - Parameter suspension: as it was at the start; what was told since counts.
    mutating func begins(_ queueEntry: QueueEntry, _ suspension: Versioned<OperationStateMachine.Suspension>) -> Bool {
        if queueEntry.hasPermit { interceptorLimiter.begin(queueEntry) }
        if queues.begin(queueEntry, limit: slotLimit) {
            // It is in the operation queue since another has taken its name, or it was blocked there and released it.
            if !latest(queueEntry, suspension).isSuspended, queueEntry.exclusion?.take(queueEntry) != false {
                queueEntry.hasSent = true
                return true
            }
            queues.release(queueEntry, for: .yielded, isUnsent: true)
        }
        // Others may run under its name meanwhile: it has sent nothing.
        if let next = queueEntry.exclusion?.leave(queueEntry) { queues.join(next) }
        return false
    }

    /// The suspension of a queue entry that is given a slot without its queue.
    ///
    /// Not taken: the word of the change is on its way, and when it has been resumed that word lets it keep the slot.
    private func latest(
        _ queueEntry: QueueEntry, _ suspension: Versioned<OperationStateMachine.Suspension>
    ) -> OperationStateMachine.Suspension {
        suspension.version > queueEntry.suspension.version ? suspension.value : queueEntry.suspension.value
    }

    /// An operation with an answer that another has fetched has been started: it sends nothing.
    mutating func beginsWithAnswer(_ queueEntry: QueueEntry) {
        queues.release(queueEntry, for: .inQueue)
        queues.leave(queueEntry, for: .inQueue)
        interceptorLimiter.begin(queueEntry)
        queueEntry.hasBegun = true
    }

    /// An operation waits for something else than a slot: others may have its slot.
    ///
    /// - Parameter isUnsent: whether it has sent nothing since it got the slot.
    mutating func yielded(_ queueEntry: QueueEntry, isIntercepted: Bool, isUnsent: Bool = false) {
        queues.release(queueEntry, for: .yielded, isUnsent: isUnsent)
        yieldSlot(queueEntry)
        // One that has finished meanwhile has no permit to take.
        guard isIntercepted, queueEntry.status == .yielded else { return leaveInterceptors(queueEntry) }
        interceptorLimiter.take(queueEntry)
    }

    // MARK: Network

    /// There is a network again, or none any more.
    mutating func connectivityChanged(isConnected: Bool) { queues.setOffline(!isConnected) }

    // MARK: Descriptors

    /// An operation found no file descriptor, and has given its slot and its files back; false for one that waits for no
    /// slot.
    mutating func lacksDescriptor(_ queueEntry: QueueEntry, host: String) -> Bool {
        yieldSlot(queueEntry)
        guard queueEntry.status == .yielded else { return false }
        leaveInterceptors(queueEntry)
        queueEntry.host = host
        descriptorLimit.add(queueEntry, running: queues.running)
        // The others have ended meanwhile.
        if !othersMayHoldDescriptors(than: queueEntry), let first = descriptorLimit.takeFirst() { queues.join(first) }
        return true
    }

    /// The time has passed after which another may look for a descriptor.
    mutating func descriptorTimePassed() {
        if let next = descriptorLimit.timePassed(slots: limit) { queues.join(next) }
    }

    /// Whether an operation that found no descriptor may find one later: others here will give some back, or have done so
    /// since it got its slot.
    func mayGetDescriptor(_ queueEntry: QueueEntry) -> Bool {
        queueEntry.trials < DescriptorLimit.mostTrials
            && (queueEntry.releasesSeen != descriptorLimit.releases || othersMayHoldDescriptors(than: queueEntry))
    }

    /// - Complexity: O(*n*) for *n* operations; asked only when there is no descriptor.
    private func othersMayHoldDescriptors(than queueEntry: QueueEntry) -> Bool {
        queueEntries.contains { $0.map { $0 !== queueEntry && $0.mayHoldDescriptors } ?? false }
    }
}
