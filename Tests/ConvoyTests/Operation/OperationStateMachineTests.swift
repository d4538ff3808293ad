import Testing

@testable import Convoy

/// Tests reports of slots, which arrive late or twice.
@Suite struct OperationStateMachineTests {
    typealias Event = OperationStateMachine.Event

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
