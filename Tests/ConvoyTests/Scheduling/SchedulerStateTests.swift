import Foundation
import Testing

@testable import Convoy

@Suite final class SchedulerStateTests {
    private typealias Suspension = OperationStateMachine.Suspension

    private let now = ContinuousClock.now
    private var state = SchedulerState(
        limit: 1, hosts: HostLimits(fixed: 1), retryBudget: RetryBudgetState(.unlimited))

    /// The report of an operation whose suspension has changed this many times.
    private func word(_ changes: UInt32, awaitsSlot: Bool = false) -> Versioned<Suspension> {
        let suspension = Suspension(changes: changes, awaitsSlot: awaitsSlot)
        return Versioned(suspension, version: 2 * changes + (suspension.isSuspended == awaitsSlot ? 2 : 1))
    }

    private func arrive(_ index: Int, host: String? = "a", waits: Bool = false) -> QueueEntry {
        let queueEntry = QueueEntry(SchedulerWorldObjects.operation(index))
        let arrival = OperationState.Arrival(
            host: host, priority: Versioned(.normal, version: 1), suspension: word(0),
            isDependent: Versioned(waits, version: 1))
        _ = state.arrived(queueEntry, arrival)
        return queueEntry
    }

    private func tell(_ queueEntry: QueueEntry, waits: Bool, version: UInt32) -> Bool {
        state.dependenciesTold(queueEntry, Versioned(waits, version: version)).prepares
    }

    private func next() -> Int? {
        state.next(now).dispatch.map { SchedulerWorldObjects.index(of: $0.operation) }
    }

    @Test func changesBeforeTheArrivalApply() {
        let queueEntry = QueueEntry(SchedulerWorldObjects.operation(0))
        _ = state.dependenciesTold(queueEntry, Versioned(true, version: 2))
        _ = state.suspensionTold(queueEntry, word(1))
        _ = state.priorityTold(queueEntry, Versioned(.high, version: 2))
        let arrival = OperationState.Arrival(
            host: "a", priority: Versioned(.normal, version: 1), suspension: word(0),
            isDependent: Versioned(false, version: 1))
        let prepares = state.arrived(queueEntry, arrival).prepares
        #expect(!prepares)
        #expect(queueEntry.status == .blocked && queueEntry.priority.value == .high)
        #expect(tell(queueEntry, waits: false, version: 3))
        _ = state.prepared(queueEntry, wish())
        #expect(queueEntry.status == .suspended)
    }

    /// Threads may report changes in another order than they made them.
    @Test func anEarlierChangeThatIsReportedLateIsIgnored() {
        let queueEntry = arrive(0)
        _ = (tell(queueEntry, waits: false, version: 3), tell(queueEntry, waits: true, version: 2))
        _ = (state.suspensionTold(queueEntry, word(2)), state.suspensionTold(queueEntry, word(1)))
        for (priority, version) in [(.high, 3), (.low, 2)] as [(Operation.QueuePriority, UInt32)] {
            _ = state.priorityTold(queueEntry, Versioned(priority, version: version))
        }
        #expect(queueEntry.status == .waiting && queueEntry.priority.value == .high)
        #expect(next() == 0)
    }

    /// After `start()`, and before it may send, the operation was suspended, gave up its slot, and was resumed.
    @Test func aResumeBeforeTheOperationMaySendKeepsItsSlot() {
        let queueEntry = arrive(0)
        #expect(next() == 0)
        _ = state.suspensionTold(queueEntry, word(1, awaitsSlot: true))
        let keeps = state.suspensionTold(queueEntry, word(2, awaitsSlot: true)).keeps
        let begins = state.begins(queueEntry, word(1))
        #expect(keeps == queueEntry.slot && begins)
    }

    /// The entry has no slot and waits for none, so a resume continues the operation at once.
    @Test func aResumeBeforeAManualStartContinuesTheOperation() {
        let queueEntry = arrive(0, host: nil)
        #expect(queueEntry.status == .preparing)
        _ = state.suspensionTold(queueEntry, word(1, awaitsSlot: true))
        let keeps = state.suspensionTold(queueEntry, word(2, awaitsSlot: true)).keeps
        #expect(keeps == queueEntry.slot)
    }

    /// The entry is not queued, so a hold of its host cannot end the request before the dependency has finished.
    @Test func anEntryWithANewDependencyIsNotQueuedAfterItsPreparation() {
        let queueEntry = arrive(0, host: nil)
        #expect(!tell(queueEntry, waits: true, version: 2))
        _ = state.prepared(queueEntry, wish())
        #expect(queueEntry.status == .blocked)
    }

    @Test func aStoredResponseNeedsNoSlot() {
        let running = arrive(0)
        #expect(next() == 0)
        #expect(running.status == .dispatched)
        let queueEntry = arrive(1, host: nil)
        var answered = wish()
        answered.hasAnswer = true
        let enters = state.prepared(queueEntry, answered).enters
        #expect(enters)
        #expect(queueEntry.status == .inQueue && state.queues.running == 1)
    }

    /// The entry looks in the cache again when it has a slot.
    @Test(arguments: 0..<5) func aStoredResponseDoesNotPassASuspensionACancellationOrAName(index: Int) {
        let queueEntry = arrive(0, host: nil)
        var answered = wish(index == 0 ? 1 : 0)
        answered.hasAnswer = true
        switch index {
        case 1: state.isSuspended = true
        case 2: state.isQueueSuspended = true
        case 3: state.cancellations = 1
        case 4: answered.exclusion = "name"
        default: break
        }
        let enters = state.prepared(queueEntry, answered).enters
        #expect(!enters)
        #expect(queueEntry.status == (index == 0 ? .suspended : .waiting))
    }

    private func wish(_ changes: UInt32 = 0, host: String = "a", hasBegun: Bool = false) -> OperationState.Wish {
        OperationState.Wish(host: host, hasBegun: hasBegun, suspension: word(changes))
    }

    /// Lets an operation share the transfer of its group; returns the change that follows.
    private func share(_ queueEntry: QueueEntry, _ key: CoalescingKey, new: Int = 9) -> Coalescer.Change? {
        state.shares(
            queueEntry, key, new: SchedulerWorldObjects.operation(new), wish(hasBegun: queueEntry.hasBegun))?.change
    }

    @Test func suspendedBeforeItMaySendItGivesItsSlotBack() {
        let queueEntry = arrive(0)
        #expect(next() == 0)
        // One report is from the start of the operation, and the other is later.
        _ = state.suspensionTold(queueEntry, word(1))
        let begins = state.begins(queueEntry, word(0))
        #expect(!begins)
        #expect(queueEntry.status == .yielded && state.queues.running == 0)
        _ = state.prepared(queueEntry, wish(2, host: "b", hasBegun: true))
        #expect(next() == 0)
    }

    /// A shared response needs no connection, so no hold and no limit applies.
    @Test(arguments: [false, true])
    func aSharedResponseIgnoresHoldsAndLimits(isBlockedAgain: Bool) throws {
        let queueEntry = arrive(0, host: nil)
        let key = try #require(SchedulerWorldObjects.key(of: 0))
        #expect(share(queueEntry, key) != nil)
        let isGiven = state.answerCame(queueEntry, of: key, word(0))?.enters == true
        #expect(isGiven)
        let reason = RetryAfterReason(request: RequestSummary(text: ""), statusCode: 503)
        let isHeld = state.queues.hold("a", until: now + .seconds(9), reason)
        #expect(isHeld)
        if isBlockedAgain { _ = state.dependenciesTold(queueEntry, Versioned(true, version: 2)) }
        state.beginsWithAnswer(queueEntry)
        #expect(queueEntry.status == .inQueue && queueEntry.hasBegun)
        // The operation was suspended before it had received the response.
        _ = state.suspensionTold(queueEntry, word(1, awaitsSlot: true))
        let keepsIt = state.suspensionTold(queueEntry, word(2, awaitsSlot: true)).keeps == queueEntry.slot
        #expect(keepsIt)
        let isQuiet = state.finished(queueEntry, isSettled: true).calls.isEmpty
        #expect(isQuiet)
        #expect(state.count == 0 && state.queues.running == 0)
    }

    /// The operation gets and loses a dependency during its preparation, so it is prepared twice.
    ///
    /// The first preparation ends late.
    @Test func anOperationPreparedTwiceSubscribesOnce() throws {
        let queueEntry = arrive(0, host: nil)
        _ = tell(queueEntry, waits: true, version: 2)
        _ = state.prepared(queueEntry, wish())
        #expect(tell(queueEntry, waits: false, version: 3))
        let (late, second) = (
            try #require(SchedulerWorldObjects.key(of: 0)), try #require(SchedulerWorldObjects.key(of: 0))
        )
        #expect(share(queueEntry, second) != nil)
        #expect(share(queueEntry, late) == nil)
        #expect(
            queueEntry.status == .sharing
                && state.coalescer.operation(queueEntry) === SchedulerWorldObjects.operation(9))
        let lateCountsForNothing = state.answerCame(queueEntry, of: late, word(0)) == nil
        #expect(lateCountsForNothing)
        let isEntered = state.answerCame(queueEntry, of: second, word(0))?.enters == true
        #expect(isEntered)
    }

    /// From then on that queue decides the order, so it gets the operations as they became ready.
    @Test(arguments: [RequestPrioritization.fifo, .lifo])
    func aQueueThatGetsALimitReceivesWaitingOperations(prioritization: RequestPrioritization) {
        state = SchedulerState(
            limit: 1, hosts: HostLimits(fixed: 1), prioritization, retryBudget: RetryBudgetState(.unlimited))
        let queueEntries = (0..<3).map { arrive($0) }
        let first = prioritization == .lifo ? 2 : 0
        #expect(next() == first)
        let given = state.limitQueue().map { SchedulerWorldObjects.index(of: $0) }
        #expect(given == [0, 1, 2].filter { $0 != first })
        let statuses: [QueueEntry.Status] = (0..<3).map { $0 == first ? .dispatched : .inQueue }
        #expect(queueEntries.map(\.status) == statuses)
        #expect(arrive(3).status == .inQueue)
    }
}
