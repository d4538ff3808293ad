import Foundation
import Testing

@testable import Convoy

/// Runs random orders of the events of a scheduler and its operations.
///
/// Each run is a world. `CONVOY_LONG=1` runs a million worlds. By default, the first 250 worlds run, and those that
/// reveal a rare defect.
@Suite struct SchedulerExplorationTests {
    /// The first seed, so that a single world can be repeated.
    private static let first = ProcessInfo.processInfo.environment["CONVOY_SEED"].flatMap { UInt64($0) } ?? 0

    /// The seed of the first world that reveals each rare defect.
    private static let rare: [SchedulerWorld.Defect: UInt64] = [
        .suspensionOfTheQueueIsIgnored: 142, .lateWordsOfPriorityCount: 405,
        .aKeptSlotIsNotTold: 865, .lateWordsOfDependenciesCount: 915,
    ]

    @Test func everyWorldEndsWell() async {
        let seeds = Self.first..<Self.first + UInt64(LongRuns.count(250, long: 1_000_000))
        for seed in Self.rare.values.filter({ !seeds.contains($0) }) + Array(seeds) {
            // Other tests may need this thread.
            await Task.yield()
            guard let finding = SchedulerWorld(seed: seed).run() else { continue }
            let world = SchedulerWorld(seed: seed, isLogged: true)
            _ = world.run()
            print(world.log?.joined(separator: "\n") ?? "")
            Issue.record("world \(seed): \(finding)")
            return
        }
    }

    @Test(arguments: SchedulerWorld.Defect.allCases)
    func aMistakeIsFound(defect: SchedulerWorld.Defect) async {
        // If the steps of the simulation change, another world reveals the defect.
        for seed in [Self.rare[defect]].compactMap(\.self) + Array(0..<4_000) {
            await Task.yield()
            if SchedulerWorld(seed: seed, defect: defect).run() != nil { return }
        }
        Issue.record("not found")
    }
}
