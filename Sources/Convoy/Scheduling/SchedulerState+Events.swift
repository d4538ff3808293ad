// What happens to an operation between its coming and its end, and to hosts and barriers.
import Foundation

extension SchedulerState {
    // MARK: Before the start

    /// A dependency of an operation was added, removed or has finished.
    mutating func dependenciesTold(_ ticket: Ticket, _ isDependent: Versioned<Bool>) -> Effects {
        guard ticket.isDependent.take(isDependent) else { return Effects() }
        return isDependent.value ? block(ticket) : unblock(ticket)
    }

    /// Takes a ticket out of its queue, or its slot away: it waits for a dependency.
    private mutating func block(_ ticket: Ticket) -> Effects {
        // It was started while the dependency was being added: that is too late.
        guard !ticket.hasBegun else { return Effects() }
        switch ticket.status {
        case .waiting:
            queues.leave(ticket, for: .blocked)
            leavePermits(ticket)
        case .suspended, .awaitingPermit:
            ticket.status = .blocked
            leavePermits(ticket)
        // It has not been started: the operation that it waits for may need the slot.
        case .dispatched:
            queues.giveBack(ticket, for: .blockedInQueue)
            leavePermits(ticket)
        case .sharing:
            // Its answer, if it has come, waits as well.
            ticket.status = .blocked
            return Effects(leaves: ticket.sharedTransfer)
        case .preparing, .blocked, .blockedInQueue, .yielded, .awaitingDescriptor, .ended: break
        }
        return Effects()
    }

    /// Nothing is left that a ticket waits for.
    private mutating func unblock(_ ticket: Ticket) -> Effects {
        if ticket.status == .blockedInQueue { queues.takeBack(ticket, sends: true) }
        guard ticket.status == .blocked, !ticket.isBarred else { return Effects() }
        ticket.status = .preparing
        return Effects(prepares: true)
    }

    /// The request of an operation has been built and checked; false when it does not wait for a slot now.
    ///
    /// - Parameter exclusion: the name that no other that runs may have.
    mutating func prepared(
        _ ticket: Ticket, host: String, asksInterceptors: Bool, exclusion: String? = nil,
        _ suspension: Versioned<OperationStateMachine.Suspension>
    ) -> Bool {
        guard ticket.status == .preparing else { return false }
        (ticket.host, ticket.asksInterceptors) = (host, asksInterceptors)
        setExclusion(exclusion, of: ticket)
        guard !ticket.isDependent.value else {
            ticket.status = .blocked
            return false
        }
        _ = ticket.suspension.take(suspension)
        queue(ticket)
        return true
    }

    /// The operation queue has come to a group; false when that waits for something else by now, or has ended.
    mutating func groupStarts(
        _ ticket: Ticket, _ suspension: Versioned<OperationStateMachine.Suspension>
    ) -> Bool {
        guard ticket.status == .preparing, !ticket.hasBegun else { return false }
        _ = ticket.suspension.take(suspension)
        if ticket.isDependent.value {
            ticket.status = .blocked
        } else if ticket.suspension.value.isSuspended {
            ticket.status = .suspended
        } else {
            ticket.hasBegun = true
        }
        return ticket.hasBegun
    }

    /// An operation whose request has been built may share the transfer of others; false when it is too late for that.
    mutating func shares(_ ticket: Ticket, _ transfer: CoalescingKey, host: String) -> Bool {
        guard ticket.status == .preparing, !ticket.isDependent.value else { return false }
        (ticket.status, ticket.sharedTransfer, ticket.host) = (.sharing, transfer, host)
        return true
    }

    /// The transfer that an operation shares has ended with an answer; true when it is to be given to the operation queue.
    mutating func answerCame(_ ticket: Ticket, _ suspension: Versioned<OperationStateMachine.Suspension>) -> Bool {
        // One that was started by hand has sent its request itself.
        guard ticket.status == .sharing, !ticket.hasBegun else { return false }
        ticket.status = .suspended
        guard !latest(ticket, suspension).isSuspended else { return false }
        // It needs no connection any more, and so no slot of its host; the operation queue's limit is Foundation's.
        queues.takeBack(ticket)
        return true
    }

    /// The priority of an operation was changed: one that waits joins the end of its new queue.
    mutating func priorityTold(_ ticket: Ticket, _ priority: Versioned<Operation.QueuePriority>) {
        let earlier = ticket.priority.value
        guard ticket.priority.take(priority), earlier != priority.value else { return }
        if ticket.status == .awaitingPermit, let exclusion = ticket.exclusion, exclusion.holder !== ticket {
            exclusion.wait(ticket, Turn(ticket, queues.prioritization))
        }
        guard ticket.status == .waiting else { return }
        queues.leave(ticket, for: .preparing)
        queues.join(ticket)
    }

    /// An operation was suspended or resumed, or has come to rest because it was suspended: one that is suspended is in no
    /// queue, and one that has come to rest has no slot.
    mutating func suspensionTold(
        _ ticket: Ticket, _ word: Versioned<OperationStateMachine.Suspension>
    ) -> Effects {
        guard ticket.suspension.take(word) else { return Effects() }
        let (isSuspended, awaitsSlot) = (word.value.isSuspended, word.value.awaitsSlot)
        switch ticket.status {
        case .waiting where isSuspended:
            queues.leave(ticket, for: .suspended)
            if ticket.hasBegun { leaveInterceptors(ticket) } else { leavePermits(ticket) }
        case .awaitingPermit where isSuspended:
            ticket.status = .suspended
            if !ticket.hasBegun { leavePermits(ticket) }
        // Resumed before others could have its slot; perhaps even before it could be told that it may send.
        case .dispatched where awaitsSlot && !isSuspended: return Effects(keeps: ticket.slot)
        case .dispatched where awaitsSlot && ticket.hasBegun:
            queues.giveBack(ticket, for: .suspended)
            leaveInterceptors(ticket)
        case .suspended where !isSuspended && ticket.isGroup:
            ticket.status = .preparing
            return Effects(prepares: true)
        case .suspended where !isSuspended: queues.join(ticket)
        // Started by hand: no slot will come for it.
        case .blocked, .preparing, .awaitingPermit, .sharing, .blockedInQueue, .ended:
            if awaitsSlot, !isSuspended { return Effects(keeps: ticket.slot) }
        case .waiting, .suspended, .dispatched, .yielded, .awaitingDescriptor: break
        }
        return Effects()
    }

    // MARK: From the start on

    /// An operation has been started: whether it may send at once.
    ///
    /// One that may not has no slot, and is to come back by ``requeued(_:host:_:)``: it is suspended, its host has been put
    /// on hold while it waited for the operation queue, or its slot was used by another that had begun before.
    ///
    /// - Parameter suspension: as it was at the start; what was told since counts.
    mutating func begins(_ ticket: Ticket, _ suspension: Versioned<OperationStateMachine.Suspension>) -> Bool {
        let begins = queues.begin(ticket, limit: slotLimit)
        if begins {
            // By hand: it waits for nothing.
            guard ticket.status == .dispatched else { return true }
            // It is in the operation queue since another has taken its name, or it was blocked there and gave it back.
            if !latest(ticket, suspension).isSuspended, ticket.exclusion?.take(ticket) != false { return true }
            queues.giveBack(ticket, for: .yielded, isUnsent: true)
        }
        // Others may run under its name meanwhile: it has sent nothing.
        if let next = ticket.exclusion?.leave(ticket) { queues.join(next) }
        return false
    }

    /// The suspension of a ticket that is given a slot without its queue.
    ///
    /// Not taken: the word of the change is on its way, and when it has been resumed that word lets it keep the slot.
    private func latest(
        _ ticket: Ticket, _ suspension: Versioned<OperationStateMachine.Suspension>
    ) -> OperationStateMachine.Suspension {
        suspension.version > ticket.suspension.version ? suspension.value : ticket.suspension.value
    }

    /// An operation with an answer that another has fetched has been started: it sends nothing.
    mutating func beginsWithAnswer(_ ticket: Ticket) { queues.beginUnsent(ticket) }

    /// An operation waits for something else than a slot: others may have its slot.
    ///
    /// - Parameter isUnsent: whether it has sent nothing since it got the slot.
    mutating func yielded(_ ticket: Ticket, isIntercepted: Bool, isUnsent: Bool = false) {
        queues.giveBack(ticket, for: .yielded, isUnsent: isUnsent)
        yieldSlot(ticket)
        // One that has finished meanwhile has no permit to take.
        guard isIntercepted, ticket.status == .yielded else { return leaveInterceptors(ticket) }
        interceptorLimiter.take(ticket)
    }

    /// An operation that has begun is ready for another attempt, perhaps at another host; false for one that waits for no
    /// slot: it was started by hand, for example.
    mutating func requeued(
        _ ticket: Ticket, host: String, _ suspension: Versioned<OperationStateMachine.Suspension>
    ) -> Bool {
        yieldSlot(ticket)
        guard ticket.status == .yielded else { return false }
        leaveInterceptors(ticket)
        ticket.host = host
        _ = ticket.suspension.take(suspension)
        queue(ticket)
        return true
    }

    // MARK: Network

    /// There is a network again, or none any more.
    mutating func connectivityChanged(isConnected: Bool) { queues.setOffline(!isConnected) }

    // MARK: Descriptors

    /// An operation found no file descriptor, and has given its slot and its files back; false for one that waits for no
    /// slot.
    mutating func lacksDescriptor(_ ticket: Ticket, host: String) -> Bool {
        yieldSlot(ticket)
        guard ticket.status == .yielded else { return false }
        leaveInterceptors(ticket)
        ticket.host = host
        shortage.add(ticket, running: queues.running)
        // The others have ended meanwhile.
        if !othersMayHoldDescriptors(than: ticket), let first = shortage.takeFirst() { queues.join(first) }
        return true
    }

    /// The time has passed after which another may look for a descriptor.
    mutating func shortageTimePassed() {
        if let next = shortage.timePassed(slots: limit) { queues.join(next) }
    }

    /// Whether an operation that found no descriptor may find one later: others here will give some back, or have done so
    /// since it got its slot.
    func mayGetDescriptor(_ ticket: Ticket) -> Bool {
        ticket.trials < Shortage.mostTrials
            && (ticket.releasesSeen != shortage.releases || othersMayHoldDescriptors(than: ticket))
    }

    /// - Complexity: O(*n*) for *n* operations; asked only when there is no descriptor.
    private func othersMayHoldDescriptors(than ticket: Ticket) -> Bool {
        tickets.contains { $0.map { $0 !== ticket && $0.mayHoldDescriptors } ?? false }
    }

    // MARK: Barriers

    /// A barrier was added: it holds back what comes from now on.
    ///
    /// It does not wait for what waits for another operation now, as groups do: that other may come behind it. What another thread
    /// enqueues meanwhile comes neither before it nor behind it.
    mutating func barrierAdded(_ block: @escaping @Sendable () -> Void) {
        let earlier = tickets.compactMap { ticket -> AnyRequestOperation? in
            guard let ticket, !ticket.isShared, !ticket.isDependent.value, !ticket.isGroup else { return nil }
            return ticket.end == .open || ticket.end == .settled ? ticket.operation : nil
        }
        barriers.append((Barrier(block: block, earlier: earlier), []))
    }

    /// The first barrier has run; the result is what it has held back and is to be prepared.
    mutating func barrierPassed() -> [AnyRequestOperation] {
        guard !barriers.isEmpty else { return [] }
        return barriers.removeFirst().held.compactMap { ticket in
            ticket.isBarred = false
            return !ticket.isDependent.value && unblock(ticket).prepares ? ticket.operation : nil
        }
    }
}
