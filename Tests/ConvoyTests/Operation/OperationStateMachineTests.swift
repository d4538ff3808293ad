import Testing

@testable import Convoy

/// Tests rules that hold at every stage of an operation.
@Suite struct OperationStateMachineTests {
    typealias Event = OperationStateMachine.Event

    @Test func theStagesHaveEveryPhase() {
        var names: Set<String> = []
        for way in OperationStages.ways {
            switch OperationStages.machine(way.name).phase {
            case .pending: names.insert("pending")
            case .abandoned: names.insert("abandoned")
            case .executing: names.insert("executing")
            case .deciding: names.insert("deciding")
            case .waiting: names.insert("waiting")
            case .decoding(_, let isCommitted): names.insert(isCommitted ? "committed" : "decoding")
            case .finishing(let wasExecuting): names.insert(wasExecuting ? "finishing" : "finishing unstarted")
            case .finished: names.insert("finished")
            }
        }
        #expect(names.count == 10)
    }

    /// The first outcome wins; later ones are dropped.
    @Test(arguments: OperationStages.ways.map(\.name))
    func theFirstOutcomeIsTheOnlyOne(stage: String) {
        var machine = OperationStages.machine(stage)
        let isFirst = !machine.hasOutcome
        let effects = [
            Event.end(attempt: nil), .end(attempt: machine.currentAttempt), .end(attempt: 1), .endBeforeStart,
        ]
        .map { machine.handle($0) }
        #expect(effects.count { $0.finishes || $0.abandons } == (isFirst ? 1 : 0))
        #expect(machine.hasOutcome)
    }

    /// Events of another attempt are dropped.
    @Test(arguments: OperationStages.ways.map(\.name))
    func eventsOfAnotherAttemptAreDropped(stage: String) {
        var machine = OperationStages.machine(stage)
        let before = machine
        for event in [
            Event.taskPaused(attempt: 9), .taskResumed(attempt: 9), .putOff(attempt: 9), .attemptEnded(attempt: 9),
            .repeats(attempt: 9), .bodyComplete(attempt: 9, commits: true), .end(attempt: 9),
        ] { #expect(machine.handle(event) == .dropped) }
        #expect(machine == before)
    }

    @Test(arguments: OperationStages.ways.map(\.name))
    func itIsExecutingFromItsStartToItsFinish(stage: String) {
        let machine = OperationStages.machine(stage)
        #expect(!machine.isExecuting || !machine.isFinished && !machine.isWaitingToStart)
        if machine.currentAttempt != nil { #expect(machine.isExecuting) }
    }

    /// A second report of a slot must not begin a later attempt.
    @Test func aSlotIsUsedOnce() {
        var machine = OperationStages.machine("resumed without a slot")
        let slot = OperationStateMachine.Slot(number: 2, suspensionChanges: 2)
        #expect(machine.handle(.slotKept(slot)).adjusts)
        for event in [
            Event.adjust(isPaused: false), .attemptEnded(attempt: 1), .repeats(attempt: 1), .queued(slots: 2),
        ] {
            #expect(machine.handle(event).isTaken)
        }
        #expect(machine.handle(.slotGiven(slot)) == .dropped)
        #expect(machine.handle(.slotGiven(.init(number: 3, suspensionChanges: 2))).launches == 2)
    }

    /// An operation that waits for a delay has released its slot, but a report of that slot may arrive later.
    @Test func aReturnedSlotDoesNotStartAnOperationInItsDelay() {
        var machine = OperationStages.machine("waiting")
        let (late, next) = (
            OperationStateMachine.Slot(number: 2, suspensionChanges: 0),
            OperationStateMachine.Slot(number: 3, suspensionChanges: 0)
        )
        #expect(machine.handle(.slotGiven(late)) == .taken)
        #expect(machine.handle(.queued(slots: 2)) == .taken)
        #expect(machine.handle(.slotGiven(late)) == .dropped)
        #expect(machine.handle(.slotGiven(next)).launches == 2)
    }

    /// Another thread may give the slot before the operation has recorded its request for it.
    @Test func aSlotThatIsGivenWhileItIsAskedForCounts() {
        var machine = OperationStages.machine("waiting")
        #expect(machine.handle(.slotGiven(.init(number: 3, suspensionChanges: 0))).launches == nil)
        #expect(machine.handle(.queued(slots: 2)).launches == 2)
    }

    /// The report that a slot was kept does not begin a waiting attempt.
    ///
    /// Only the slot begins the attempt, and the scheduler has not given the slot yet.
    @Test func aReportOfAKeptSlotDoesNotStartAWaitingAttempt() {
        var machine = OperationStages.machine("without its slot")
        for event in [Event.attemptEnded(attempt: 1), .repeats(attempt: 1), .queued(slots: 1), .resume] {
            #expect(machine.handle(event).isTaken)
        }
        let slot = OperationStateMachine.Slot(number: 2, suspensionChanges: 2)
        #expect(machine.handle(.slotKept(slot)).launches == nil)
        #expect(machine.handle(.slotGiven(slot)).launches == 2)
    }
}
