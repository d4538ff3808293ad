import Foundation
import Testing

@testable import Convoy

/// The scheduler's state, an event at a time.
@Suite final class SchedulerStateTests {
    private typealias Suspension = OperationStateMachine.Suspension

    private let now = ContinuousClock.now
    private var state = SchedulerState(
        limit: 1, hosts: HostLimits(fixed: 1), retryBudget: RetryBudgetState(.unlimited))

    /// Suspended and resumed so often, as its owner tells it.
    private func word(_ changes: UInt32, awaitsSlot: Bool = false) -> Versioned<Suspension> {
        let suspension = Suspension(isSuspended: changes % 2 == 1, awaitsSlot: awaitsSlot, changes: changes)
        return Versioned(suspension, version: 2 * changes + (suspension.isSuspended == awaitsSlot ? 2 : 1))
    }

    private func arrive(_ index: Int, host: String? = "a", waits: Bool = false) -> Ticket {
        let ticket = Ticket(SchedulerWorldObjects.operation(index))
        let arrival = OperationState.Arrival(
            host: host, priority: Versioned(.normal, version: 1), suspension: word(0),
            isDependent: Versioned(waits, version: 1))
        _ = state.arrived(ticket, arrival)
        return ticket
    }

    /// Whether its request is to be prepared then.
    private func tell(_ ticket: Ticket, waits: Bool, version: UInt32) -> Bool {
        state.dependenciesTold(ticket, Versioned(waits, version: version)).prepares
    }

    private func next() -> Int? {
        state.next(now).map { SchedulerWorldObjects.index(of: $0.operation) }
    }

    @Test func aLateWordOfDependenciesDoesNothing() {
        let ticket = arrive(0)
        #expect(!tell(ticket, waits: true, version: 4))
        #expect(ticket.status == .blocked)
        // An edge was added and removed before that: both words come late.
        for (waits, version) in [(false, 3), (true, 2), (false, 4)] as [(Bool, UInt32)] {
            #expect(!tell(ticket, waits: waits, version: version))
            #expect(ticket.status == .blocked)
        }
        #expect(tell(ticket, waits: false, version: 5))
        #expect(!tell(ticket, waits: false, version: 5))
    }

    @Test func aLateWordOfSuspensionDoesNothing() {
        let ticket = arrive(0)
        _ = state.suspensionTold(ticket, word(2))
        _ = state.suspensionTold(ticket, word(1))
        #expect(ticket.status == .waiting)
        _ = state.suspensionTold(ticket, word(3))
        _ = state.suspensionTold(ticket, word(2))
        #expect(ticket.status == .suspended)
        #expect(next() == nil)
    }

    @Test func aLateWordOfPriorityDoesNothing() {
        let (first, second) = (arrive(0), arrive(1))
        _ = state.priorityTold(first, Versioned(.low, version: 3))
        _ = state.priorityTold(first, Versioned(.high, version: 2))
        // Told twice, it does not lose its order.
        _ = state.priorityTold(second, Versioned(.low, version: 2))
        _ = state.priorityTold(first, Versioned(.low, version: 3))
        #expect(next() == 0)
    }

    @Test func whatIsToldBeforeItArrivesCounts() {
        let ticket = Ticket(SchedulerWorldObjects.operation(0))
        _ = state.dependenciesTold(ticket, Versioned(true, version: 2))
        _ = state.suspensionTold(ticket, word(1))
        _ = state.priorityTold(ticket, Versioned(.high, version: 2))
        let arrival = OperationState.Arrival(
            host: "a", priority: Versioned(.normal, version: 1), suspension: word(0),
            isDependent: Versioned(false, version: 1))
        let prepares = state.arrived(ticket, arrival).prepares
        #expect(!prepares)
        #expect(ticket.status == .blocked && ticket.priority.value == .high)
        #expect(tell(ticket, waits: false, version: 3))
        _ = state.prepared(ticket, wish())
        #expect(ticket.status == .suspended)
    }

    /// Between `start()` and the question whether it may send, it was suspended, had come to rest, and was resumed.
    @Test func aResumeThatIsToldBeforeItMaySendKeepsItsSlot() {
        let ticket = arrive(0)
        #expect(next() == 0)
        _ = state.suspensionTold(ticket, word(1, awaitsSlot: true))
        let keeps = state.suspensionTold(ticket, word(2, awaitsSlot: true)).keeps
        let begins = state.begins(ticket, word(1))
        #expect(keeps == ticket.slot && begins)
    }

    /// The same of one that has the answer of another: it waits for no slot.
    @Test func aResumeThatIsToldBeforeItBeginsByHandLetsItGoOn() {
        let ticket = arrive(0, host: nil)
        #expect(ticket.status == .preparing)
        _ = state.suspensionTold(ticket, word(1, awaitsSlot: true))
        let keeps = state.suspensionTold(ticket, word(2, awaitsSlot: true)).keeps
        #expect(keeps == ticket.slot)
    }

    /// So that no hold of its host ends it before its dependency has finished.
    @Test func whatWaitsAgainWhenItIsPreparedIsNotQueued() {
        let ticket = arrive(0, host: nil)
        #expect(!tell(ticket, waits: true, version: 2))
        _ = state.prepared(ticket, wish())
        #expect(ticket.status == .blocked)
    }

    private func wish(_ changes: UInt32 = 0, host: String = "a", hasBegun: Bool = false) -> SchedulerState.Wish {
        SchedulerState.Wish(host: host, hasBegun: hasBegun, suspension: word(changes))
    }

    /// Has an operation share the transfer of its group; the result is what follows for that.
    private func share(_ ticket: Ticket, _ key: CoalescingKey, new: Int = 9) -> Coalescer.Change? {
        state.shares(
            ticket, key, new: SchedulerWorldObjects.operation(new), wish(hasBegun: ticket.hasBegun))?.change
    }

    @Test func suspendedBeforeItMaySendItGivesItsSlotBack() {
        let ticket = arrive(0)
        #expect(next() == 0)
        // As it was at the start, and as it was told since.
        _ = state.suspensionTold(ticket, word(1))
        let begins = state.begins(ticket, word(0))
        #expect(!begins)
        #expect(ticket.status == .yielded && state.queues.running == 0)
        _ = state.prepared(ticket, wish(2, host: "b", hasBegun: true))
        #expect(next() == 0)
    }

    /// An answer that another has fetched needs no connection: no hold and no limit concerns it.
    @Test(arguments: [false, true])
    func anAnswerBeginsWhateverItsHostIsAskedFor(isBlockedAgain: Bool) throws {
        let ticket = arrive(0, host: nil)
        let key = try #require(SchedulerWorldObjects.key(of: 0))
        #expect(share(ticket, key) != nil)
        let isGiven = state.answerCame(ticket, of: key, word(0))?.enters == true
        #expect(isGiven)
        let reason = RetryAfterReason(request: RequestSummary(text: ""), statusCode: 503)
        let isHeld = state.queues.hold("a", until: now + .seconds(9), reason)
        #expect(isHeld)
        if isBlockedAgain { _ = state.dependenciesTold(ticket, Versioned(true, version: 2)) }
        state.beginsWithAnswer(ticket)
        #expect(ticket.status == .inQueue && ticket.hasBegun)
        // It came to rest before it had taken the answer.
        _ = state.suspensionTold(ticket, word(1, awaitsSlot: true))
        let keepsIt = state.suspensionTold(ticket, word(2, awaitsSlot: true)).keeps == ticket.slot
        #expect(keepsIt)
        let isQuiet = state.finished(ticket, isSettled: true).calls.isEmpty
        #expect(isQuiet)
        #expect(state.count == 0 && state.queues.running == 0)
    }

    // MARK: Shared transfers

    /// It got a dependency and lost it while it was being prepared, so that it was prepared twice; the first comes late.
    @Test func whatIsPreparedTwiceSubscribesOnce() throws {
        let ticket = arrive(0, host: nil)
        _ = tell(ticket, waits: true, version: 2)
        _ = state.prepared(ticket, wish())
        #expect(tell(ticket, waits: false, version: 3))
        let (late, second) = (
            try #require(SchedulerWorldObjects.key(of: 0)), try #require(SchedulerWorldObjects.key(of: 0))
        )
        #expect(share(ticket, second) != nil)
        #expect(share(ticket, late) == nil)
        #expect(ticket.status == .sharing && state.coalescer.operation(ticket) === SchedulerWorldObjects.operation(9))
        let lateCountsForNothing = state.answerCame(ticket, of: late, word(0)) == nil
        #expect(lateCountsForNothing)
        let isEntered = state.answerCame(ticket, of: second, word(0))?.enters == true
        #expect(isEntered)
    }

    @Test func theLastSubscriberThatLeavesEndsTheTransfer() throws {
        let (first, second) = (arrive(0, host: nil), arrive(1, host: nil))
        let keys = try (0..<2).map { _ in try #require(SchedulerWorldObjects.key(of: 0)) }
        #expect(share(first, keys[0])?.priority?.value == .normal)
        #expect(share(second, keys[1], new: 8)?.operation === SchedulerWorldObjects.operation(9))
        let isRaised = state.priorityTold(second, Versioned(.high, version: 2)).transfer?.priority?.value == .high
        #expect(isRaised)
        let isLoweredAgain = state.abandoned(second).transfer?.priority?.value == .normal
        #expect(isLoweredAgain)
        let last = state.dependenciesTold(first, Versioned(true, version: 2)).transfer
        #expect(last?.operation === SchedulerWorldObjects.operation(9) && last?.priority == nil)
        #expect(first.status == .blocked && state.coalescer.isEmpty)
    }

    /// Started by a queue of the caller's, it waits for the answer as it would for a slot.
    @Test func whatHasBegunResumesWithTheAnswer() throws {
        state = SchedulerState(
            limit: 1, hosts: HostLimits(fixed: 1), retryBudget: RetryBudgetState(.unlimited), queue: .callers)
        let ticket = arrive(0)
        let key = try #require(SchedulerWorldObjects.key(of: 0))
        #expect(ticket.status == .inQueue)
        let waits = !state.begins(ticket, word(0))
        #expect(waits)
        #expect(share(ticket, key) != nil)
        let resumes = state.answerCame(ticket, of: key, word(0))?.resumes == true
        #expect(resumes)
    }

    // MARK: The operation queue

    @Test func aQueueOfTheCallersGetsEverythingAtOnce() {
        state = SchedulerState(
            limit: 1, hosts: HostLimits(fixed: 1), retryBudget: RetryBudgetState(.unlimited), queue: .callers)
        for index in 0..<3 {
            let ticket = Ticket(SchedulerWorldObjects.operation(index))
            let arrival = OperationState.Arrival(
                host: "a", priority: Versioned(.normal, version: 1), suspension: word(0),
                isDependent: Versioned(index == 1, version: 1), hasOutcome: index == 2)
            let isEntered = state.arrived(ticket, arrival).enters && ticket.status == .inQueue
            #expect(isEntered)
        }
        #expect(next() == nil)
        // A member of a group has the place of that.
        let member = Ticket(SchedulerWorldObjects.operation(3), .member)
        let arrival = OperationState.Arrival(
            host: "a", priority: Versioned(.normal, version: 1), suspension: word(0),
            isDependent: Versioned(false, version: 1))
        let waits = !state.arrived(member, arrival).enters
        #expect(waits)
        #expect(next() == 3)
    }

    /// What has been started waits for a slot, and comes back before those that have not been started.
    @Test func whatIsStartedWithoutASlotWaitsForOne() {
        let (first, second, third) = (arrive(0), arrive(1), arrive(2))
        #expect(next() == 0)
        let waits = !state.begins(third, word(0))
        #expect(waits)
        _ = state.prepared(third, wish(hasBegun: true))
        #expect(third.status == .waiting && third.rank == .started && second.rank == .new)
        // The slot of one that is not started does not count against it.
        #expect(next() == 2)
        #expect(first.status == .dispatched && !first.hasBegun)
    }

    @Test func aQueueThatGetsALimitGetsWhatWaits() {
        let tickets = (0..<3).map { arrive($0) }
        #expect(next() == 0)
        let areGiven = state.limitQueue().map { SchedulerWorldObjects.index(of: $0) } == [1, 2]
        #expect(areGiven)
        #expect(tickets.map(\.status) == [.dispatched, .inQueue, .inQueue])
        #expect(arrive(3).status == .inQueue)
    }

    @Test func aSuspendedQueueGetsNothingNew() {
        let (first, second) = (arrive(0), arrive(1, host: "b"))
        state.limit = 2
        #expect(next() == 0)
        let begins = state.begins(first, word(0))
        #expect(begins)
        state.isQueueSuspended = true
        #expect(next() == nil && second.status == .waiting)
        // What has begun goes on.
        _ = state.prepared(first, wish(hasBegun: true))
        #expect(next() == 0)
        state.isQueueSuspended = false
        #expect(next() == 1)
    }

    @Test func aGroupWaitsForTheEndOfASuspension() {
        let ticket = arrive(0, host: nil)
        state.isSuspended = true
        let isHeld = !state.groupStarts(ticket, word(0))
        #expect(isHeld)
        let areHeld = state.takeHeldGroups().isEmpty
        #expect(areHeld)
        state.isSuspended = false
        let isFreed = state.takeHeldGroups().count == 1
        #expect(isFreed)
        let starts = state.groupStarts(ticket, word(0)) && ticket.hasBegun
        #expect(starts)
    }
}
