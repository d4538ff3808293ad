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
        let arrival = SchedulerState.Arrival(
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
        state.next(.max, now).map { SchedulerWorldObjects.index(of: $0.operation) }
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
        state.priorityTold(first, Versioned(.low, version: 3))
        state.priorityTold(first, Versioned(.high, version: 2))
        // Told twice, it does not lose its order.
        state.priorityTold(second, Versioned(.low, version: 2))
        state.priorityTold(first, Versioned(.low, version: 3))
        #expect(next() == 0)
    }

    @Test func whatIsToldBeforeItArrivesCounts() {
        let ticket = Ticket(SchedulerWorldObjects.operation(0))
        _ = state.dependenciesTold(ticket, Versioned(true, version: 2))
        _ = state.suspensionTold(ticket, word(1))
        state.priorityTold(ticket, Versioned(.high, version: 2))
        let arrival = SchedulerState.Arrival(
            host: "a", priority: Versioned(.normal, version: 1), suspension: word(0),
            isDependent: Versioned(false, version: 1))
        let prepares = state.arrived(ticket, arrival).prepares
        #expect(!prepares)
        #expect(ticket.status == .blocked && ticket.priority.value == .high)
        #expect(tell(ticket, waits: false, version: 3))
        let isQueued = state.prepared(ticket, host: "a", asksInterceptors: false, word(0))
        #expect(isQueued && ticket.status == .suspended)
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

    /// The same of one that was started by hand while it shared a transfer: it waits for no slot.
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
        let isQueued = state.prepared(ticket, host: "a", asksInterceptors: false, word(0))
        #expect(!isQueued && ticket.status == .blocked)
    }

    /// The word of the resumption comes after the answer, which was told with it.
    @Test func resumedBeforeTheAnswerOfAnotherCameItKeepsItsSlot() {
        let ticket = arrive(0, host: nil)
        #expect(state.shares(ticket, SchedulerWorldObjects.key(0), host: "a") == true)
        _ = state.suspensionTold(ticket, word(1, awaitsSlot: true))
        #expect(state.answerCame(ticket, word(2, awaitsSlot: true)) == true)
        let keeps = state.suspensionTold(ticket, word(2, awaitsSlot: true)).keeps
        #expect(keeps == ticket.slot)
    }

    @Test func suspendedBeforeItMaySendItGivesItsSlotBack() {
        let ticket = arrive(0)
        #expect(next() == 0)
        // As it was at the start, and as it was told since.
        _ = state.suspensionTold(ticket, word(1))
        let begins = state.begins(ticket, word(0))
        #expect(!begins)
        #expect(ticket.status == .yielded && state.queues.running == 0)
        let isIn = state.requeued(ticket, host: "b", word(2))
        #expect(isIn)
        #expect(next() == 0)
    }

    /// An answer that another has fetched needs no connection: no hold and no limit concerns it.
    @Test(arguments: [false, true])
    func anAnswerBeginsWhateverItsHostIsAskedFor(isBlockedAgain: Bool) {
        let ticket = arrive(0, host: nil)
        let transfer = SchedulerWorldObjects.key(0)
        let isGiven = state.shares(ticket, transfer, host: "a") && state.answerCame(ticket, word(0))
        let reason = RetryAfterReason(request: RequestSummary(text: ""), statusCode: 503)
        let isHeld = state.queues.hold("a", until: now + .seconds(9), reason)
        #expect(isGiven && isHeld)
        if isBlockedAgain { _ = state.dependenciesTold(ticket, Versioned(true, version: 2)) }
        state.beginsWithAnswer(ticket)
        #expect(ticket.status == .dispatched && ticket.hasBegun)
        // So that a suspension finds the slot.
        _ = state.suspensionTold(ticket, word(1, awaitsSlot: true))
        #expect(ticket.status == .suspended && state.queues.running == 0)
        let isQuiet = state.finished(ticket, isSettled: true).isEmpty
        #expect(isQuiet)
        #expect(state.count == 0 && state.queues.places == 0)
    }

    @Test func aBarrierWaitsForWhatCameBeforeAndHoldsWhatComesBehind() {
        let first = arrive(0)
        let waiting = arrive(1, waits: true)
        state.barrierAdded {}
        let earlier = state.barriers.first?.barrier.earlier ?? []
        #expect(earlier.map { SchedulerWorldObjects.index(of: $0) } == [0])
        let behind = arrive(2)
        #expect(behind.status == .blocked && waiting.status == .blocked)
        #expect(next() == 0 && next() == nil)
        _ = state.finished(first, isSettled: true)
        #expect(next() == nil)
        let passed = state.barrierPassed()
        #expect(passed.map { SchedulerWorldObjects.index(of: $0) } == [2])
    }
}
