// Events of an operation between its arrival and its end, and events of hosts.
import Foundation

extension SchedulerState {
    // MARK: Before the start

    /// Called when a dependency of an operation was added, was removed or has finished.
    mutating func dependenciesTold(_ queueEntry: QueueEntry, _ isDependent: Versioned<Bool>) -> Effects {
        guard queueEntry.isDependent.take(isDependent) else { return Effects() }
        guard isDependent.value else {
            guard queueEntry.status == .blocked else { return Effects() }
            queueEntry.status = .preparing
            return Effects(prepares: true)
        }
        // The operation was started while the dependency was being added, so it no longer waits.
        guard !queueEntry.hasBegun else { return Effects() }
        switch queueEntry.status {
        case .waiting: queues.release(queueEntry, for: .blocked)
        case .suspended, .awaitingPermit: queueEntry.status = .blocked
        // The dependency may need the slot. The operation queue starts the operation when the dependency has finished.
        case .dispatched: queues.release(queueEntry, for: .inQueue)
        case .sharing:
            queueEntry.status = .blocked
            return Effects(transfer: coalescer.leave(queueEntry))
        case .preparing, .blocked, .inQueue, .yielded, .awaitingDescriptor, .ended: return Effects()
        }
        leaveExclusion(queueEntry)
        return Effects()
    }

    /// Called when the request of an operation has been built and checked, or when it is ready for another attempt.
    mutating func prepared(_ queueEntry: QueueEntry, _ wish: OperationState.Wish) -> Effects {
        guard wish.hasBegun == queueEntry.hasBegun else { return Effects() }
        if wish.followsAnswer, queueEntry.status == .inQueue { queueEntry.status = .yielded }
        // The operation was started by hand just when a shared response arrived.
        if queueEntry.hasBegun, queueEntry.status == .inQueue { return Effects(resumes: true) }
        if queueEntry.hasBegun { yieldSlot(queueEntry) }
        guard queueEntry.status == (queueEntry.hasBegun ? .yielded : .preparing) else { return Effects() }
        queueEntry.host = wish.host
        if let name = wish.exclusion, queueEntry.exclusion == nil {
            let exclusion = exclusions[name] ?? Exclusion(name)
            exclusions[name] = exclusion
            exclusion.queueEntries += 1
            queueEntry.exclusion = exclusion
        }
        guard queueEntry.hasBegun || !queueEntry.isDependent.value else {
            queueEntry.status = .blocked
            return Effects()
        }
        _ = queueEntry.suspension.take(wish.suspension)
        return wish.hasAnswer && mayStartAnswered(queueEntry) ? answered(queueEntry) : queue(queueEntry)
    }

    /// Whether an operation may start or resume now with a response of the cache.
    ///
    /// The operation then uses no slot and no rate token, and does not count for the limit of its host.
    private func mayStartAnswered(_ queueEntry: QueueEntry) -> Bool {
        queueEntry.exclusion == nil && !queueEntry.suspension.value.isSuspended && !isSuspended && cancellations == 0
            && (queueEntry.hasBegun || !isQueueSuspended)
    }

    /// Lets a group start, unless a dependency, a suspension of the group, manager or queue, or a running cancellation
    /// delays it.
    mutating func groupStarts(
        _ queueEntry: QueueEntry, _ suspension: Versioned<OperationStateMachine.Suspension>
    ) -> Bool {
        guard queueEntry.status == .preparing, !queueEntry.hasBegun else { return false }
        _ = queueEntry.suspension.take(suspension)
        if queueEntry.isDependent.value {
            queueEntry.status = .blocked
        } else if queueEntry.suspension.value.isSuspended {
            queueEntry.status = .suspended
        } else if isHoldingBack {
            queueEntry.status = .awaitingPermit
            heldGroups.append(queueEntry)
        } else {
            (queueEntry.hasBegun, queueEntry.status) = (true, .inQueue)
        }
        return queueEntry.hasBegun
    }

    /// The groups that may start now, the highest priority first.
    mutating func takeHeldGroups() -> [AnyRequestOperation] {
        guard !isHoldingBack, !heldGroups.isEmpty else { return [] }
        defer { heldGroups = [] }
        let groups = heldGroups.filter { $0.status == .awaitingPermit }
        for group in groups { group.status = .preparing }
        return groups.sorted { ($0.priorityIndex, $0.sequence) < ($1.priorityIndex, $1.sequence) }.compactMap(
            \.operation)
    }

    /// Called when the manager's own queue gets a limit; from then on that queue decides the order.
    ///
    /// - Returns: the waiting operations, to be added to the queue.
    mutating func limitQueue() -> [AnyRequestOperation] {
        isQueueLimited = true
        let waiting = queueEntries.compactMap { $0 }.filter {
            $0.status == .waiting && !$0.hasBegun && $0.role == .caller
        }
        for queueEntry in waiting {
            queues.release(queueEntry, for: .inQueue)
            leaveExclusion(queueEntry)
        }
        return waiting.sorted { $0.queueNumber < $1.queueNumber }.compactMap(\.operation)
    }

    /// Makes an operation share a transfer; nil if it has a dependency, has sent something, or its wish is outdated.
    mutating func shares(
        _ queueEntry: QueueEntry, _ key: CoalescingKey, new: RequestOperation<Data>, _ wish: OperationState.Wish
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

    /// Called when the shared transfer of an operation has a response; nil if the operation no longer waits for it.
    mutating func answerCame(
        _ queueEntry: QueueEntry, of key: CoalescingKey, _ suspension: Versioned<OperationStateMachine.Suspension>
    ) -> Effects? {
        guard queueEntry.shares(key) else { return nil }
        queueEntry.sharedTransfer = nil
        let newest = suspension.version > queueEntry.suspension.version ? suspension : queueEntry.suspension
        guard !newest.value.isSuspended else {
            queueEntry.status = .suspended
            return Effects()
        }
        return answered(queueEntry)
    }

    /// Starts or resumes an operation without a slot, because the cache or a shared transfer has its response.
    func answered(_ queueEntry: QueueEntry) -> Effects {
        queueEntry.status = .inQueue
        if queueEntry.hasBegun { return Effects(resumes: true) }
        // Members of groups and shared transfers are not in a caller's queue.
        let enters = queueKind == .own || queueEntry.role == .caller
        return Effects(enters: enters, starts: !enters)
    }

    /// Updates the priority of an operation; a waiting one joins the end of its new queue.
    mutating func priorityTold(_ queueEntry: QueueEntry, _ priority: Versioned<Operation.QueuePriority>) -> Effects {
        let earlier = queueEntry.priority.value
        guard queueEntry.priority.take(priority), earlier != priority.value else { return Effects() }
        if queueEntry.status == .awaitingPermit, let exclusion = queueEntry.exclusion, exclusion.holder !== queueEntry {
            exclusion.wait(Turn(queueEntry, queues.prioritization))
        }
        if queueEntry.status == .waiting {
            queues.release(queueEntry, for: .preparing)
            queues.join(queueEntry)
        }
        return Effects(transfer: coalescer.priorityChanged(of: queueEntry))
    }

    /// Called when an operation was suspended or resumed, or became idle because it is suspended.
    mutating func suspensionTold(
        _ queueEntry: QueueEntry, _ word: Versioned<OperationStateMachine.Suspension>
    ) -> Effects {
        guard queueEntry.suspension.take(word) else { return Effects() }
        let (isSuspended, awaitsSlot) = (word.value.isSuspended, word.value.awaitsSlot)
        switch queueEntry.status {
        case .waiting where isSuspended:
            queues.release(queueEntry, for: .suspended)
            if !queueEntry.hasSent { leaveExclusion(queueEntry) }
        case .awaitingPermit where isSuspended:
            queueEntry.status = .suspended
            if !queueEntry.hasSent { leaveExclusion(queueEntry) }
        // The operation was resumed before it released its slot, perhaps even before it was notified of the slot.
        case .dispatched where awaitsSlot && !isSuspended: return Effects(keeps: queueEntry.slot)
        case .dispatched where awaitsSlot && queueEntry.hasBegun: queues.release(queueEntry, for: .suspended)
        case .suspended where !isSuspended && queueEntry.isGroup:
            queueEntry.status = .preparing
            return Effects(prepares: true)
        case .suspended where !isSuspended: return queue(queueEntry)
        // An operation that is idle in one of these states, for example with a shared response, needs no slot to
        // resume.
        case .blocked, .preparing, .awaitingPermit, .sharing, .inQueue, .ended:
            if awaitsSlot, !isSuspended { return Effects(keeps: queueEntry.slot) }
        case .waiting, .suspended, .dispatched, .yielded, .awaitingDescriptor: break
        }
        return Effects()
    }

    /// Called when an operation has an outcome before its start.
    ///
    /// An operation in the operation queue is started by that queue, and then finishes. If `starts` is true, no queue
    /// contains the operation, so the caller finishes it.
    mutating func abandoned(_ queueEntry: QueueEntry) -> Effects {
        switch queueEntry.status {
        case .waiting: queues.release(queueEntry)
        case .blocked, .preparing, .suspended, .sharing, .awaitingPermit: queueEntry.status = .ended
        case .dispatched, .inQueue, .yielded, .awaitingDescriptor, .ended: return Effects()
        }
        return Effects(starts: true, transfer: coalescer.leave(queueEntry))
    }

    // MARK: After the start

    /// Called when an operation with a shared or stored response has started, so that it sends nothing.
    mutating func beginsWithAnswer(_ queueEntry: QueueEntry) {
        queues.release(queueEntry, for: .inQueue)
        queueEntry.hasBegun = true
    }

    /// Makes an operation that found no file descriptor release its slot and wait; false if it needs no slot.
    mutating func lacksDescriptor(_ queueEntry: QueueEntry, host: String) -> Bool {
        yieldSlot(queueEntry)
        guard queueEntry.status == .yielded else { return false }
        queueEntry.host = host
        descriptorLimit.add(queueEntry, running: queues.running)
        // If all operations that had descriptors have finished, the first waiting operation tries again now.
        if !othersMayHoldDescriptors(than: queueEntry), let first = descriptorLimit.takeFirst() { queues.join(first) }
        return true
    }

    /// Called when the wait for a descriptor has timed out.
    mutating func descriptorTimePassed() {
        if let next = descriptorLimit.timePassed(slots: limit) { queues.join(next) }
    }

    /// Whether other operations of this manager may release descriptors, or have done so since the operation got its
    /// slot.
    ///
    /// False after ``DescriptorLimit/mostTrials`` timed-out waits.
    func mayGetDescriptor(_ queueEntry: QueueEntry) -> Bool {
        queueEntry.trials < DescriptorLimit.mostTrials
            && (queueEntry.releasesSeen != descriptorLimit.releases || othersMayHoldDescriptors(than: queueEntry))
    }

    /// - Complexity: O(*n*) for *n* operations; called only if there is no descriptor.
    private func othersMayHoldDescriptors(than queueEntry: QueueEntry) -> Bool {
        queueEntries.contains { other in
            guard let other, other !== queueEntry else { return false }
            // An operation that has sent something may wait with a paused connection.
            return other.status == .dispatched || other.status == .yielded
                || other.hasSent && (other.status == .waiting || other.status == .suspended)
        }
    }
}
