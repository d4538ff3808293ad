// What happens to an operation between its coming and its end, and to hosts.
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
        // The operation queue has it, and starts it when it is ready: the operation that it waits for may need the slot.
        case .dispatched:
            queues.release(ticket, for: .inQueue)
            leavePermits(ticket)
        case .sharing:
            ticket.status = .blocked
            return Effects(transfer: coalescer.leave(ticket))
        case .preparing, .blocked, .inQueue, .yielded, .awaitingDescriptor, .ended: break
        }
        return Effects()
    }

    /// Nothing is left that a ticket waits for.
    private mutating func unblock(_ ticket: Ticket) -> Effects {
        guard ticket.status == .blocked else { return Effects() }
        ticket.status = .preparing
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
    mutating func prepared(_ ticket: Ticket, _ wish: Wish) -> Effects {
        guard wish.hasBegun == ticket.hasBegun else { return Effects() }
        leaveAnswer(ticket, wish)
        // It was started by hand just when the answer of another came.
        if ticket.hasBegun, ticket.status == .inQueue { return Effects(resumes: true) }
        if ticket.hasBegun { yieldSlot(ticket) }
        guard ticket.status == (ticket.hasBegun ? .yielded : .preparing) else { return Effects() }
        if ticket.hasBegun { leaveInterceptors(ticket) }
        (ticket.host, ticket.asksInterceptors) = (wish.host, wish.asksInterceptors)
        setExclusion(wish.exclusion, of: ticket)
        guard ticket.hasBegun || !ticket.isDependent.value else {
            ticket.status = .blocked
            return Effects()
        }
        _ = ticket.suspension.take(wish.suspension)
        return queue(ticket)
    }

    /// Nothing that a group depends on is left: it starts, unless its owner or the queue is suspended, or all is being
    /// cancelled.
    mutating func groupStarts(
        _ ticket: Ticket, _ suspension: Versioned<OperationStateMachine.Suspension>
    ) -> Bool {
        guard ticket.status == .preparing, !ticket.hasBegun else { return false }
        _ = ticket.suspension.take(suspension)
        if ticket.isDependent.value {
            ticket.status = .blocked
        } else if ticket.suspension.value.isSuspended {
            ticket.status = .suspended
        } else if isSuspended || isQueueSuspended || cancellations > 0 {
            ticket.status = .awaitingPermit
            heldGroups.append(ticket)
        } else {
            (ticket.hasBegun, ticket.status) = (true, .inQueue)
        }
        return ticket.hasBegun
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
        let waiting = tickets.compactMap { $0 }.filter { $0.status == .waiting && !$0.hasBegun && $0.role == .caller }
        for ticket in waiting {
            queues.leave(ticket, for: .inQueue)
            leavePermits(ticket)
        }
        return waiting.sorted { $0.queueNumber < $1.queueNumber }.compactMap(\.operation)
    }

    /// An operation whose request is known shares the transfer of others; nil when it is too late for that.
    mutating func shares(
        _ ticket: Ticket, _ key: CoalescingKey, new: RequestOperation<Data>, _ wish: Wish
    ) -> (change: Coalescer.Change, isNew: Bool)? {
        guard wish.hasBegun == ticket.hasBegun,
            ticket.hasBegun
                ? ticket.status == .yielded && !ticket.hasSent
                : ticket.status == .preparing && !ticket.isDependent.value
        else { return nil }
        ticket.host = wish.host
        _ = ticket.suspension.take(wish.suspension)
        return coalescer.join(ticket, key, new: new)
    }

    /// The transfer that an operation shares has ended with an answer; nil when it waits for something else by now.
    mutating func answerCame(
        _ ticket: Ticket, of key: CoalescingKey, _ suspension: Versioned<OperationStateMachine.Suspension>
    ) -> Effects? {
        guard ticket.shares(key) else { return nil }
        ticket.sharedTransfer = nil
        guard !latest(ticket, suspension).isSuspended else {
            ticket.status = .suspended
            return Effects()
        }
        // It needs no connection any more, and so no slot of its host.
        ticket.status = .inQueue
        if ticket.hasBegun { return Effects(resumes: true) }
        // What belongs to others is in no queue of the caller's.
        let enters = queueKind == .own || ticket.role == .caller
        return Effects(enters: enters, starts: !enters)
    }

    /// The priority of an operation was changed: one that waits joins the end of its new queue.
    mutating func priorityTold(_ ticket: Ticket, _ priority: Versioned<Operation.QueuePriority>) -> Effects {
        let earlier = ticket.priority.value
        guard ticket.priority.take(priority), earlier != priority.value else { return Effects() }
        if ticket.status == .awaitingPermit, let exclusion = ticket.exclusion, exclusion.holder !== ticket {
            exclusion.wait(ticket, Turn(ticket, queues.prioritization))
        }
        if ticket.status == .waiting {
            queues.leave(ticket, for: .preparing)
            queues.join(ticket)
        }
        return Effects(transfer: coalescer.priorityChanged(of: ticket))
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
            if ticket.hasSent { leaveInterceptors(ticket) } else { leavePermits(ticket) }
        case .awaitingPermit where isSuspended:
            ticket.status = .suspended
            if !ticket.hasSent { leavePermits(ticket) }
        // Resumed before others could have its slot; perhaps even before it could be told that it may send.
        case .dispatched where awaitsSlot && !isSuspended: return Effects(keeps: ticket.slot)
        case .dispatched where awaitsSlot && ticket.hasBegun:
            queues.release(ticket, for: .suspended)
            leaveInterceptors(ticket)
        case .suspended where !isSuspended && ticket.isGroup:
            ticket.status = .preparing
            return Effects(prepares: true)
        case .suspended where !isSuspended: return queue(ticket)
        // It has the answer of another: no slot will come for it.
        case .blocked, .preparing, .awaitingPermit, .sharing, .inQueue, .ended:
            if awaitsSlot, !isSuspended { return Effects(keeps: ticket.slot) }
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
    mutating func begins(_ ticket: Ticket, _ suspension: Versioned<OperationStateMachine.Suspension>) -> Bool {
        if ticket.hasPermit { interceptorLimiter.begin(ticket) }
        if queues.begin(ticket, limit: slotLimit) {
            // It is in the operation queue since another has taken its name, or it was blocked there and released it.
            if !latest(ticket, suspension).isSuspended, ticket.exclusion?.take(ticket) != false {
                ticket.hasSent = true
                return true
            }
            queues.release(ticket, for: .yielded, isUnsent: true)
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
    mutating func beginsWithAnswer(_ ticket: Ticket) {
        queues.release(ticket, for: .inQueue)
        queues.leave(ticket, for: .inQueue)
        interceptorLimiter.begin(ticket)
        ticket.hasBegun = true
    }

    /// An operation waits for something else than a slot: others may have its slot.
    ///
    /// - Parameter isUnsent: whether it has sent nothing since it got the slot.
    mutating func yielded(_ ticket: Ticket, isIntercepted: Bool, isUnsent: Bool = false) {
        queues.release(ticket, for: .yielded, isUnsent: isUnsent)
        yieldSlot(ticket)
        // One that has finished meanwhile has no permit to take.
        guard isIntercepted, ticket.status == .yielded else { return leaveInterceptors(ticket) }
        interceptorLimiter.take(ticket)
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
}
