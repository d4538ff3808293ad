import Foundation
import Testing

@testable import Convoy

/// Explores every order of the events of one operation, with the state machine and a model of the code around it.
///
/// Each state of the model is a world. `CONVOY_LONG=1` visits all worlds, about three million. By default a test visits
/// only the first 10,000 to 30,000, nearest to the beginning.
@Suite struct OperationExplorationTests {
    /// Visits every world that can follow from a beginning, each once and the nearest first.
    ///
    /// Returns the number of worlds, and the first defect that was found with the events that led to it.
    private static func explore(_ first: OperationWorld, limit: Int) -> (count: Int, finding: String?) {
        var seen: Set<OperationWorld> = [first]
        /// The visited worlds, each with the index of its predecessor, from which the path is reported.
        var worlds: [(world: OperationWorld, before: Int, name: String)] = [(first, -1, "created")]
        var index = 0
        while index < worlds.count, worlds.count < limit {
            let world = worlds[index].world
            if let problem = world.violation ?? world.stillness {
                return (worlds.count, "\(problem), after \(way(to: index, worlds))")
            }
            for (name, next) in world.successors() where seen.insert(next).inserted {
                worlds.append((next, index, name))
            }
            index += 1
        }
        return (worlds.count, nil)
    }

    private static func way(to index: Int, _ worlds: [(world: OperationWorld, before: Int, name: String)]) -> String {
        var (names, index) = ([String](), index)
        while index > 0 {
            names.append(worlds[index].name)
            index = worlds[index].before
        }
        return names.reversed().joined(separator: ", ")
    }

    @Test(arguments: [(true, false), (true, true), (false, false)])
    func everyOrderOfEventsEndsWell(pausesInPlace: Bool, isCommitting: Bool) {
        let bounds =
            LongRuns.areWanted ? OperationWorld.Bounds(attempts: 2, suspensions: 1, holds: 1) : .init(suspensions: 1)
        let first = OperationWorld(bounds, pausesInPlace: pausesInPlace, isCommitting: isCommitting)
        let exploration = Self.explore(first, limit: LongRuns.areWanted ? 3_000_000 : 10_000)
        #expect(exploration.finding == nil)
        #expect(exploration.count >= 10_000)
    }

    /// These orders have two suspensions, which have caused defects before.
    @Test(.enabled(if: LongRuns.areWanted, "visits a million worlds"))
    func everyOrderWithTwoSuspensionsEndsWell() {
        let first = OperationWorld(.init(attempts: 1, suspensions: 2, holds: 0), pausesInPlace: false)
        #expect(Self.explore(first, limit: 3_000_000).finding == nil)
    }
}

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
