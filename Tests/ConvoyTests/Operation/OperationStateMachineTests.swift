import Testing

@testable import Convoy

/// Tests rules that hold at every stage of an operation.
@Suite struct OperationStateMachineTests {
    typealias Event = OperationStateMachine.Event

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

    /// A row has a stage, events, and the attempt that each event launches; nil for none.
    private static let slots: [(stage: String, steps: [(event: Event, launches: Int?)])] = [
        // A second report of a slot does not begin a later attempt.
        (
            "resumed without a slot",
            [
                (.slotKept(slot(2, 2)), nil), (.adjust(isPaused: false), nil), (.attemptEnded(attempt: 1), nil),
                (.repeats(attempt: 1), nil), (.queued(slots: 2), nil), (.slotGiven(slot(2, 2)), nil),
                (.slotGiven(slot(3, 2)), 2),
            ]
        ),
        // An operation that waits for a delay has released its slot, but a report of that slot may arrive later.
        (
            "waiting",
            [
                (.slotGiven(slot(2)), nil), (.queued(slots: 2), nil), (.slotGiven(slot(2)), nil),
                (.slotGiven(slot(3)), 2),
            ]
        ),
        // Another thread may give the slot before the operation has recorded its request for it.
        ("waiting", [(.slotGiven(slot(3)), nil), (.queued(slots: 2), 2)]),
        // Only a slot begins a waiting attempt, and the scheduler has not given the kept slot yet.
        (
            "without its slot",
            [
                (.attemptEnded(attempt: 1), nil), (.repeats(attempt: 1), nil), (.queued(slots: 1), nil), (.resume, nil),
                (.slotKept(slot(2, 2)), nil), (.slotGiven(slot(2, 2)), 2),
            ]
        ),
    ]

    private static func slot(_ number: UInt32, _ suspensionChanges: UInt32 = 0) -> OperationStateMachine.Slot {
        OperationStateMachine.Slot(number: number, suspensionChanges: suspensionChanges)
    }

    @Test(arguments: slots.indices) func aSlotIsUsedOnceAndInItsTime(index: Int) {
        var machine = OperationStages.machine(Self.slots[index].stage)
        for step in Self.slots[index].steps {
            #expect(machine.handle(step.event).launches == step.launches, "\(step.event)")
        }
    }
}
