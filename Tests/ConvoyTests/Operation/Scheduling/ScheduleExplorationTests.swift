import Foundation
import Testing

@testable import Convoy

/// Explores a schedule with three operations: every order of events, breadth first, without repeating a state.
///
/// After each event the world checks itself, and each new state is run to its end. `CONVOY_LONG=1` explores more states.
@Suite struct ScheduleExplorationTests {
    typealias Event = ScheduleWorld.Event

    static let queues: [Schedule.QueueKind] = [.own, .callers]
    static let settings: [ScheduleWorld.Setting] = queues.flatMap { queue -> [ScheduleWorld.Setting] in
        let all: [Event] = (0..<3).flatMap { [.enqueue($0), .suspend($0), .resume($0)] }
        return [
            // Few events, so that the exploration gets far.
            .init(queue: queue, events: [.enqueue(0), .enqueue(1), .suspend(1), .resume(1), .cancel(1)]),
            .init(queue: queue, events: [.enqueue(0), .enqueue(1), .suspend(0), .resume(0)]),
            .init(queue: queue, events: all + [.cancel(0), .cancel(1), .raise(2), .start(2)]),
            .init(queue: queue, limit: 2, events: all + [.suspendManager, .resumeManager, .cancel(2)]),
            .init(queue: queue, limit: 2, hosts: ["a", "b", "c"], name: "n", events: all + [.cancel(0), .raise(2)]),
            .init(
                queue: queue, limit: 2,
                events: all + [.depend(0, on: 1), .depend(1, on: 2), .cancel(1), .start(0)]),
            .init(
                queue: queue, limit: 2, hosts: ["a", "a", "a"], isShared: true,
                events: all + [.cancel(0), .depend(1, on: 0), .start(2)]),
        ]
    }

    /// The fault that is found first, with the events that lead to it.
    private static func explore(
        _ setting: ScheduleWorld.Setting, states limit: Int, defect: ScheduleWorld.Defect? = nil
    ) async -> (states: Int, depth: Int, fault: String?) {
        let scheduler = Scheduler(transport: .custom(StubServer().transport))
        func world(after events: [Event]) -> ScheduleWorld {
            var world = ScheduleWorld(setting, scheduler, defect: defect)
            for event in events { world.handle(event) }
            return world
        }
        var known: Set<String> = [world(after: []).fingerprint]
        var open: [[Event]] = [[]]
        var next = 0
        while next < open.count, known.count < limit {
            let path = open[next]
            next += 1
            // Other tests may need this thread.
            if next % 64 == 0 { await Task.yield() }
            for event in world(after: path).events {
                let longer = path + [event]
                var world = world(after: longer)
                if world.fault == nil, !known.insert(world.fingerprint).inserted { continue }
                if let fault = world.fault ?? world.drain() {
                    return (known.count, longer.count, "\(fault) after \(longer)")
                }
                open.append(longer)
            }
        }
        return (known.count, open.last?.count ?? 0, nil)
    }

    @Test(arguments: settings.indices) func everyOrderOfEventsEndsWell(index: Int) async {
        let setting = Self.settings[index]
        let (states, depth, fault) = await Self.explore(setting, states: LongRuns.count(500, long: 20_000))
        print("schedule: \(setting): \(states) states to depth \(depth)")
        #expect(fault == nil, "\(setting): \(fault ?? "")")
    }

    @Test(arguments: ScheduleWorld.Defect.allCases) func aMistakeIsFound(defect: ScheduleWorld.Defect) async {
        for setting in Self.settings {
            if await Self.explore(setting, states: 1_000, defect: defect).fault != nil { return }
        }
        Issue.record("not found")
    }

    /// A paused transfer may fail while its operation waits for a slot, which must not restart it.
    @Test func anAttemptThatEndsWhileItsOperationWaitsLeavesTheLine() {
        let scheduler = Scheduler(transport: .custom(StubServer().transport))
        var world = ScheduleWorld(.init(queue: .own, events: []), scheduler)
        let ways: [(events: [Event], phase: OperationRecord.Phase)] = [
            ([.enqueue(0), .perform(.prepare(0)), .perform(.queued(0)), .perform(.launch(0))], .running),
            ([.suspend(0), .perform(.adjust(0))], .waiting(.owner)),
            (
                [
                    .enqueue(1), .perform(.prepare(1)), .perform(.queued(1)), .perform(.launch(1)), .resume(0),
                ], .waiting(.slot)
            ),
            ([.retry(0)], .deciding),
            ([.succeed(1)], .deciding),
            ([.perform(.complete(1)), .perform(.finish(1))], .deciding),
            ([.perform(.decide(0))], .waiting(.time)),
        ]
        for (events, phase) in ways {
            for event in events { world.handle(event) }
            #expect(world.phase(of: 0) == phase, "after \(events)")
        }
        #expect(world.fault == nil && world.drain() == nil)
    }
}
